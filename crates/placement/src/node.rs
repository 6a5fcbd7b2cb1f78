//! A node of the fleet: what it has, and what is left of it.

use crate::claim::{Claim, CpuMilli, GpuMilli, ModelId, Together, WHOLE};
use carve_gpu_model::{Mebibytes, Mechanisms};

/// Most GPUs of one node.
pub const MOST_GPUS: usize = 16;

/// What a node has. Nodes with equal descriptions are interchangeable while they are untouched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeShape {
    /// The model of its GPUs.
    pub model: ModelId,
    /// How many GPUs.
    pub gpus: u8,
    /// Memory of each GPU.
    pub gpu_memory: Mebibytes,
    /// CPU.
    pub cpu: CpuMilli,
    /// Memory of the machine.
    pub memory: Mebibytes,
    /// Most pods.
    pub pods: u32,
    /// How its GPUs may be divided.
    pub mechanisms: Mechanisms,
    /// NUMA node of each GPU; GPUs that are not named are on the first.
    pub numa: Vec<u8>,
    /// NVLink island of each GPU; GPUs that are not named are on the first.
    pub islands: Vec<u8>,
}

/// What is left of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeRoom {
    /// CPU.
    pub cpu: CpuMilli,
    /// Memory of the machine.
    pub memory: Mebibytes,
    /// Pods.
    pub pods: u32,
    gpus: u8,
    compute: [u16; MOST_GPUS],
    gpu_memory: [u32; MOST_GPUS],
}

/// Which GPUs of a node serve a claim, as a set of their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GpuSet(u16);

impl GpuSet {
    /// One GPU.
    pub const fn one(gpu: usize) -> Self {
        GpuSet(1 << gpu)
    }

    /// The set with one more.
    #[must_use]
    pub const fn with(self, gpu: usize) -> Self {
        GpuSet(self.0 | 1 << gpu)
    }

    /// Their numbers, in order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..MOST_GPUS).filter(move |gpu| self.0 >> gpu & 1 == 1)
    }

    /// How many.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn insert(&mut self, gpu: usize) {
        self.0 |= 1 << gpu;
    }
}

/// Why a claim does not fit on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Misfit {
    /// Its GPUs are of another model.
    Model,
    /// None of the mechanisms that will do is offered.
    Mechanism,
    /// Fewer GPUs with enough left than are asked for.
    Gpus,
    /// Enough GPUs, but not close enough to each other.
    Apart,
    /// Not enough CPU left.
    Cpu,
    /// Not enough memory left.
    Memory,
    /// As many pods as it takes.
    Pods,
    /// The node is not there now.
    Away,
}

impl NodeShape {
    /// Everything is left.
    pub fn untouched(&self) -> NodeRoom {
        let mut room = NodeRoom {
            cpu: self.cpu,
            memory: self.memory,
            pods: self.pods,
            gpus: self.gpus.min(MOST_GPUS as u8),
            compute: [0; MOST_GPUS],
            gpu_memory: [0; MOST_GPUS],
        };
        let gpus = usize::from(room.gpus);
        room.compute[..gpus].fill(WHOLE.0);
        room.gpu_memory[..gpus].fill(u32::try_from(self.gpu_memory.0).unwrap_or(u32::MAX));
        room
    }

    /// Whether a claim fits into what is left, or why not.
    pub fn fits(&self, room: &NodeRoom, claim: &Claim) -> Result<(), Misfit> {
        if claim.gpus > 0 {
            if !claim.models.contains(self.model) {
                return Err(Misfit::Model);
            }
            if claim.mechanisms.and(self.mechanisms).is_empty() {
                return Err(Misfit::Mechanism);
            }
            if room.serving(claim).count() < usize::from(claim.gpus) {
                return Err(Misfit::Gpus);
            }
            if claim.together != Together::Node && self.first_free(room, claim).is_none() {
                return Err(Misfit::Apart);
            }
        }
        if room.cpu < claim.cpu {
            return Err(Misfit::Cpu);
        }
        if room.memory < claim.memory {
            return Err(Misfit::Memory);
        }
        if room.pods == 0 {
            return Err(Misfit::Pods);
        }
        Ok(())
    }

