//! The GPUs of the node, owned by one thread; everybody else sends it questions.
//!
//! ```text
//!   agent ──ask(job)──▶ owner thread ── the host's verbs, one job after another
//!                           └── between two jobs it waits for events ──▶ agent
//! ```
//! A driver call can take long or never return; in a thread of its own it blocks nobody but those who asked. It is one
//! thread with one host because a GPU can only be reset while nobody has it open, not even this process a second time.

use carve_gpu_host::{GpuEvent, GpuHost};
use std::sync::Arc;
use std::sync::mpsc as thread_channel;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Opens the node's GPUs. Called in the thread that will own them, again and again until it succeeds.
pub type OpenHost = Arc<dyn Fn() -> Result<Box<dyn GpuHost>, String> + Send + Sync>;

type Job = Box<dyn FnOnce(&mut dyn GpuHost) + Send>;

enum Message {
    Do(Job),
    Watch(mpsc::Sender<GpuEvent>),
}

/// The owner thread, seen from outside.
#[derive(Clone)]
pub(crate) struct Machine {
    messages: thread_channel::Sender<Message>,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Machine")
    }
}

/// The owner thread is gone, which only happens at the very end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the thread that owns the GPUs has ended")]
pub(crate) struct OwnerGone;

impl Machine {
    /// Opens the GPUs, or tells why that does not work now.
    pub(crate) async fn open(open: &OpenHost) -> Result<Self, String> {
        let (messages, inbox) = thread_channel::channel();
        let (opened, outcome) = oneshot::channel();
        let open = Arc::clone(open);
        let body = move || match open() {
            Ok(mut host) => {
                let _ = opened.send(Ok(()));
                own(host.as_mut(), &inbox);
            }
            Err(why) => {
                let _ = opened.send(Err(why));
            }
        };
        let started = std::thread::Builder::new().name("gpus".to_owned()).spawn(body);
        started.map_err(|error| format!("can not start a thread: {error}"))?;
        match outcome.await {
            Ok(Ok(())) => Ok(Machine { messages }),
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
        self.messages.send(Message::Do(job)).map_err(|_| OwnerGone)?;
        answered.await.map_err(|_| OwnerGone)
    }

    /// Has the owner send every event from now on.
    pub(crate) fn watch_events(&self, events: mpsc::Sender<GpuEvent>) -> Result<(), OwnerGone> {
        self.messages.send(Message::Watch(events)).map_err(|_| OwnerGone)
    }
}

/// How long one wait for an event lasts, and so the longest that a question waits for its turn.
const WAIT: Duration = Duration::from_millis(20);
/// How long events are not asked for after a failure.
const REST: Duration = Duration::from_secs(30);

/// Does jobs, and waits for events in between, until nobody is left to ask.
fn own(host: &mut dyn GpuHost, inbox: &thread_channel::Receiver<Message>) {
    let mut events: Option<mpsc::Sender<GpuEvent>> = None;
    let mut rest_until: Option<Instant> = None;
    loop {
        let resting = rest_until.is_some_and(|until| Instant::now() < until);
        let watching = events.as_ref().filter(|_| !resting);
        let message = match (watching, resting) {
            (Some(_), _) => {
                inbox.try_recv().map_err(|error| error == thread_channel::TryRecvError::Disconnected)
            }
            (None, true) => inbox
                .recv_timeout(REST)
                .map_err(|error| error == thread_channel::RecvTimeoutError::Disconnected),
            (None, false) => inbox.recv().map_err(|_| true),
        };
        match message {
            Ok(Message::Do(job)) => {
                job(host);
                continue;
            }
            Ok(Message::Watch(sender)) => {
                events = Some(sender);
                continue;
            }
            Err(true) => return,
            Err(false) => {}
        }
        let Some(sender) = watching else { continue };
        match host.next_event(WAIT) {
            Ok(Some(event)) => {
                if sender.blocking_send(event).is_err() {
                    events = None;
                }
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "errors of the GPUs can not be watched now; looking again later");
                rest_until = Some(Instant::now() + REST);
            }
        }
    }
}
