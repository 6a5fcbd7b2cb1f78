//! From what is asked and what there is to a plan that leaves no choice open.

use super::alike::{Alike, GpuKind, group, is_pinned};
use super::cuts::{Cut, Cuts};
use super::search::search;
use super::{
    ClaimName, Demand, Effort, FleetGpu, Generation, GpuAt, GpuPlan, MigMode, Plan, PlanError, Quality,
    Served, WaitsFor,
};
use crate::{Created, Kept, Recut, keep_as};
use carve_gpu_model::{Geometry, GpuInstanceId, Placed, ProfileName};
use std::collections::{BTreeMap, BTreeSet};

/// For each instance that a running claim holds, the claim.
type Held<'a> = BTreeMap<(&'a GpuAt, GpuInstanceId), &'a ClaimName>;

/// The next geometry of every GPU.
///
/// The order of `gpus` decides among equals: what comes first is filled first.
pub fn plan(
    gpus: &[FleetGpu],
    demand: &Demand,
    generation: Generation,
    effort: Effort,
) -> Result<Plan, PlanError> {
    let held = validate(gpus, demand)?;
    let alike = group(gpus, demand, &held);
    let waiting = alike.waiting();
    let cuts: Vec<Cuts> = alike.gpus.iter().map(|kind| Cuts::of(kind, &waiting)).collect();
    let found = search(&waiting, &cuts, &alike.kind_of, effort.states);
    let [served, destroyed, room, ..] = found.worth;
    let serves_at_most = if found.exhaustive { served } else { found.at_most };
    let mut plan = Plan {
        generation,
        gpus: BTreeMap::new(),
        served: BTreeMap::new(),
        waiting: BTreeMap::new(),
        quality: Quality {
            serves_at_most: serves_at_most.max(0) as u64,
            exhaustive: found.exhaustive,
            destroyed: (-destroyed).max(0) as u64,
            room: room.max(0) as u64,
        },
    };
    let mut next: Vec<usize> = vec![0; alike.claims.len()];
    for ((gpu, kind), choice) in gpus.iter().zip(&alike.kind_of).zip(&found.choices) {
        let choice = &cuts[*kind].choices[*choice];
        let cut = &cuts[*kind].cuts[choice.cut];
        let mut free = cut.serving.clone();
        for (profile, claims, number) in &choice.handed {
            for _ in 0..*number {
                let at = free.iter().position(|placed| placed.profile.0 == *profile);
                let claim = alike.claims[*claims as usize].claims.get(next[*claims as usize]);
                let (Some(at), Some(claim)) = (at, claim) else { continue };
                next[*claims as usize] += 1;
                let served = serve(gpu, free.remove(at), &held);
                plan.served.insert(demand.pending[*claim].name.clone(), served);
            }
        }
        plan.gpus.insert(gpu.at.clone(), change(gpu, cut, &held));
    }
    for (kind, claims) in alike.claims.iter().enumerate() {
        let why = waits_for(&alike, kind);
        for claim in &claims.claims[next[kind]..] {
            let why = why.clone();
            plan.waiting.insert(demand.pending[*claim].name.clone(), why);
        }
    }
    for claim in &alike.hopeless {
        let claim = &demand.pending[*claim];
        plan.waiting
            .insert(claim.name.clone(), WaitsFor::AnotherGpu { nearest: nearest(gpus, &claim.wants) });
    }
    Ok(plan)
}

pub(super) fn validate<'a>(gpus: &'a [FleetGpu], demand: &'a Demand) -> Result<Held<'a>, PlanError> {
    let mut places = BTreeMap::new();
    for gpu in gpus {
        if places.insert(&gpu.at, gpu).is_some() {
            return Err(PlanError::GpuTwice(gpu.at.clone()));
        }
        if gpu.mode != MigMode::On && !gpu.instances.is_empty() {
            return Err(PlanError::InstancesWithoutMode(gpu.at.clone()));
        }
        let state: Vec<Placed> = gpu.instances.iter().map(|instance| instance.placed).collect();
        let impossible = |why| PlanError::ImpossibleState { on: gpu.at.clone(), why };
        gpu.table.check(&state).map_err(impossible)?;
    }
    let mut names = BTreeSet::new();
    let all = demand.pending.iter().map(|claim| &claim.name);
    for name in all.chain(demand.running.iter().map(|claim| &claim.name)) {
        if !names.insert(name) {
            return Err(PlanError::ClaimTwice(name.clone()));
        }
    }
    let mut held: Held<'a> = BTreeMap::new();
    for claim in &demand.running {
        let holds = |gpu: &&FleetGpu| gpu.instances.iter().any(|instance| instance.id == claim.instance);
        if places.get(&claim.on).copied().filter(holds).is_none() {
            return Err(PlanError::NoSuchInstance {
                claim: claim.name.clone(),
                on: claim.on.clone(),
                instance: claim.instance,
            });
        }
        if let Some(first) = held.insert((&claim.on, claim.instance), &claim.name) {
            return Err(PlanError::HeldTwice {
                first: first.clone(),
                second: claim.name.clone(),
                on: claim.on.clone(),
            });
        }
    }
    Ok(held)
}

