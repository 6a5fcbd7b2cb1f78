//! carve's own policy: a claim goes where the room it takes is worth least to everything else that is usually asked for.
//!
//! Each node's room has a worth: the most that usual claims could pay for it at their prices ([`Prices`]), with its CPU
//! priced as dearly as makes that sum smallest, so that GPUs without CPU are worth as little as CPU without GPUs. A claim
//! costs the difference between the worth before and after. Three things are added, each small:
//!
//! - free GPUs are worth a little more beside others, so that claims for several find them together;
//! - an untouched node costs the more to start on, the fewer other untouched nodes could stand in for it;
//! - costs are compared in steps, and of equal nodes the first gets the claim, which keeps the rest of the fleet untouched.

use super::{Prices, Score, View, prices, ways};
use crate::claim::{Claim, ModelId, WHOLE};
use crate::fleet::{Class, Fleet};
use crate::node::{GpuSet, NodeRoom, NodeShape};
use crate::workload::Workload;
use carve_gpu_model::Mebibytes;
use prices::STEPS;

/// The four numbers of the policy, found on the published traces' seeds 42 to 51 and the same for every fleet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tuning {
    /// Costs that differ by less than this part of a GPU are equal.
    pub step: f64,
    /// What an untouched node costs if nothing else could stand in for it, before the limit of one GPU.
    pub scarcity: f64,
    /// How much more free GPUs are worth beside others.
    pub together: f64,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning { step: 0.04, scarcity: 2.0, together: 0.022 }
    }
}

/// Prices of a core that are tried, in GPUs.
const CORES: [f64; 13] = [0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.09, 0.11, 0.15, 0.2, 0.3, 0.5];
/// Starting on an untouched node never costs more than this many GPUs.
const MOST_OPENING: f64 = 1.0;
/// Keeps sums that should lie on a step from falling below it by rounding.
const ROUNDING: f64 = 1e-9;

/// For each price of a core: the worth of what is left of one GPU, by steps.
type Worth = [[f64; STEPS + 1]; CORES.len()];

#[derive(Debug, Clone)]
struct Model {
    gpu_memory: Mebibytes,
    worth: Box<Worth>,
}

/// The policy on a fleet with a workload.
#[derive(Debug, Clone)]
pub struct BidPrice {
    tuning: Tuning,
    models: Vec<Model>,
    /// Cores that usually come with a GPU.
    cores_per_gpu: f64,
    /// The part of GPU claims that name models.
    choosy: f64,
}

impl BidPrice {
    /// Finds the prices.
    pub fn new(fleet: &Fleet, workload: &Workload, tuning: Tuning) -> Self {
        let prices = Prices::new(fleet, workload);
        let models = (0..fleet.model_count()).map(|model| {
            let model = ModelId(model as u8);
            let memory = fleet.classes().filter(|(_, class)| class.shape.model == model);
            let gpu_memory = memory.map(|(_, class)| class.shape.gpu_memory).max().unwrap_or_default();
            Model { gpu_memory, worth: Box::new(worth(&prices, model, gpu_memory)) }
        });
        let with_gpu = || workload.kinds().iter().filter(|kind| kind.claim.gpus > 0);
        let sum =
            |of: &dyn Fn(&Claim) -> f64| with_gpu().map(|kind| kind.part * of(&kind.claim)).sum::<f64>();
        let gpus = sum(&|claim| claim.total() as f64 / f64::from(WHOLE.0));
        let claims = sum(&|_| 1.0);
        let choosy = sum(&|claim| if claim.models.is_any() { 0.0 } else { 1.0 });
        BidPrice {
            tuning,
            models: models.collect(),
            cores_per_gpu: if gpus > 0.0 { sum(&|claim| claim.cpu.cores()) / gpus } else { 0.0 },
            choosy: if claims > 0.0 { choosy / claims } else { 0.0 },
        }
    }

