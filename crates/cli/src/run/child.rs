//! The command itself: started, sent the signals that are meant for it, and waited for.

use crate::failure::Failure;
use rustix::process::{Pid, Signal};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Signals that people and programs end or tell a command something with.
const PASSED_ON: [Signal; 6] =
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2];

/// Runs a command to its end. `look` is called in between, and says how long until it wants to be called again.
pub(crate) fn run(
    words: &[OsString],
    environment: &[(&str, OsString)],
    look: impl FnMut() -> Duration,
) -> Result<ExitStatus, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("can not wait for a command: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let mut signals = listen().map_err(failed)?;
        let mut command = Command::new(words.first().map_or_else(OsString::new, OsString::clone));
        command.args(&words[1..]).envs(environment.iter().map(|(name, value)| (name, value)));
        let mut child = command.spawn().map_err(|error| not_started(&words[0], &error))?;
        wait(&mut child, &mut signals, look).await.map_err(failed)
    })
}

async fn wait(
    child: &mut Child,
    signals: &mut mpsc::UnboundedReceiver<Signal>,
    mut look: impl FnMut() -> Duration,
) -> std::io::Result<ExitStatus> {
    let pid = child.id().and_then(|pid| Pid::from_raw(pid as i32));
    loop {
        let again = look();
        tokio::select! {
            status = child.wait() => return status,
            Some(signal) = signals.recv() => {
                if let Some(pid) = pid.filter(|_| !came_from_terminal(signal)) {
                    // One that has just ended needs it no more.
                    let _ = rustix::process::kill_process(pid, signal);
                }
            }
            () = tokio::time::sleep(again) => {}
        }
    }
}

/// A terminal sends its signals to every process in front of it, so the command has this one already.
fn came_from_terminal(signal: Signal) -> bool {
    let in_front = || rustix::termios::tcgetpgrp(std::fs::File::open("/dev/tty").ok()?).ok();
    matches!(signal, Signal::INT | Signal::QUIT) && in_front() == Some(rustix::process::getpgrp())
}

fn listen() -> std::io::Result<mpsc::UnboundedReceiver<Signal>> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let ignored = ignored();
    for passed in PASSED_ON {
        // What is ignored here, as under nohup, the command shall ignore too; listening would undo that for it.
        if ignored >> (passed.as_raw() - 1) & 1 == 1 {
            continue;
        }
        let mut coming = signal(SignalKind::from_raw(passed.as_raw()))?;
        let sender = sender.clone();
        tokio::spawn(async move { while coming.recv().await.is_some() && sender.send(passed).is_ok() {} });
    }
    Ok(receiver)
}

/// The signals that this process ignores, a bit for each.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0)
}

/// With the exit codes that shells have for it.
fn not_started(word: &OsString, error: &std::io::Error) -> Failure {
    let word = word.to_string_lossy();
    let failure = Failure::new(format!("{word}: can not run it: {error}"));
    if error.kind() == ErrorKind::NotFound {
        Failure { code: 127, ..failure }.hint("name a program that PATH leads to, or its path")
    } else {
        Failure { code: 126, ..failure }
    }
}
