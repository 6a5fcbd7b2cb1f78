//! What one GPU can become: for every set of claims it could serve, the best way to cut it.

use super::MigMode;
use super::alike::GpuKind;
use super::suits::Profiles;
use carve_gpu_model::{Placed, ProfileTable, SlotMask};
use std::collections::{BTreeMap, HashMap};

/// What is compared, the most important first: claims served, instances destroyed (less is more), room, GPUs switched to MIG mode
/// (less is more), GPUs touched (less is more). The worth of a plan is the sum over its GPUs.
pub(super) type Worth = [i64; 5];

pub(super) fn add(one: Worth, other: Worth) -> Worth {
    std::array::from_fn(|place| one[place] + other[place])
}

/// One way to cut a GPU.
#[derive(Debug, Clone)]
pub(super) struct Cut {
    /// Instances that serve claims, existing or not.
    pub(super) serving: Vec<Placed>,
    /// Instances that nobody uses and that stay all the same.
    pub(super) spare: Vec<Placed>,
    worth: Worth,
}

/// One way to cut a GPU and to hand out what is cut.
#[derive(Debug)]
pub(super) struct Choice {
    /// How many claims of each kind are served.
    pub(super) served: Box<[u32]>,
    pub(super) worth: Worth,
    /// Position in [`Cuts::cuts`].
    pub(super) cut: usize,
    /// Profile, kind of claim, how many.
    pub(super) handed: Vec<(u8, u32, u32)>,
}

/// Everything one kind of GPU can become.
#[derive(Debug)]
pub(super) struct Cuts {
    pub(super) cuts: Vec<Cut>,
    pub(super) choices: Vec<Choice>,
}

/// How much can still be made beside some instances: for every profile, the memory slots that instances of it alone could take.
///
/// A place that keeps a large profile possible counts for that profile and for the small ones inside it, so the more ways there are
/// to use what is left, the more room there is. Fragmentation is the room that an arrangement loses.
pub fn room(table: &ProfileTable, held: &[Placed]) -> u32 {
    let mut taken = SlotMask::EMPTY;
    let mut slices = table.compute_slices();
    let mut engines = table.engines().each().map(|(_, number)| number);
    for placed in held {
        let (Some(profile), Some(placement)) = (table.get(placed.profile), table.placement(*placed)) else {
            continue;
        };
        taken = taken.union(placement.mask());
        slices = slices.saturating_sub(profile.slices);
        for (left, (_, used)) in engines.iter_mut().zip(profile.engines.each()) {
            *left = left.saturating_sub(used);
        }
    }
    let mut sum = 0;
    for (slot, profile) in table.enumerate() {
        let present = held.iter().filter(|placed| placed.profile == slot).count();
        let mut most = usize::from(profile.max_instances).saturating_sub(present) as u32;
        most = most.min(slices.checked_div(profile.slices).map_or(most, u32::from));
        for (left, (_, needs)) in engines.iter().zip(profile.engines.each()) {
            most = most.min(left.checked_div(needs).map_or(most, u32::from));
        }
        // Places of one profile have one size, so taking the lowest free one again and again finds the most.
        let (mut fit, mut from) = (0, 0);
        for placement in &profile.placements {
            if fit < most && u16::from(placement.start) >= from && !taken.overlaps(placement.mask()) {
                fit += 1;
                from = placement.end();
            }
        }
        sum += fit * u32::from(profile.size());
    }
    sum
}

impl Cuts {
    /// Everything a GPU can become when so many claims of each kind wait.
    pub(super) fn of(kind: &GpuKind, waiting: &[u32]) -> Cuts {
        let cuts = best_cuts(kind);
        let mut found: HashMap<Box<[u32]>, usize> = HashMap::new();
        let mut choices: Vec<Choice> = Vec::new();
        for (position, (counts, cut)) in cuts.iter().enumerate() {
            let mut served = vec![0; waiting.len()];
            hand_out(kind, waiting, counts, 0, 0, &mut served, &mut Vec::new(), &mut |served, handed| {
                let choice = Choice {
                    served: served.into(),
                    worth: cut.worth,
                    cut: position,
                    handed: handed.to_vec(),
                };
                match found.get(served) {
                    Some(known) if choices[*known].worth >= choice.worth => {}
                    Some(known) => choices[*known] = choice,
                    None => {
                        found.insert(served.into(), choices.len());
                        choices.push(choice);
                    }
                }
            });
        }
        Cuts { cuts: cuts.into_iter().map(|(_, cut)| cut).collect(), choices }
    }
}

