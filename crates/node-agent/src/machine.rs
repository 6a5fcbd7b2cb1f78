//! The GPUs of the node, owned by one thread; everybody else sends it questions.
//!
//! ```text
//!   agent ──ask(job)──▶ owner thread ── the host's verbs, one job after another
//!   watcher thread ── a host of its own, waits for events ──▶ agent
//! ```
//! A driver call can take long or never return; in a thread of its own it blocks nobody but those who asked.

use carve_gpu_host::{GpuEvent, GpuHost};
use std::sync::Arc;
use std::sync::mpsc as thread_channel;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Opens the node's GPUs. Called in the thread that will own them, again and again until it succeeds.
pub type OpenHost = Arc<dyn Fn() -> Result<Box<dyn GpuHost>, String> + Send + Sync>;

type Job = Box<dyn FnOnce(&mut dyn GpuHost) + Send>;

/// The owner thread, seen from outside.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    jobs: thread_channel::Sender<Job>,
}

/// The owner thread is gone, which only happens at the very end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the thread that owns the GPUs has ended")]
pub(crate) struct OwnerGone;

impl Machine {
    /// Opens the GPUs, or tells why that does not work now.
    pub(crate) async fn open(open: &OpenHost) -> Result<Self, String> {
        let (jobs, inbox) = thread_channel::channel::<Job>();
        let (opened, outcome) = oneshot::channel();
        let open = Arc::clone(open);
        let body = move || {
            let mut host = match open() {
                Ok(host) => host,
                Err(why) => {
                    let _ = opened.send(Err(why));
                    return;
                }
            };
            let _ = opened.send(Ok(()));
            while let Ok(job) = inbox.recv() {
                job(host.as_mut());
            }
        };
        let started = std::thread::Builder::new().name("gpus".to_owned()).spawn(body);
        started.map_err(|error| format!("can not start a thread: {error}"))?;
        match outcome.await {
            Ok(Ok(())) => Ok(Machine { jobs }),
            Ok(Err(why)) => Err(why),
            Err(_) => Err("the driver library ended the thread that opened it".to_owned()),
        }
    }

    /// Has the owner do something, and waits for the answer.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut dyn GpuHost) -> T + Send + 'static,
    ) -> Result<T, OwnerGone> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |host| {
            let _ = answer.send(job(host));
        });
        self.jobs.send(job).map_err(|_| OwnerGone)?;
        answered.await.map_err(|_| OwnerGone)
    }
}

/// How long one wait for an event lasts; between two waits the watcher notices that nobody listens.
const WAIT: Duration = Duration::from_secs(5);
/// How long the watcher rests after a failure.
const REST: Duration = Duration::from_secs(5);

/// Watches for events with a host of its own, until nobody listens.
pub(crate) fn watch_events(open: &OpenHost, events: mpsc::Sender<GpuEvent>) -> std::io::Result<()> {
    let open = Arc::clone(open);
    let body = move || {
        while !events.is_closed() {
            let mut host = match open() {
                Ok(host) => host,
                Err(why) => {
                    tracing::warn!(why, "events of the GPUs can not be watched now");
                    std::thread::sleep(REST);
                    continue;
                }
            };
            loop {
                match host.next_event(WAIT) {
                    Ok(Some(event)) => {
                        if events.blocking_send(event).is_err() {
                            return;
                        }
                    }
                    Ok(None) if events.is_closed() => return,
                    Ok(None) => {}
                    Err(error) => {
                        tracing::warn!(%error, "waiting for events of the GPUs failed; trying anew");
                        std::thread::sleep(REST);
                        break;
                    }
                }
            }
        }
    };
    std::thread::Builder::new().name("gpu-events".to_owned()).spawn(body).map(drop)
}
