//! What a plan costs, against the same pods on whole GPUs.

use crate::plan::Draft;
use carve_economics::{Hours, InstanceType, Money, PriceList, fleet_cost};
use carve_formats::workloads::Workload;
use thiserror::Error;

/// Machines and money with whole GPUs and by the plan, for the pods that have a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cost {
    /// How long.
    pub hours: Hours,
    /// Machines of each type with whole GPUs, and by the plan.
    pub machines: Vec<(&'static InstanceType, u32, u32)>,
    /// With a whole GPU for every request.
    pub before: Money,
    /// By the plan, machines that stay empty not counted.
    pub after: Money,
    /// The price lists.
    pub lists: Vec<PriceList>,
}

impl Cost {
    /// What the plan saves, as the two printed sums differ.
    pub fn saved(&self) -> Money {
        self.before - self.after
    }
}

/// A machine of the plan has no price.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no price is known for {machine}; cost is told for types of the price list, such as g5.2xlarge")]
pub struct NoCost {
    /// The machine.
    pub machine: String,
}

/// A pod as it would be with whole GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Whole {
    gpus: u32,
    cpu: u64,
    memory: u64,
}

pub(crate) fn cost(draft: &Draft<'_>, workloads: &[Workload], hours: Hours) -> Result<Cost, NoCost> {
    let mut machines = Vec::new();
    let mut lists: Vec<PriceList> = Vec::new();
    for (index, pool) in draft.pools.iter().enumerate() {
        let used = draft.nodes.iter().filter(|node| node.pool == index && node.pods > 0).count() as u32;
        if used == 0 {
            continue;
        }
        let listed = pool.machine.listed.filter(|listed| listed.price.is_some());
        let listed = listed.ok_or_else(|| NoCost { machine: pool.machine.name.clone() })?;
        let capacity = Whole {
            gpus: u32::from(pool.machine.gpus),
            cpu: pool.machine.cpu_milli.unwrap_or(u64::MAX),
            memory: pool.machine.memory.map_or(u64::MAX, |memory| memory.0),
        };
        let mut pods: Vec<(Whole, u32)> = Vec::new();
        for planned in draft.workloads.values() {
            let Some(workload) = workloads.get(planned.workload) else { continue };
            let here = planned.landings.iter().filter(|landing| draft.nodes[landing.node].pool == index);
            let asked: u32 = workload.pod.gpus.iter().map(|ask| ask.count).sum();
            let whole = Whole {
                gpus: asked.min(capacity.gpus),
                cpu: workload.pod.cpu_milli,
                memory: workload.pod.memory.0,
            };
            pods.push((whole, here.map(|landing| landing.pods).sum()));
        }
        machines.push((listed, needed(&mut pods, capacity), used));
        let list = listed.provider.price_list();
        if !lists.contains(&list) {
            lists.push(list);
        }
    }
    let sum = |column: fn(&(&'static InstanceType, u32, u32)) -> u32| {
        fleet_cost(machines.iter().map(|row| (row.0, column(row))), hours)
            .map_err(|machine| NoCost { machine: machine.name.to_owned() })
    };
    Ok(Cost {
        hours,
        before: sum(|row| row.1)?.rounded(),
        after: sum(|row| row.2)?.rounded(),
        machines,
        lists,
    })
}

/// Machines for pods with whole GPUs: the largest first, each on the first machine with room.
fn needed(pods: &mut [(Whole, u32)], capacity: Whole) -> u32 {
    pods.sort_by(|left, right| right.cmp(left));
    let mut machines: Vec<Whole> = Vec::new();
    for (pod, count) in pods.iter() {
        // Pods of one kind go on where the last of them found room.
        let mut from = 0;
        for _ in 0..*count {
            let fits =
                |left: &Whole| left.gpus >= pod.gpus && left.cpu >= pod.cpu && left.memory >= pod.memory;
            let place = machines.iter().skip(from).position(fits).map(|place| place + from);
            let place = place.unwrap_or_else(|| {
                machines.push(capacity);
                machines.len() - 1
            });
            from = place;
            if let Some(left) = machines.get_mut(place) {
                left.gpus = left.gpus.saturating_sub(pod.gpus);
                left.cpu = left.cpu.saturating_sub(pod.cpu);
                left.memory = left.memory.saturating_sub(pod.memory);
            }
        }
    }
    machines.len() as u32
}

#[cfg(test)]
mod tests {
    use super::{Whole, needed};

    #[test]
    fn machines_are_filled_by_gpus_and_by_cpu() {
        let capacity = Whole { gpus: 8, cpu: 96_000, memory: 1 << 20 };
        let pod = |gpus, cpu| Whole { gpus, cpu, memory: 0 };
        assert_eq!(needed(&mut [(pod(1, 0), 56)], capacity), 7);
        assert_eq!(needed(&mut [(pod(1, 0), 57)], capacity), 8);
        assert_eq!(needed(&mut [(pod(4, 0), 2), (pod(8, 0), 1)], capacity), 2);
        assert_eq!(needed(&mut [(pod(1, 48_000), 4)], capacity), 2);
        assert_eq!(needed(&mut [(pod(1, 0), 0)], capacity), 0);
    }
}
