//! Carries out a plan, step by step, on a host.

use crate::{GpuPlan, ModeChange, Plan, Progress, Step};
use carve_gpu_host::{GpuHost, HostError, HostFailure, ModeOutcome, Verb};
use carve_gpu_model::{GpuIndex, GpuInstanceId, Placed, ProfileName};
use thiserror::Error;

/// A step that failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChangeError {
    /// The driver refused it.
    #[error("{step}: {}", source.failure)]
    Host {
        /// What was to be done.
        step: Box<Step>,
        /// What the driver said.
        source: HostError,
    },
    /// The mode needs a reset that was forbidden.
    #[error("GPU {0} must be reset before its new MIG mode holds, and --skip-reset forbids that")]
    ResetForbidden(GpuIndex),
}

/// Carries out a plan. GPUs that change mode go first, together, because their resets are done in one go; then one
/// GPU after the other, so that a failure has touched as few as possible.
pub(crate) fn execute(
    host: &mut dyn GpuHost,
    plan: &Plan,
    skip_reset: bool,
    mode_only: bool,
    progress: &mut dyn Progress,
) -> Result<(), ChangeError> {
    let mut to_reset = Vec::new();
    for gpu in plan.gpus.iter().filter(|gpu| gpu.mode.is_some()) {
        remove(host, gpu, progress)?;
        let enable = gpu.mode == Some(ModeChange::Enable);
        let step = Step::Mode(gpu.gpu, enable);
        progress.step(&step);
        let outcome = host.set_mig_mode(gpu.gpu, enable).map_err(failed(step))?;
        if outcome == ModeOutcome::NeedsReset {
            to_reset.push(gpu.gpu);
        }
    }
    if let (Some(gpu), true, false) = (to_reset.first(), skip_reset, mode_only) {
        return Err(ChangeError::ResetForbidden(*gpu));
    }
    if !to_reset.is_empty() && !skip_reset {
        let step = Step::Reset(to_reset.clone());
        progress.step(&step);
        host.reset(&to_reset).map_err(failed(step))?;
    }
    for gpu in &plan.gpus {
        if gpu.mode.is_none() {
            remove(host, gpu, progress)?;
        }
        make(host, gpu, progress)?;
    }
    Ok(())
}

fn failed(step: Step) -> impl FnOnce(HostError) -> ChangeError {
    |source| ChangeError::Host { step: Box::new(step), source }
}

fn name(gpu: &GpuPlan, placed: Placed) -> ProfileName {
    gpu.table
        .get(placed.profile)
        .map_or_else(|| ProfileName::whole(0, 0, None), |profile| profile.name.clone())
}

/// Destroys what goes.
fn remove(host: &mut dyn GpuHost, gpu: &GpuPlan, progress: &mut dyn Progress) -> Result<(), ChangeError> {
    for instance in &gpu.recut.destroy {
        let step = Step::Destroy(gpu.gpu, name(gpu, instance.placed), instance.placed.start);
        progress.step(&step);
        for part in &instance.compute {
            let destroyed = host.destroy_compute_instance(gpu.gpu, instance.id, part.id);
            destroyed.map_err(failed(step.clone()))?;
        }
        host.destroy_gpu_instance(gpu.gpu, instance.id).map_err(failed(step))?;
    }
    for kept in gpu.recut.keep.iter().filter(|kept| !kept.destroy.is_empty()) {
        let step = Step::Divide(gpu.gpu, name(gpu, kept.placed), kept.placed.start);
        progress.step(&step);
        for part in &kept.destroy {
            host.destroy_compute_instance(gpu.gpu, kept.id, *part).map_err(failed(step.clone()))?;
        }
    }
    Ok(())
}

/// Creates what comes: one call for each instance, at the slot the plan names.
fn make(host: &mut dyn GpuHost, gpu: &GpuPlan, progress: &mut dyn Progress) -> Result<(), ChangeError> {
    for kept in gpu.recut.keep.iter().filter(|kept| !kept.create.is_empty()) {
        let step = Step::Divide(gpu.gpu, name(gpu, kept.placed), kept.placed.start);
        progress.step(&step);
        divide(host, gpu.gpu, kept.id, &kept.create, &step)?;
    }
    for created in &gpu.recut.create {
        let step = Step::Create(gpu.gpu, name(gpu, created.placed), created.placed.start);
        progress.step(&step);
        let missing = HostError {
            verb: Verb::CreateGpuInstance,
            gpu: Some(gpu.gpu),
            failure: HostFailure::InvalidArgument,
        };
        let profile = gpu.table.get(created.placed.profile).zip(gpu.table.placement(created.placed));
        let (profile, placement) = profile.ok_or(missing).map_err(failed(step.clone()))?;
        let instance =
            host.create_gpu_instance(gpu.gpu, profile.id, Some(placement)).map_err(failed(step.clone()))?;
        divide(host, gpu.gpu, instance.id, &created.compute, &step)?;
    }
    Ok(())
}

/// Creates compute instances. Where the driver offers several of one size, the one with the most multiprocessors.
fn divide(
    host: &mut dyn GpuHost,
    gpu: GpuIndex,
    instance: GpuInstanceId,
    division: &[u8],
    step: &Step,
) -> Result<(), ChangeError> {
    let offers = host.compute_profiles(gpu, instance).map_err(failed(step.clone()))?;
    for slices in division {
        let fitting = offers.iter().filter(|offer| offer.slices == *slices);
        let offer = fitting.max_by_key(|offer| offer.multiprocessors).ok_or(HostError {
            verb: Verb::CreateComputeInstance,
            gpu: Some(gpu),
            failure: HostFailure::NotSupported,
        });
        let offer = offer.map_err(failed(step.clone()))?;
        host.create_compute_instance(gpu, instance, offer.index).map_err(failed(step.clone()))?;
    }
    Ok(())
}
