//! The store: objects by their keys, and the one way to change them.

use crate::log::{Log, LogError, OpenError};
use crate::watch::{Change, TooOld, Watch, What};
use crate::{Key, Resource, Version};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::watch;

/// How often what was written is brought to the disk.
const SYNC: Duration = Duration::from_secs(1);

/// How a store behaves.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Changes that are kept for those who watch.
    pub recent: usize,
    /// Which objects need not survive the process.
    pub passing: fn(&Resource) -> bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { recent: 20_000, passing: |_| false }
    }
}

/// What becomes of an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// It is this now.
    Put(Value),
    /// It is gone.
    Delete,
    /// It stays as it is.
    Leave,
}

/// What became of an object.
#[derive(Debug, Clone)]
pub enum Changed {
    /// It is this now.
    Put(Arc<Value>),
    /// It is gone, and was this.
    Deleted(Arc<Value>),
    /// Nothing was changed; this is it, if it is there.
    Nothing(Option<Arc<Value>>),
}

impl Changed {
    /// The object, as it is or was last.
    pub fn object(&self) -> Option<&Arc<Value>> {
        match self {
            Changed::Put(object) | Changed::Deleted(object) => Some(object),
            Changed::Nothing(object) => object.as_ref(),
        }
    }
}

/// Why an object was not changed.
#[derive(Debug, Error)]
pub enum WriteError<E> {
    /// Whoever decides did not want it.
    #[error(transparent)]
    Refused(E),
    /// It can not be written down.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Objects of a kind, and when that was.
#[derive(Debug, Clone)]
pub struct Listed {
    /// By namespace and name.
    pub objects: Vec<Arc<Value>>,
    /// Changes after this version are not among them.
    pub version: Version,
}

#[derive(Debug)]
struct State {
    version: Version,
    objects: BTreeMap<Key, Arc<Value>>,
    recent: VecDeque<Change>,
    /// Changes up to this version are not in `recent`.
    forgotten: Version,
    log: Option<Log>,
    /// Nothing is written any more.
    closed: bool,
}

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    newest: watch::Sender<Version>,
    settings: Settings,
}

/// Objects; cheap to clone.
#[derive(Debug, Clone)]
pub struct Store(Arc<Inner>);

impl Store {
    /// Objects that are gone with the process.
    pub fn in_memory(settings: Settings) -> Self {
        Store::with(settings, Version(0), BTreeMap::new(), None)
    }

    /// Objects in a folder of their own, as they were when they were last changed.
    pub fn open(folder: &Path, settings: Settings) -> Result<Self, OpenError> {
        let (mut log, (version, changes)) = Log::open(folder)?;
        let mut objects = BTreeMap::new();
        for (key, object) in changes {
            match object {
                Some(object) => objects.insert(key, Arc::new(object)),
                None => objects.remove(&key),
            };
        }
        // What did not count when it was open before is dropped while nobody waits.
        if let Err(error) = log.rewrite(version, objects.iter()) {
            tracing::warn!(%error, folder = %folder.display(), "the log of objects can not be written anew, and goes on as it is");
        }
        let store = Store::with(settings, version, objects, Some(log));
        let weak = Arc::downgrade(&store.0);
        std::thread::spawn(move || keep_synced(&weak));
        Ok(store)
    }