/// For every number of serving instances of each profile, the best cut.
fn best_cuts(kind: &GpuKind) -> Vec<(Vec<u8>, Cut)> {
    let table = &kind.table;
    let wanted = kind.serves.iter().fold(Profiles::default(), |sum, profiles| sum.union(*profiles));
    let mut best: BTreeMap<Vec<u8>, Cut> = BTreeMap::new();
    let mut counts = vec![0u8; table.profiles().len()];
    table.visit_states(|state| {
        if kind.mode == MigMode::OffAndInUse && !state.is_empty() {
            return;
        }
        let serves = |placed: &&Placed| !kind.pinned.contains(placed);
        let serving = state.iter().filter(serves).count();
        if serving + kind.pinned.len() != state.len()
            || state.iter().filter(serves).any(|placed| !wanted.has(usize::from(placed.profile.0)))
        {
            return;
        }
        let spare = spare(table, state, &kind.idle);
        let kept = spare.len() + kind.idle.iter().filter(|placed| state.contains(placed)).count();
        let destroyed = kind.idle.len() - kept;
        let made = serving - kind.idle.iter().filter(|placed| state.contains(placed)).count();
        let switched = kind.mode == MigMode::Off && serving > 0;
        let worth: Worth = [
            serving as i64,
            -(destroyed as i64),
            i64::from(room(table, state)),
            -i64::from(switched),
            -i64::from(destroyed + made > 0),
        ];
        counts.fill(0);
        for placed in state.iter().filter(serves) {
            counts[usize::from(placed.profile.0)] += 1;
        }
        if best.get(&counts).is_none_or(|known| known.worth < worth) {
            let serving = state.iter().filter(serves).copied().collect();
            best.insert(counts.clone(), Cut { serving, spare, worth });
        }
    });
    best.into_iter().collect()
}

/// The most instances nobody uses that can stay beside a state, in which some of them may serve.
fn spare(table: &ProfileTable, state: &[Placed], idle: &[Placed]) -> Vec<Placed> {
    let mut beside = state.to_vec();
    let mut fits = |others: &[Placed]| {
        beside.truncate(state.len());
        beside.extend_from_slice(others);
        table.check(&beside).is_ok()
    };
    let alone: Vec<Placed> =
        idle.iter().filter(|placed| !state.contains(placed) && fits(&[**placed])).copied().collect();
    if fits(&alone) {
        return alone;
    }
    // Each fits alone but not all together: slices or engines run out. There are at most a dozen.
    let subsets = 0u32..1 << alone.len().min(16);
    let mut best: Vec<Placed> = Vec::new();
    for subset in subsets.filter(|subset| subset.count_ones() > 0) {
        if subset.count_ones() as usize > best.len() {
            let chosen: Vec<Placed> =
                (0..alone.len()).filter(|bit| subset & (1 << bit) != 0).map(|bit| alone[bit]).collect();
            if fits(&chosen) {
                best = chosen;
            }
        }
    }
    best
}

/// Calls `each` for every way to hand out instances (so many of each profile, from `profile` on) to kinds of claims (from `from` on).
#[allow(clippy::too_many_arguments, reason = "the state of a recursion, not an interface")]
fn hand_out(
    kind: &GpuKind,
    waiting: &[u32],
    counts: &[u8],
    profile: usize,
    from: usize,
    served: &mut [u32],
    handed: &mut Vec<(u8, u32, u32)>,
    each: &mut impl FnMut(&[u32], &[(u8, u32, u32)]),
) {
    let Some(count) = counts.get(profile) else { return each(served, handed) };
    let given: u32 =
        handed.iter().filter(|(known, ..)| usize::from(*known) == profile).map(|(.., number)| number).sum();
    let left = u32::from(*count) - given;
    if left == 0 {
        return hand_out(kind, waiting, counts, profile + 1, 0, served, handed, each);
    }
    for claims in (from..waiting.len()).filter(|claims| kind.serves[*claims].has(profile)) {
        for number in 1..=left.min(waiting[claims] - served[claims]) {
            served[claims] += number;
            handed.push((profile as u8, claims as u32, number));
            hand_out(kind, waiting, counts, profile, claims + 1, served, handed, each);
            handed.pop();
            served[claims] -= number;
        }
    }
}
