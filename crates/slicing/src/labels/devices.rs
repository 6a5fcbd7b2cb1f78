//! Labels about whole GPUs and MIG devices: what they are, how many, how shared.

use super::names::{LabelSet, product};
use super::ways::{Way, Ways, most};
use crate::{MigStrategy, NodeGpu, NodeGpus, NodeMig};
use carve_formats::device_plugin::ResourceName;
use std::collections::BTreeMap;

/// The key of whole GPUs. It stays the same whatever the resource is called.
pub(super) const GPU: &str = "gpu";

/// MIG devices that have one key, with the GPUs they are on.
pub(super) type Migs<'a> = Vec<(&'a NodeGpu, &'a NodeMig)>;

/// Labels of GPUs, and of MIG devices where the strategy names them.
pub(super) fn label(node: &NodeGpus, strategy: MigStrategy, ways: &Ways<'_>, set: &mut LabelSet) {
    whole_gpus(node, ways, set);
    match strategy {
        MigStrategy::None => {}
        MigStrategy::Single => {
            set.nvidia("mig.strategy", "single");
            match single(node) {
                Single::NoMig => {}
                Single::Alike(migs) => mig_devices(GPU, &migs, &ResourceName::gpu(), ways, set),
                Single::Invalid(gpu) => invalid(gpu, set),
            }
        }
        MigStrategy::Mixed => {
            set.nvidia("mig.strategy", "mixed");
            for (profile, migs) in by_profile(node) {
                let key = format!("mig-{profile}");
                let name = key.parse().unwrap_or_else(|_| ResourceName::gpu());
                mig_devices(&key, &migs, &name, ways, set);
            }
        }
    }
}

/// The model that the labels of whole GPUs are about.
fn whole_gpus(node: &NodeGpus, ways: &Ways<'_>, set: &mut LabelSet) {
    let Some(model) = most(node.gpus.iter().map(|gpu| &gpu.gpu.name)) else { return };
    let alike: Vec<&NodeGpu> = node.gpus.iter().filter(|gpu| gpu.gpu.name == *model).collect();
    let Some(first) = alike.first() else { return };
    described(GPU, model, "", alike.len(), way_of_most(&alike, ways), set);
    let memory = first.gpu.memory.whole_mebibytes();
    if memory.0 != 0 {
        set.nvidia("gpu.memory", memory.0);
    }
    let (major, minor) = first.gpu.compute_capability;
    if major != 0 {
        set.nvidia("gpu.family", family((major, minor)));
        set.nvidia("gpu.compute.major", major);
        set.nvidia("gpu.compute.minor", minor);
    }
}

/// How most of some GPUs are shared. `None` where all have MIG on: as whole ones they are not to be had, whatever the
/// strategy.
pub(super) fn way_of_most(gpus: &[&NodeGpu], ways: &Ways<'_>) -> Option<Way> {
    let mut whole = gpus.iter().filter(|gpu| !gpu.mig_enabled).peekable();
    whole.peek()?;
    let name = ResourceName::gpu();
    most(whole.filter_map(|gpu| ways.of(&gpu.part(), &name))).or(Some(Way::EXCLUSIVE))
}

/// Product, count and sharing of one resource.
fn described(key: &str, model: &str, behind: &str, count: usize, way: Option<Way>, set: &mut LabelSet) {
    let behind = if way.is_some_and(Way::is_hidden) { format!("{behind}-SHARED") } else { behind.to_owned() };
    set.nvidia(format_args!("{key}.product"), product(model, &behind));
    set.nvidia(format_args!("{key}.count"), count);
    set.nvidia(format_args!("{key}.replicas"), way.map_or(0, |way| way.share.replicas));
    let strategy = way.unwrap_or(Way::EXCLUSIVE).share.mechanism.label();
    set.nvidia(format_args!("{key}.sharing-strategy"), strategy);
}

