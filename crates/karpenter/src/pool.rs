//! What the operator wants: machines with which GPUs, and how they are cut.

use crate::Refusal;
use carve_economics::Provider;
use carve_gpu_model::{Geometry, ProfileName};
use std::collections::BTreeMap;

/// Nodes that are cut alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Name of the NodePool.
    pub name: String,
    /// What the machines are made from.
    pub node_class: NodeClass,
    /// Models as Karpenter's label writes them (`t4`, `a100`), or as carve does where the label names two (`a100-40gb`).
    pub models: Vec<String>,
    /// How many GPUs a machine may have. Each model may come with each of them.
    pub counts: Vec<u8>,
    /// How machines may be paid for.
    pub capacity_types: Vec<CapacityType>,
    /// What becomes of the GPUs.
    pub cut: Cut,
    /// By what Karpenter tells machines apart.
    pub chosen_by: ChosenBy,
    /// Weights that its overlays may have.
    pub weights: WeightBand,
    /// The most GPUs that the pool may have at a time.
    pub most_gpus: Option<u32>,
    /// Further labels of its nodes, such as the name of a device-plugin configuration.
    pub labels: BTreeMap<String, String>,
}

/// How autoscalers learn that machines are needed for slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToldBy {
    /// By NodeOverlays: Karpenter counts slices, and packs the pods that want them.
    Overlays,
    /// By pods that stand in for them and want whole GPUs. Nodes are cut when Karpenter counts them as there.
    StandIns,
    /// The same where groups of machines, and not a NodePool, have them: the cluster autoscaler.
    StandInsOfGroups,
}

impl ToldBy {
    /// Whether machines are asked for by stand-ins.
    pub const fn stand_ins(self) -> bool {
        !matches!(self, ToldBy::Overlays)
    }
}

/// A NodeClass by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeClass {
    /// `karpenter.k8s.aws`.
    pub group: String,
    /// `EC2NodeClass`.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// How a machine is paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CapacityType {
    /// By the hour.
    OnDemand,
    /// Cheaper, and taken back at any time.
    Spot,
    /// Paid for before.
    Reserved,
}

impl CapacityType {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            CapacityType::OnDemand => "on-demand",
            CapacityType::Spot => "spot",
            CapacityType::Reserved => "reserved",
        }
    }
}

/// What becomes of every GPU of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cut {
    /// So many containers share a GPU, by turns or by MPS.
    Shared {
        /// Shares of each GPU.
        replicas: u32,
        /// Whether shares are called `nvidia.com/gpu.shared`.
        renamed: bool,
    },
    /// MIG instances under their own names.
    Mig(MigCut),
    /// Parts of any size, which carve's scheduler gives out.
    Parts,
}

/// What MIG makes of every GPU of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MigCut {
    /// As many of one profile as a GPU holds.
    All(ProfileName),
    /// These instances on each GPU.
    Mixed(Geometry),
}

/// By what Karpenter tells machines apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChosenBy {
    /// Labels of AWS' provider for model and number of GPUs. New types of machines with such GPUs belong to the pool at once.
    AwsLabels,
    /// Names of the machine types that this provider is known to have. Every provider of Karpenter has that label.
    InstanceTypes(Provider),
}

impl ChosenBy {
    pub(crate) const fn provider(self) -> Provider {
        match self {
            ChosenBy::AwsLabels => Provider::Aws,
            ChosenBy::InstanceTypes(provider) => provider,
        }
    }
}

/// Weights of overlays, both ends included. Two overlays of one weight that say something about the same machine shut each other out, so
/// every pool has a band of its own, and nobody else's overlays should have weights in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeightBand {
    /// The smallest.
    pub first: u16,
    /// The largest.
    pub last: u16,
}

impl WeightBand {
    /// The largest weight that Karpenter takes.
    const MOST: u16 = 10_000;

