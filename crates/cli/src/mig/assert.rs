//! `carve mig assert`: whether the GPUs are what a config says.

use super::config;
use crate::args::{AssertArgs, MachineArgs};
use crate::failure::{Failure, Outcome};
use crate::{machine, print};
use carve_mig_manager::{ApplyError, GpuState, GpuTarget, export, inventory, resolve};

/// Says yes on stdout, or no on stderr with what is different.
pub(crate) fn assert(machine: &MachineArgs, args: &AssertArgs) -> Outcome {
    let (name, entries) = config::load(&args.config)?;
    let chosen = machine::open(machine)?;
    let gpus = inventory(chosen.host.as_ref()).map_err(|error| chosen.failure(&error))?;
    let target =
        resolve(&name, &entries, &gpus).map_err(|refusals| Failure::of(&ApplyError::Refused(refusals)))?;
    if args.valid_config {
        return print::out(&format!("config '{name}' can be applied to this machine\n"));
    }
    let differing: Vec<&GpuState> = if args.mode_only {
        target.differing_modes(&gpus).collect()
    } else {
        target.differing(&gpus).collect()
    };
    if differing.is_empty() {
        let what = if args.mode_only { "the MIG modes of config" } else { "config" };
        return print::out(&format!(
            "{what} '{name}' {} in place\n",
            if args.mode_only { "are" } else { "is" }
        ));
    }
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for state in differing {
        let wanted = match target.gpus.get(&state.gpu.index) {
            Some(GpuTarget::Disabled) | None => "MIG off".to_owned(),
            Some(enabled) => enabled.geometry().to_string(),
        };
        let line = format!("has {}, should have {wanted}", has(state));
        let gpu = state.gpu.index.to_string();
        match lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, gpus)) => gpus.push(gpu),
            None => lines.push((line, vec![gpu])),
        }
    }
    let lines: Vec<String> =
        lines.iter().map(|(line, gpus)| format!("  GPU {} {line}", gpus.join(", "))).collect();
    Err(Failure::new(format!("config '{name}' is not in place\n{}", lines.join("\n"))))
}

/// What a GPU has, by the names of its MIG devices.
fn has(state: &GpuState) -> String {
    if !state.mig_enabled() {
        return "MIG off".to_owned();
    }
    let exported = export("current", std::slice::from_ref(state));
    let devices = exported.configs.values().flatten().flat_map(|entry| &entry.mig_devices);
    let devices: Vec<String> = devices.map(|device| format!("{}× {}", device.count, device.name)).collect();
    if devices.is_empty() { "no instances".to_owned() } else { devices.join(", ") }
}
