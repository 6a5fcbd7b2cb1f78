//! The diff from what a GPU holds to what it should hold, keeping as many instances as possible where they are.
//!
//! A GPU holds at most a dozen instances, so every choice of what to keep can be tried: the answer is the optimum,
//! not an approximation, and a test holds it against exhaustive search.

use crate::WantedInstance;
use crate::feasibility::{Infeasible, counts, explain, feasible};
use carve_gpu_model::{ComputeInstanceId, GpuInstanceId, Placed, ProfileName, ProfileTable};
use std::cmp::Reverse;
use thiserror::Error;

/// A compute instance that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PresentCompute {
    /// The driver's id.
    pub id: ComputeInstanceId,
    /// Its compute slices.
    pub slices: u8,
    /// Whether a process runs in it.
    pub in_use: bool,
}

/// A GPU instance that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresentInstance {
    /// The driver's id.
    pub id: GpuInstanceId,
    /// Profile and place.
    pub placed: Placed,
    /// Its compute instances.
    pub compute: Vec<PresentCompute>,
}

impl PresentInstance {
    /// Whether a process runs in it.
    pub fn in_use(&self) -> bool {
        self.compute.iter().any(|compute| compute.in_use)
    }

    /// Slices of its compute instances, large to small.
    pub fn division(&self) -> Vec<u8> {
        let mut slices: Vec<u8> = self.compute.iter().map(|compute| compute.slices).collect();
        slices.sort_unstable_by_key(|slices| Reverse(*slices));
        slices
    }
}

/// An instance that stays where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The driver's id.
    pub id: GpuInstanceId,
    /// Profile and place.
    pub placed: Placed,
    /// Compute instances to destroy in it.
    pub destroy: Vec<ComputeInstanceId>,
    /// Slices of compute instances to create in it.
    pub create: Vec<u8>,
}

impl Kept {
    /// Whether nothing at all happens to it.
    pub fn is_untouched(&self) -> bool {
        self.destroy.is_empty() && self.create.is_empty()
    }
}

/// An instance to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// Profile and place.
    pub placed: Placed,
    /// Slices of its compute instances.
    pub compute: Vec<u8>,
}

/// What has to change on one GPU. Destroying comes first, then creating, each in any order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recut {
    /// Instances that stay.
    pub keep: Vec<Kept>,
    /// Instances that go.
    pub destroy: Vec<PresentInstance>,
    /// Instances to be made.
    pub create: Vec<Created>,
}

impl Recut {
    /// Whether the GPU is as it should be.
    pub fn is_empty(&self) -> bool {
        self.destroy.is_empty() && self.create.is_empty() && self.keep.iter().all(Kept::is_untouched)
    }
}

/// Why there is no diff.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecutError {
    /// The GPU can not hold the target, empty or not.
    #[error(transparent)]
    Infeasible(#[from] Infeasible),
    /// The target has no room for an instance that is in use.
    #[error("{profile} at slot {start} is in use, and the target leaves no room for it")]
    InUse {
        /// Profile of the instance that can not go.
        profile: ProfileName,
        /// Its first slot.
        start: u8,
        /// The driver's id.
        id: GpuInstanceId,
    },
}

/// The diff that keeps the most: untouched instances first, then instances at all, then slots.
pub fn recut(
    table: &ProfileTable,
    present: &[PresentInstance],
    target: &[WantedInstance],
) -> Result<Recut, RecutError> {
    feasible(table, target)?;
    let mut choices: Vec<Choice> = (0u32..1 << present.len().min(20))
        .filter_map(|chosen| Choice::of(table, present, target, chosen))
        .collect();
    choices.sort_by_key(|choice| Reverse(choice.worth));
    choices
        .iter()
        .find_map(|choice| choice.complete(table, present, target))
        .ok_or_else(|| blocked(table, present, target))
}

/// A choice of instances to keep, each with the wanted instance it becomes.
struct Choice {
    /// Position in `present`, position in `target`.
    pairs: Vec<(usize, usize)>,
    worth: (usize, usize, u32, Reverse<u32>),
}

impl Choice {
    /// The best way to keep exactly the chosen instances, if every one is wanted and nothing in use is left out.
    fn of(
        table: &ProfileTable,
        present: &[PresentInstance],
        target: &[WantedInstance],
        chosen: u32,
    ) -> Option<Self> {
        let is_chosen = |position: usize| chosen & (1 << position) != 0;
        if present.iter().enumerate().any(|(position, instance)| instance.in_use() && !is_chosen(position)) {
            return None;
        }
        let keep: Vec<usize> = (0..present.len()).filter(|position| is_chosen(*position)).collect();
        let mut best: Option<(usize, Vec<(usize, usize)>)> = None;
        assign(present, target, &keep, &mut Vec::new(), &mut vec![false; target.len()], &mut best);
        let (untouched, pairs) = best?;
        let slots = keep.iter().filter_map(|position| table.placement(present[*position].placed));
        let slots = slots.map(|placement| u32::from(placement.size)).sum();
        Some(Choice { worth: (untouched, keep.len(), slots, Reverse(chosen)), pairs })
    }

