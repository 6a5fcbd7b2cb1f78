//! Measures what a process's context takes of each GPU, so that shares can contain it; claims do not wait for that.

use super::NodeNews;
use super::on_record::LookUp;
use crate::driver_links::DriverLinks;
use crate::machine::Machine;
use crate::mps::cuda_probe;
use crate::options::AgentOptions;
use carve_cuda::context_cost;
use carve_dra_driver::UsageRecord;
use carve_gpu_model::{Bytes, GpuIndex};
use carve_limiter_host::Contexts;
use carve_slicing::NodeGpus;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How long until what could not be measured is tried again.
const AGAIN: Duration = Duration::from_secs(30);

/// Makes a context on a GPU, tells what is free within it, and ends it.
pub(crate) type Within = Arc<dyn Fn(&str) -> Result<Bytes, String> + Send + Sync>;

/// With a CUDA program in another process.
pub(crate) fn by_probe(options: &AgentOptions, driver_root: &str, version: &str) -> Within {
    let (links, driver_root, version) =
        (DriverLinks::new(options), driver_root.to_owned(), version.to_owned());
    Arc::new(move |uuid| {
        let probe = cuda_probe(&links, &driver_root, &version);
        let mut probe = probe.ok_or_else(|| "no CUDA library is here".to_owned())?;
        probe.env.insert("CUDA_VISIBLE_DEVICES".into(), uuid.into());
        probe.look().map(|seen| seen.free).map_err(|error| error.to_string())
    })
}

/// Measures, as long as there are GPUs of which it is not known.
pub(crate) struct Measuring {
    pub(crate) machine: Machine,
    pub(crate) on_record: LookUp,
    pub(crate) contexts: Contexts,
    pub(crate) within: Within,
    pub(crate) news: watch::Receiver<NodeNews>,
}

/// Where what was measured is kept: contexts on a GPU that is held must not be measured anew after every start.
pub(crate) fn measured(options: &AgentOptions, driver: &str) -> Contexts {
    Contexts::new(&options.state_dir.join("contexts"), driver)
}

impl Measuring {
    pub(crate) async fn run(mut self) {
        let mut told = BTreeSet::new();
        loop {
            let node = self.news.borrow_and_update().node.clone();
            let missing = self.look(&node).await;
            for why in &missing {
                if told.insert(why.clone()) {
                    tracing::warn!(
                        why,
                        "what a context takes is not counted in shares of fractions; --limiter-context can say it"
                    );
                }
            }
            let again = tokio::time::sleep(AGAIN);
            tokio::select! {
                changed = self.news.changed() => if changed.is_err() { return },
                () = again, if !missing.is_empty() => {}
            }
        }
    }

    /// Fills in what is not known yet, and tells why something stays so.
    async fn look(&self, node: &NodeGpus) -> Vec<String> {
        let known = |uuid: &str| self.contexts.known(uuid);
        if node.gpus.iter().filter(|gpu| !gpu.lost).all(|gpu| known(&gpu.gpu.uuid.0).is_some()) {
            return Vec::new();
        }
        let held = match self.held(node).await {
            Ok(held) => held,
            Err(why) => return vec![format!("which GPUs are free is not known: {why}")],
        };
        let mut missing = Vec::new();
        for (model, choice) in choices(node, &held, known) {
            let bytes = match choice {
                Choice::Known(bytes) => Ok(bytes),
                Choice::Measure(gpu, uuid) => self.measure(gpu, uuid).await,
                Choice::Wait => Err("each is held, or MIG is on".to_owned()),
            };
            let remembered = bytes.and_then(|bytes| self.remember(node, &model, bytes));
            if let Err(why) = remembered {
                missing.push(format!("{model}: {why}"));
            }
        }
        missing
    }

    /// All boards of a model are alike.
    fn remember(&self, node: &NodeGpus, model: &str, bytes: u64) -> Result<(), String> {
        for gpu in node.gpus.iter().filter(|gpu| gpu.gpu.name == model) {
            let uuid = &gpu.gpu.uuid.0;
            if self.contexts.known(uuid).is_none() {
                let kept = self.contexts.remember(uuid, bytes);
                kept.map_err(|error| format!("what was measured can not be written: {error}"))?;
                tracing::info!(
                    uuid,
                    bytes,
                    "each process that uses the GPU takes this for its context; shares contain it"
                );
            }
        }
        Ok(())
    }

