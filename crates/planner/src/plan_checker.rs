//! A second opinion on a plan for many GPUs, which shares nothing with the planner but the legality function.

use crate::{ClaimName, Demand, FleetGpu, GpuAt, MigMode, Plan, Substitution, Wants};
use carve_gpu_model::{Geometry, GpuInstanceId, Illegal, Placed};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// What is wrong with a plan.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanFlaw {
    /// The plan is about other GPUs than there are.
    #[error("the plan and the fleet differ about {0}")]
    WrongGpus(GpuAt),
    /// An instance is neither kept nor destroyed, or both, or is not there.
    #[error("instance {instance} of {on} is not accounted for exactly once")]
    Unaccounted {
        /// The GPU.
        on: GpuAt,
        /// The instance.
        instance: GpuInstanceId,
    },
    /// An instance that is in use or held by a running claim would go or be divided anew.
    #[error("instance {instance} of {on} is in use, and the plan touches it")]
    TouchesInUse {
        /// The GPU.
        on: GpuAt,
        /// The instance.
        instance: GpuInstanceId,
    },
    /// A GPU that is in use as a whole would be cut.
    #[error("{0} is in use as a whole, and the plan cuts it")]
    CutsWholeInUse(GpuAt),
    /// A GPU is cut without MIG mode.
    #[error("the plan makes instances on {0} without switching MIG mode on")]
    WithoutMode(GpuAt),
    /// The GPU would refuse the result.
    #[error("what {on} would hold is not legal")]
    Illegal {
        /// The GPU.
        on: GpuAt,
        /// Why.
        #[source]
        why: Illegal,
    },
    /// The geometry that is told is not the one that results.
    #[error("{0} does not become what the plan says")]
    WrongGeometry(GpuAt),
    /// A claim is both or neither served and told to wait, or is not known.
    #[error("claim '{0}' is not answered exactly once")]
    Unanswered(ClaimName),
    /// A claim is given an instance that will not be there, or that is not the one it names.
    #[error("claim '{0}' is given an instance that will not be there")]
    NoInstance(ClaimName),
    /// A claim is given an instance that somebody else has.
    #[error("claim '{0}' is given an instance that is in use or promised to another claim")]
    Shared(ClaimName),
    /// A claim is given an instance that is not what it asks for.
    #[error("claim '{0}' is given an instance that does not serve it")]
    Unsuitable(ClaimName),
    /// The figures are not those of the plan.
    #[error(
        "the plan says {said} instances are destroyed and destroys {counted}, or serves more than it says is possible"
    )]
    WrongFigures {
        /// What it says.
        said: u64,
        /// What it does.
        counted: u64,
    },
}

/// What a GPU holds after the plan: place, how it is divided, which instance it was, whether somebody uses it.
struct After {
    placed: Placed,
    division: Vec<u8>,
    was: Option<GpuInstanceId>,
    taken: bool,
}

/// Whether a plan does what it says to these GPUs, touches nothing in use, and gives every served claim an instance of its own.
pub fn check_plan(gpus: &[FleetGpu], demand: &Demand, plan: &Plan) -> Result<(), PlanFlaw> {
    let listed: BTreeSet<&GpuAt> = gpus.iter().map(|gpu| &gpu.at).collect();
    if let Some(other) = plan.gpus.keys().find(|at| !listed.contains(at)) {
        return Err(PlanFlaw::WrongGpus(other.clone()));
    }
    let mut results: BTreeMap<&GpuAt, (&FleetGpu, Vec<After>)> = BTreeMap::new();
    let mut destroyed = 0;
    for gpu in gpus {
        let after = result(gpu, demand, plan)?;
        destroyed +=
            gpu.instances.len() as u64 - after.iter().filter(|after| after.was.is_some()).count() as u64;
        results.insert(&gpu.at, (gpu, after));
    }
    let pending: BTreeSet<&ClaimName> = demand.pending.iter().map(|claim| &claim.name).collect();
    if let Some(name) = plan.served.keys().chain(plan.waiting.keys()).find(|name| !pending.contains(name)) {
        return Err(PlanFlaw::Unanswered(name.clone()));
    }
    for claim in &demand.pending {
        let name = &claim.name;
        let served = match (plan.served.get(name), plan.waiting.contains_key(name)) {
            (Some(served), false) => served,
            (None, true) => continue,
            _ => return Err(PlanFlaw::Unanswered(name.clone())),
        };
        let missing = || PlanFlaw::NoInstance(name.clone());
        let (gpu, after) = results.get_mut(&served.on).ok_or_else(missing)?;
        let instance = after.iter_mut().find(|after| after.placed == served.placed).ok_or_else(missing)?;
        if instance.was != served.existing {
            return Err(missing());
        }
        if std::mem::replace(&mut instance.taken, true) {
            return Err(PlanFlaw::Shared(name.clone()));
        }
        let profile = gpu.table.get(instance.placed.profile).ok_or_else(missing)?;
        let larger = demand.substitution == Substitution::Larger;
        let wanted = match &claim.wants {
            Wants::Profile(wanted) => Some(wanted),
            Wants::InPools(wanted) => wanted.get(&gpu.pool),
            Wants::AtLeast { .. } => None,
        };
        let suitable = match (&claim.wants, wanted) {
            (Wants::AtLeast { memory, slices }, _) => {
                profile.slices >= *slices && profile.memory.is_some_and(|known| known.value >= *memory)
            }
            (_, None) => false,
            (_, Some(wanted)) => {
                *wanted == profile.name
                    || larger
                        && wanted.is_whole()
                        && gpu.table.by_name(wanted).is_ok_and(|(_, asked)| {
                            let pairs = asked.engines.each().into_iter().zip(profile.engines.each());
                            let engines = pairs.into_iter().all(|(asked, has)| asked.1 <= has.1);
                            let gfx = |text: String| text.contains("gfx");
                            let graphics = !gfx(asked.name.to_string()) || gfx(profile.name.to_string());
                            engines
                                && graphics
                                && asked.slices <= profile.slices
                                && asked.size() <= profile.size()
                        })
            }
        };
        if !suitable || served.profile != profile.name || instance.division != [profile.slices] {
            return Err(PlanFlaw::Unsuitable(name.clone()));
        }
    }
    let said = plan.quality.destroyed;
    if said != destroyed || plan.served.len() as u64 > plan.quality.serves_at_most {
        return Err(PlanFlaw::WrongFigures { said, counted: destroyed });
    }
    Ok(())
}

