//! Every plan for one or two GPUs: all legal states, and in each all sets of instances that could serve.

use crate::cases::{Case, matching, pinned_and_idle, serves, states};
use carve_gpu_model::{Placed, ProfileTable};
use carve_planner::{FleetGpu, MigMode, Plan};
use std::collections::BTreeMap;

/// Served, destroyed (negative), room, switched (negative), touched (negative).
type Worth = [i64; 5];

/// What can still be made, with the exact search of the model.
pub(crate) fn room_by_search(table: &ProfileTable, held: &[Placed]) -> i64 {
    let of = |(slot, profile): (_, &carve_gpu_model::GpuProfile)| {
        table.remaining(held, slot) * u32::from(profile.size())
    };
    table.enumerate().map(|(slot, profile)| i64::from(of((slot, profile)))).sum()
}

fn legal_states(table: &ProfileTable) -> &'static [Vec<Placed>] {
    let same = crate::PRODUCTS.into_iter().map(states).find(|(known, _)| ***known == *table);
    same.unwrap().1
}

/// For every multiset of serving instances the best worth.
fn choices(gpu: &FleetGpu, case: &Case) -> BTreeMap<Vec<u8>, Worth> {
    let (pinned, idle) = pinned_and_idle(gpu, &case.demand);
    let mut best: BTreeMap<Vec<u8>, Worth> = BTreeMap::new();
    let mut rooms: BTreeMap<Vec<Placed>, i64> = BTreeMap::new();
    let wanted = |placed: &Placed| {
        let profile = usize::from(placed.profile.0);
        case.demand
            .pending
            .iter()
            .any(|claim| serves(&gpu.table, profile, &claim.wants, case.demand.substitution))
    };
    for state in legal_states(&gpu.table) {
        if !pinned.iter().all(|placed| state.contains(placed))
            || gpu.mode == MigMode::OffAndInUse && !state.is_empty()
        {
            continue;
        }
        let free: Vec<Placed> = state.iter().filter(|placed| !pinned.contains(placed)).copied().collect();
        let kept = idle.iter().filter(|placed| state.contains(placed)).count();
        let destroyed = idle.len() - kept;
        let made = free.len() - kept;
        for subset in 0u32..1 << free.len() {
            let serving = |bit: usize| subset & (1 << bit) != 0;
            let allowed = (0..free.len()).all(|bit| {
                // What is made serves; what serves is wanted.
                if serving(bit) { wanted(&free[bit]) } else { idle.contains(&free[bit]) }
            });
            if !allowed {
                continue;
            }
            let mut held = pinned.clone();
            held.extend((0..free.len()).filter(|bit| serving(*bit)).map(|bit| free[bit]));
            held.sort_unstable();
            let mut counts = vec![0u8; gpu.table.profiles().len()];
            for bit in (0..free.len()).filter(|bit| serving(*bit)) {
                counts[usize::from(free[bit].profile.0)] += 1;
            }
            let room = *rooms.entry(held).or_insert_with_key(|held| room_by_search(&gpu.table, held));
            let worth = [
                i64::from(subset.count_ones()),
                -(destroyed as i64),
                room,
                -i64::from(gpu.mode == MigMode::Off && subset != 0),
                -i64::from(destroyed + made > 0),
            ];
            let known = best.entry(counts).or_insert(worth);
            *known = (*known).max(worth);
        }
    }
    best
}

/// The best worth of all plans.
pub(crate) fn optimum(case: &Case) -> Worth {
    let claims = &case.demand.pending;
    let served_by = |gpu: &FleetGpu, profile: usize| -> Vec<usize> {
        let fits =
            |claim: &usize| serves(&gpu.table, profile, &claims[*claim].wants, case.demand.substitution);
        (0..claims.len()).filter(fits).collect()
    };
    let edges: Vec<Vec<Vec<usize>>> = case
        .gpus
        .iter()
        .map(|gpu| (0..gpu.table.profiles().len()).map(|profile| served_by(gpu, profile)).collect())
        .collect();
    let choices: Vec<Vec<(Vec<u8>, Worth)>> =
        case.gpus.iter().map(|gpu| self::choices(gpu, case).into_iter().collect()).collect();
    let nothing = vec![(Vec::new(), [0; 5])];
    let second = choices.get(1).unwrap_or(&nothing);
    let mut best = [i64::MIN; 5];
    for (one, worth_of_one) in &choices[0] {
        for (other, worth_of_other) in second {
            let worth: Worth = std::array::from_fn(|place| worth_of_one[place] + worth_of_other[place]);
            if worth <= best || worth[0] as usize > claims.len() {
                continue;
            }
            let mut instances: Vec<&[usize]> = Vec::new();
            for (gpu, counts) in [one, other].into_iter().enumerate() {
                for (profile, count) in counts.iter().enumerate() {
                    instances.extend((0..*count).map(|_| edges[gpu][profile].as_slice()));
                }
            }
            if matching(&instances, claims.len()) == instances.len() {
                best = worth;
            }
        }
    }
    best
}

/// What a plan is worth, counted from its steps.
pub(crate) fn worth(case: &Case, plan: &Plan) -> Worth {
    let mut worth = [plan.served.len() as i64, 0, 0, 0, 0];
    for gpu in &case.gpus {
        let change = &plan.gpus[&gpu.at];
        let (mut held, _) = pinned_and_idle(gpu, &case.demand);
        held.extend(plan.served.values().filter(|served| served.on == gpu.at).map(|served| served.placed));
        worth[1] -= change.recut.destroy.len() as i64;
        worth[2] += room_by_search(&gpu.table, &held);
        worth[3] -= i64::from(change.switch_mode_on);
        worth[4] -= i64::from(!change.recut.destroy.is_empty() || !change.recut.create.is_empty());
    }
    worth
}
