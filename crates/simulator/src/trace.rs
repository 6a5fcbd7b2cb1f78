//! Nodes and claims as a trace lists them.

use carve_gpu_model::{Geometry, Mebibytes};
use carve_placement::{
    Claim, CpuMilli, Fleet, FleetError, GpuMilli, Mechanisms, Misfit, NodeShape, Placer, Spot, WHOLE,
    Workload,
};
use std::collections::BTreeMap;
use thiserror::Error;

/// A node of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceNode {
    /// Its name.
    pub name: String,
    /// CPU.
    pub cpu: CpuMilli,
    /// Memory of the machine.
    pub memory: Mebibytes,
    /// How many GPUs.
    pub gpus: u8,
    /// Memory of each GPU; 0 where the trace does not say.
    pub gpu_memory: Mebibytes,
    /// The model of its GPUs.
    pub model: String,
}

/// A claim of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracePod {
    /// Its name.
    pub name: String,
    /// What it asks for, but for the models and for MIG devices.
    pub claim: Claim,
    /// MIG devices it asks for, all on one node; such a pod has no other GPU.
    pub mig: Geometry,
    /// The models that will do, as the trace writes them; empty for any.
    pub models: String,
    /// When it came, in seconds.
    pub created: Option<u64>,
    /// When it went, in seconds.
    pub deleted: Option<u64>,
    /// The node it runs on from the beginning.
    pub node: Option<String>,
}

/// What a trace holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace {
    /// Nodes, by name.
    pub nodes: Vec<TraceNode>,
    /// Claims, in the order of the file.
    pub pods: Vec<TracePod>,
}

/// What is wrong with a trace, and where.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TraceError {
    /// A line can not be read.
    #[error("line {line}: {what}")]
    Line {
        /// The line, the first being 1.
        line: usize,
        /// What is wrong, and what to do.
        what: String,
    },
    /// An entry of a document can not be read.
    #[error("{path}: {what}")]
    Entry {
        /// Where it stands in the document.
        path: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// A pod is said to run where it can not.
    #[error(
        "pod '{pod}' is said to run on node '{node}', but {why}; correct the trace, or leave the pod out"
    )]
    Running {
        /// The pod.
        pod: String,
        /// The node.
        node: String,
        /// Why it can not be.
        why: String,
    },
    /// MIG devices are asked for where nobody knows of any.
    #[error(
        "pod '{pod}' asks for MIG devices ({asked}), but no node has GPUs that are known to be divided by MIG; write the model of a node as a product, such as a100-40gb, or as the driver names it, such as NVIDIA A100-SXM4-40GB"
    )]
    NoMig {
        /// The first pod that asks.
        pod: String,
        /// What it asks for.
        asked: String,
    },
    /// The nodes do not make a fleet.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// More GPU models than can be told apart.
    #[error("the nodes have more than 64 GPU models; simulate them in parts")]
    TooManyModels,
}

/// Pods on one node that no experiment comes near; kubelet's own limit is far lower, and traces do not tell it.
const PODS: u32 = 1001;

impl Trace {
    /// The fleet of the trace, its nodes in the given order: of equal nodes the earlier is chosen.
    pub fn fleet(&self, order: impl IntoIterator<Item = usize>) -> Result<Fleet, TraceError> {
        let mut fleet = Fleet::new();
        for node in order.into_iter().filter_map(|index| self.nodes.get(index)) {
            let shape = Trace::shape(node, &mut fleet)?;
            fleet.add(&node.name, shape)?;
        }
        Ok(fleet)
    }

    /// What a node has, in a fleet that comes to know its model.
    pub(crate) fn shape(node: &TraceNode, fleet: &mut Fleet) -> Result<NodeShape, TraceError> {
        Ok(NodeShape {
            model: fleet.model(&node.model).ok_or(TraceError::TooManyModels)?,
            gpus: node.gpus,
            gpu_memory: node.gpu_memory,
            cpu: node.cpu,
            memory: node.memory,
            pods: PODS,
            mechanisms: Mechanisms::ANY,
            numa: Vec::new(),
            islands: Vec::new(),
        })
    }