    /// The whole diff, if the rest of the target fits around what is kept.
    fn complete(
        &self,
        table: &ProfileTable,
        present: &[PresentInstance],
        target: &[WantedInstance],
    ) -> Option<Recut> {
        let kept: Vec<Placed> = self.pairs.iter().map(|(position, _)| present[*position].placed).collect();
        let rest: Vec<&WantedInstance> = (0..target.len())
            .filter(|wanted| !self.pairs.iter().any(|(_, used)| used == wanted))
            .map(|wanted| &target[wanted])
            .collect();
        let rest_counts = counts(table, &rest.iter().map(|wanted| (*wanted).clone()).collect::<Vec<_>>());
        let places = most_open(table, &kept, &rest_counts)?;
        let mut create = Vec::new();
        let mut rest = rest;
        for placed in places {
            let position = rest.iter().position(|wanted| wanted.profile == placed.profile)?;
            create.push(Created { placed, compute: rest.remove(position).compute.clone() });
        }
        create.sort_by_key(|created| created.placed.start);
        let keep = self
            .pairs
            .iter()
            .map(|(position, wanted)| keep_as(&present[*position], &target[*wanted].compute));
        let gone = |position: &usize| !self.pairs.iter().any(|(kept, _)| kept == position);
        Some(Recut {
            keep: keep.collect(),
            destroy: (0..present.len()).filter(gone).map(|position| present[position].clone()).collect(),
            create,
        })
    }
}

/// Tries every way to pair kept instances with wanted ones of their profile; like wanted ones are tried once.
fn assign(
    present: &[PresentInstance],
    target: &[WantedInstance],
    keep: &[usize],
    pairs: &mut Vec<(usize, usize)>,
    used: &mut [bool],
    best: &mut Option<(usize, Vec<(usize, usize)>)>,
) {
    let Some(position) = keep.get(pairs.len()).copied() else {
        let equal = |(present_at, target_at): &&(usize, usize)| {
            present[*present_at].division() == target[*target_at].compute
        };
        let untouched = pairs.iter().filter(equal).count();
        if best.as_ref().is_none_or(|(most, _)| untouched > *most) {
            *best = Some((untouched, pairs.clone()));
        }
        return;
    };
    let instance = &present[position];
    let mut tried: Vec<&[u8]> = Vec::new();
    for wanted in 0..target.len() {
        let division = target[wanted].compute.as_slice();
        let fits = target[wanted].profile == instance.placed.profile
            && !used[wanted]
            && !tried.contains(&division)
            && holds_what_is_used(instance, division);
        if fits {
            tried.push(division);
            used[wanted] = true;
            pairs.push((position, wanted));
            assign(present, target, keep, pairs, used, best);
            pairs.pop();
            used[wanted] = false;
        }
    }
}

/// Whether a division has a place for every compute instance that is in use.
fn holds_what_is_used(instance: &PresentInstance, division: &[u8]) -> bool {
    let mut free = division.to_vec();
    instance.compute.iter().filter(|compute| compute.in_use).all(|compute| take(&mut free, compute.slices))
}

fn take(free: &mut Vec<u8>, slices: u8) -> bool {
    match free.iter().position(|known| *known == slices) {
        Some(position) => {
            free.remove(position);
            true
        }
        None => false,
    }
}

/// How an instance that stays gets another division: what fits stays, what is in use takes its place first.
pub fn keep_as(instance: &PresentInstance, division: &[u8]) -> Kept {
    let mut create = division.to_vec();
    let mut destroy = Vec::new();
    let mut compute = instance.compute.clone();
    compute.sort_by_key(|compute| (!compute.in_use, compute.id));
    for part in compute {
        if !take(&mut create, part.slices) {
            destroy.push(part.id);
        }
    }
    Kept { id: instance.id, placed: instance.placed, destroy, create }
}

/// Of all ways to place the rest, the one that leaves the most (profile, start) pairs open for later.
fn most_open(table: &ProfileTable, kept: &[Placed], counts: &[u32]) -> Option<Vec<Placed>> {
    let mut best: Option<(usize, Vec<Placed>)> = None;
    table.visit_arrangements(kept, counts, |places| {
        let all: Vec<Placed> = kept.iter().chain(places).copied().collect();
        let open = table.enumerate().map(|(profile, _)| table.open_starts(&all, profile).len()).sum();
        if best.as_ref().is_none_or(|(most, _)| open > *most) {
            best = Some((open, places.to_vec()));
        }
        true
    });
    best.map(|(_, places)| places)
}

/// Which instance in use stands in the way: the first one without which a diff exists, else the first one.
fn blocked(table: &ProfileTable, present: &[PresentInstance], target: &[WantedInstance]) -> RecutError {
    let idle = |instance: &PresentInstance| PresentInstance {
        compute: instance.compute.iter().map(|part| PresentCompute { in_use: false, ..*part }).collect(),
        ..instance.clone()
    };
    let used = || present.iter().enumerate().filter(|(_, instance)| instance.in_use());
    let culprit = used().find(|(position, _)| {
        let mut without = present.to_vec();
        without[*position] = idle(&without[*position]);
        let all: u32 = (1 << without.len().min(20)) - 1;
        (0..=all)
            .filter_map(|chosen| Choice::of(table, &without, target, chosen))
            .any(|choice| choice.complete(table, &without, target).is_some())
    });
    let name = |placed: Placed| table.get(placed.profile).map(|profile| profile.name.clone());
    match culprit.or_else(|| used().next()).and_then(|(_, instance)| Some((instance, name(instance.placed)?)))
    {
        Some((instance, profile)) => {
            RecutError::InUse { profile, start: instance.placed.start, id: instance.id }
        }
        // Can not be: a feasible target is blocked by nothing but instances in use.
        None => RecutError::Infeasible(explain(table, &counts(table, target))),
    }
}
