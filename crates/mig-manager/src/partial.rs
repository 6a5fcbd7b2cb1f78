//! Apply GPU by GPU: one that is busy, lost or refuses does not keep the others from being recut.
//!
//! [`crate::apply()`] is all or nothing over the machine. Here each GPU is all or nothing by itself: it has a journal,
//! a check and a way back of its own. GPUs whose MIG mode changes are tried together first, because boards that are
//! linked may only be resettable together, and one by one if that fails.

use crate::apply::{Opened, between_hooks, change_saved, open, save};
use crate::plan::plan_each;
use crate::target::resolve_each;
use crate::{
    ApplyError, ApplyOptions, GpuPlan, GpuState, HookRunner, Layout, Plan, PlanError, Progress, Recovered,
    Refusal, StateDir, Target, inventory,
};
use carve_formats::mig_parted::ConfigEntry;
use carve_gpu_host::GpuHost;
use carve_gpu_model::GpuIndex;
use carve_planner::RecutError;
use std::collections::BTreeMap;
use std::fmt;

/// What came of one GPU.
#[derive(Debug)]
pub enum Outcome {
    /// It was as it should be.
    Unchanged,
    /// It is as it should be now.
    Done,
    /// Nothing was changed: programs are in the way, or there is no way.
    Blocked(PlanError),
    /// Nothing was changed: it does not answer.
    Unreachable(Refusal),
    /// Nothing was changed: it is no longer what the plan was made for.
    Stale,
    /// A step failed. The error says what holds now.
    Failed(ApplyError),
    /// Nothing was changed: a GPU before it could not be brought back, and its journal must be dealt with first.
    NotTried {
        /// That GPU.
        behind: GpuIndex,
    },
}

impl Outcome {
    /// Whether the GPU is as it should be.
    pub fn is_right(&self) -> bool {
        matches!(self, Outcome::Unchanged | Outcome::Done)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Unchanged => f.write_str("already as it should be"),
            Outcome::Done => f.write_str("done"),
            Outcome::Blocked(error) => write!(f, "not changed: {error}"),
            Outcome::Unreachable(refusal) => write!(f, "not changed: {refusal}"),
            Outcome::Stale => {
                f.write_str("not changed: its layout is not the one the plan was made for; plan again")
            }
            Outcome::Failed(error) => write!(f, "failed: {error}"),
            Outcome::NotTried { behind } => {
                write!(f, "not changed: GPU {behind} has to be brought to an end first; apply again then")
            }
        }
    }
}

/// What came of every GPU that a config names.
#[derive(Debug)]
pub struct PartlyApplied {
    /// What came of an earlier, interrupted run.
    pub recovered: Recovered,
    /// By GPU.
    pub gpus: BTreeMap<GpuIndex, Outcome>,
    /// GPUs passed over because they have no MIG.
    pub skipped: Vec<GpuIndex>,
}

impl PartlyApplied {
    /// Whether every GPU is as it should be.
    pub fn is_complete(&self) -> bool {
        self.gpus.values().all(Outcome::is_right)
    }
}

/// Makes each GPU what the entries of a config say, or leaves that GPU as it is.
///
/// A config that makes no sense here is still refused as a whole: half a mistake helps nobody.
pub fn apply_partial(
    host: &mut dyn GpuHost,
    state_dir: &StateDir,
    (config, entries): (&str, &[ConfigEntry]),
    options: ApplyOptions,
    hooks: &HookRunner,
    progress: &mut dyn Progress,
) -> Result<PartlyApplied, ApplyError> {
    let Opened { _lock, recovered, gpus } = open(host, state_dir, progress)?;
    let (target, refusals) = resolve_each(config, entries, &gpus);
    let mut lost = BTreeMap::new();
    let mut refused = Vec::new();
    for refusal in refusals {
        match &refusal {
            Refusal::Unreachable { gpu, .. } => _ = lost.insert(*gpu, Outcome::Unreachable(refusal)),
            _ => refused.push(refusal),
        }
    }
    if !refused.is_empty() {
        return Err(ApplyError::Refused(refused));
    }
    let mut outcomes = between_hooks(hooks, progress, |progress| {
        apply_each(host, state_dir, config, &target, gpus, options, hooks, progress)
    })?;
    outcomes.extend(lost);
    Ok(PartlyApplied { recovered, gpus: outcomes, skipped: target.skipped })
}