/// What one GPU holds after the plan.
fn result(gpu: &FleetGpu, demand: &Demand, plan: &Plan) -> Result<Vec<After>, PlanFlaw> {
    let change = plan.gpus.get(&gpu.at).ok_or_else(|| PlanFlaw::WrongGpus(gpu.at.clone()))?;
    let recut = &change.recut;
    let mut after = Vec::new();
    for instance in &gpu.instances {
        let kept: Vec<_> = recut.keep.iter().filter(|kept| kept.id == instance.id).collect();
        let gone = recut.destroy.iter().filter(|gone| gone.id == instance.id).count();
        let held = demand.running.iter().any(|claim| claim.on == gpu.at && claim.instance == instance.id);
        let taken = held || instance.compute.iter().any(|part| part.in_use);
        let touched = PlanFlaw::TouchesInUse { on: gpu.at.clone(), instance: instance.id };
        match kept[..] {
            [] if gone == 1 && taken => return Err(touched),
            [] if gone == 1 => {}
            [kept] if gone == 0 && kept.placed == instance.placed => {
                if taken && (!kept.destroy.is_empty() || !kept.create.is_empty()) {
                    return Err(touched);
                }
                let stay = instance.compute.iter().filter(|part| !kept.destroy.contains(&part.id));
                let division = stay.map(|part| part.slices).chain(kept.create.iter().copied()).collect();
                after.push(After { placed: instance.placed, division, was: Some(instance.id), taken });
            }
            _ => return Err(PlanFlaw::Unaccounted { on: gpu.at.clone(), instance: instance.id }),
        }
    }
    let known = |id: &GpuInstanceId| gpu.instances.iter().any(|instance| instance.id == *id);
    let named = recut.keep.iter().map(|kept| kept.id).chain(recut.destroy.iter().map(|gone| gone.id));
    if let Some(instance) = named.into_iter().find(|id| !known(id)) {
        return Err(PlanFlaw::Unaccounted { on: gpu.at.clone(), instance });
    }
    if !recut.create.is_empty() {
        match gpu.mode {
            MigMode::OffAndInUse => return Err(PlanFlaw::CutsWholeInUse(gpu.at.clone())),
            MigMode::Off if !change.switch_mode_on => return Err(PlanFlaw::WithoutMode(gpu.at.clone())),
            MigMode::Off | MigMode::On => {}
        }
    } else if change.switch_mode_on && gpu.mode == MigMode::OffAndInUse {
        return Err(PlanFlaw::CutsWholeInUse(gpu.at.clone()));
    }
    after.extend(recut.create.iter().map(|created| After {
        placed: created.placed,
        division: created.compute.clone(),
        was: None,
        taken: false,
    }));
    let places: Vec<Placed> = after.iter().map(|after| after.placed).collect();
    gpu.table.check(&places).map_err(|why| PlanFlaw::Illegal { on: gpu.at.clone(), why })?;
    if Geometry::of(&gpu.table, &places) != change.geometry {
        return Err(PlanFlaw::WrongGeometry(gpu.at.clone()));
    }
    Ok(after)
}
