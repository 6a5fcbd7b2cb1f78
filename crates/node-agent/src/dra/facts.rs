//! What the layout needs to know about the node's GPUs.

use super::NodeNews;
use crate::machine::Machine;
use carve_dra::{GpuFacts, Taint, TaintEffect};
use carve_dra_driver::Preparer;
use carve_gpu_model::{GpuUuid, PciAddress, ProfileTable};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The GPUs that can be offered, and why others can not.
#[derive(Debug, Default)]
pub(crate) struct Offerable {
    pub(crate) gpus: Vec<GpuFacts>,
    pub(crate) withheld: Vec<String>,
    /// Claims whose instances are gone, in words.
    pub(crate) gone: Vec<String>,
}

/// Reads what is missing about the GPUs. What they can be cut into is asked once: it does not change.
pub(crate) async fn facts(
    news: &NodeNews,
    machine: &Machine,
    preparer: &Arc<Preparer>,
    tables: &mut BTreeMap<GpuUuid, Option<ProfileTable>>,
    driver: &str,
) -> Result<Offerable, String> {
    let there = news.node.gpus.iter().filter(|gpu| !gpu.lost);
    let unknown: Vec<_> = there
        .filter(|gpu| !tables.contains_key(&gpu.gpu.uuid))
        .map(|gpu| (gpu.gpu.uuid.clone(), gpu.gpu.index))
        .collect();
    let preparer = Arc::clone(preparer);
    let asked = machine.ask(move |host| {
        let table = |index| {
            let has_mig = host.mig_mode(index)?.is_some();
            if has_mig { host.profile_table(index).map(Some) } else { Ok(None) }
        };
        let read: Result<Vec<_>, carve_gpu_host::HostError> =
            unknown.into_iter().map(|(uuid, index)| Ok((uuid, table(index)?))).collect();
        (read, preparer.foreign(host), preparer.vanished(host))
    });
    let (read, foreign, vanished) = asked.await.map_err(|gone| gone.to_string())?;
    tables.extend(read.map_err(|error| format!("the GPUs can not be read: {error}"))?);
    // GPUs are offered all the same where records can not be read, such as from a broken disk.
    let vanished = vanished.unwrap_or_else(|error| {
        tracing::warn!("whether claims have lost their instances is not known: {error}");
        Vec::new()
    });

    let mut offerable = Offerable::default();
    for gpu in news.node.gpus.iter() {
        if let Some(instances) = foreign.get(&gpu.gpu.uuid) {
            offerable.withheld.push(format!(
                "GPU {} holds {} MIG instance(s) that no claim made, so it is not offered to claims; remove them \
                 with 'carve mig apply' or 'nvidia-smi mig'",
                gpu.gpu.index,
                instances.len()
            ));
            continue;
        }
        let taint = |why: &str| Taint {
            key: format!("{driver}/unhealthy"),
            value: label(why),
            effect: TaintEffect::NoSchedule,
        };
        let lost = gpu.lost.then(|| "lost".to_owned());
        let sick = news.sick.get(&gpu.part()).cloned().or(lost);
        let table = tables.get(&gpu.gpu.uuid).cloned().flatten();
        let sick_instances = gpu.migs.iter().filter_map(|mig| {
            let why = news.sick.get(&mig.part())?;
            let (_, profile) = table.as_ref()?.by_name(&mig.profile).ok()?;
            // Which slot it has is not told with the device, so every place of the profile waits.
            let places = profile.placements.iter().map(|place| ((profile.id, place.start), vec![taint(why)]));
            Some(places.collect::<Vec<_>>())
        });
        let gone = vanished.iter().filter(|gone| gone.gpu == gpu.gpu.uuid);
        let gone_instances =
            gone.clone().map(|gone| ((gone.place.id, gone.place.start), vec![taint("MIG instance is gone")]));
        let mig_taints = match sick {
            Some(_) => BTreeMap::new(),
            None => sick_instances.flatten().chain(gone_instances).collect(),
        };
        offerable.gone.extend(gone.map(|gone| {
            format!(
                "GPU {} came back without the MIG instance {} of claim {}: what its containers have is no more; delete \
                 its pods, and those that follow get a new one",
                gpu.gpu.index, gone.place.profile, gone.claim
            )
        }));
        offerable.gpus.push(GpuFacts {
            gpu: gpu.gpu.clone(),
            reserved: gpu.reserved,
            table: table.filter(|table| !table.profiles().is_empty()),
            pcie_root: pcie_root(&gpu.gpu.address),
            taints: sick.iter().map(|why| taint(why)).collect(),
            mig_taints,
        });
    }
    Ok(offerable)
}

/// A reason as the value of a taint, which may hold what a label's value may.
fn label(why: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let text: String = why.chars().take(63).map(plain).collect();
    text.trim_matches('-').to_owned()
}

/// The root complex above a device, as the kernel's tree has it.
fn pcie_root(address: &PciAddress) -> Option<String> {
    let link = format!("/sys/bus/pci/devices/{}", address.to_string().to_lowercase());
    let path = std::fs::canonicalize(link).ok()?;
    path.components()
        .filter_map(|part| part.as_os_str().to_str())
        .find(|part| part.starts_with("pci") && part.contains(':'))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::label;

    #[test]
    fn reasons_become_values_of_labels() {
        assert_eq!(label("XID 79: GPU has fallen off the bus"), "XID-79--GPU-has-fallen-off-the-bus");
        assert_eq!(label("..."), "");
        assert!(label(&"x y".repeat(60)).len() <= 63);
    }
}
