//! All MPS daemons of a machine: which parts are wanted, and what has become of them.

use crate::owner::{Owner, Statuses, Wanted};
use crate::{ClientProbe, MpsSettings, PartDirectories, PartStatus};
use carve_slicing::PartId;
use carve_slicing::mps::MpsLimits;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What becomes of daemons without clients when their owner ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleDaemons {
    /// They run on: a pod may have been given a part and not have connected yet, and without a daemon it would run
    /// without limits. For a restart or an upgrade.
    Keep,
    /// They end. For a node that is drained, or a person's machine.
    Quit,
}

#[derive(Debug)]
struct Owned {
    wanted: watch::Sender<Wanted>,
    task: JoinHandle<()>,
}

/// All MPS daemons of a machine. Dropped without [`Mps::shutdown`] it lets go of every daemon as it is.
#[derive(Debug)]
pub struct Mps {
    settings: Arc<MpsSettings>,
    probe: Option<Arc<dyn ClientProbe>>,
    owners: BTreeMap<PartId, Owned>,
    statuses: Statuses,
}

impl Mps {
    /// Starts nothing yet. With a probe, no part is ready before a client has seen its limits.
    pub fn new(settings: MpsSettings, probe: Option<Arc<dyn ClientProbe>>) -> Self {
        let statuses = watch::Sender::new(BTreeMap::new());
        Mps { settings: Arc::new(settings), probe, owners: BTreeMap::new(), statuses }
    }

    /// Says which parts are to have a daemon, and with which limits. The others lose theirs once nobody uses them,
    /// those of an earlier process too. Returns at once; [`Mps::status`] tells how it goes. Must be called in a tokio
    /// runtime.
    pub fn ensure(&mut self, wanted: &BTreeMap<PartId, MpsLimits>) {
        let statuses = self.statuses.borrow().clone();
        // Whose daemon has ended is not kept: MIG devices come and go under ever new names. One that is let go of
        // before it has told anything has its note still there, and is found again below.
        self.owners.retain(|part, owned| {
            let left = *owned.wanted.borrow() == Wanted::Leave && !statuses.contains_key(part);
            wanted.contains_key(part) || !left
        });
        let behind = PartDirectories::left_behind(&self.settings.root);
        let known: Vec<PartId> = self.owners.keys().cloned().collect();
        for part in known.into_iter().chain(behind) {
            if !wanted.contains_key(&part) {
                self.want(part, Wanted::Leave);
            }
        }
        for (part, limits) in wanted {
            self.want(part.clone(), Wanted::Serve(*limits));
        }
    }

    fn want(&mut self, part: PartId, wanted: Wanted) {
        if let Some(owned) = self.owners.get(&part).filter(|owned| !owned.task.is_finished()) {
            owned.wanted.send_if_modified(|before| std::mem::replace(before, wanted) != wanted);
            return;
        }
        let (sender, receiver) = watch::channel(wanted);
        let (settings, statuses) = (Arc::clone(&self.settings), self.statuses.clone());
        let owner = Owner::new(settings, part.clone(), self.probe.clone(), receiver, statuses);
        self.owners.insert(part, Owned { wanted: sender, task: tokio::spawn(owner.run()) });
    }

    /// Ends the daemons of these parts and takes their folders away, those of an earlier process too. One with clients runs on. Returns at
    /// once; [`PartDirectories::left_behind`] tells what is still there. Must be called in a tokio runtime.
    pub fn leave(&mut self, parts: impl IntoIterator<Item = PartId>) {
        parts.into_iter().for_each(|part| self.want(part, Wanted::Leave));
    }

    /// What has become of each part, now and with every change.
    pub fn status(&self) -> watch::Receiver<BTreeMap<PartId, PartStatus>> {
        self.statuses.subscribe()
    }

    /// Ends the owners. Daemons with clients run on, for the next process to find.
    pub async fn shutdown(self, idle: IdleDaemons) {
        let quit_idle = idle == IdleDaemons::Quit;
        for owned in self.owners.values() {
            owned.wanted.send_replace(Wanted::Stop { quit_idle });
        }
        for owned in self.owners.into_values() {
            // An owner that panicked has nothing left to end.
            let _ = owned.task.await;
        }
    }
}
