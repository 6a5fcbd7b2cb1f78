//! What is known about every claim that was made ready, one file each, so that it survives the agent and the agent's successor.
//!
//! A file is written whole and renamed, so that a kill leaves the old one or the new one. One that does not read is put aside and told;
//! its claim is then known from the API server alone until kubelet asks for it again.

use carve_mig_manager::write_whole;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thiserror::Error;

/// A claim and what was made for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRecord {
    /// The boot of the machine in which it was made: instances and daemons do not survive the next.
    pub boot: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// How far it is.
    pub stage: Stage,
    /// Its devices.
    pub devices: Vec<DeviceRecord>,
}

impl ClaimRecord {
    /// What people call it.
    pub fn title(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// How far a claim is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// It is being made ready, or was when somebody was killed.
    Started,
    /// Containers may be started with it.
    Ready,
    /// It is being taken back.
    Ending,
}

/// A device of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceRecord {
    /// The request it answers.
    pub request: String,
    /// Its name in the pool.
    pub device: String,
    /// Which share of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<String>,
    /// UUID of its GPU.
    pub gpu: String,
    /// UUID of the GPU or MIG device that containers get; unknown until it is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Minors of the guards of a MIG device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guards: Option<(u32, u32)>,
    /// How it is used.
    pub usage: UsageRecord,
}

impl DeviceRecord {
    /// What its share is called where limits are kept.
    pub fn share_name(&self) -> &str {
        self.share.as_deref().unwrap_or("whole")
    }
}

/// How a device is used, as far as it must be undone or said again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UsageRecord {
    /// Alone.
    Alone,
    /// By turns of a length.
    Turns {
        /// As the driver counts it.
        interval: u32,
    },
    /// Over an MPS daemon.
    Mps {
        /// What the daemon lets any client have, in MiB; unknown until the part is.
        daemon_memory: Option<u64>,
        /// Percent of threads that the daemon lets any client have.
        daemon_threads: u32,
        /// What each client of this claim is held to, in MiB.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        memory: Option<u64>,
        /// Percent of threads that each client of this claim is held to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        threads: Option<u32>,
        /// What all clients of this claim have together, in MiB, where the limiter counts what they use.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        counted: Option<u64>,
    },
    /// By the limiter.
    Fraction {
        /// MiB of memory.
        memory: u64,
        /// Percent of compute; zero is no limit.
        compute: u8,
        /// Whether what others leave is lent.
        burst: bool,
        /// Whether CUDA works where the limiter does not.
        pass: bool,
    },
    /// Looked at.
    Watch,
}

impl UsageRecord {
    /// One word for it, as in statuses, series and listings.
    pub fn word(&self) -> &'static str {
        match self {
            UsageRecord::Alone => "alone",
            UsageRecord::Turns { .. } => "turns",
            UsageRecord::Mps { .. } => "mps",
            UsageRecord::Fraction { .. } => "fraction",
            UsageRecord::Watch => "watch",
        }
    }

    /// Whether containers get limits, and memory in which to count what they use.
    pub fn has_share(&self) -> bool {
        matches!(self, UsageRecord::Fraction { .. } | UsageRecord::Mps { counted: Some(_), .. })
    }
}

/// All records, and what could not be read.
#[derive(Debug, Default)]
pub struct Records {
    /// By uid.
    pub claims: BTreeMap<String, ClaimRecord>,
    /// Files that were put aside, in words.
    pub troubles: Vec<String>,
}

/// Why records can not be used.
#[derive(Debug, Error)]
pub enum RecordError {
    /// A file or folder.
    #[error("{}: can not {action}: {source}; nothing is made ready without a record, so make room or make the folder writable", .path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Somebody else has it.
    #[error("{}: another agent is at work on this node and has not let go for {} s; kubelet asks again", .path.display(), PATIENCE.as_secs())]
    Busy {
        /// The lock.
        path: PathBuf,
    },
    /// A uid that is no file name.
    #[error("'{0}' is not the uid of a claim")]
    Uid(String),
}

/// How long to wait for another agent: a change of MIG mode with a reset takes seconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where records are.
#[derive(Debug, Clone)]
pub struct RecordStore {
    folder: PathBuf,
}

/// Keeps other agents out as long as it lives.
#[derive(Debug)]
pub struct StoreLock {
    _file: File,
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecordError {
    let path = path.to_owned();
    move |source| RecordError::Io { action, path, source }
}

impl RecordStore {
    /// Records in a folder, which is made when it is needed.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        RecordStore { folder: folder.into() }
    }

