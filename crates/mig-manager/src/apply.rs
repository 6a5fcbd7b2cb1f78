//! Apply, restore and recover: the only ways in which a layout changes.

use crate::change::{ChangeError, execute};
use crate::checkpoint::{CheckpointError, checkpoint};
use crate::hooks::{HookError, HookRunner};
use crate::inventory::inventory_of;
use crate::journal::{Change, Journal, JournalError, Lock, StateDir, write_whole};
use crate::layout::Layout;
use crate::plan::{Plan, PlanError, plan, plan_layouts};
use crate::target::{Refusal, resolve};
use crate::{GpuState, Progress, Step, inventory};
use carve_formats::mig_parted::ConfigEntry;
use carve_gpu_host::{GpuHost, HostError};
use carve_gpu_model::GpuUuid;
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// How to apply.
#[derive(Debug, Clone, Copy, Default)]
pub struct ApplyOptions {
    /// Change MIG modes only.
    pub mode_only: bool,
    /// Do not reset a GPU whose mode is pending.
    pub skip_reset: bool,
}

/// What came of an interrupted run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovered {
    /// No run was interrupted.
    Nothing,
    /// It was finished: the new layout holds.
    Finished,
    /// It was undone: the old layout holds.
    RolledBack,
}

/// What was done.
#[derive(Debug, Clone)]
pub struct Applied {
    /// What came of an earlier, interrupted run.
    pub recovered: Recovered,
    /// The plan that was carried out; empty where everything was as it should be.
    pub plan: Plan,
}

/// Why nothing was changed, or what became of it.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// The config can not be applied to this machine. Nothing was changed.
    #[error("{}", Listed(.0))]
    Refused(Vec<Refusal>),
    /// There is no way from here to there. Nothing was changed.
    #[error("{}", Listed(.0))]
    NoWay(Vec<PlanError>),
    /// The machine could not be read.
    #[error("can not read the GPUs: {0}")]
    Read(#[source] HostError),
    /// The state directory can not be used. Nothing was changed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A checkpoint could not be taken. Nothing was changed.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A hook failed.
    #[error(transparent)]
    Hook(#[from] HookError),
    /// A step failed; the GPUs are as they were before.
    #[error("{cause}; the old layout is back in place")]
    RolledBack {
        /// The step that failed.
        cause: Failure,
    },
    /// A step failed, and so did putting the old layout back. The journal stays.
    #[error(
        "{cause}; putting the old layout back failed too: {rollback}; run 'carve mig apply' again once the cause is gone"
    )]
    Stuck {
        /// The step that failed.
        cause: Failure,
        /// Why the old layout could not be put back.
        rollback: Box<ApplyError>,
    },
    /// An interrupted run can be neither finished nor undone now. The journal stays.
    #[error(
        "an earlier run ({label}) was interrupted and can be neither finished ({forward}) nor undone ({backward}) now"
    )]
    Unrecoverable {
        /// What was being applied.
        label: String,
        /// Why it can not be finished.
        forward: Box<ApplyError>,
        /// Why it can not be undone.
        backward: Box<ApplyError>,
    },
}

/// What went wrong while changing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Failure {
    /// A step failed.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The machine could not be read afterwards.
    #[error("can not read the GPUs afterwards: {0}")]
    Read(HostError),
    /// The result is not what was planned.
    #[error("GPU {0} does not have the planned layout afterwards")]
    Unverified(carve_gpu_model::GpuIndex),
}

struct Listed<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for Listed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if position == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

/// Where every change begins.
pub(crate) struct Opened {
    /// Nobody else changes anything as long as it lives.
    pub(crate) _lock: Lock,
    /// What came of an earlier, interrupted run.
    pub(crate) recovered: Recovered,
    /// The GPUs as they are after that.
    pub(crate) gpus: Vec<GpuState>,
}

/// Keeps others out, deals with what was interrupted, and reads the GPUs.
pub(crate) fn open(
    host: &mut dyn GpuHost,
    state_dir: &StateDir,
    progress: &mut dyn Progress,
) -> Result<Opened, ApplyError> {
    let lock = state_dir.lock()?;
    let recovered = recover_locked(host, state_dir, progress)?;
    let gpus = inventory(host).map_err(ApplyError::Read)?;
    Ok(Opened { _lock: lock, recovered, gpus })
}

/// Does something between the first hook and the last, which runs whatever comes of it.
pub(crate) fn between_hooks<T>(
    hooks: &HookRunner,
    progress: &mut dyn Progress,
    act: impl FnOnce(&mut dyn Progress) -> Result<T, ApplyError>,
) -> Result<T, ApplyError> {
    hooks.run("apply-start", progress)?;
    let result = act(progress);
    let exit = hooks.run("apply-exit", progress);
    let done = result?;
    exit?;
    Ok(done)
}