#[allow(clippy::too_many_arguments, reason = "the one place where all parts of a change meet")]
fn apply_each(
    host: &mut dyn GpuHost,
    state_dir: &StateDir,
    label: &str,
    target: &Target,
    mut gpus: Vec<GpuState>,
    options: ApplyOptions,
    hooks: &HookRunner,
    progress: &mut dyn Progress,
) -> Result<BTreeMap<GpuIndex, Outcome>, ApplyError> {
    let mut planned = plan_each(target, &gpus, options.mode_only);
    if !hooks.is_empty() {
        // A GPU that is blocked now may be free after the hooks have stopped what is in the way.
        let any = |of: fn(&GpuPlan) -> bool| planned.iter().any(|(_, plan)| plan.as_ref().map_or(true, of));
        let mode = any(|plan| plan.mode.is_some());
        let config = any(|plan| !plan.recut.is_empty());
        if mode {
            hooks.run("pre-apply-mode", progress)?;
        }
        if config && !options.mode_only {
            hooks.run("pre-apply-config", progress)?;
        }
        if mode || config {
            gpus = inventory(host).map_err(ApplyError::Read)?;
            planned = plan_each(target, &gpus, options.mode_only);
        }
    }
    let mut outcomes = BTreeMap::new();
    let mut plans = Vec::new();
    for (gpu, plan) in planned {
        match plan {
            Ok(plan) => plans.push(plan),
            Err(error) => _ = outcomes.insert(gpu, Outcome::Blocked(error)),
        }
    }
    carry_out_each(host, state_dir, label, &gpus, plans, options, progress, &mut outcomes)?;
    Ok(outcomes)
}

/// Carries out a plan that was made before, GPU by GPU, exactly as it says; a GPU for which it no longer holds is left
/// alone. For those who told others what the plan touches and must not touch anything else.
pub fn apply_plan(
    host: &mut dyn GpuHost,
    state_dir: &StateDir,
    (label, plan): (&str, &Plan),
    options: ApplyOptions,
    progress: &mut dyn Progress,
) -> Result<PartlyApplied, ApplyError> {
    let Opened { _lock, recovered, gpus } = open(host, state_dir, progress)?;
    let mut outcomes = BTreeMap::new();
    let mut plans = Vec::new();
    for planned in &plan.gpus {
        let state = gpus.iter().find(|state| state.gpu.uuid == planned.uuid);
        match state.map_or(Err(Outcome::Stale), |state| still_holds(planned, state)) {
            Ok(()) => plans.push(planned.clone()),
            Err(outcome) => _ = outcomes.insert(planned.gpu, outcome),
        }
    }
    carry_out_each(host, state_dir, label, &gpus, plans, options, progress, &mut outcomes)?;
    Ok(PartlyApplied { recovered, gpus: outcomes, skipped: plan.skipped.clone() })
}