    fn with(
        settings: Settings,
        version: Version,
        objects: BTreeMap<Key, Arc<Value>>,
        log: Option<Log>,
    ) -> Self {
        let state =
            State { version, objects, recent: VecDeque::new(), forgotten: version, log, closed: false };
        let newest = watch::Sender::new(version);
        Store(Arc::new(Inner { state: Mutex::new(state), newest, settings }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The version of the last change.
    pub fn version(&self) -> Version {
        self.state().version
    }

    /// An object.
    pub fn get(&self, key: &Key) -> Option<Arc<Value>> {
        self.state().objects.get(key).cloned()
    }

    /// Objects of a kind, in a namespace or all of them.
    pub fn list(&self, resource: &Resource, namespace: Option<&str>) -> Listed {
        let state = self.state();
        let first = Key {
            resource: resource.clone(),
            namespace: namespace.unwrap_or_default().to_owned(),
            name: String::new(),
        };
        let range = state.objects.range((Bound::Included(first), Bound::Unbounded));
        let wanted =
            |key: &Key| key.resource == *resource && namespace.is_none_or(|one| key.namespace == one);
        let objects = range.take_while(|(key, _)| wanted(key)).map(|(_, object)| Arc::clone(object));
        Listed { objects: objects.collect(), version: state.version }
    }

    /// Everything there is.
    pub fn all(&self) -> Vec<(Key, Arc<Value>)> {
        self.state().objects.iter().map(|(key, object)| (key.clone(), Arc::clone(object))).collect()
    }

    /// Changes an object: `decide` sees it as it is, and nobody else changes it meanwhile. When this returns, the change is written down. An object that
    /// is put has its version in `metadata.resourceVersion`.
    pub fn change<E>(
        &self,
        key: &Key,
        decide: impl FnOnce(Option<&Value>) -> Result<Act, E>,
    ) -> Result<Changed, WriteError<E>> {
        let mut state = self.state();
        let before = state.objects.get(key).cloned();
        let version = Version(state.version.0 + 1);
        let stamped = |mut object: Value| {
            object["metadata"]["resourceVersion"] = version.to_string().into();
            Arc::new(object)
        };
        let (what, object) = match (decide(before.as_deref()).map_err(WriteError::Refused)?, &before) {
            (Act::Put(object), None) => (What::Added, stamped(object)),
            (Act::Put(object), Some(_)) => (What::Modified, stamped(object)),
            (Act::Delete, Some(before)) => (What::Deleted, stamped(Value::clone(before))),
            (Act::Delete, None) | (Act::Leave, _) => return Ok(Changed::Nothing(before)),
        };
        let lives = what != What::Deleted;
        if state.closed {
            return Err(WriteError::Log(LogError {
                path: PathBuf::new(),
                why: "the objects are closed".to_owned(),
                full: false,
            }));
        }
        if let Some(log) = state.log.as_mut().filter(|_| !(self.0.settings.passing)(&key.resource)) {
            log.append(version, key, lives.then_some(&*object))?;
        }
        state.version = version;
        if lives {
            state.objects.insert(key.clone(), Arc::clone(&object));
        } else {
            state.objects.remove(key);
        }
        let change = Change { version, key: key.clone(), what, object: Arc::clone(&object), before };
        state.recent.push_back(change);
        while state.recent.len() > self.0.settings.recent {
            if let Some(old) = state.recent.pop_front() {
                state.forgotten = old.version;
            }
        }
        self.tidy(&mut state);
        drop(state);
        self.0.newest.send_replace(version);
        Ok(if lives { Changed::Put(object) } else { Changed::Deleted(object) })
    }

    fn tidy(&self, state: &mut State) {
        let State { log: Some(log), objects, version, .. } = state else { return };
        if !log.is_worn() {
            return;
        }
        let lasting = objects.iter().filter(|(key, _)| !(self.0.settings.passing)(&key.resource));
        if let Err(error) = log.rewrite(*version, lasting) {
            tracing::warn!(%error, "the log of objects can not be written anew, and grows");
        }
    }

    /// Changes after a version, of one kind or all, in their order.
    pub(crate) fn changes_since(
        &self,
        since: Version,
        resource: Option<&Resource>,
        namespace: Option<&str>,
    ) -> Result<Vec<Change>, TooOld> {
        let state = self.state();
        if since < state.forgotten {
            return Err(TooOld { since, oldest: state.forgotten });
        }
        let first = state.recent.partition_point(|change| change.version <= since);
        let wanted = |change: &&Change| {
            resource.is_none_or(|one| change.key.resource == *one)
                && namespace.is_none_or(|one| change.key.namespace == one)
        };
        Ok(state.recent.range(first..).filter(wanted).cloned().collect())
    }

    /// Changes after a version, from now on as they come.
    pub fn watch(
        &self,
        resource: Option<Resource>,
        namespace: Option<String>,
        since: Version,
    ) -> Result<Watch, TooOld> {
        let newest = self.0.newest.subscribe();
        self.changes_since(since, resource.as_ref(), Some("\u{0}"))?;
        Ok(Watch { store: self.clone(), resource, namespace, seen: since, newest })
    }

    /// Brings everything to the disk and lets go of the folder. From now on objects can be read, and every change is refused.
    pub fn close(&self) {
        self.sync();
        let mut state = self.state();
        (state.log, state.closed) = (None, true);
    }

    /// Brings what was written to the disk.
    pub fn sync(&self) {
        let unsynced = self.state().log.as_mut().and_then(Log::unsynced);
        // Not under the lock: a slow disk must not hold up those who only read.
        if let Some(Err(error)) = unsynced.map(|file| file.and_then(|file| file.sync_data())) {
            tracing::warn!(%error, "what was changed is not on the disk yet");
        }
    }
}

fn keep_synced(inner: &Weak<Inner>) {
    loop {
        std::thread::sleep(SYNC);
        let Some(inner) = inner.upgrade() else { return };
        Store(inner).sync();
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
