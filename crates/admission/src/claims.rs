//! What a pod asks for, after the dialect is gone: the one model that the rest of the cluster side works with.

use crate::wire;
use carve_formats::workloads::{ContainerKind, Dialect, Isolation, Mechanism, MemoryAsk, Names};
use carve_gpu_model::{GpuUuid, ProfileName};
use std::fmt;
use thiserror::Error;

/// What all containers of a pod ask for. Init containers and sidecars are in their order, then the others in theirs; none is without parts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodClaims {
    containers: Vec<ContainerClaim>,
}

/// What one container asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerClaim {
    /// Its name, which no other container of the pod has.
    pub name: String,
    /// When it runs.
    pub kind: ContainerKind,
    /// What it asks for, in an order that does not depend on how it was written.
    pub parts: Vec<Part>,
}

/// GPUs, or parts of different GPUs, that are alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// How many; at least one.
    pub count: u32,
    /// How much of each GPU.
    pub share: Share,
    /// The mechanism that was named.
    pub mechanism: Option<Mechanism>,
    /// What must not reach it from its neighbours.
    pub isolation: Isolation,
    /// GPU models, by a part of their name, without regard to case.
    pub models: Names<String>,
    /// GPUs by their ids.
    pub uuids: Names<GpuUuid>,
    /// It may use compute that its neighbours leave.
    pub burst: bool,
    /// Whose words it was written in.
    pub dialect: Dialect,
}

/// How much of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Share {
    /// All of it, alone.
    Whole,
    /// A MIG device.
    Mig(ProfileName),
    /// A turn on it, without a size.
    Turn,
    /// A part with a size.
    Part {
        /// Its memory; all where nothing is said.
        memory: Option<MemoryAsk>,
        /// Percent of its compute; not limited where nothing is said.
        compute: Option<u8>,
    },
}

/// Why a text is not the annotation [`crate::keys::CLAIM`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClaimError {
    /// Not the JSON that is expected.
    #[error("the annotation carve.dev/claim does not read: {0}")]
    Malformed(String),
    /// Written by another version.
    #[error(
        "the annotation carve.dev/claim is of version {0}, and this program reads version 1; run controller and agents of one release"
    )]
    Version(u64),
}

impl PodClaims {
    /// The claims of these containers; those without parts are left out.
    pub fn new(containers: impl IntoIterator<Item = ContainerClaim>) -> Self {
        let mut containers: Vec<ContainerClaim> =
            containers.into_iter().filter(|container| !container.parts.is_empty()).collect();
        for part in containers.iter_mut().flat_map(|container| &mut container.parts) {
            part.models.put_in_order();
            part.uuids.put_in_order();
        }
        for container in &mut containers {
            container.parts.sort();
        }
        containers.sort_by_key(|container| container.kind == ContainerKind::Main);
        PodClaims { containers }
    }

    /// The containers that ask for something.
    pub fn containers(&self) -> &[ContainerClaim] {
        &self.containers
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty()
    }

    /// All parts, with their containers.
    pub fn parts(&self) -> impl Iterator<Item = (&ContainerClaim, &Part)> {
        self.containers.iter().flat_map(|container| container.parts.iter().map(move |part| (container, part)))
    }

    /// What one container asks for.
    pub fn container(&self, name: &str) -> Option<&ContainerClaim> {
        self.containers.iter().find(|container| container.name == name)
    }

    /// Reads the annotation.
    pub fn from_annotation(text: &str) -> Result<Self, ClaimError> {
        wire::read(text)
    }

    /// Writes the annotation: the same claims are always the same text.
    pub fn to_annotation(&self) -> String {
        wire::write(self)
    }

    /// The most GPUs, or parts of GPUs, that the pod holds at once.
    pub fn devices(&self) -> u64 {
        self.most_at_once(ContainerClaim::devices)
    }

    /// Init containers come one after the other, before the others; sidecars are beside both.
    fn most_at_once(&self, amount: impl Fn(&ContainerClaim) -> u64) -> u64 {
        let sum = |kind: ContainerKind| {
            self.containers.iter().filter(|one| one.kind == kind).map(&amount).sum::<u64>()
        };
        let first = self.containers.iter().filter(|one| one.kind == ContainerKind::Init).map(&amount).max();
        sum(ContainerKind::Sidecar) + sum(ContainerKind::Main).max(first.unwrap_or(0))
    }
}

impl Part {
    /// Whether the same would serve both: all but whose words it was written in.
    pub(crate) fn is_alike(&self, other: &Part) -> bool {
        *self == Part { dialect: self.dialect, ..other.clone() }
    }
}

impl ContainerClaim {
    /// How many GPUs, or parts of GPUs, it holds: as many tokens it needs.
    pub fn devices(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.count)).sum()
    }
}

/// Names that were collected from several places have an order, and none twice.
trait PutInOrder {
    fn put_in_order(&mut self);
}

impl<T: Ord> PutInOrder for Names<T> {
    fn put_in_order(&mut self) {
        for names in [&mut self.wanted, &mut self.unwanted] {
            names.sort();
            names.dedup();
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (one, many) = match &self.share {
            Share::Whole => ("a whole GPU".to_owned(), format!("{} whole GPUs", self.count)),
            Share::Mig(profile) => {
                (format!("a MIG device {profile}"), format!("{} MIG devices {profile}", self.count))
            }
            Share::Turn => ("a turn on a GPU".to_owned(), format!("turns on {} different GPUs", self.count)),
            Share::Part { memory, compute } => {
                let memory = match memory {
                    Some(MemoryAsk::Amount(amount)) => format!("{amount}"),
                    Some(MemoryAsk::Share(share)) => format!("{share} of the memory"),
                    None => "all memory".to_owned(),
                };
                let compute = match compute {
                    Some(percent) if self.burst => format!("at least {percent}% of the compute"),
                    Some(percent) => format!("{percent}% of the compute"),
                    None => "compute that is not limited".to_owned(),
                };
                (
                    format!("a part of a GPU with {memory} and {compute}"),
                    format!("parts of {} different GPUs, each with {memory} and {compute}", self.count),
                )
            }
        };
        f.write_str(if self.count == 1 { &one } else { &many })?;
        if let Some(mechanism) = self.mechanism.filter(|_| matches!(self.share, Share::Part { .. })) {
            write!(f, ", by {mechanism}")?;
        }
        match self.isolation {
            Isolation::Unstated => {}
            Isolation::Performance => f.write_str(", untouched by the load of others")?,
            Isolation::Fault => f.write_str(", untouched by the faults of others")?,
            Isolation::Tenant => f.write_str(", apart from other tenants")?,
        }
        let uuids =
            |names: &[GpuUuid]| names.iter().map(|uuid| uuid.0.as_str()).collect::<Vec<_>>().join(" or ");
        let conditions = [
            ("model", self.models.wanted.join(" or ")),
            ("not model", self.models.unwanted.join(" or ")),
            ("GPU", uuids(&self.uuids.wanted)),
            ("not GPU", uuids(&self.uuids.unwanted)),
        ];
        for (what, names) in conditions.iter().filter(|(_, names)| !names.is_empty()) {
            write!(f, ", {what} {names}")?;
        }
        Ok(())
    }
}

impl fmt::Display for PodClaims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (container, part)) in self.parts().enumerate() {
            let between = if index == 0 { "" } else { "; " };
            write!(f, "{between}container {}: {part} ({})", container.name, part.dialect)?;
        }
        Ok(())
    }
}