    /// GPUs that claims have or processes use: measuring must not cost a tenant its memory.
    async fn held(&self, node: &NodeGpus) -> Result<BTreeSet<String>, String> {
        let look_up = Arc::clone(&self.on_record);
        let records = tokio::task::spawn_blocking(move || look_up()).await;
        let records = records.map_err(|error| error.to_string())??;
        let devices = records.claims.into_values().flat_map(|record| record.devices);
        let taking = devices.filter(|device| device.usage != UsageRecord::Watch);
        let mut held: BTreeSet<String> = taking.map(|device| device.gpu).collect();
        let gpus: Vec<(GpuIndex, String)> = node
            .gpus
            .iter()
            .filter(|gpu| !gpu.lost)
            .map(|gpu| (gpu.gpu.index, gpu.gpu.uuid.0.clone()))
            .collect();
        // A GPU whose processes can not be read may have some.
        let busy = self.machine.ask(move |host| {
            let mut gpus = gpus;
            gpus.retain(|(index, _)| !host.processes(*index).is_ok_and(|found| found.is_empty()));
            gpus
        });
        held.extend(busy.await.map_err(|gone| gone.to_string())?.into_iter().map(|(_, uuid)| uuid));
        Ok(held)
    }

    async fn measure(&self, gpu: GpuIndex, uuid: String) -> Result<u64, String> {
        let (machine, within) = (self.machine.clone(), Arc::clone(&self.within));
        let asking = tokio::runtime::Handle::current();
        let measured = tokio::task::spawn_blocking(move || {
            let free = || {
                let memory = asking.block_on(machine.ask(move |host| host.memory(gpu)));
                let memory = memory.map_err(|gone| gone.to_string())?.map_err(|error| error.to_string())?;
                Ok(Bytes(memory.total.0.saturating_sub(memory.reserved.0).saturating_sub(memory.used.0)))
            };
            context_cost(free, || within(&uuid))
        });
        measured.await.map_err(|error| error.to_string())?.map(|cost| cost.0)
    }
}

/// What is to be done about a model of GPU.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    /// One of them was measured.
    Known(u64),
    /// This one can be measured.
    Measure(GpuIndex, String),
    /// None can be now.
    Wait,
}

/// For every model that is here, by what the driver calls it.
fn choices(
    node: &NodeGpus,
    held: &BTreeSet<String>,
    known: impl Fn(&str) -> Option<u64>,
) -> BTreeMap<String, Choice> {
    let mut choices = BTreeMap::new();
    for gpu in node.gpus.iter().filter(|gpu| !gpu.lost) {
        let uuid = &gpu.gpu.uuid.0;
        let choice = choices.entry(gpu.gpu.name.clone()).or_insert(Choice::Wait);
        if let Some(bytes) = known(uuid) {
            *choice = Choice::Known(bytes);
        } else if *choice == Choice::Wait && !gpu.mig_enabled && !held.contains(uuid) {
            *choice = Choice::Measure(gpu.gpu.index, uuid.clone());
        }
    }
    choices
}

#[cfg(test)]
mod tests {
    use super::{Choice, Measuring, Within, choices};
    use crate::dra::NodeNews;
    use crate::dra::on_record::of_claims;
    use crate::machine::OpenHost;
    use carve_dra_driver::RecordStore;
    use carve_gpu_host::{GpuHost, Machine, SimulatedHost};
    use carve_gpu_model::{Bytes, GpuIndex};
    use carve_limiter_host::Contexts;
    use carve_slicing::{MigMinors, NodeGpus};
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;
    use std::sync::Arc;
    use tokio::sync::watch;

    const CONTEXT: u64 = 526 << 20;