    /// Records of the agent that has this state folder.
    pub fn of_agent(state: &Path) -> Self {
        RecordStore::new(state.join("dra/claims"))
    }

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Waits until no other agent is at work.
    pub fn lock(&self) -> Result<StoreLock, RecordError> {
        fs::create_dir_all(&self.folder).map_err(io_error("make the folder", &self.folder))?;
        let path = self.folder.join("lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(io_error("open the lock", &path))?;
        let give_up = Instant::now() + PATIENCE;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(StoreLock { _file: file }),
                Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < give_up => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(RecordError::Busy { path }),
                Err(error) => return Err(io_error("take the lock", &path)(error.into())),
            }
        }
    }

    fn path(&self, uid: &str) -> Result<PathBuf, RecordError> {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        if uid.is_empty() || uid.len() > 64 || !uid.chars().all(plain) {
            return Err(RecordError::Uid(uid.chars().take(80).collect()));
        }
        Ok(self.folder.join(format!("{uid}.json")))
    }

    /// Everything that is known. Call it with the lock held.
    pub fn all(&self) -> Result<Records, RecordError> {
        self.read(put_aside)
    }

    /// Everything that is known, for somebody who only looks: the lock is not taken and no file is touched. A claim that comes or goes
    /// meanwhile may be missing; what is there was written whole.
    pub fn look(&self) -> Result<Records, RecordError> {
        self.read(|path, why| format!("{} does not read ({why})", path.display()))
    }

    fn read(&self, unreadable: impl Fn(&Path, &str) -> String) -> Result<Records, RecordError> {
        let mut records = Records::default();
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(records),
            entries => entries.map_err(io_error("read the folder", &self.folder))?,
        };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let read = match fs::read_to_string(&path) {
                // Taken back since the folder was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => Err(error.to_string()),
                Ok(text) => serde_json::from_str::<ClaimRecord>(&text).map_err(|error| error.to_string()),
            };
            match read {
                Ok(record) if Some(&path) == self.path(&record.uid).ok().as_ref() => {
                    records.claims.insert(record.uid.clone(), record);
                }
                Ok(record) => {
                    records.troubles.push(unreadable(&path, &format!("it names claim {}", record.uid)));
                }
                Err(why) => records.troubles.push(unreadable(&path, &why)),
            }
        }
        Ok(records)
    }

    /// Writes a record.
    pub fn put(&self, record: &ClaimRecord) -> Result<(), RecordError> {
        let path = self.path(&record.uid)?;
        let text = serde_json::to_string(record).map_err(io::Error::other);
        let written = text.and_then(|text| write_whole(&path, text.as_bytes()));
        written.map_err(io_error("write the record of a claim", &path))
    }

    /// Removes a record, if there is one.
    pub fn remove(&self, uid: &str) -> Result<(), RecordError> {
        let path = self.path(uid)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(io_error("remove the record of a claim", &path)(error))
            }
            _ => Ok(()),
        }
    }
}

fn put_aside(path: &Path, why: &str) -> String {
    let aside = path.with_extension("corrupt");
    let place = match fs::rename(path, &aside) {
        Ok(()) => format!("it is put aside as {}", aside.display()),
        Err(error) => format!("it can not be put aside: {error}"),
    };
    format!(
        "{} does not read ({why}); {place}. Pods that run are not touched, and the claim is made ready anew when kubelet asks for it",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::{ClaimRecord, DeviceRecord, RecordStore, Stage, UsageRecord};

    fn record(uid: &str) -> ClaimRecord {
        let device = |usage| DeviceRecord {
            request: "r".to_owned(),
            device: "gpu-0".to_owned(),
            share: Some("s".to_owned()),
            gpu: "GPU-0".to_owned(),
            part: None,
            guards: Some((3, 4)),
            usage,
        };
        ClaimRecord {
            boot: "b".to_owned(),
            namespace: "n".to_owned(),
            name: "c".to_owned(),
            uid: uid.to_owned(),
            stage: Stage::Started,
            devices: vec![
                device(UsageRecord::Alone),
                device(UsageRecord::Watch),
                device(UsageRecord::Turns { interval: 2 }),
                device(UsageRecord::Mps {
                    daemon_memory: None,
                    daemon_threads: 100,
                    memory: Some(5),
                    threads: None,
                    counted: Some(7),
                }),
                device(UsageRecord::Fraction { memory: 1, compute: 2, burst: true, pass: false }),
            ],
        }
    }

    #[test]
    fn who_only_looks_takes_no_lock_and_leaves_every_file_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let store = RecordStore::new(folder.path().join("claims"));
        assert!(store.look().unwrap().claims.is_empty());
        assert!(!store.folder().exists(), "looking makes no folder");
        let _lock = store.lock().unwrap();
        store.put(&record("a-1")).unwrap();
        std::fs::write(store.folder().join("b-2.json"), "{\"uid\":").unwrap();
        for _ in 0..2 {
            let records = store.look().unwrap();
            assert_eq!(records.claims.keys().collect::<Vec<_>>(), ["a-1"]);
            assert_eq!(records.troubles.len(), 1, "told every time: {:?}", records.troubles);
        }
        let mut names: Vec<_> =
            std::fs::read_dir(store.folder()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["a-1.json", "b-2.json", "lock"]);
    }

    #[test]
    fn records_are_read_as_they_were_written_and_broken_ones_are_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        let store = RecordStore::new(folder.path().join("claims"));
        assert!(store.all().unwrap().claims.is_empty());
        let _lock = store.lock().unwrap();
        store.put(&record("a-1")).unwrap();
        store.put(&record("b-2")).unwrap();
        assert_eq!(store.all().unwrap().claims["a-1"], record("a-1"));
        std::fs::write(store.folder().join("b-2.json"), "{\"uid\":").unwrap();
        std::fs::copy(store.folder().join("a-1.json"), store.folder().join("c-3.json")).unwrap();
        let records = store.all().unwrap();
        assert_eq!(records.claims.keys().collect::<Vec<_>>(), ["a-1"]);
        assert_eq!(records.troubles.len(), 2, "{:?}", records.troubles);
        assert!(store.all().unwrap().troubles.is_empty(), "they are put aside once");
        store.remove("a-1").unwrap();
        store.remove("a-1").unwrap();
        assert!(store.all().unwrap().claims.is_empty());
        for uid in ["", "../x", "a/b", "a b"] {
            assert!(store.put(&record(uid)).is_err(), "{uid:?}");
        }
    }
}
