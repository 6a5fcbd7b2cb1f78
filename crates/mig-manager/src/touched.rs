//! What a plan touches, told before it is carried out: which MIG devices go, which stay, who is in the way.
//!
//! The agent withdraws what goes, ends or waits for those in the way, carries out the very same plan with
//! [`crate::apply_plan`], and reads the machine again. A MIG device that goes must be withdrawn even if its UUID comes
//! back: a driver gives the same name to whatever sits at the same place next.

use crate::plan::{PlanError, plan_gpu};
use crate::{GpuPlan, GpuState, GpuTarget, Plan, Target};
use carve_gpu_host::{GpuHost, GpuProcess, HostResult, MigDevice};
use carve_gpu_model::{ComputeInstanceId, GpuIndex, GpuInstanceId, MigUuid};
use carve_planner::RecutError;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A MIG device as a plan sees it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TouchedDevice {
    /// The GPU it is on.
    pub gpu: GpuIndex,
    /// Its identity.
    pub uuid: MigUuid,
    /// Its GPU instance.
    pub gpu_instance: GpuInstanceId,
    /// Its compute instance.
    pub compute_instance: ComputeInstanceId,
}

/// Processes that must end before a plan can be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The GPU.
    pub gpu: GpuIndex,
    /// The MIG device they run in; `None` for processes on the whole GPU.
    pub device: Option<TouchedDevice>,
    /// Process ids, ascending.
    pub pids: Vec<u32>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pids: Vec<String> = self.pids.iter().map(ToString::to_string).collect();
        write!(f, "GPU {}", self.gpu)?;
        if let Some(device) = &self.device {
            write!(f, ", {}", device.uuid)?;
        }
        write!(f, ": in use by process {}", pids.join(", "))
    }
}

/// What a plan touches. GPUs that the plan does not name are not in here at all, and stay as they are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Touched {
    /// GPUs whose MIG mode changes: with it they stop, or begin, to be one whole device.
    pub gpus: BTreeSet<GpuIndex>,
    /// GPUs on which instances go, come or are divided anew.
    pub recut: BTreeSet<GpuIndex>,
    /// GPUs that will be reset. No other GPU is.
    pub reset_needed: BTreeSet<GpuIndex>,
    /// MIG devices that go.
    pub destroyed: Vec<TouchedDevice>,
    /// MIG devices on the same GPUs that stay, under their UUIDs, whether they are in use or not.
    pub kept: Vec<TouchedDevice>,
    /// Who must end first. Empty if the plan can be carried out now.
    pub blocked_by: Vec<Holder>,
}

impl Touched {
    /// What a plan touches on the GPUs it was made for.
    pub fn of(host: &dyn GpuHost, plan: &Plan, gpus: &[GpuState]) -> HostResult<Touched> {
        let mut touched = Touched::default();
        for planned in plan.gpus.iter().filter(|planned| !planned.is_empty()) {
            let Some(state) = gpus.iter().find(|state| state.gpu.uuid == planned.uuid) else { continue };
            if planned.mode.is_some() {
                touched.gpus.insert(planned.gpu);
                if needs_reset(planned, state) {
                    touched.reset_needed.insert(planned.gpu);
                }
                let pids = pids(&state.processes, |process| process.gpu_instance.is_none());
                if !pids.is_empty() {
                    touched.blocked_by.push(Holder { gpu: planned.gpu, device: None, pids });
                }
            }
            if !planned.recut.is_empty() {
                touched.recut.insert(planned.gpu);
            }
            let devices = if state.mig_enabled() { host.mig_devices(planned.gpu)? } else { Vec::new() };
            for device in devices {
                touched.sort_in(planned, state, &device);
            }
        }
        Ok(touched)
    }

    fn sort_in(&mut self, planned: &GpuPlan, state: &GpuState, device: &MigDevice) {
        let seen = TouchedDevice {
            gpu: planned.gpu,
            uuid: device.uuid.clone(),
            gpu_instance: device.gpu_instance,
            compute_instance: device.compute_instance,
        };
        let goes = goes(planned, device.gpu_instance, device.compute_instance);
        let pids = pids(&state.processes, |process| {
            process.gpu_instance == Some(device.gpu_instance)
                && process.compute_instance.is_none_or(|part| part == device.compute_instance)
        });
        // A mode changes on an idle GPU only, even where its devices would stay.
        if !pids.is_empty() && (goes || planned.mode.is_some()) {
            self.blocked_by.push(Holder { gpu: planned.gpu, device: Some(seen.clone()), pids });
        }
        if goes { &mut self.destroyed } else { &mut self.kept }.push(seen);
    }
}

/// Whether a plan destroys a compute instance.
fn goes(planned: &GpuPlan, instance: GpuInstanceId, part: ComputeInstanceId) -> bool {
    planned.recut.destroy.iter().any(|gone| gone.id == instance)
        || planned.recut.keep.iter().any(|kept| kept.id == instance && kept.destroy.contains(&part))
}

