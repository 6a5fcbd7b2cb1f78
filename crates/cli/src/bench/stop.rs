//! Signals that end a study in good order.

use crate::failure::Failure;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{SignalKind, signal};

/// Set by the first signal.
static STOP: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C and its like set the flag instead of ending the process.
pub(crate) fn listen() -> Result<&'static AtomicBool, Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("can not listen for signals: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let guard = runtime.enter();
    let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hung_up = signal(SignalKind::hangup()).map_err(failed)?;
    drop(guard);
    std::thread::spawn(move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = interrupted.recv() => {}
                    _ = terminated.recv() => {}
                    _ = hung_up.recv() => {}
                }
                STOP.store(true, Ordering::SeqCst);
            }
        });
    });
    Ok(&STOP)
}
