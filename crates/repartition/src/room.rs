//! What a node's GPUs hold, or will hold when its order is carried out, and what of it nobody else may have.

use crate::{BoundPod, GpuReport, Instance, NodeFacts};
use carve_gpu_model::{GpuUuid, ProfileTable};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An instance, and who has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Part {
    pub(crate) instance: Instance,
    /// What its resource is called, behind the prefix; none where it is divided and no pod gets all of it.
    pub(crate) form: Option<String>,
    /// Pods that hold it, as its agent says.
    pub(crate) pods: Vec<String>,
    /// Somebody uses it, or will in a moment.
    pub(crate) taken: bool,
    /// It must not go, whoever has it.
    pub(crate) stays: bool,
}

/// One GPU.
#[derive(Debug, Clone)]
pub(crate) struct GpuRoom {
    pub(crate) uuid: GpuUuid,
    pub(crate) index: u32,
    pub(crate) product: String,
    pub(crate) table: Arc<ProfileTable>,
    pub(crate) mig: bool,
    /// Somebody uses it as a whole.
    pub(crate) held: bool,
    pub(crate) parts: Vec<Part>,
}

/// All GPUs of a node.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeRoom {
    pub(crate) gpus: Vec<GpuRoom>,
}

/// The resource of an instance that is not divided.
fn form(table: &ProfileTable, instance: &Instance) -> Option<String> {
    let (_, profile) = table.by_name(&instance.profile).ok()?;
    (instance.compute == [profile.slices]).then(|| profile.name.resource_form())
}

impl NodeRoom {
    /// What there is, or will be.
    pub(crate) fn of(node: &NodeFacts) -> Self {
        let Some(report) = &node.report else { return NodeRoom::default() };
        let mut tables: BTreeMap<&str, Arc<ProfileTable>> = BTreeMap::new();
        for (product, table) in &report.tables {
            tables.insert(product, Arc::new(table.clone()));
        }
        let ordered = node.ordered.as_ref().map(|ordered| &ordered.order.gpus);
        let gpu_room = |gpu: &GpuReport| {
            let table = Arc::clone(tables.get(gpu.product.as_str())?);
            let will = ordered.and_then(|gpus| gpus.get(&gpu.uuid));
            let held = |instance: &Instance| {
                let same = |other: &&crate::InstanceReport| {
                    other.instance.profile == instance.profile && other.instance.start == instance.start
                };
                gpu.instances.iter().find(same).filter(|known| known.held)
            };
            let now = gpu.instances.iter().map(|known| &known.instance);
            let instances: Vec<&Instance> = will.map_or_else(|| now.collect(), |will| will.iter().collect());
            let part = |instance: &&Instance| Part {
                instance: (*instance).clone(),
                form: form(&table, instance),
                pods: held(instance).map(|known| known.pods.clone()).unwrap_or_default(),
                taken: held(instance).is_some(),
                stays: false,
            };
            let parts = instances.iter().map(part).collect();
            let (uuid, index, product) = (gpu.uuid.clone(), gpu.index, gpu.product.clone());
            let mig = gpu.mig || will.is_some();
            Some(GpuRoom { uuid, index, product, table, mig, held: gpu.held, parts })
        };
        let mut room = NodeRoom { gpus: report.gpus.iter().filter_map(gpu_room).collect() };
        let seen: BTreeSet<&str> = report
            .gpus
            .iter()
            .flat_map(|gpu| &gpu.instances)
            .flat_map(|instance| instance.pods.iter().map(String::as_str))
            .collect();
        for pod in node.bound.iter().filter(|pod| !seen.contains(pod.name.as_str())) {
            room.expect(pod);
        }
        room
    }

    /// A pod is being started and holds nothing that is known. Which instance kubelet gives it, nobody knows.
    fn expect(&mut self, pod: &BoundPod) {
        for form in pod.wants.keys() {
            let parts = self.gpus.iter_mut().flat_map(|gpu| &mut gpu.parts);
            parts.filter(|part| part.form.as_ref() == Some(form)).for_each(|part| part.stays = true);
        }
        self.take(&pod.wants);
    }

    /// The same without some pods, where everything that they hold is theirs alone.
    pub(crate) fn without(&self, gone: &[&str]) -> Option<Self> {
        let mut room = self.clone();
        for part in room.gpus.iter_mut().flat_map(|gpu| &mut gpu.parts) {
            if !part.pods.iter().any(|pod| gone.contains(&pod.as_str())) {
                continue;
            }
            if part.pods.len() > 1 || part.stays {
                return None;
            }
            part.taken = false;
            part.pods.clear();
        }
        Some(room)
    }

    fn free(&self, form: &str) -> usize {
        let parts = self.gpus.iter().flat_map(|gpu| &gpu.parts);
        parts.filter(|part| !part.taken && part.form.as_deref() == Some(form)).count()
    }

    /// Takes everything that a pod wants, or nothing.
    pub(crate) fn take(&mut self, wants: &BTreeMap<String, u32>) -> bool {
        if wants.iter().any(|(form, count)| self.free(form) < *count as usize) {
            return false;
        }
        for (form, count) in wants {
            let parts = self.gpus.iter_mut().flat_map(|gpu| &mut gpu.parts);
            let free = parts.filter(|part| !part.taken && part.form.as_ref() == Some(form));
            free.take(*count as usize).for_each(|part| part.taken = true);
        }
        true
    }

    /// Whether an empty GPU of this node could hold a profile.
    pub(crate) fn knows(&self, form: &str) -> bool {
        let profiles = self.gpus.iter().flat_map(|gpu| gpu.table.profiles());
        profiles.into_iter().any(|profile| profile.name.resource_form() == form)
    }
}
