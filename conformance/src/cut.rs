//! Cuts simulated GPUs as an administrator would before any plugin starts.

use carve_gpu_host::{GpuHost, HostError, ModeOutcome};
use carve_gpu_model::{ComputeProfileIndex, GpuIndex, ProfileName};
use carve_sim_store::SharedMachine;

/// Switches MIG on for a GPU and creates one MIG device of a profile; an empty name creates none.
#[allow(clippy::panic, reason = "a machine of a test that can not be cut is the test's failure")]
pub fn cut(machine: &mut SharedMachine, gpu: GpuIndex, profile: &str) {
    if let Err(error) = try_cut(machine, gpu, profile) {
        panic!("GPU {gpu} can not be cut to '{profile}': {error}");
    }
}

#[allow(clippy::panic, reason = "a profile that the GPU does not have is the test's mistake")]
fn try_cut(machine: &mut SharedMachine, gpu: GpuIndex, profile: &str) -> Result<(), HostError> {
    if !machine.mig_mode(gpu)?.is_some_and(|mode| mode.current)
        && machine.set_mig_mode(gpu, true)? == ModeOutcome::NeedsReset
    {
        machine.reset(&[gpu])?;
    }
    if profile.is_empty() {
        return Ok(());
    }
    let table = machine.profile_table(gpu)?;
    let name = profile.parse::<ProfileName>().ok();
    let found = name.and_then(|name| table.by_name(&name).ok().map(|(_, found)| found));
    let Some(found) = found else { panic!("GPU {gpu} has no profile '{profile}'") };
    let instance = machine.create_gpu_instance(gpu, found.id, None)?;
    let Some(whole) = ComputeProfileIndex::of_slices(found.slices) else {
        panic!("'{profile}' has no compute profile")
    };
    machine.create_compute_instance(gpu, instance.id, whole)?;
    Ok(())
}
