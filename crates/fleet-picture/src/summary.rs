//! A picture in a few numbers.

use crate::{GpuPicture, GpuState, Mechanism, Picture};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an hour costs, and what becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Money {
    /// Dollars of an hour, all machines whose price is known.
    pub per_hour: f64,
    /// Of these for what is used.
    pub used: f64,
    /// For what somebody holds and does not use.
    pub held_idle: f64,
    /// For what nobody has.
    pub idle: f64,
    /// For what nobody can have.
    pub withheld: f64,
}

/// A picture in a few numbers.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Seconds since 1970.
    pub at: i64,
    /// Machines.
    pub nodes: usize,
    /// GPUs.
    pub gpus: usize,
    /// GPUs of which somebody has something.
    pub gpus_held: usize,
    /// GPUs that nobody can have.
    pub gpus_withheld: usize,
    /// What containers have.
    pub slices: usize,
    /// Pods that wait.
    pub waiting: usize,
    /// Part of all GPU time that was given away.
    pub given: f64,
    /// Part of all GPU time that is used.
    pub used: f64,
    /// Part of all memory that is used.
    pub memory_used: f64,
    /// What it costs.
    pub money: Money,
}

/// Parts of a GPU that are given away and used.
fn parts(gpu: &GpuPicture) -> (f64, f64) {
    if gpu.slices.is_empty() {
        return (0.0, 0.0);
    }
    // Who takes turns was promised nothing, and together they have all of it.
    let all = gpu.slices.iter().any(|slice| {
        matches!(slice.mechanism, Mechanism::Exclusive | Mechanism::TimeSlicing) && slice.instance.is_none()
    });
    let memory = gpu.memory.max(1) as f64;
    let weight = |slice: &crate::Slice| {
        let of_memory = slice.memory.map_or(0.0, |promised| promised as f64 / memory);
        slice.compute.unwrap_or(0.0).max(of_memory)
    };
    let mut seen = Vec::new();
    let mut given = 0.0;
    for slice in &gpu.slices {
        match &slice.instance {
            // A MIG device is given away as a whole, however many share it.
            Some(instance) if seen.contains(&instance) => {}
            Some(instance) => {
                seen.push(instance);
                let size = gpu.instances.iter().find(|one| one.uuid == *instance).map_or(0, |one| one.size);
                given += f64::from(size) / f64::from(gpu.slots.unwrap_or(8).max(1));
            }
            None => given += weight(slice),
        }
    }
    let given = if all { 1.0 } else { given.min(1.0) };
    let used: f64 = gpu.slices.iter().filter_map(|slice| slice.compute_used).sum();
    (given, used.min(given))
}

impl Picture {
    /// The picture in a few numbers.
    pub fn summary(&self) -> Summary {
        let mut sum = Summary {
            at: self.at,
            nodes: self.nodes.len(),
            waiting: self.waiting.len(),
            ..Summary::default()
        };
        let (mut memory, mut memory_used) = (0_u64, 0_u64);
        for node in self.nodes.values() {
            let price = node.dollars_per_hour.unwrap_or(0.0) / node.gpus.len().max(1) as f64;
            for gpu in &node.gpus {
                sum.gpus += 1;
                sum.slices += gpu.slices.len();
                sum.gpus_held += usize::from(!gpu.slices.is_empty());
                memory += gpu.memory;
                memory_used += gpu.memory_used;
                let (given, used) = parts(gpu);
                sum.given += given;
                sum.used += used;
                sum.money.per_hour += price;
                sum.money.used += price * used;
                sum.money.held_idle += price * (given - used);
                let rest = price * (1.0 - given);
                if matches!(gpu.state, GpuState::Sick | GpuState::Lost) || !node.ready {
                    sum.gpus_withheld += 1;
                    sum.money.withheld += rest;
                } else {
                    sum.money.idle += rest;
                }
            }
        }
        let gpus = sum.gpus.max(1) as f64;
        sum.given /= gpus;
        sum.used /= gpus;
        sum.memory_used = memory_used as f64 / memory.max(1) as f64;
        sum
    }
}

#[cfg(test)]
mod tests {
    use crate::{GpuPicture, GpuState, Instance, Mechanism, NodePicture, Picture, Slice};

    fn slice(mechanism: Mechanism, compute: Option<f64>, used: f64) -> Slice {
        Slice { mechanism, compute, compute_used: Some(used), ..Slice::default() }
    }

    fn gpu(slices: Vec<Slice>) -> GpuPicture {
        GpuPicture { memory: 40_960, slices, ..GpuPicture::default() }
    }

    #[test]
    fn the_money_sums_up_to_the_price() {
        let whole = gpu(vec![slice(Mechanism::Exclusive, Some(1.0), 0.5)]);
        let turns =
            gpu(vec![slice(Mechanism::TimeSlicing, None, 0.25), slice(Mechanism::TimeSlicing, None, 0.25)]);
        let parts = gpu(vec![
            slice(Mechanism::Limiter, Some(0.25), 0.25),
            slice(Mechanism::Limiter, Some(0.25), 0.0),
        ]);
        let mut mig = gpu(vec![Slice {
            instance: Some("MIG-1".to_owned()),
            ..slice(Mechanism::Mig, Some(0.5), 0.125)
        }]);
        (mig.slots, mig.instances) =
            (Some(8), vec![Instance { uuid: "MIG-1".to_owned(), size: 4, ..Instance::default() }]);
        let lost = GpuPicture { state: GpuState::Lost, ..gpu(Vec::new()) };
        let gpus = vec![whole, turns, parts, mig, gpu(Vec::new()), lost];
        let node = NodePicture { dollars_per_hour: Some(6.0), ready: true, gpus, ..NodePicture::default() };
        let sum = Picture { nodes: [("a".to_owned(), node)].into(), ..Picture::default() }.summary();
        let money = sum.money;
        assert_eq!((sum.gpus, sum.gpus_held, sum.gpus_withheld, sum.slices), (6, 4, 1, 6));
        assert_eq!((money.used, money.held_idle, money.idle, money.withheld), (1.375, 1.625, 2.0, 1.0));
        assert!((money.per_hour - 6.0).abs() < 1e-9);
    }
}
