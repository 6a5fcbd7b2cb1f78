//! The plan: for every GPU the layout it has, the layout it will have, and what stays. It leaves no choice open.

use crate::layout::{InstanceLayout, Layout};
use crate::{GpuState, GpuTarget, Target};
use carve_gpu_host::GpuProcess;
use carve_gpu_model::{GpuIndex, GpuUuid, Placed, ProfileTable};
use carve_planner::{Flaw, Recut, RecutError, recut, verify};
use std::collections::BTreeMap;
use thiserror::Error;

/// A change of MIG mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModeChange {
    /// Off to on.
    Enable,
    /// On to off.
    Disable,
}

/// What happens to one GPU.
#[derive(Debug, Clone)]
pub struct GpuPlan {
    /// The GPU.
    pub gpu: GpuIndex,
    /// Its identity, under which the journal knows it.
    pub uuid: GpuUuid,
    /// Its name, for people.
    pub name: String,
    /// What it offers.
    pub table: ProfileTable,
    /// Change of mode, if any.
    pub mode: Option<ModeChange>,
    /// The layout it has.
    pub before: Layout,
    /// The layout it will have.
    pub after: Layout,
    /// What stays, goes and comes.
    pub recut: Recut,
}

impl GpuPlan {
    /// Whether the GPU is as it should be.
    pub fn is_empty(&self) -> bool {
        self.mode.is_none() && self.recut.is_empty()
    }
}

/// What happens to all GPUs that a config names.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// By GPU, those without a change included.
    pub gpus: Vec<GpuPlan>,
    /// GPUs passed over because they have no MIG.
    pub skipped: Vec<GpuIndex>,
}

impl Plan {
    /// Whether every GPU is as it should be.
    pub fn is_empty(&self) -> bool {
        self.gpus.iter().all(GpuPlan::is_empty)
    }

    /// Whether a MIG mode changes.
    pub fn changes_a_mode(&self) -> bool {
        self.gpus.iter().any(|plan| plan.mode.is_some())
    }

    /// Whether an instance changes.
    pub fn changes_an_instance(&self) -> bool {
        self.gpus.iter().any(|plan| !plan.recut.is_empty())
    }
}

/// Why a target can not be reached from here.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    /// An instance in use is in the way, or the instances do not fit.
    #[error("GPU {gpu} ({name}): {reason}{}", Users(.users))]
    Blocked {
        /// The GPU.
        gpu: GpuIndex,
        /// What it is called.
        name: String,
        /// What is in the way.
        reason: RecutError,
        /// Processes that hold it.
        users: Vec<u32>,
    },
    /// MIG mode can not change under running processes.
    #[error("GPU {gpu} ({name}): MIG mode can not change while it is in use{}", Users(.users))]
    ModeInUse {
        /// The GPU.
        gpu: GpuIndex,
        /// What it is called.
        name: String,
        /// Processes that hold it.
        users: Vec<u32>,
    },
    /// A layout names a GPU that is not here.
    #[error("the checkpoint names {uuid}, which is not on this machine")]
    NoSuchGpu {
        /// Its identity.
        uuid: GpuUuid,
    },
    /// A layout that the GPU can not have.
    #[error("GPU {gpu} ({name}): the saved layout is not possible on this GPU: {reason}")]
    Impossible {
        /// The GPU.
        gpu: GpuIndex,
        /// What it is called.
        name: String,
        /// Why not.
        reason: String,
    },
    /// The plan contradicts itself; nothing is touched.
    #[error(
        "GPU {gpu}: the plan did not pass its own check ({flaw}); nothing was changed, please report this"
    )]
    Flawed {
        /// The GPU.
        gpu: GpuIndex,
        /// What the checker found.
        flaw: Flaw,
    },
}

struct Users<'a>(&'a [u32]);

impl std::fmt::Display for Users<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        let pids: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        write!(f, "; stop process {} first", pids.join(", "))
    }
}