    pub(crate) fn check(self, overlays: usize) -> Result<(), Refusal> {
        if self.first == 0 || self.last > Self::MOST || self.first > self.last {
            let reason = format!("{}..{} is no band of weights", self.first, self.last);
            return Err(Refusal::new("weights", reason, "choose one within 1..10000, such as 5100..5199"));
        }
        let room = usize::from(self.last - self.first) + 1;
        if overlays > room {
            let reason = format!(
                "{overlays} overlays need a weight each, and {}..{} has {room}",
                self.first, self.last
            );
            return Err(Refusal::new("weights", reason, "widen the band, or name fewer models and counts"));
        }
        Ok(())
    }

    pub(crate) fn overlaps(self, other: WeightBand) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

impl Pool {
    /// How autoscalers learn that machines are needed, which nodes show by a label.
    pub fn told_by(&self) -> ToldBy {
        if self.labels.contains_key(crate::POOL) {
            ToldBy::StandInsOfGroups
        } else if self.labels.contains_key(crate::BROUGHT_BY) {
            ToldBy::StandIns
        } else {
            ToldBy::Overlays
        }
    }

    /// The same pool, of which autoscalers learn like this.
    pub fn asked_for_by(mut self, told_by: ToldBy) -> Self {
        self.labels.retain(|key, _| ![crate::POOL, crate::BROUGHT_BY].contains(&key.as_str()));
        match told_by {
            ToldBy::Overlays => {}
            ToldBy::StandIns => {
                drop(self.labels.insert(crate::BROUGHT_BY.to_owned(), "stand-ins".to_owned()))
            }
            ToldBy::StandInsOfGroups => drop(self.labels.insert(crate::POOL.to_owned(), self.name.clone())),
        }
        self
    }

    /// What is wrong with it, whatever its machines are.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if !is_dns_label(&self.name) {
            let reason = format!("'{}' is no name of a NodePool that a label can hold", self.name);
            let remedy = "write at most 63 small letters, digits and dashes, such as gpu-quarter";
            return Err(Refusal::new("name", reason, remedy));
        }
        let class = &self.node_class;
        for (field, value) in [("group", &class.group), ("kind", &class.kind), ("name", &class.name)] {
            if value.is_empty() {
                let remedy = "name the class, such as karpenter.k8s.aws, EC2NodeClass, gpu";
                return Err(Refusal::new(format!("nodeClass.{field}"), "it is empty", remedy));
            }
        }
        if self.models.is_empty() {
            return Err(Refusal::new("models", "there are none", "name the GPUs, such as l4"));
        }
        if self.counts.is_empty() {
            return Err(Refusal::new("counts", "there are none", "say how many GPUs a machine may have: 1"));
        }
        if self.capacity_types.is_empty() {
            let remedy = "write on-demand, spot, reserved, or several of them";
            return Err(Refusal::new("capacityTypes", "there are none", remedy));
        }
        if self.most_gpus == Some(0) {
            let remedy = "leave the limit out, or allow one GPU";
            return Err(Refusal::new("mostGpus", "a pool of no GPUs brings no machine", remedy));
        }
        self.check_labels()
    }

    fn check_labels(&self) -> Result<(), Refusal> {
        for (key, value) in &self.labels {
            let domain = key.split_once('/').map_or("", |(domain, _)| domain);
            let own = key == crate::PROFILE;
            if own || domain == "karpenter.sh" || domain.ends_with(".karpenter.sh") {
                let owner = if own { "carve" } else { "Karpenter" };
                let reason = format!("{owner} sets '{key}' itself");
                return Err(Refusal::new("labels", reason, "leave it out"));
            }
            if !is_label_value(value) {
                let reason = format!("'{value}' of '{key}' is no value of a label");
                return Err(Refusal::new(
                    "labels",
                    reason,
                    "write letters, digits, dashes, dots: at most 63",
                ));
            }
        }
        Ok(())
    }
}

fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

pub(crate) fn is_label_value(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63 && bytes.iter().copied().all(inner) && ends(bytes.first()) && ends(bytes.last())
}