/// Whether a plan can be carried out on the GPU as it is now.
fn still_holds(planned: &GpuPlan, state: &GpuState) -> Result<(), Outcome> {
    // The driver may have given an index or an instance id to something else since.
    let known = |id| state.instances.iter().find(|instance| instance.id == id);
    let (keep, destroy) = (&planned.recut.keep, &planned.recut.destroy);
    let same = state.gpu.index == planned.gpu
        && state.table.as_ref() == Some(&planned.table)
        && Layout::of(state) == planned.before
        && keep.iter().all(|kept| {
            let part = |id| known(kept.id).is_some_and(|now| now.compute.iter().any(|part| part.id == id));
            known(kept.id).is_some_and(|now| now.placed == kept.placed)
                && kept.destroy.iter().all(|id| part(*id))
        })
        && destroy.iter().all(|gone| {
            let ids = |instance: &carve_planner::PresentInstance| -> Vec<_> {
                instance.compute.iter().map(|part| part.id).collect()
            };
            known(gone.id).is_some_and(|now| now.placed == gone.placed && ids(now) == ids(gone))
        });
    if !same {
        return Err(Outcome::Stale);
    }
    let (gpu, name) = (planned.gpu, planned.name.clone());
    let users = |of: &dyn Fn(&carve_gpu_host::GpuProcess) -> bool| -> Vec<u32> {
        let mut pids: Vec<u32> =
            state.processes.iter().filter(|process| of(process)).map(|process| process.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    };
    if planned.mode.is_some() && !state.processes.is_empty() {
        let users = users(&|_| true);
        return Err(Outcome::Blocked(PlanError::ModeInUse { gpu, name, users }));
    }
    let in_use = state.instances.iter().find(|instance| {
        let goes = destroy.iter().any(|gone| gone.id == instance.id);
        let parts = keep.iter().filter(|kept| kept.id == instance.id).flat_map(|kept| &kept.destroy);
        let parts: Vec<_> = parts.collect();
        instance.compute.iter().any(|part| part.in_use && (goes || parts.contains(&&part.id)))
    });
    let Some(instance) = in_use else { return Ok(()) };
    let profile = planned.table.get(instance.placed.profile).map(|profile| profile.name.clone());
    let reason = RecutError::InUse {
        profile: profile.ok_or(Outcome::Stale)?,
        start: instance.placed.start,
        id: instance.id,
    };
    let users = users(&|process| process.gpu_instance == Some(instance.id));
    Err(Outcome::Blocked(PlanError::Blocked { gpu, name, reason, users }))
}

#[allow(clippy::too_many_arguments, reason = "the one place where all parts of a change meet")]
fn carry_out_each(
    host: &mut dyn GpuHost,
    state_dir: &StateDir,
    label: &str,
    gpus: &[GpuState],
    plans: Vec<GpuPlan>,
    options: ApplyOptions,
    progress: &mut dyn Progress,
    outcomes: &mut BTreeMap<GpuIndex, Outcome>,
) -> Result<(), ApplyError> {
    let (right, wrong): (Vec<GpuPlan>, Vec<GpuPlan>) = plans.into_iter().partition(GpuPlan::is_empty);
    outcomes.extend(right.iter().map(|plan| (plan.gpu, Outcome::Unchanged)));
    if wrong.is_empty() {
        return Ok(());
    }
    // Once, before the first change: a checkpoint between two GPUs would be of a layout that nobody wanted.
    let answering: Vec<GpuState> = gpus.iter().filter(|state| state.trouble.is_none()).cloned().collect();
    save(state_dir, &answering)?;
    let (modes, mut singly): (Vec<GpuPlan>, Vec<GpuPlan>) =
        wrong.into_iter().partition(|plan| plan.mode.is_some());
    let mut stuck = None;
    let together = Plan { gpus: modes, skipped: Vec::new() };
    match together.gpus.first().map(|plan| plan.gpu) {
        Some(first) if together.gpus.len() > 1 => {
            match change_saved(host, state_dir, label, &together, options, progress) {
                Ok(()) => outcomes.extend(together.gpus.iter().map(|plan| (plan.gpu, Outcome::Done))),
                // All of them are back where they were, so each gets its own chance.
                Err(ApplyError::RolledBack { .. }) => singly.extend(together.gpus),
                Err(error) => {
                    let rest =
                        together.gpus.iter().map(|plan| (plan.gpu, Outcome::NotTried { behind: first }));
                    outcomes.extend(rest);
                    outcomes.insert(first, Outcome::Failed(error));
                    stuck = Some(first);
                }
            }
        }
        _ => singly.extend(together.gpus),
    }
    singly.sort_by_key(|plan| plan.gpu);
    for plan in singly {
        let gpu = plan.gpu;
        let outcome = match stuck {
            Some(behind) => Outcome::NotTried { behind },
            None => {
                let alone = Plan { gpus: vec![plan], skipped: Vec::new() };
                match change_saved(host, state_dir, label, &alone, options, progress) {
                    Ok(()) => Outcome::Done,
                    Err(error @ ApplyError::RolledBack { .. }) => Outcome::Failed(error),
                    Err(error) => {
                        // Its journal stays, or can not be kept: another one must not be written over it.
                        stuck = Some(gpu);
                        Outcome::Failed(error)
                    }
                }
            }
        };
        outcomes.insert(gpu, outcome);
    }
    Ok(())
}
