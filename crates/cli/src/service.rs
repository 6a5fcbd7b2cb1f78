//! Processes that run until they are told to end.

use crate::failure::{Failure, Outcome};
use std::pin::Pin;
use tokio::signal::unix::{SignalKind, signal};

/// Done when the process is told to end.
pub(crate) type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Logs to stderr, and runs until SIGTERM or SIGINT.
pub(crate) fn serve<W: Future<Output = Outcome>>(work: impl FnOnce(Stop) -> W) -> Outcome {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).with_target(false).init();
    let unable = |error: std::io::Error| Failure::new(format!("can not start: {error}"));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(unable)?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(unable)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(unable)?;
        let stop = async move {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        };
        work(Box::pin(stop)).await
    })
}
