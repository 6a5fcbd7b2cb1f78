//! Reboots the machine for a change of MIG mode that nothing else brings about, once.

use carve_mig_manager::{BootId, StateDir, write_whole};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The note that says for what the machine was rebooted, and when.
fn note(state_dir: &StateDir) -> PathBuf {
    state_dir.path().join("reboot-requested")
}

/// Whether the machine was already rebooted for this config and it did not help.
pub(super) fn was_in_vain(state_dir: &StateDir, config: &str, boot: &BootId) -> bool {
    let text = std::fs::read_to_string(note(state_dir)).unwrap_or_default();
    text.split_once('\n').is_some_and(|(before, wanted)| before != boot.0 && wanted.trim_end() == config)
}

/// The config holds: the next one may have a reboot of its own.
pub(super) fn forget(state_dir: &StateDir) {
    // Not there most of the time.
    let _ = std::fs::remove_file(note(state_dir));
}

/// Notes for what, and has the machine rebooted in good order.
pub(super) fn reboot(
    state_dir: &StateDir,
    config: &str,
    boot: &BootId,
    program: Option<&Path>,
) -> Result<(), String> {
    write_whole(&note(state_dir), format!("{}\n{config}\n", boot.0).as_bytes())
        .map_err(|error| format!("the reboot can not be noted, so it is not done: {error}"))?;
    match program {
        Some(program) => run(program),
        None => signal_systemd(),
    }
}

fn run(program: &Path) -> Result<(), String> {
    let name = program.display();
    let output = Command::new(program).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{name} can not be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name} ended with {}: {}", output.status, said.trim()))
}

/// Needs the host's processes (`hostPID`).
fn signal_systemd() -> Result<(), String> {
    let init = std::fs::read_to_string("/proc/1/comm").unwrap_or_default();
    if init.trim() != "systemd" {
        return Err(format!(
            "process 1 is '{}', not the machine's systemd; run with hostPID, give --reboot-program, or reboot by hand",
            init.trim()
        ));
    }
    // systemd takes this signal for ctrl-alt-del, which is a reboot in good order.
    rustix::process::kill_process(rustix::process::Pid::INIT, rustix::process::Signal::INT)
        .map_err(|error| format!("systemd does not take the signal: {error}"))
}