/// MIG devices of one size. Where they are on GPUs of several models, the labels are about most of them.
fn mig_devices(key: &str, migs: &Migs<'_>, name: &ResourceName, ways: &Ways<'_>, set: &mut LabelSet) {
    let Some(model) = most(migs.iter().map(|(gpu, _)| &gpu.gpu.name)) else { return };
    let Some((_, mig)) = migs.iter().find(|(gpu, _)| gpu.gpu.name == *model) else { return };
    let way = most(migs.iter().filter_map(|(_, mig)| ways.of(&mig.part(), name)));
    let behind = format!("-MIG-{}", mig.profile.resource_form());
    described(key, model, &behind, migs.len(), Some(way.unwrap_or(Way::EXCLUSIVE)), set);
    let (device, engines) = (&mig.device, &mig.device.engines);
    set.nvidia(format_args!("{key}.memory"), device.memory.0);
    set.nvidia(format_args!("{key}.multiprocessors"), device.multiprocessors);
    set.nvidia(format_args!("{key}.slices.gi"), device.gpu_slices);
    set.nvidia(format_args!("{key}.slices.ci"), device.compute_slices);
    for (engine, count) in [
        ("copy", engines.copy),
        ("decoder", engines.decoder),
        ("encoder", engines.encoder),
        ("jpeg", engines.jpeg),
        ("ofa", engines.ofa),
    ] {
        set.nvidia(format_args!("{key}.engines.{engine}"), count);
    }
}

/// What strategy `single` finds.
pub(super) enum Single<'a> {
    /// Whole GPUs only.
    NoMig,
    /// MIG devices of one size.
    Alike(Migs<'a>),
    /// Anything else, with a GPU that has MIG on.
    Invalid(&'a NodeGpu),
}

/// Looks at a node as strategy `single` does. A lost GPU is no reason to call the others invalid.
pub(super) fn single(node: &NodeGpus) -> Single<'_> {
    let Some(first) = node.gpus.iter().find(|gpu| gpu.mig_enabled) else { return Single::NoMig };
    let fits = |gpu: &NodeGpu| gpu.lost || (gpu.mig_enabled && !gpu.migs.is_empty());
    let mut profiles = by_profile(node);
    match profiles.pop_first() {
        Some((_, migs)) if profiles.is_empty() && node.gpus.iter().all(fits) => Single::Alike(migs),
        _ => Single::Invalid(first),
    }
}

fn invalid(gpu: &NodeGpu, set: &mut LabelSet) {
    set.nvidia("gpu.product", product(&gpu.gpu.name, "-MIG-INVALID"));
    for (name, value) in [("count", "0"), ("replicas", "0"), ("memory", "0"), ("sharing-strategy", "")] {
        set.nvidia(format_args!("gpu.{name}"), value);
    }
}

/// MIG devices of a node by profile.
pub(super) fn by_profile(node: &NodeGpus) -> BTreeMap<String, Migs<'_>> {
    let mut profiles: BTreeMap<String, Migs<'_>> = BTreeMap::new();
    for gpu in &node.gpus {
        for mig in &gpu.migs {
            profiles.entry(mig.profile.resource_form()).or_default().push((gpu, mig));
        }
    }
    profiles
}

/// NVIDIA's name of an architecture by its compute capability.
pub(super) fn family(compute_capability: (u32, u32)) -> &'static str {
    match compute_capability {
        (1, _) => "tesla",
        (2, _) => "fermi",
        (3, _) => "kepler",
        (5, _) => "maxwell",
        (6, _) => "pascal",
        (7, 0..=4) => "volta",
        (7, _) => "turing",
        (8, 0..=8) => "ampere",
        (8, _) => "ada-lovelace",
        (9, _) => "hopper",
        (10 | 12, _) => "blackwell",
        (13, _) => "rubin",
        _ => "undefined",
    }
}

#[cfg(test)]
mod tests {
    use super::family;

    #[test]
    fn families_are_told_by_compute_capability() {
        let known = [
            ((7, 0), "volta"),
            ((7, 5), "turing"),
            ((8, 6), "ampere"),
            ((8, 9), "ada-lovelace"),
            ((9, 0), "hopper"),
            ((10, 3), "blackwell"),
            ((11, 0), "undefined"),
            ((12, 0), "blackwell"),
            ((13, 0), "rubin"),
        ];
        for (capability, name) in known {
            assert_eq!(family(capability), name, "{capability:?}");
        }
    }
}