/// Makes the machine what the entries of a config say, or leaves it as it is.
pub fn apply(
    host: &mut dyn GpuHost,
    state_dir: &StateDir,
    (config, entries): (&str, &[ConfigEntry]),
    options: ApplyOptions,
    hooks: &HookRunner,
    progress: &mut dyn Progress,
) -> Result<Applied, ApplyError> {
    let Opened { _lock, recovered, gpus } = open(host, state_dir, progress)?;
    let target = resolve(config, entries, &gpus).map_err(ApplyError::Refused)?;
    let make_plan = |gpus: &[GpuState]| plan(&target, gpus, options.mode_only).map_err(ApplyError::NoWay);
    let plan = run(host, state_dir, config, gpus, &make_plan, options, hooks, progress)?;
    Ok(Applied { recovered, plan })
}

/// Makes the machine what a checkpoint says, slot by slot, or leaves it as it is.
pub fn restore(
    host: &mut dyn GpuHost,
    state_dir: &StateDir,
    layouts: &BTreeMap<GpuUuid, Layout>,
    options: ApplyOptions,
    hooks: &HookRunner,
    progress: &mut dyn Progress,
) -> Result<Applied, ApplyError> {
    let Opened { _lock, recovered, gpus } = open(host, state_dir, progress)?;
    let make_plan =
        |gpus: &[GpuState]| plan_layouts(layouts, gpus, options.mode_only).map_err(ApplyError::NoWay);
    let plan = run(host, state_dir, "checkpoint", gpus, &make_plan, options, hooks, progress)?;
    Ok(Applied { recovered, plan })
}

/// Finishes or undoes an interrupted run, if there was one.
pub fn recover(
    host: &mut dyn GpuHost,
    state_dir: &StateDir,
    progress: &mut dyn Progress,
) -> Result<Recovered, ApplyError> {
    let _lock = state_dir.lock()?;
    recover_locked(host, state_dir, progress)
}

/// Hooks around, plan again after they ran (they stop programs), then change.
#[allow(clippy::too_many_arguments, reason = "the one place where all parts of a change meet")]
fn run(
    host: &mut dyn GpuHost,
    state_dir: &StateDir,
    label: &str,
    gpus: Vec<GpuState>,
    make_plan: &dyn Fn(&[GpuState]) -> Result<Plan, ApplyError>,
    options: ApplyOptions,
    hooks: &HookRunner,
    progress: &mut dyn Progress,
) -> Result<Plan, ApplyError> {
    if hooks.is_empty() {
        let plan = make_plan(&gpus)?;
        change(host, state_dir, label, &gpus, &plan, options, progress)?;
        return Ok(plan);
    }
    between_hooks(hooks, progress, |progress| {
        run_hooked(host, state_dir, label, make_plan, options, hooks, progress)
    })
}

fn run_hooked(
    host: &mut dyn GpuHost,
    state_dir: &StateDir,
    label: &str,
    make_plan: &dyn Fn(&[GpuState]) -> Result<Plan, ApplyError>,
    options: ApplyOptions,
    hooks: &HookRunner,
    progress: &mut dyn Progress,
) -> Result<Plan, ApplyError> {
    // A plan that is blocked now may be possible after the hooks have stopped what is in the way.
    let gpus = inventory(host).map_err(ApplyError::Read)?;
    let (mode, config) = match make_plan(&gpus) {
        Ok(plan) if plan.is_empty() => return Ok(plan),
        Ok(plan) => (plan.changes_a_mode(), plan.changes_an_instance()),
        Err(ApplyError::NoWay(_)) => (true, true),
        Err(error) => return Err(error),
    };
    if mode {
        hooks.run("pre-apply-mode", progress)?;
    }
    if config && !options.mode_only {
        hooks.run("pre-apply-config", progress)?;
    }
    let gpus = inventory(host).map_err(ApplyError::Read)?;
    let plan = make_plan(&gpus)?;
    change(host, state_dir, label, &gpus, &plan, options, progress)?;
    Ok(plan)
}

/// Checkpoint, journal, change, verify; on failure the old layout comes back.
fn change(
    host: &mut dyn GpuHost,
    state_dir: &StateDir,
    label: &str,
    gpus: &[GpuState],
    plan: &Plan,
    options: ApplyOptions,
    progress: &mut dyn Progress,
) -> Result<(), ApplyError> {
    if plan.is_empty() {
        return Ok(());
    }
    save(state_dir, gpus)?;
    change_saved(host, state_dir, label, plan, options, progress)
}

