//! What was decided for a pod: which parts of which GPUs each container has, as it is written into the pod when it is bound.

use crate::room::Held;
use crate::want::{Compute, Stage};
use carve_gpu_model::{GpuUuid, Mebibytes};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

const VERSION: u32 = 1;

/// A part of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Slice {
    /// Of which.
    pub gpu: GpuUuid,
    /// Its memory.
    pub memory: Mebibytes,
    /// Its compute.
    pub compute: Compute,
    /// Whether it may also use what others leave.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub burst: bool,
}

/// What a container has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ContainerSlices {
    /// Its name.
    pub name: String,
    /// When it runs.
    pub stage: Stage,
    /// Its parts of GPUs.
    pub slices: Vec<Slice>,
}

/// What a pod has, in the order in which containers start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Slices {
    /// Containers that have something.
    pub containers: Vec<ContainerSlices>,
}

#[derive(Serialize, Deserialize)]
struct Written {
    v: u32,
    containers: Vec<ContainerSlices>,
}

/// What is wrong with an annotation.
#[derive(Debug, Error)]
pub enum SlicesError {
    /// It is not the JSON that the controller writes.
    #[error("the slices of the pod do not read")]
    Json(#[from] serde_json::Error),
    /// It was written by another version.
    #[error(
        "the slices of the pod are of version {0}, and only version {VERSION} is understood; agent and controller are too far apart"
    )]
    Version(u32),
}

impl Slices {
    /// Every part, with the name of its container.
    pub fn parts(&self) -> impl Iterator<Item = (&str, &Slice)> {
        self.containers
            .iter()
            .flat_map(|container| container.slices.iter().map(|slice| (container.name.as_str(), slice)))
    }

    /// As it is written.
    pub fn to_annotation(&self) -> String {
        let written = Written { v: VERSION, containers: self.containers.clone() };
        // Strings and numbers alone: there is nothing that could fail.
        serde_json::to_string(&written).unwrap_or_default()
    }

    /// Reads an annotation.
    pub fn from_annotation(text: &str) -> Result<Self, SlicesError> {
        let Written { v, containers } = serde_json::from_str(text)?;
        if v == VERSION { Ok(Slices { containers }) } else { Err(SlicesError::Version(v)) }
    }

    /// What a container has.
    pub fn of(&self, container: &str) -> Option<&[Slice]> {
        let found = self.containers.iter().find(|one| one.name == container);
        found.map(|one| one.slices.as_slice())
    }

    /// What the pod holds of each GPU from its start to its end: as much as it has at any one time.
    pub fn held(&self) -> BTreeMap<GpuUuid, Held> {
        let mut most: BTreeMap<GpuUuid, Held> = BTreeMap::new();
        let mut stays: BTreeMap<GpuUuid, Held> = BTreeMap::new();
        for container in &self.containers {
            let mut own: BTreeMap<GpuUuid, Held> = BTreeMap::new();
            for slice in &container.slices {
                let held = Held { memory: slice.memory, compute: slice.compute };
                own.entry(slice.gpu.clone()).or_default().add(held);
            }
            for (gpu, held) in own {
                if container.stage == Stage::Init {
                    let together = stays.get(&gpu).copied().unwrap_or_default().with(held);
                    most.entry(gpu).or_default().raise(together);
                } else {
                    stays.entry(gpu).or_default().add(held);
                }
            }
        }
        for (gpu, held) in stays {
            most.entry(gpu).or_default().raise(held);
        }
        most
    }
}