    /// What a node's room is worth, at the workload's prices.
    pub fn worth(&self, shape: &NodeShape, room: &NodeRoom) -> f64 {
        let Some(model) = self.models.get(usize::from(shape.model.0)) else { return 0.0 };
        let mut sizes = [0_usize; crate::node::MOST_GPUS];
        for (gpu, (size, compute)) in sizes.iter_mut().zip(room.compute()).enumerate() {
            let compute = usize::from(*compute) * STEPS / usize::from(WHOLE.0);
            let memory = (room.gpu_memory(gpu).0 * STEPS as u64).checked_div(model.gpu_memory.0);
            *size = compute.min(memory.map_or(STEPS, |memory| memory as usize));
        }
        let sizes = &sizes[..room.gpus()];
        let cores = room.cpu.cores();
        let mut least = f64::INFINITY;
        for (core, table) in CORES.iter().zip(model.worth.iter()) {
            let sum = core * cores + sizes.iter().map(|size| table[*size]).sum::<f64>();
            least = least.min(sum);
        }
        least + self.tuning.together * self.beside(room)
    }

    /// What a whole GPU of a model is worth where CPU is plenty: by it, worths are told in GPUs.
    pub fn whole(&self, model: ModelId) -> f64 {
        self.models.get(usize::from(model.0)).map_or(1.0, |model| model.worth[0][STEPS])
    }

    /// Free GPUs, counted the more the more of them are beside each other and have their usual CPU.
    fn beside(&self, room: &NodeRoom) -> f64 {
        let free = room.free_gpus() as f64;
        let served = if self.cores_per_gpu > 0.0 { room.cpu.cores() / self.cores_per_gpu } else { free };
        let usable = free.min(served);
        usable * usable / (room.gpus() as f64).max(1.0)
    }

    pub(super) fn score(&self, node: View<'_>, claim: &Claim) -> Score {
        let before = self.worth(node.shape, node.room);
        let mut best = (i32::MIN, 0_u16, Score { points: f64::NEG_INFINITY, gpus: GpuSet::default() });
        ways(node, claim, |gpus| {
            let points = self.worth(node.shape, &node.room.taken(claim, gpus)) - before;
            let left = gpus.iter().map(|gpu| node.room.compute()[gpu]).next().unwrap_or(0);
            let rounded = self.rounded(points);
            // Of equals the tightest: what stays whole is useful to more.
            if rounded > best.0 || (rounded == best.0 && left < best.1) {
                best = (rounded, left, Score { points, gpus });
            }
        });
        best.2
    }

    pub(super) fn rounded(&self, points: f64) -> i32 {
        (points / self.tuning.step + ROUNDING).floor() as i32
    }

    pub(super) fn opening(&self, fleet: &Fleet, class: &Class) -> f64 {
        let own = &class.shape;
        let (mut any, mut same) = (0_usize, 0_usize);
        for (_, other) in fleet.classes() {
            let shape = &other.shape;
            if shape.gpus >= own.gpus && shape.cpu >= own.cpu && shape.memory >= own.memory {
                let untouched = other.untouched().len();
                any += untouched;
                same += if shape.model == own.model { untouched } else { 0 };
            }
        }
        let part = |others: usize| 1.0 / others.max(1) as f64;
        let scarce = (1.0 - self.choosy) * part(any) + self.choosy * part(same);
        (self.tuning.scarcity * scarce).min(MOST_OPENING)
    }
}

/// The most that usual claims can pay for each amount left of one GPU, after their CPU is paid.
fn worth(prices: &Prices, model: ModelId, gpu_memory: Mebibytes) -> Worth {
    let mut worth = [[0.0_f64; STEPS + 1]; CORES.len()];
    for (core, table) in CORES.iter().zip(&mut worth) {
        for size in 1..=STEPS {
            let mut best = table[size - 1];
            for (kind, price) in prices.kinds() {
                let own = prices::steps(&kind.claim, gpu_memory);
                if kind.claim.gpus == 1 && own > 0 && own <= size && kind.claim.models.contains(model) {
                    best = best.max(price - core * kind.claim.cpu.cores() + table[size - own]);
                }
            }
            table[size] = best;
        }
    }
    worth
}
