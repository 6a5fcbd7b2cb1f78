//! The one task that owns the daemon of a part, from its start to its end.
//!
//! ```text
//!  Absent ──wanted──► Starting ──none runs: start, limit──► Limited ──probe──► Ready
//!    ▲                 │ ▲ ▲ └───────one runs, limits right: adopt───────────► │ │
//!    │   wrong limits, │ │ │                                                   │ │
//!    │   clients       ▼ │ └──────────────other limits wanted──────────────────┘ │
//!    │           WrongLimits    (no clients left: quit, then Starting)           │
//!    │                                                                           │
//!    └──no clients: quit── Leaving ◄───────────wanted no longer──────────────────┘
//!
//!  any of them ──error──► Failed ──waits 1 s, 2 s, … 60 s──► Starting or Leaving
//! ```
//!
//! A daemon with clients is never ended here. One that was started and failed before it was ready is killed, so that
//! nobody becomes its client without limits.

use crate::daemon::Daemon;
use crate::{ClientProbe, DaemonError, Failure, MpsSettings, PartState, PartStatus, Users};
use carve_slicing::PartId;
use carve_slicing::mps::MpsLimits;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// What is wanted of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A daemon with these limits.
    Serve(MpsLimits),
    /// No daemon, as soon as nobody uses it.
    Leave,
    /// That its owner ends, and an unused daemon too if so told.
    Stop {
        /// Whether to end a daemon without clients.
        quit_idle: bool,
    },
}

pub(crate) type Statuses = watch::Sender<BTreeMap<PartId, PartStatus>>;

/// The owner of one part's daemon.
#[derive(Debug)]
pub(crate) struct Owner {
    settings: Arc<MpsSettings>,
    part: PartId,
    probe: Option<Arc<dyn ClientProbe>>,
    wanted: watch::Receiver<Wanted>,
    statuses: Statuses,
    remarks: Vec<String>,
    failures: u32,
}

/// Why a stretch of work is over without an error: something else is wanted.
struct Changed;

impl Owner {
    pub(crate) fn new(
        settings: Arc<MpsSettings>,
        part: PartId,
        probe: Option<Arc<dyn ClientProbe>>,
        wanted: watch::Receiver<Wanted>,
        statuses: Statuses,
    ) -> Self {
        Owner { settings, part, probe, wanted, statuses, remarks: Vec::new(), failures: 0 }
    }

    /// Works until told to stop, or until nobody is left to tell.
    pub(crate) async fn run(mut self) {
        let mut daemon = match Daemon::new(Arc::clone(&self.settings), self.part.clone()) {
            Ok(daemon) => daemon,
            Err(error) => return self.report_failure(&error.into()),
        };
        while self.wanted.has_changed().is_ok() {
            let wanted = *self.wanted.borrow_and_update();
            let done = match wanted {
                Wanted::Serve(limits) => self.serve(&mut daemon, limits).await,
                Wanted::Leave => self.leave(&mut daemon).await,
                Wanted::Stop { quit_idle } => {
                    if quit_idle && matches!(daemon.clients().await, Ok(0)) {
                        // Who stops cannot wait; a daemon that will not end is found by the next owner.
                        let _ = daemon.quit().await;
                    }
                    return;
                }
            };
            match done {
                Ok(Changed) => self.failures = 0,
                Err(error) => {
                    self.report_failure(&error);
                    let wait = self.settings.backoff(self.failures);
                    tokio::select! {
                        () = sleep(wait) => {}
                        _ = self.wanted.changed() => self.wanted.mark_changed(),
                    }
                }
            }
        }
    }

