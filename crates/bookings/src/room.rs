//! What is left of the GPUs of a node.

use crate::offer::{Gpu, Offer};
use crate::want::Compute;
use carve_gpu_model::{GpuUuid, Mebibytes};

/// Memory and compute of one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Held {
    /// Memory.
    pub memory: Mebibytes,
    /// Compute.
    pub compute: Compute,
}

impl Held {
    pub(crate) fn add(&mut self, more: Held) {
        *self = self.with(more);
    }

    pub(crate) fn with(self, more: Held) -> Held {
        Held {
            memory: Mebibytes(self.memory.0.saturating_add(more.memory.0)),
            compute: Compute(self.compute.0.saturating_add(more.compute.0)),
        }
    }

    /// The larger of each.
    pub(crate) fn raise(&mut self, other: Held) {
        self.memory = self.memory.max(other.memory);
        self.compute = self.compute.max(other.compute);
    }

    pub(crate) fn is_within(self, room: Held) -> bool {
        self.memory <= room.memory && self.compute <= room.compute
    }

    pub(crate) fn less(self, other: Held) -> Held {
        Held {
            memory: Mebibytes(self.memory.0.saturating_sub(other.memory.0)),
            compute: Compute(self.compute.0.saturating_sub(other.compute.0)),
        }
    }
}

/// What is left of each GPU of a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Room {
    pub(crate) gpus: Vec<(Gpu, Held)>,
}

impl Room {
    /// Nothing is held.
    pub fn untouched(offer: &Offer) -> Self {
        let all = |gpu: &Gpu| Held { memory: gpu.memory, compute: Compute::ALL };
        Room { gpus: offer.gpus.iter().map(|gpu| (gpu.clone(), all(gpu))).collect() }
    }

    /// The same with a part of a GPU held. More than there is leaves nothing; a GPU that is gone has nothing to leave.
    pub fn hold(&mut self, gpu: &GpuUuid, held: Held) {
        if let Some((_, left)) = self.gpus.iter_mut().find(|(one, _)| one.uuid == *gpu) {
            *left = left.less(held);
        }
    }

    /// The GPUs and what is left of each.
    pub fn left(&self) -> impl Iterator<Item = (&Gpu, Held)> {
        self.gpus.iter().map(|(gpu, left)| (gpu, *left))
    }

    /// Whether nobody holds anything of a GPU.
    pub(crate) fn is_untouched(gpu: &Gpu, left: Held) -> bool {
        left.memory == gpu.memory && left.compute == Compute::ALL
    }
}
