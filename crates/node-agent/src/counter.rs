//! The thread on which kubelet's questions are answered: one of its own, and an urgent one, because pods wait for it.
//!
//! Everything else the agent does can take its time. Where many pods start at once every core is busy, and an answer that
//! needs a moment's work would wait its turn behind them, often twice where threads hand a question to each other.

use std::future::pending;
use tokio::runtime::{Builder, Handle};

/// How far before others, as `nice` counts it.
const URGENT: i32 = -10;

/// Starts the thread. Where there can be none, the calling runtime answers.
pub(crate) fn open() -> Handle {
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else { return Handle::current() };
    let handle = runtime.handle().clone();
    let thread = std::thread::Builder::new().name("kubelet".to_owned());
    let started = thread.spawn(move || {
        // Of this thread alone: Linux keeps a priority for each. Not allowed without the capability, and then left as it is.
        if let Err(error) = rustix::process::setpriority_process(None, URGENT) {
            tracing::debug!(%error, "answers to kubelet have no priority");
        }
        runtime.block_on(pending::<()>());
    });
    match started {
        Ok(_) => handle,
        Err(_) => Handle::current(),
    }
}