    /// Keeps a daemon with these limits.
    async fn serve(&mut self, daemon: &mut Daemon, limits: MpsLimits) -> Result<Changed, DaemonError> {
        if self.failures == 0 {
            self.report(daemon, PartState::Starting, Some(limits), 0);
        }
        self.remarks = daemon.prepare()?;
        loop {
            if !daemon.is_there().await? {
                if let Err(error) = self.bring_up(daemon, limits).await {
                    daemon.discard().await;
                    return Err(error);
                }
                break;
            }
            if daemon.has(&limits).await? {
                break;
            }
            match daemon.clients().await? {
                0 => daemon.quit().await?,
                clients => {
                    self.report(daemon, PartState::WrongLimits { clients }, Some(limits), clients);
                    if self.pause().await {
                        return Ok(Changed);
                    }
                }
            }
        }
        self.watch(daemon, limits).await
    }

    /// Starts a daemon and makes it ready.
    async fn bring_up(&mut self, daemon: &mut Daemon, limits: MpsLimits) -> Result<(), DaemonError> {
        self.remarks.extend(daemon.start().await?);
        daemon.limit(&limits).await?;
        self.report(daemon, PartState::Limited, Some(limits), 0);
        match &self.probe {
            Some(probe) => daemon.probe(probe, &limits).await,
            None => Ok(()),
        }
    }

    /// Watches a daemon whose limits are right, until it is not so or something else is wanted.
    async fn watch(&mut self, daemon: &mut Daemon, limits: MpsLimits) -> Result<Changed, DaemonError> {
        let mut looks = interval(self.settings.look_interval);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut looked = false;
        loop {
            tokio::select! {
                death = daemon.ended() => return Err(death),
                _ = self.wanted.changed() => {
                    self.wanted.mark_changed();
                    return Ok(Changed);
                }
                _ = looks.tick() => {}
            }
            // Others may speak to the daemon too, so its limits are looked at again each time.
            daemon.check(&limits).await?;
            let clients = daemon.clients().await?;
            if looked {
                // Only one that has lived from look to look is past its failures.
                self.failures = 0;
            }
            looked = true;
            self.report(daemon, PartState::Ready, Some(limits), clients);
        }
    }

    /// Ends the daemon once nobody uses it, then waits until something else is wanted.
    async fn leave(&mut self, daemon: &mut Daemon) -> Result<Changed, DaemonError> {
        while daemon.is_there().await? {
            match daemon.clients().await? {
                0 => daemon.quit().await?,
                clients => {
                    self.report(daemon, PartState::Leaving { clients }, None, clients);
                    if self.pause().await {
                        return Ok(Changed);
                    }
                }
            }
        }
        daemon.remove()?;
        self.statuses.send_if_modified(|statuses| statuses.remove(&self.part).is_some());
        if self.wanted.changed().await.is_ok() {
            self.wanted.mark_changed();
        }
        Ok(Changed)
    }

    /// Waits for the next look; true when something else is wanted.
    async fn pause(&mut self) -> bool {
        tokio::select! {
            () = sleep(self.settings.look_interval) => false,
            _ = self.wanted.changed() => {
                self.wanted.mark_changed();
                true
            }
        }
    }

    fn report(&self, daemon: &mut Daemon, state: PartState, limits: Option<MpsLimits>, clients: usize) {
        let users = daemon.read_log();
        let remarks = self.remarks.iter().cloned().chain(users.remark()).collect();
        self.put(PartStatus { state, limits, adopted: daemon.is_adopted(), clients, users, remarks });
    }

    fn report_failure(&mut self, error: &DaemonError) {
        self.failures = self.failures.saturating_add(1);
        let failure = Failure {
            reason: error.reason(),
            message: error.story(),
            times: self.failures,
            retry_in: self.settings.backoff(self.failures),
        };
        let limits = match *self.wanted.borrow() {
            Wanted::Serve(limits) => Some(limits),
            _ => None,
        };
        self.put(PartStatus {
            state: PartState::Failed(failure),
            limits,
            adopted: false,
            clients: 0,
            users: Users::default(),
            remarks: self.remarks.clone(),
        });
    }

    fn put(&self, status: PartStatus) {
        self.statuses.send_if_modified(|statuses| {
            let before = statuses.insert(self.part.clone(), status.clone());
            before != Some(status)
        });
    }
}