    /// Two GPUs, of which a process uses the first.
    fn host() -> SimulatedHost {
        let mut host = SimulatedHost::new(Machine::named("h200-141gb:2").expect("a machine"));
        host.start_process(GpuIndex(0), None, 77, Bytes(1 << 30), 0).expect("a process");
        host
    }

    async fn measuring(folder: &Path, within: Within) -> (Measuring, NodeGpus) {
        let open: OpenHost = Arc::new(|| Ok(Box::new(host()) as Box<dyn GpuHost>));
        let node = NodeGpus::read(&host(), &MigMinors::parse("")).expect("its GPUs");
        let (_, news) = watch::channel(NodeNews { node: node.clone(), sick: BTreeMap::new(), runtime: None });
        let measuring = Measuring {
            machine: crate::machine::Machine::open(&open).await.expect("the machine"),
            on_record: of_claims(RecordStore::of_agent(folder), "b".to_owned(), watch::channel(Vec::new()).1),
            contexts: Contexts::new(&folder.join("contexts"), "570.86.15"),
            within,
            news,
        };
        (measuring, node)
    }

    #[tokio::test]
    async fn what_is_measured_on_a_free_gpu_holds_for_its_model() {
        let folder = tempfile::tempdir().expect("a folder");
        let uuids: Vec<String> = host().gpus().expect("its GPUs").into_iter().map(|gpu| gpu.uuid.0).collect();
        let second = uuids[1].clone();
        let within: Within = Arc::new(move |uuid| {
            assert_eq!(uuid, second, "the other one is in use");
            let memory = host().memory(GpuIndex(1)).expect("its memory");
            Ok(Bytes(memory.total.0 - memory.reserved.0 - CONTEXT))
        });
        let (measuring, node) = measuring(folder.path(), within).await;
        assert_eq!(measuring.look(&node).await, Vec::<String>::new());
        assert!(uuids.iter().all(|uuid| measuring.contexts.known(uuid) == Some(CONTEXT)));
    }

    #[tokio::test]
    async fn what_can_not_be_measured_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let within: Within = Arc::new(|_| Err("no CUDA library is here".to_owned()));
        let (measuring, mut node) = measuring(folder.path(), within).await;
        let model = node.gpus[0].gpu.name.clone();
        assert_eq!(measuring.look(&node).await, [format!("{model}: no CUDA library is here")]);
        node.gpus[1].mig_enabled = true;
        assert_eq!(measuring.look(&node).await, [format!("{model}: each is held, or MIG is on")]);
        assert_eq!(measuring.contexts.known(&node.gpus[1].gpu.uuid.0), None);
    }

    #[test]
    fn a_model_is_measured_once_where_nobody_is_harmed() {
        let host = SimulatedHost::new(Machine::named("h200-141gb:3").expect("a machine"));
        let mut node = NodeGpus::read(&host, &MigMinors::parse("")).expect("its GPUs");
        let uuids: Vec<String> = node.gpus.iter().map(|gpu| gpu.gpu.uuid.0.clone()).collect();
        let chosen = |node: &NodeGpus, held: &[&String], known: &str| {
            let held: BTreeSet<String> = held.iter().map(|uuid| (*uuid).clone()).collect();
            let known = |uuid: &str| (uuid == known).then_some(526);
            choices(node, &held, known).into_values().collect::<Vec<_>>()
        };
        let measure = |index: u32| vec![Choice::Measure(GpuIndex(index), uuids[index as usize].clone())];
        assert_eq!(chosen(&node, &[], ""), measure(0));
        assert_eq!(chosen(&node, &[&uuids[0]], ""), measure(1));
        assert_eq!(chosen(&node, &[], &uuids[2]), [Choice::Known(526)]);
        node.gpus[1].mig_enabled = true;
        assert_eq!(chosen(&node, &[&uuids[0]], ""), measure(2));
        assert_eq!(chosen(&node, &[&uuids[0], &uuids[2]], ""), [Choice::Wait]);
        node.gpus[0].gpu.name = "another".to_owned();
        assert_eq!(chosen(&node, &[], &uuids[2]), [Choice::Known(526), measure(0).remove(0)]);
    }
}
