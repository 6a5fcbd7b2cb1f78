//! What changes, for those who watch.

use crate::store::Store;
use crate::{Key, Resource, Version};
use serde_json::Value;
use std::sync::Arc;
use thiserror::Error;
use tokio::sync::watch;

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It was not there before.
    Added,
    /// It has changed.
    Modified,
    /// It is gone.
    Deleted,
}

/// A change.
#[derive(Debug, Clone)]
pub struct Change {
    /// When, in the order of changes.
    pub version: Version,
    /// Which object.
    pub key: Key,
    /// What happened.
    pub what: What,
    /// As it is now; as it was last, with the version of its end, where it is gone.
    pub object: Arc<Value>,
    /// As it was before, where it was there.
    pub before: Option<Arc<Value>>,
}

/// Changes since a version are not known any more: list again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("changes since version {since} are not kept any more; the oldest kept is {oldest}")]
pub struct TooOld {
    /// What was asked for.
    pub since: Version,
    /// What is kept.
    pub oldest: Version,
}

/// Changes of one kind, in their order.
#[derive(Debug)]
pub struct Watch {
    pub(crate) store: Store,
    pub(crate) resource: Option<Resource>,
    pub(crate) namespace: Option<String>,
    pub(crate) seen: Version,
    pub(crate) newest: watch::Receiver<Version>,
}

impl Watch {
    /// The next changes, at least one; waits for it.
    pub async fn next(&mut self) -> Result<Vec<Change>, TooOld> {
        loop {
            // Marked before it is read: what comes in between wakes the wait below.
            let newest = *self.newest.borrow_and_update();
            let changes =
                self.store.changes_since(self.seen, self.resource.as_ref(), self.namespace.as_deref())?;
            self.seen = changes.last().map_or(self.seen.max(newest), |change| change.version);
            if !changes.is_empty() {
                return Ok(changes);
            }
            if self.newest.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Up to which version everything was told.
    pub fn seen(&self) -> Version {
        self.seen
    }
}
