//! The file: a line for each change, with a checksum; written anew when little of it still counts.

use crate::{Key, Version};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

const FILE: &str = "objects.log";
const BESIDE: &str = "objects.log.new";
const LOCK: &str = "lock";
/// What is not worth writing anew.
const SMALL: u64 = 4 << 20;

/// Why there are no objects.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The folder can not be used.
    #[error("{path}: {source}")]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process has them.
    #[error("{0} is used by another process; stop that one, or choose another folder")]
    Taken(PathBuf),
    /// A line in the middle is not what was written.
    #[error(
        "{path}, line {line}: {why}; later lines are whole, so this is no write that was interrupted. Nothing was changed: \
         move the file away to begin without its objects, or take the line out to go on without that change"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
}

/// Why a change is not written.
#[derive(Debug, Clone, Error)]
#[error("{path}: {why}; nothing was changed")]
pub struct LogError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub why: String,
}

/// A change as it is written; an object that is gone has none. A line without a key only says how far versions were given away.
#[derive(Serialize)]
struct Line<'a> {
    v: Version,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a Key>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<&'a Value>,
}

/// The same as it is read.
#[derive(Deserialize)]
struct Read {
    v: Version,
    #[serde(default)]
    key: Option<Key>,
    #[serde(default)]
    object: Option<Value>,
}

/// The open file.
#[derive(Debug)]
pub(crate) struct Log {
    folder: PathBuf,
    file: File,
    /// Held for as long as the store is open.
    _lock: File,
    length: u64,
    /// How long it was when it held nothing but what counts.
    least: u64,
    unsynced: bool,
    /// Why nothing more may be appended: the end of the file is not known.
    broken: Option<String>,
}

/// What a log holds: the last version, and every change in its order.
pub(crate) type Replayed = (Version, Vec<(Key, Option<Value>)>);

impl Log {
    pub(crate) fn open(folder: &Path) -> Result<(Self, Replayed), OpenError> {
        let wrong = |path: &Path| {
            let path = path.to_owned();
            move |source| OpenError::Folder { path, source }
        };
        fs::create_dir_all(folder).map_err(wrong(folder))?;
        let lock_path = folder.join(LOCK);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(wrong(&lock_path))?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| OpenError::Taken(folder.to_owned()))?;
        // Never renamed, so it never counted.
        let _ = fs::remove_file(folder.join(BESIDE));
        let path = folder.join(FILE);
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
        let mut file = file.map_err(wrong(&path))?;
        let (replayed, length) = replay(&file, &path)?;
        file.set_len(length).map_err(wrong(&path))?;
        file.seek(SeekFrom::Start(length)).map_err(wrong(&path))?;
        let log = Log {
            folder: folder.to_owned(),
            file,
            _lock: lock,
            length,
            least: 0,
            unsynced: false,
            broken: None,
        };
        Ok((log, replayed))
    }

    fn error(&self, why: &dyn std::fmt::Display) -> LogError {
        LogError { path: self.folder.join(FILE), why: why.to_string() }
    }

    /// Writes a change down.
    pub(crate) fn append(
        &mut self,
        version: Version,
        key: &Key,
        object: Option<&Value>,
    ) -> Result<(), LogError> {
        if let Some(why) = &self.broken {
            return Err(self.error(why));
        }
        let line = line(version, Some(key), object).map_err(|error| self.error(&error))?;
        if let Err(error) = self.file.write_all(&line) {
            // What was written of the line must not be in front of the next one.
            let back = self.file.set_len(self.length).and_then(|()| self.file.seek(SeekFrom::End(0)));
            if let Err(worse) = back {
                self.broken = Some(format!("its end could not be put right after a write failed: {worse}"));
            }
            return Err(self.error(&error));
        }
        self.length += line.len() as u64;
        self.unsynced = true;
        Ok(())
    }

    /// Whether most of it counts no more.
    pub(crate) fn is_worn(&self) -> bool {
        self.length > SMALL && self.length > 3 * self.least
    }

    /// Writes all that counts into a new file, which takes the place of the old one.
    pub(crate) fn rewrite<'a>(
        &mut self,
        version: Version,
        objects: impl Iterator<Item = (&'a Key, &'a Arc<Value>)>,
    ) -> io::Result<()> {
        let beside = self.folder.join(BESIDE);
        let mut file = BufWriter::new(File::create(&beside)?);
        let head = line(version, None, None)?;
        file.write_all(&head)?;
        let mut length = head.len() as u64;
        for (key, object) in objects {
            let line = line(version, Some(key), Some(object))?;
            file.write_all(&line)?;
            length += line.len() as u64;
        }
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        fs::rename(&beside, self.folder.join(FILE))?;
        File::open(&self.folder)?.sync_all()?;
        (self.file, self.length, self.least, self.unsynced, self.broken) =
            (file, length, length, false, None);
        Ok(())
    }

    /// The file, if something in it is not on the disk yet.
    pub(crate) fn unsynced(&mut self) -> Option<io::Result<File>> {
        std::mem::take(&mut self.unsynced).then(|| self.file.try_clone())
    }
}

fn line(version: Version, key: Option<&Key>, object: Option<&Value>) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(&Line { v: version, key, object })?;
    let mut line = format!("{:08x} ", crc32fast::hash(&text)).into_bytes();
    line.extend(text);
    line.push(b'\n');
    Ok(line)
}

fn read_line(bytes: &[u8]) -> Result<Read, String> {
    let Some((b'\n', line)) = bytes.split_last() else { return Err("it does not end".to_owned()) };
    let (sum, text) = line.split_at_checked(9).ok_or("it is too short")?;
    let expected = format!("{:08x} ", crc32fast::hash(text));
    if sum != expected.as_bytes() {
        return Err("its checksum is that of something else".to_owned());
    }
    serde_json::from_slice(text).map_err(|error| error.to_string())
}

/// Reads everything, and tells where the last whole line ends. A last line that is not whole was never acknowledged.
fn replay(file: &File, path: &Path) -> Result<(Replayed, u64), OpenError> {
    let folder = |source| OpenError::Folder { path: path.to_owned(), source };
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let (mut version, mut changes) = (Version(0), Vec::new());
    let (mut whole, mut number) = (0, 0);
    let mut damaged: Option<(usize, String)> = None;
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        if reader.read_until(b'\n', &mut bytes).map_err(folder)? == 0 {
            return Ok(((version, changes), whole));
        }
        number += 1;
        match (read_line(&bytes), &damaged) {
            (Ok(line), None) => {
                whole += bytes.len() as u64;
                version = version.max(line.v);
                changes.extend(line.key.map(|key| (key, line.object)));
            }
            (Ok(_), Some((line, why))) => {
                return Err(OpenError::Damaged { path: path.to_owned(), line: *line, why: why.clone() });
            }
            (Err(why), None) => damaged = Some((number, why)),
            (Err(_), Some(_)) => {}
        }
    }
}