    /// The first GPUs that together serve a claim, as close as it asks.
    pub(crate) fn first_free(&self, room: &NodeRoom, claim: &Claim) -> Option<GpuSet> {
        let groups: &[u8] = match claim.together {
            Together::Node => &[],
            Together::Numa => &self.numa,
            Together::NvLink => &self.islands,
        };
        let group = |gpu: usize| groups.get(gpu).copied().unwrap_or(0);
        let mut tried = GpuSet::default();
        for first in room.serving(claim) {
            if tried.iter().any(|gpu| group(gpu) == group(first)) {
                continue;
            }
            tried.insert(first);
            let mut chosen = GpuSet::default();
            for gpu in room.serving(claim).filter(|gpu| group(*gpu) == group(first)) {
                if chosen.len() == usize::from(claim.gpus) {
                    break;
                }
                chosen.insert(gpu);
            }
            if chosen.len() == usize::from(claim.gpus) {
                return Some(chosen);
            }
        }
        (claim.gpus == 0).then(GpuSet::default)
    }
}

impl NodeRoom {
    /// How many GPUs the node has.
    pub const fn gpus(&self) -> usize {
        self.gpus as usize
    }

    /// Compute that is left of each GPU.
    pub fn compute(&self) -> &[u16] {
        &self.compute[..self.gpus()]
    }

    /// Memory that is left of a GPU.
    pub fn gpu_memory(&self, gpu: usize) -> Mebibytes {
        Mebibytes(u64::from(self.gpu_memory[gpu]))
    }

    /// Compute that is left of all GPUs together.
    pub fn idle(&self) -> u64 {
        self.compute().iter().map(|left| u64::from(*left)).sum()
    }

    /// GPUs nobody uses.
    pub fn free_gpus(&self) -> usize {
        self.compute().iter().filter(|left| **left == WHOLE.0).count()
    }

    /// The GPUs that have enough left for a claim.
    pub(crate) fn serving<'a>(&'a self, claim: &'a Claim) -> impl Iterator<Item = usize> + 'a {
        (0..self.gpus()).filter(|gpu| {
            self.compute[*gpu] >= claim.compute.0 && u64::from(self.gpu_memory[*gpu]) >= claim.gpu_memory.0
        })
    }

    /// Takes what a claim asks for from the given GPUs.
    #[must_use]
    pub fn taken(mut self, claim: &Claim, gpus: GpuSet) -> Self {
        self.cpu.0 -= claim.cpu.0;
        self.memory.0 -= claim.memory.0;
        self.pods -= 1;
        for gpu in gpus.iter() {
            self.compute[gpu] -= claim.compute.0;
            self.gpu_memory[gpu] -= claim.gpu_memory.0 as u32;
        }
        self
    }

    /// Gives back what a claim had of the given GPUs.
    #[must_use]
    pub fn given_back(mut self, claim: &Claim, gpus: GpuSet) -> Self {
        self.cpu.0 += claim.cpu.0;
        self.memory.0 += claim.memory.0;
        self.pods += 1;
        for gpu in gpus.iter() {
            self.compute[gpu] += claim.compute.0;
            self.gpu_memory[gpu] += claim.gpu_memory.0 as u32;
        }
        self
    }

    /// Nothing of a GPU is left, because it is put to another use as a whole.
    #[must_use]
    pub fn without(mut self, gpu: usize) -> Self {
        self.compute[gpu] = 0;
        self.gpu_memory[gpu] = 0;
        self
    }

    /// All of a GPU is left, as in a node of this shape that nothing runs on.
    #[must_use]
    pub fn with_whole(mut self, gpu: usize, shape: &NodeShape) -> Self {
        self.compute[gpu] = WHOLE.0;
        self.gpu_memory[gpu] = u32::try_from(shape.gpu_memory.0).unwrap_or(u32::MAX);
        self
    }

    /// The GPU with the least left that serves a part, the first of equals.
    pub(crate) fn tightest(&self, claim: &Claim) -> Option<usize> {
        self.serving(claim).min_by_key(|gpu| self.compute[*gpu])
    }

    /// A GPU for each different amount that is left and serves a part, the first of equals.
    pub(crate) fn different<'a>(&'a self, claim: &'a Claim) -> impl Iterator<Item = usize> + 'a {
        self.serving(claim).filter(|gpu| {
            let same = |other: &usize| {
                self.compute[*other] == self.compute[*gpu] && self.gpu_memory[*other] == self.gpu_memory[*gpu]
            };
            !(0..*gpu).any(|other| same(&other))
        })
    }
}

impl From<GpuMilli> for f64 {
    fn from(milli: GpuMilli) -> f64 {
        f64::from(milli.0)
    }
}
