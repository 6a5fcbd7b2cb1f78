//! What agent and doors know of who has which part of which GPU, for whoever tells what they used.

use super::tenant::{Counted, Mechanism, Tenant};
use crate::metrics::ShareSeries;
use carve_slicing::{Holder, NodeGpus, Offer};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Kept by those who know, and looked at again and again.
#[derive(Debug, Default)]
pub(crate) struct Known {
    facts: Mutex<Facts>,
    /// Told whenever shares were read: what they counted is compared with what the driver tells at the same moment.
    counted: Notify,
}

/// What a machine is to its cloud; empty where that is not known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MachineFacts {
    /// What the cluster calls it.
    pub(crate) node: String,
    /// `g5.xlarge`.
    pub(crate) instance_type: String,
    /// `spot` or `on-demand`.
    pub(crate) capacity_type: String,
    /// `us-east-1a`.
    pub(crate) zone: String,
}

impl MachineFacts {
    /// As the labels of its Node say.
    pub(crate) fn of(node: &str, labels: &BTreeMap<String, String>) -> Self {
        let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
        MachineFacts {
            node: node.to_owned(),
            instance_type: label("node.kubernetes.io/instance-type"),
            capacity_type: label("karpenter.sh/capacity-type"),
            zone: label("topology.kubernetes.io/zone"),
        }
    }
}

/// Everything at a moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// The GPUs; none before they were read.
    pub(crate) node: Option<Arc<NodeGpus>>,
    /// What kubelet is offered.
    pub(crate) offer: Arc<Offer>,
    /// GPUs and MIG devices that may not be given out, by UUID, and why.
    pub(crate) sick: Arc<BTreeMap<String, String>>,
    /// GPUs and MIG devices that are about to be cut otherwise.
    pub(crate) cutting: Arc<BTreeSet<String>>,
    /// What the machine is to its cloud.
    pub(crate) machine: Arc<MachineFacts>,
    /// Shares, by the door that they came through, and how often each door has looked at what they counted.
    pub(crate) shares: BTreeMap<String, (u64, Vec<Tenant>)>,
}

impl Known {
    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything now.
    pub(crate) fn now(&self) -> Facts {
        self.facts().clone()
    }

    /// Waits until shares were read.
    pub(crate) async fn counted(&self) {
        self.counted.notified().await;
    }

    /// The machine is this.
    pub(crate) fn learn_machine(&self, machine: MachineFacts) {
        let mut facts = self.facts();
        if *facts.machine != machine {
            facts.machine = Arc::new(machine);
        }
    }

    /// These parts are about to be cut otherwise.
    pub(crate) fn learn_cutting(&self, cutting: BTreeSet<String>) {
        let mut facts = self.facts();
        if *facts.cutting != cutting {
            facts.cutting = Arc::new(cutting);
        }
    }

    /// The GPUs are these, this is offered of them, and these parts are sick.
    pub(crate) fn learn(&self, node: &NodeGpus, offer: &Offer, sick: BTreeMap<String, String>) {
        let mut facts = self.facts();
        if facts.node.as_deref() != Some(node) {
            facts.node = Some(Arc::new(node.clone()));
        }
        if *facts.sick != sick {
            facts.sick = Arc::new(sick);
        }
        if *facts.offer != *offer {
            facts.offer = Arc::new(offer.clone());
        }
    }

    /// A door has read what its shares counted.
    pub(crate) fn learn_shares(&self, door: &str, shares: &[ShareSeries]) {
        {
            let mut facts = self.facts();
            let (looks, tenants) = facts.shares.entry(door.to_owned()).or_default();
            *looks += 1;
            *tenants = shares.iter().map(by_share).collect();
        }
        self.counted.notify_one();
    }
}

fn by_share(share: &ShareSeries) -> Tenant {
    let labels = &share.labels;
    let holder = Holder {
        namespace: labels.namespace.clone(),
        pod: labels.pod.clone(),
        container: labels.container.clone(),
    };
    let counted = share.compute_limit.map(|_| Counted {
        share: format!("{}/{}/{}/{}", labels.claim_namespace, labels.claim, labels.device, labels.share),
        busy: (share.gpu_seconds * 1e9) as u64,
    });
    Tenant {
        part: labels.uuid.clone(),
        mechanism: if share.mechanism == "mps" { Mechanism::Mps } else { Mechanism::Fraction },
        promised: share.compute_limit.map(|limit| (limit * 1000.0).round() as u32),
        memory_limit: Some(share.memory_limit),
        throttled: Some(share.throttled_seconds),
        denied: Some(share.denials),
        counted: counted.into_iter().collect(),
        ..Tenant::of(holder)
    }
}