/// The way from what is here to a target. With `mode_only` instances are only removed where a mode change needs it.
pub fn plan(target: &Target, gpus: &[GpuState], mode_only: bool) -> Result<Plan, Vec<PlanError>> {
    let mut plan = Plan { gpus: Vec::new(), skipped: target.skipped.clone() };
    let mut errors = Vec::new();
    for (_, planned) in plan_each(target, gpus, mode_only) {
        match planned {
            Ok(gpu) => plan.gpus.push(gpu),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(plan) } else { Err(errors) }
}

/// The way of each GPU that a target names, or why it has none.
pub(crate) fn plan_each(
    target: &Target,
    gpus: &[GpuState],
    mode_only: bool,
) -> Vec<(GpuIndex, Result<GpuPlan, PlanError>)> {
    let named = gpus.iter().filter_map(|state| Some((target.gpus.get(&state.gpu.index)?, state)));
    named.map(|(wanted, state)| (state.gpu.index, plan_gpu(wanted, state, mode_only))).collect()
}

pub(crate) fn plan_gpu(wanted: &GpuTarget, state: &GpuState, mode_only: bool) -> Result<GpuPlan, PlanError> {
    let enable = matches!(wanted, GpuTarget::Enabled { .. });
    let none = Vec::new();
    let instances = match wanted {
        GpuTarget::Enabled { instances, .. } if !mode_only => instances,
        GpuTarget::Enabled { .. } | GpuTarget::Disabled => &none,
    };
    let table = table(state)?;
    let keeps_all = mode_only && enable == state.mig_enabled();
    let diff = if keeps_all { Recut::default() } else { diff(&table, state, instances)? };
    let mode = mode_change(state, enable)?;
    let before = Layout::of(state);
    let after = if keeps_all { before.clone() } else { after(&table, state, &diff, enable) };
    Ok(GpuPlan {
        gpu: state.gpu.index,
        uuid: state.gpu.uuid.clone(),
        name: state.gpu.name.clone(),
        table,
        mode,
        before,
        after,
        recut: diff,
    })
}

fn table(state: &GpuState) -> Result<ProfileTable, PlanError> {
    state.table.clone().ok_or_else(|| PlanError::Impossible {
        gpu: state.gpu.index,
        name: state.gpu.name.clone(),
        reason: "it has no MIG, or does not answer".to_owned(),
    })
}

fn diff(
    table: &ProfileTable,
    state: &GpuState,
    instances: &[carve_planner::WantedInstance],
) -> Result<Recut, PlanError> {
    let gpu = state.gpu.index;
    let diff = recut(table, &state.instances, instances).map_err(|reason| {
        let users = match &reason {
            RecutError::InUse { id, .. } => {
                pids(&state.processes, |process| process.gpu_instance == Some(*id))
            }
            RecutError::Infeasible(_) => Vec::new(),
        };
        PlanError::Blocked { gpu, name: state.gpu.name.clone(), reason, users }
    })?;
    verify(table, &state.instances, instances, &diff).map_err(|flaw| PlanError::Flawed { gpu, flaw })?;
    Ok(diff)
}

/// A mode change is only possible on a GPU that nobody uses.
fn mode_change(state: &GpuState, enable: bool) -> Result<Option<ModeChange>, PlanError> {
    if state.mig_enabled() == enable && state.mode.is_none_or(|mode| mode.pending == enable) {
        return Ok(None);
    }
    if !state.processes.is_empty() {
        return Err(PlanError::ModeInUse {
            gpu: state.gpu.index,
            name: state.gpu.name.clone(),
            users: pids(&state.processes, |_| true),
        });
    }
    Ok(Some(if enable { ModeChange::Enable } else { ModeChange::Disable }))
}

fn pids(processes: &[GpuProcess], of: impl Fn(&GpuProcess) -> bool) -> Vec<u32> {
    let mut pids: Vec<u32> =
        processes.iter().filter(|process| of(process)).map(|process| process.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// The layout that the diff leads to.
fn after(table: &ProfileTable, state: &GpuState, diff: &Recut, enable: bool) -> Layout {
    let layout = |placed: Placed, mut compute: Vec<u8>| {
        compute.sort_unstable_by_key(|slices| std::cmp::Reverse(*slices));
        Some(InstanceLayout {
            profile: table.get(placed.profile)?.index,
            placement: table.placement(placed)?,
            compute,
        })
    };
    let kept = diff.keep.iter().filter_map(|kept| {
        let instance = state.instances.iter().find(|instance| instance.id == kept.id)?;
        let stays =
            instance.compute.iter().filter(|part| !kept.destroy.contains(&part.id)).map(|part| part.slices);
        layout(kept.placed, stays.chain(kept.create.iter().copied()).collect())
    });
    let made = diff.create.iter().filter_map(|created| layout(created.placed, created.compute.clone()));
    let mut instances: Vec<InstanceLayout> = kept.chain(made).collect();
    instances.sort();
    Layout { mig_enabled: enable, instances }
}

/// The way to layouts that were saved before, slot by slot.
pub fn plan_layouts(
    layouts: &BTreeMap<GpuUuid, Layout>,
    gpus: &[GpuState],
    mode_only: bool,
) -> Result<Plan, Vec<PlanError>> {
    let mut plan = Plan::default();
    let mut errors = Vec::new();
    for (uuid, layout) in layouts {
        let planned = match gpus.iter().find(|state| state.gpu.uuid == *uuid) {
            None => Err(PlanError::NoSuchGpu { uuid: uuid.clone() }),
            Some(state) => plan_layout(layout, state, mode_only),
        };
        match planned {
            Ok(gpu) => plan.gpus.push(gpu),
            Err(error) => errors.push(error),
        }
    }
    plan.gpus.sort_by_key(|gpu| gpu.gpu);
    if errors.is_empty() { Ok(plan) } else { Err(errors) }
}

fn plan_layout(layout: &Layout, state: &GpuState, mode_only: bool) -> Result<GpuPlan, PlanError> {
    let (gpu, name) = (state.gpu.index, state.gpu.name.clone());
    let impossible = |reason: String| PlanError::Impossible { gpu, name: name.clone(), reason };
    let table = table(state)?;
    let keeps_all = mode_only && layout.mig_enabled == state.mig_enabled();
    let mut goal: Vec<(Placed, Vec<u8>)> = Vec::new();
    for instance in layout.instances.iter().filter(|_| layout.mig_enabled && !mode_only) {
        let (profile, known) = table
            .by_index(instance.profile)
            .ok_or_else(|| impossible(format!("it has no profile with NVML index {}", instance.profile.0)))?;
        if !known.placements.contains(&instance.placement) {
            return Err(impossible(format!("{} can not sit at slots {}", known.name, instance.placement)));
        }
        let offered: Vec<u8> = table.compute_profiles(known).iter().map(|offer| offer.slices).collect();
        let sum: u32 = instance.compute.iter().map(|slices| u32::from(*slices)).sum();
        if sum > u32::from(known.slices) || instance.compute.iter().any(|slices| !offered.contains(slices)) {
            return Err(impossible(format!("{} can not be divided into {:?}", known.name, instance.compute)));
        }
        goal.push((Placed { profile, start: instance.placement.start }, instance.compute.clone()));
    }
    let places: Vec<Placed> = goal.iter().map(|(placed, _)| *placed).collect();
    table.check(&places).map_err(|illegal| impossible(illegal.to_string()))?;
    let diff = if keeps_all { Recut::default() } else { exact(&table, state, goal)? };
    let mode = mode_change(state, layout.mig_enabled)?;
    let before = Layout::of(state);
    let after = if keeps_all { before.clone() } else { after(&table, state, &diff, layout.mig_enabled) };
    Ok(GpuPlan {
        gpu,
        uuid: state.gpu.uuid.clone(),
        name: name.clone(),
        table,
        mode,
        before,
        after,
        recut: diff,
    })
}

/// The diff to instances at given places.
fn exact(table: &ProfileTable, state: &GpuState, goal: Vec<(Placed, Vec<u8>)>) -> Result<Recut, PlanError> {
    let mut diff = Recut::default();
    let mut missing = goal;
    for instance in &state.instances {
        let wanted = missing.iter().position(|(placed, _)| *placed == instance.placed);
        let division = wanted.map(|position| missing.remove(position).1);
        let kept = division.map(|division| carve_planner::keep_as(instance, &division));
        let loses = |kept: &carve_planner::Kept| {
            instance.compute.iter().any(|part| part.in_use && kept.destroy.contains(&part.id))
        };
        if kept.as_ref().map_or(instance.in_use(), loses) {
            let profile = table.get(instance.placed.profile).map(|profile| profile.name.clone());
            let id = instance.id;
            return Err(PlanError::Blocked {
                gpu: state.gpu.index,
                name: state.gpu.name.clone(),
                reason: RecutError::InUse {
                    profile: profile.unwrap_or_else(|| carve_gpu_model::ProfileName::whole(0, 0, None)),
                    start: instance.placed.start,
                    id,
                },
                users: pids(&state.processes, |process| process.gpu_instance == Some(id)),
            });
        }
        match kept {
            Some(kept) => diff.keep.push(kept),
            None => diff.destroy.push(instance.clone()),
        }
    }
    diff.create =
        missing.into_iter().map(|(placed, compute)| carve_planner::Created { placed, compute }).collect();
    Ok(diff)
}
