//! The last layout that was applied as a whole, kept so that it can be made again after a reboot or a driver reload.
//!
//! GPU instances live in the driver's memory alone. The record tells an agent that starts whether they were lost since,
//! and what they were. It is a convenience, not a truth: one that does not read is set aside and counts as absent.

use crate::journal::{JournalError, StateDir, write_whole};
use crate::{GpuState, Layout};
use carve_formats::mig_parted::{ConfigEntry, MigPartedConfig};
use carve_gpu_model::{GpuIndex, GpuUuid};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};
use std::{fs, io};
use thiserror::Error;

const VERSION: u32 = 1;

/// Which start of the machine: another one after every reboot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootId(pub String);

impl BootId {
    /// Where Linux tells it.
    const PATH: &str = "/proc/sys/kernel/random/boot_id";

    /// That of the running machine.
    pub fn current() -> io::Result<Self> {
        Ok(BootId(fs::read_to_string(Self::PATH)?.trim().to_owned()))
    }
}

/// Fingerprint of what a config says, without regard to where in a file it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConfigHash(String);

impl ConfigHash {
    /// Of the entries of one config.
    pub fn of(entries: &[ConfigEntry]) -> Self {
        let config = MigPartedConfig { configs: BTreeMap::from([(String::new(), entries.to_vec())]) };
        ConfigHash(fingerprint(config.to_json().as_bytes()))
    }
}

impl fmt::Display for ConfigHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn fingerprint(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        // Writing to a text can not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What was applied, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Name of the config.
    pub name: String,
    /// What it said.
    pub config: ConfigHash,
    /// When the layout was made: since this start of the machine.
    pub boot: BootId,
    /// The layout of every GPU with MIG that answered.
    pub layouts: BTreeMap<GpuUuid, Layout>,
}

impl Record {
    /// The record of a config that was just applied; the states are those read back afterwards.
    pub fn new(name: &str, entries: &[ConfigEntry], boot: BootId, states: &[GpuState]) -> Self {
        let cut = states.iter().filter(|state| state.mode.is_some() && state.trouble.is_none());
        let layouts = cut.map(|state| (state.gpu.uuid.clone(), Layout::of(state))).collect();
        Record { name: name.to_owned(), config: ConfigHash::of(entries), boot, layouts }
    }

    /// The layouts of the GPUs that are here and answer, to be handed to [`crate::restore`].
    pub fn layouts_here(&self, states: &[GpuState]) -> BTreeMap<GpuUuid, Layout> {
        let here = states.iter().filter(|state| state.trouble.is_none());
        here.filter_map(|state| self.layouts.get_key_value(&state.gpu.uuid))
            .map(|(uuid, layout)| (uuid.clone(), layout.clone()))
            .collect()
    }
}

/// GPUs that lost what the record says they had, and did not get something else instead.
///
/// After a reboot that is every GPU whose layout is another one. Within one run of the machine a different layout is
/// somebody's wish and stays; only a GPU that is empty where it was cut has lost it, to a driver reload or a reset.
pub fn lost_since(states: &[GpuState], record: &Record, boot: &BootId) -> BTreeSet<GpuIndex> {
    let answering = states.iter().filter(|state| state.trouble.is_none() && state.mode.is_some());
    let lost = answering.filter(|state| {
        let Some(then) = record.layouts.get(&state.gpu.uuid) else { return false };
        let now = Layout::of(state);
        let emptied = then.mig_enabled
            && (!now.mig_enabled || (now.instances.is_empty() && !then.instances.is_empty()));
        emptied || (record.boot != *boot && now != *then)
    });
    lost.map(|state| state.gpu.index).collect()
}

/// Whether the recorded layout must be made again before anything is offered.
pub fn reapply_needed(states: &[GpuState], record: &Record, boot: &BootId) -> bool {
    !lost_since(states, record, boot).is_empty()
}

/// Why the record can not be read or kept.
#[derive(Debug, Error)]
pub enum RecordError {
    /// The file could not be read or written.
    #[error("{}: can not {action}; without it the MIG layout can not be made again after a reboot", .path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The state directory is not to be had.
    #[error(transparent)]
    StateDir(#[from] JournalError),
}

/// What was found where the record should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordRead {
    /// Nothing was applied yet.
    Absent,
    /// The record.
    Found(Record),
    /// Something that is no record. It counts as absent.
    SetAside {
        /// Where it lies now.
        at: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl RecordRead {
    /// The record, if there is one.
    pub fn record(&self) -> Option<&Record> {
        match self {
            RecordRead::Found(record) => Some(record),
            RecordRead::Absent | RecordRead::SetAside { .. } => None,
        }
    }
}

/// The record in its file. The fingerprint tells a damaged one from a whole one that merely looks odd.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed {
    version: u32,
    fingerprint: String,
    record: String,
}

impl StateDir {
    fn record(&self) -> PathBuf {
        self.path().join("mig-record.json")
    }

    /// Keeps a record in place of the last one, whole or not at all.
    pub fn write_record(&self, record: &Record) -> Result<(), RecordError> {
        let path = self.record();
        let _lock = self.lock()?;
        let seal = || -> io::Result<()> {
            let record = serde_json::to_string(record)?;
            let sealed = Sealed { version: VERSION, fingerprint: fingerprint(record.as_bytes()), record };
            write_whole(&path, serde_json::to_string(&sealed)?.as_bytes())
        };
        seal().map_err(io_error("write the record of the last layout", &path))
    }

    /// The record of the last layout. One that does not read is moved out of the way, for somebody to look at.
    pub fn read_record(&self) -> Result<RecordRead, RecordError> {
        let path = self.record();
        if let Some(Ok(record)) = read(&path)? {
            return Ok(RecordRead::Found(record));
        }
        if !path.exists() {
            return Ok(RecordRead::Absent);
        }
        // Under the lock, and looked at again: a good one may have been written in the meantime.
        let _lock = self.lock()?;
        match read(&path)? {
            None => Ok(RecordRead::Absent),
            Some(Ok(record)) => Ok(RecordRead::Found(record)),
            Some(Err(reason)) => {
                let at = path.with_extension("json.corrupt");
                fs::rename(&path, &at).map_err(io_error("set the damaged record aside", &path))?;
                Ok(RecordRead::SetAside { at, reason })
            }
        }
    }
}

/// `None` without a file; what is wrong with it where it does not read.
fn read(path: &Path) -> Result<Option<Result<Record, String>>, RecordError> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(io_error("read the record of the last layout", path))?,
    };
    Ok(Some(open(&bytes)))
}

fn open(bytes: &[u8]) -> Result<Record, String> {
    let sealed: Sealed =
        serde_json::from_slice(bytes).map_err(|error| format!("it does not read: {error}"))?;
    if sealed.version != VERSION {
        return Err(format!("it has version {}, this carve knows {VERSION}", sealed.version));
    }
    if fingerprint(sealed.record.as_bytes()) != sealed.fingerprint {
        return Err("its content does not match its fingerprint".to_owned());
    }
    serde_json::from_str(&sealed.record).map_err(|error| format!("its content does not read: {error}"))
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecordError {
    let path = path.to_owned();
    move |source| RecordError::Io { action, path, source }
}
