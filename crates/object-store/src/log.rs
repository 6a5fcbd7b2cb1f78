//! The file: a line for each change, with a checksum; written anew when little of it still counts.

use crate::{Key, Version};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read as _, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

const FILE: &str = "objects.log";
const BESIDE: &str = "objects.log.new";
const CUT: &str = "objects.log.cut";
const LOCK: &str = "lock";
/// How deep objects may be nested: what reads them again gives up at 128, and a line is around them.
const DEEPEST: usize = 120;
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
    /// Whether it is for lack of room.
    pub full: bool,
}

/// Whether something was not written for lack of room.
fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
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
    /// A write failed, and what it left at the end is still there.
    broken: bool,
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
        let (replayed, length) = replay(BufReader::with_capacity(1 << 16, &file), &path)?;
        put_aside(&mut file, length, folder).map_err(wrong(&path))?;
        file.set_len(length).map_err(wrong(&path))?;
        file.seek(SeekFrom::Start(length)).map_err(wrong(&path))?;
        let log = Log {
            folder: folder.to_owned(),
            file,
            _lock: lock,
            length,
            least: 0,
            unsynced: false,
            broken: false,
        };
        Ok((log, replayed))
    }

    fn error(&self, why: &dyn std::fmt::Display, full: bool) -> LogError {
        LogError { path: self.folder.join(FILE), why: why.to_string(), full }
    }

    /// What was written of a line must not be in front of the next one.
    fn put_right(&mut self) -> io::Result<u64> {
        self.file.set_len(self.length)?;
        self.file.seek(SeekFrom::Start(self.length))
    }

    /// Writes a change down.
    pub(crate) fn append(
        &mut self,
        version: Version,
        key: &Key,
        object: Option<&Value>,
    ) -> Result<(), LogError> {
        if self.broken {
            let right = self.put_right();
            right.map_err(|error| {
                self.error(
                    &format!("its end can not be put right after a write failed: {error}"),
                    is_full(&error),
                )
            })?;
            self.broken = false;
        }
        // What would not be read again must not be acknowledged.
        if object.is_some_and(|object| is_deeper(object, DEEPEST)) {
            return Err(self.error(&format!("{key} is nested deeper than {DEEPEST} levels"), false));
        }
        let line = line(version, Some(key), object).map_err(|error| self.error(&error, false))?;
        if let Err(error) = self.file.write_all(&line) {
            self.broken = self.put_right().is_err();
            return Err(self.error(&error, is_full(&error)));
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
        let rewritten = self.write_beside(&beside, version, objects);
        if rewritten.is_err() {
            // It takes room, and is tried again once the log has grown as much once more.
            let _ = fs::remove_file(&beside);
            self.least = self.length;
        }
        rewritten
    }

    fn write_beside<'a>(
        &mut self,
        beside: &Path,
        version: Version,
        objects: impl Iterator<Item = (&'a Key, &'a Arc<Value>)>,
    ) -> io::Result<()> {
        let mut file = BufWriter::new(File::create(beside)?);
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
        fs::rename(beside, self.folder.join(FILE))?;
        // From here on the old file has no name, so whatever comes must be written into the new one.
        (self.file, self.length, self.least, self.unsynced, self.broken) =
            (file, length, length, false, false);
        File::open(&self.folder)?.sync_all()
    }

    /// The file, if something in it is not on the disk yet.
    pub(crate) fn unsynced(&mut self) -> Option<io::Result<File>> {
        std::mem::take(&mut self.unsynced).then(|| self.file.try_clone())
    }
}

fn is_deeper(value: &Value, than: usize) -> bool {
    let Some(left) = than.checked_sub(1) else { return true };
    match value {
        Value::Object(fields) => fields.values().any(|inner| is_deeper(inner, left)),
        Value::Array(entries) => entries.iter().any(|inner| is_deeper(inner, left)),
        _ => false,
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

/// Whether what stands between two whole lines is another byte than their mark: then the first was acknowledged, however the end of the log looks.
fn joins_two(bytes: &[u8]) -> bool {
    let Some((_, text)) = bytes.split_at_checked(9) else { return false };
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<Value>();
    if !matches!(values.next(), Some(Ok(_))) {
        return false;
    }
    let (first, rest) = bytes.split_at(9 + values.byte_offset());
    let next = rest.get(1..).unwrap_or_default();
    read_line(&[first, b"\n"].concat()).is_ok() && read_line(next).is_ok()
}

/// What follows the last whole line is said, and kept beside: nobody was told that it is written, but somebody may want to look.
fn put_aside(file: &mut File, whole: u64, folder: &Path) -> io::Result<()> {
    file.seek(SeekFrom::Start(whole))?;
    let mut rest = Vec::new();
    file.read_to_end(&mut rest)?;
    if !rest.is_empty() {
        let beside = folder.join(CUT);
        tracing::warn!(
            bytes = rest.len(),
            kept = %beside.display(),
            "the log of objects ends in something that is no whole change, and goes on without it"
        );
        // It is for people alone, and there may be no room for it.
        let _ = fs::write(beside, &rest);
    }
    Ok(())
}

/// What a log holds.
#[derive(Debug, Clone, PartialEq)]
pub struct LogContent {
    /// The last version that was given away.
    pub version: Version,
    /// Every change in its order; an object that is gone has none.
    pub changes: Vec<(Key, Option<Value>)>,
    /// How many bytes of it are whole changes.
    pub whole: u64,
}

/// Reads a log, for those who only look.
pub fn read_log(text: &[u8]) -> Result<LogContent, OpenError> {
    let ((version, changes), whole) = replay(text, Path::new(FILE))?;
    Ok(LogContent { version, changes, whole })
}

/// Reads everything, and tells where the last whole line ends. A last line that is not whole was never acknowledged.
fn replay(mut reader: impl BufRead, path: &Path) -> Result<(Replayed, u64), OpenError> {
    let folder = |source| OpenError::Folder { path: path.to_owned(), source };
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
            (Err(_), None) if joins_two(&bytes) => {
                let why = "the mark of its end is another byte".to_owned();
                return Err(OpenError::Damaged { path: path.to_owned(), line: number, why });
            }
            (Err(why), None) => damaged = Some((number, why)),
            (Err(_), Some(_)) => {}
        }
    }
}