    /// The fleet of the trace, its nodes in the order of the given names.
    pub fn fleet_named<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<Fleet, TraceError> {
        let places: BTreeMap<&str, usize> =
            self.nodes.iter().enumerate().map(|(index, node)| (node.name.as_str(), index)).collect();
        self.fleet(names.into_iter().filter_map(|name| places.get(name).copied()))
    }

    /// Puts the pods that run from the beginning where they run, and says which and where; those with MIG devices are left to
    /// whoever divides GPUs. The trace does not tell which GPUs they have, so they get the fullest that will do.
    pub fn start_running(
        &self,
        fleet: &mut Fleet,
        placer: &Placer,
    ) -> Result<Vec<(usize, Spot)>, TraceError> {
        let mut started = Vec::new();
        for (index, pod) in self.pods.iter().enumerate() {
            let Some(name) = pod.node.as_ref().filter(|_| pod.mig.is_empty()) else { continue };
            let refuse = |why: &str| {
                let (pod, node) = (pod.name.clone(), name.clone());
                Err(TraceError::Running { pod, node, why: why.to_owned() })
            };
            let Some(node) = fleet.named(name) else { return refuse("the trace has no such node") };
            let claim = pod.claim_on(fleet);
            if let Err(misfit) = fleet.fits(node, &claim) {
                return refuse(why_not(misfit));
            }
            let spot = Spot { node, gpus: placer.score(fleet, node, &claim).gpus };
            fleet.place(&claim, spot);
            started.push((index, spot));
        }
        Ok(started)
    }

    /// What each pod asks of a fleet.
    pub fn claims(&self, fleet: &Fleet) -> Vec<Claim> {
        self.pods.iter().map(|pod| pod.claim_on(fleet)).collect()
    }

    /// What the trace usually asks for: the kinds that together make up 95 % of its pods. Where hardly two pods are alike, those
    /// that are nearly so count as one kind, by the larger of their sizes.
    pub fn workload(&self, fleet: &Fleet) -> Workload {
        let exact = self.kinds(fleet, |claim| *claim);
        let seen = if exact.len() > MOST_KINDS { self.kinds(fleet, nearly) } else { exact };
        Workload::seen(seen.into_iter().map(|(key, (claim, count))| (key, claim, count)), 95)
    }

    /// How often each kind is asked for, with sizes as they are seen.
    fn kinds(
        &self,
        fleet: &Fleet,
        seen_as: impl Fn(&Claim) -> Claim,
    ) -> BTreeMap<(u64, u16, u8, &str), (Claim, u64)> {
        let mut kinds: BTreeMap<(u64, u16, u8, &str), (Claim, u64)> = BTreeMap::new();
        // MIG devices have places of their own, which no policy decides.
        for pod in self.pods.iter().filter(|pod| pod.mig.is_empty()) {
            let claim = seen_as(&pod.claim_on(fleet));
            let key = (claim.cpu.0, claim.compute.0, claim.gpus, pod.models.as_str());
            kinds.entry(key).or_insert((claim, 0)).1 += 1;
        }
        kinds
    }
}

/// Why a pod can not run on a node.
pub(crate) fn why_not(misfit: Misfit) -> &'static str {
    match misfit {
        Misfit::Model => "its GPUs are of another model",
        Misfit::Mechanism => "its GPUs can not be divided that way",
        Misfit::Gpus => "too few of its GPUs have so much left",
        Misfit::Apart => "its free GPUs are too far apart",
        Misfit::Cpu => "it has not so much CPU left",
        Misfit::Memory => "it has not so much memory left",
        Misfit::Pods => "it has as many pods as it takes",
        Misfit::Away => "it is not there",
    }
}

/// Every decision weighs every kind, so their number is held; the published traces have at most 330.
const MOST_KINDS: usize = 512;

/// A claim with its CPU as the next power of two and its part of a GPU as the next twentieth.
fn nearly(claim: &Claim) -> Claim {
    Claim {
        cpu: CpuMilli(claim.cpu.0.next_power_of_two()),
        compute: GpuMilli(claim.compute.0.next_multiple_of(WHOLE.0 / 20)),
        ..*claim
    }
}

impl TracePod {
    /// What it asks of a fleet, with the fleet's numbers of the models.
    pub fn claim_on(&self, fleet: &Fleet) -> Claim {
        if self.models.is_empty() {
            return self.claim;
        }
        Claim { models: fleet.models_named(self.models.split('|')), ..self.claim }
    }
}
