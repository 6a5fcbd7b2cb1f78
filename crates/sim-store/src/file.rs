//! The state file: how it is read, told apart from its successors, and replaced.

use crate::StoreError;
use carve_gpu_host::SimulatedState;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Version of the file's layout; a change that old readers would misread counts it up.
pub(crate) const FORMAT: u32 = 1;

/// What is in the file.
#[derive(Debug, Serialize, Deserialize)]
struct Envelope<S> {
    format: u32,
    state: S,
}

/// Only the version, to tell a file of a later carve from garbage.
#[derive(Debug, Deserialize)]
struct Version {
    format: u32,
}

/// Tells one version of the file from the next. Every write makes a new inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    inode: u64,
    modified: (i64, i64),
    length: u64,
}

impl Stamp {
    fn of(file: &File) -> io::Result<Self> {
        let facts = file.metadata()?;
        Ok(Stamp { inode: facts.ino(), modified: (facts.mtime(), facts.mtime_nsec()), length: facts.len() })
    }
}

/// What reading the file came to.
pub(crate) enum Reading {
    /// It is the version already known.
    Known,
    /// It is another version.
    New(Box<SimulatedState>, Stamp),
    /// There is none.
    Absent,
}

/// Reads the state unless it is the known version. The caller holds the lock.
pub(crate) fn read(path: &Path, known: Option<Stamp>) -> Result<Reading, StoreError> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Reading::Absent),
        Err(error) => return Err(StoreError::io(path, "open the state file")(error)),
    };
    let stamp = Stamp::of(&file).map_err(StoreError::io(path, "inspect the state file"))?;
    if known == Some(stamp) {
        return Ok(Reading::Known);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(stamp.length).unwrap_or(0).min(1 << 20));
    file.read_to_end(&mut bytes).map_err(StoreError::io(path, "read the state file"))?;
    Ok(Reading::New(Box::new(parse(path, &bytes)?), stamp))
}

fn parse(path: &Path, bytes: &[u8]) -> Result<SimulatedState, StoreError> {
    let garbage = |reason: String| StoreError::Garbage { path: path.to_owned(), reason };
    if bytes.is_empty() {
        return Err(garbage("the file is empty".to_owned()));
    }
    let version: Version = serde_json::from_slice(bytes).map_err(|error| garbage(error.to_string()))?;
    if version.format != FORMAT {
        return Err(garbage(format!("its format is {}", version.format)));
    }
    let envelope: Envelope<SimulatedState> =
        serde_json::from_slice(bytes).map_err(|error| garbage(error.to_string()))?;
    if !envelope.state.is_consistent() {
        return Err(garbage("its GPUs are not those of its machine".to_owned()));
    }
    Ok(envelope.state)
}

/// Replaces the state. The caller holds the lock alone, so that one name serves for every half-written file and a
/// killed writer leaves at most one behind.
pub(crate) fn write(path: &Path, state: &SimulatedState) -> Result<Stamp, StoreError> {
    let beside = beside(path);
    let mut bytes = serde_json::to_vec(&Envelope { format: FORMAT, state })
        .map_err(|error| StoreError::io(path, "write the state")(error.into()))?;
    bytes.push(b'\n');
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(&bytes)?;
        file.sync_all()?;
        Stamp::of(&file)
    });
    let stamp = written.map_err(StoreError::io(&beside, "write the new state"))?;
    std::fs::rename(&beside, path).map_err(StoreError::io(path, "replace the state file"))?;
    Ok(stamp)
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}