/// Takes the checkpoint that goes before every change.
pub(crate) fn save(state_dir: &StateDir, gpus: &[GpuState]) -> Result<(), ApplyError> {
    let saved = checkpoint(gpus)?;
    let path = state_dir.last_checkpoint();
    write_whole(&path, saved.as_bytes()).map_err(|source| JournalError::Io {
        action: "write the checkpoint",
        path,
        source,
    })?;
    Ok(())
}

/// Journal, change, verify; on failure the old layout comes back.
pub(crate) fn change_saved(
    host: &mut dyn GpuHost,
    state_dir: &StateDir,
    label: &str,
    plan: &Plan,
    options: ApplyOptions,
    progress: &mut dyn Progress,
) -> Result<(), ApplyError> {
    let changes = plan.gpus.iter().filter(|gpu| !gpu.is_empty());
    let changes = changes
        .map(|gpu| (gpu.uuid.clone(), Change { before: gpu.before.clone(), after: gpu.after.clone() }));
    state_dir.write(&Journal::new(label, changes.collect()))?;
    match carry_out(host, plan, options, progress) {
        Ok(()) => {}
        Err(cause) => {
            progress.step(&Step::RollBack);
            let before = plan.gpus.iter().filter(|gpu| !gpu.is_empty());
            let before = before.map(|gpu| (gpu.uuid.clone(), gpu.before.clone())).collect();
            if let Err(rollback) = bring_to(host, &before, progress) {
                return Err(ApplyError::Stuck { cause, rollback: Box::new(rollback) });
            }
            state_dir.remove()?;
            return Err(ApplyError::RolledBack { cause });
        }
    }
    Ok(state_dir.remove()?)
}

fn carry_out(
    host: &mut dyn GpuHost,
    plan: &Plan,
    options: ApplyOptions,
    progress: &mut dyn Progress,
) -> Result<(), Failure> {
    execute(host, plan, options.skip_reset, options.mode_only, progress)?;
    progress.step(&Step::Verify);
    let planned: Vec<&GpuUuid> = plan.gpus.iter().map(|gpu| &gpu.uuid).collect();
    let gpus = inventory_of(host, &planned).map_err(Failure::Read)?;
    for planned in &plan.gpus {
        let state = gpus.iter().find(|state| state.gpu.uuid == planned.uuid);
        let holds = state.is_some_and(|state| {
            let waits = options.skip_reset
                && state.mode.is_some_and(|mode| mode.pending == planned.after.mig_enabled);
            Layout::of(state) == planned.after || waits
        });
        if !holds {
            return Err(Failure::Unverified(planned.gpu));
        }
    }
    Ok(())
}

/// Brings GPUs to saved layouts. GPUs that are no longer in the machine are passed over.
fn bring_to(
    host: &mut dyn GpuHost,
    layouts: &BTreeMap<GpuUuid, Layout>,
    progress: &mut dyn Progress,
) -> Result<(), ApplyError> {
    let gpus = inventory(host).map_err(ApplyError::Read)?;
    let here = |uuid: &GpuUuid| gpus.iter().any(|state| state.gpu.uuid == *uuid);
    let layouts: BTreeMap<GpuUuid, Layout> = layouts
        .iter()
        .filter(|(uuid, _)| here(uuid))
        .map(|(uuid, layout)| (uuid.clone(), layout.clone()))
        .collect();
    let plan = plan_layouts(&layouts, &gpus, false).map_err(ApplyError::NoWay)?;
    carry_out(host, &plan, ApplyOptions::default(), progress)
        .map_err(|cause| ApplyError::RolledBack { cause })
}

pub(crate) fn recover_locked(
    host: &mut dyn GpuHost,
    state_dir: &StateDir,
    progress: &mut dyn Progress,
) -> Result<Recovered, ApplyError> {
    let Some(journal) = state_dir.read()? else { return Ok(Recovered::Nothing) };
    let side = |pick: fn(&Change) -> &Layout| -> BTreeMap<GpuUuid, Layout> {
        journal.gpus.iter().map(|(uuid, change)| (uuid.clone(), pick(change).clone())).collect()
    };
    let forward = match bring_to(host, &side(|change| &change.after), progress) {
        Ok(()) => {
            state_dir.remove()?;
            return Ok(Recovered::Finished);
        }
        Err(error) => error,
    };
    progress.step(&Step::RollBack);
    match bring_to(host, &side(|change| &change.before), progress) {
        Ok(()) => {
            state_dir.remove()?;
            Ok(Recovered::RolledBack)
        }
        Err(backward) => Err(ApplyError::Unrecoverable {
            label: journal.label,
            forward: Box::new(forward),
            backward: Box::new(backward),
        }),
    }
}