fn serve(gpu: &FleetGpu, placed: Placed, held: &Held<'_>) -> Served {
    let existing =
        gpu.instances.iter().find(|instance| instance.placed == placed && !is_pinned(gpu, instance, held));
    Served {
        on: gpu.at.clone(),
        placed,
        profile: profile_name(gpu, placed),
        existing: existing.map(|instance| instance.id),
    }
}

fn profile_name(gpu: &FleetGpu, placed: Placed) -> ProfileName {
    let nameless = || ProfileName::whole(0, 0, None);
    gpu.table.get(placed.profile).map_or_else(nameless, |profile| profile.name.clone())
}

/// The steps that make a GPU what the cut says.
fn change(gpu: &FleetGpu, cut: &Cut, held: &Held<'_>) -> GpuPlan {
    let mut recut = Recut::default();
    let whole = |placed: Placed| gpu.table.get(placed.profile).map_or(0, |profile| profile.slices);
    for instance in &gpu.instances {
        let untouched =
            Kept { id: instance.id, placed: instance.placed, destroy: Vec::new(), create: Vec::new() };
        if is_pinned(gpu, instance, held) || cut.spare.contains(&instance.placed) {
            recut.keep.push(untouched);
        } else if cut.serving.contains(&instance.placed) {
            // A claim gets the whole instance, however it was divided before.
            recut.keep.push(keep_as(instance, &[whole(instance.placed)]));
        } else {
            recut.destroy.push(instance.clone());
        }
    }
    let exists = |placed: &Placed| gpu.instances.iter().any(|instance| instance.placed == *placed);
    let created = cut.serving.iter().filter(|placed| !exists(placed));
    recut.create = created.map(|placed| Created { placed: *placed, compute: vec![whole(*placed)] }).collect();
    recut.create.sort_by_key(|created| created.placed.start);
    let places: Vec<Placed> = recut
        .keep
        .iter()
        .map(|kept| kept.placed)
        .chain(recut.create.iter().map(|created| created.placed))
        .collect();
    GpuPlan {
        switch_mode_on: gpu.mode == MigMode::Off && !recut.create.is_empty(),
        geometry: Geometry::of(&gpu.table, &places),
        recut,
    }
}

/// Why claims of a kind go on waiting.
fn waits_for(alike: &Alike, kind: usize) -> WaitsFor {
    let suits = |gpu: &&GpuKind| !gpu.serves[kind].is_empty();
    let has_room = |gpu: &&GpuKind| {
        gpu.mode != MigMode::OffAndInUse
            && gpu.table.enumerate().any(|(slot, _)| {
                gpu.serves[kind].has(usize::from(slot.0))
                    && !gpu.table.open_starts(&gpu.pinned, slot).is_empty()
            })
    };
    let gpus = || alike.kind_of.iter().map(|kind| &alike.gpus[*kind]).filter(suits);
    match gpus().filter(has_room).count() {
        0 => WaitsFor::InstancesInUse { gpus: gpus().count() },
        gpus => WaitsFor::OtherClaims { gpus },
    }
}

/// The profile that comes nearest to what no GPU has.
fn nearest(gpus: &[FleetGpu], wants: &super::Wants) -> Option<ProfileName> {
    match wants {
        super::Wants::Profile(name) => gpus.iter().find_map(|gpu| gpu.table.by_name(name).err()?.nearest),
        super::Wants::InPools(names) => gpus.iter().find_map(|gpu| {
            let name = names.get(&gpu.pool)?;
            gpu.table.by_name(name).err()?.nearest
        }),
        super::Wants::AtLeast { .. } => {
            let largest = gpus.iter().flat_map(|gpu| gpu.table.profiles());
            largest
                .max_by_key(|profile| (profile.memory.map(|known| known.value.0), profile.slices))
                .map(|profile| profile.name.clone())
        }
    }
}