/// Up to Ampere a changed MIG mode holds after a reset only; from Hopper on it holds at once on an idle GPU.
fn needs_reset(planned: &GpuPlan, state: &GpuState) -> bool {
    planned.after.mig_enabled != state.mig_enabled() && state.gpu.compute_capability < (9, 0)
}

fn pids(processes: &[GpuProcess], of: impl Fn(&GpuProcess) -> bool) -> Vec<u32> {
    let pids: BTreeSet<u32> =
        processes.iter().filter(|process| of(process)).map(|process| process.pid).collect();
    pids.into_iter().collect()
}

/// Like [`crate::plan()`], but as it will be once the programs in its way have ended. Of all ways it takes one in which
/// the fewest MIG devices in use have to go; [`Touched::blocked_by`] names them.
pub fn plan_drained(target: &Target, gpus: &[GpuState], mode_only: bool) -> Result<Plan, Vec<PlanError>> {
    let mut plan = Plan { gpus: Vec::new(), skipped: target.skipped.clone() };
    let mut errors = Vec::new();
    for state in gpus {
        let Some(wanted) = target.gpus.get(&state.gpu.index) else { continue };
        match drained(wanted, state, mode_only) {
            Ok(gpu) => plan.gpus.push(gpu),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(plan) } else { Err(errors) }
}

/// A compute instance of a GPU.
type Part = (GpuInstanceId, ComputeInstanceId);

fn drained(wanted: &GpuTarget, state: &GpuState, mode_only: bool) -> Result<GpuPlan, PlanError> {
    let busy = match plan_gpu(wanted, state, mode_only) {
        Err(PlanError::ModeInUse { .. } | PlanError::Blocked { reason: RecutError::InUse { .. }, .. }) => {
            busy_parts(state)
        }
        other => return other,
    };
    let idle = plan_gpu(wanted, &without(state, None), mode_only)?;
    if idle.mode.is_some() {
        // The mode changes under nobody's feet: everything has to go.
        return Ok(idle);
    }
    let least = fewest_to_free(wanted, state, &busy);
    let mut choices: Vec<(BTreeSet<Part>, usize)> = subsets(&busy)
        .filter(|freed| freed.len() >= least)
        .map(|freed| {
            let ended = state.processes.len() - without(state, Some(&freed)).processes.len();
            (freed, ended)
        })
        .collect();
    choices.sort_by_key(|(freed, ended)| (freed.len(), *ended));
    let fitting =
        choices.iter().find_map(|(freed, _)| plan_gpu(wanted, &without(state, Some(freed)), mode_only).ok());
    Ok(fitting.unwrap_or(idle))
}

fn busy_parts(state: &GpuState) -> Vec<Part> {
    let of = |instance: &carve_planner::PresentInstance| {
        let busy = instance.compute.iter().filter(|part| part.in_use);
        busy.map(|part| (instance.id, part.id)).collect::<Vec<_>>()
    };
    state.instances.iter().flat_map(of).collect()
}

/// A lower bound on how many parts must be freed: of each profile, the instances in use beyond those wanted.
fn fewest_to_free(wanted: &GpuTarget, state: &GpuState, busy: &[Part]) -> usize {
    let GpuTarget::Enabled { instances, .. } = wanted else { return busy.len() };
    let mut balance: BTreeMap<_, usize> = BTreeMap::new();
    for instance in state.instances.iter().filter(|instance| instance.in_use()) {
        *balance.entry(instance.placed.profile).or_insert(0) += 1;
    }
    let beyond = |(profile, used): (_, usize)| {
        used.saturating_sub(instances.iter().filter(|instance| instance.profile == profile).count())
    };
    balance.into_iter().map(beyond).sum()
}

/// Every set of the parts. A GPU has at most a handful, since each takes a compute slice of its own.
fn subsets(parts: &[Part]) -> impl Iterator<Item = BTreeSet<Part>> {
    let parts = &parts[..parts.len().min(16)];
    (0u32..1 << parts.len()).map(|chosen| {
        let chosen = parts.iter().enumerate().filter(|(position, _)| chosen & (1 << position) != 0);
        chosen.map(|(_, part)| *part).collect()
    })
}

/// The GPU as it will be when nothing runs in some of its parts any more, or (`None`) nowhere on it.
fn without(state: &GpuState, freed: Option<&BTreeSet<Part>>) -> GpuState {
    let is_freed = |part: Part| freed.is_none_or(|freed| freed.contains(&part));
    let mut state = state.clone();
    for instance in &mut state.instances {
        for part in &mut instance.compute {
            part.in_use &= !is_freed((instance.id, part.id));
        }
    }
    state.processes.retain(|process| match (process.gpu_instance, process.compute_instance) {
        (Some(instance), Some(part)) => !is_freed((instance, part)),
        (Some(instance), None) => {
            !freed.is_none_or(|freed| freed.iter().any(|(known, _)| *known == instance))
        }
        (None, _) => freed.is_some(),
    });
    state
}
