//! Tar files that say nothing of when, where and by whom they were made.

use flate2::{Compression, GzBuilder};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Component, Path, PathBuf};
use thiserror::Error;

/// What is wrong with a path in an archive.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ArchiveError {
    /// It leads out of the archive, or nowhere.
    #[error("{0}: a path in an archive must lead to something in it, without '..'")]
    Outside(PathBuf),
    /// The format can not hold it.
    #[error("{path}: {why}")]
    Unfit {
        /// What it was about.
        path: PathBuf,
        /// What is in its way.
        why: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Folder { mode: u32 },
    File { contents: Vec<u8>, executable: bool },
    Link { target: PathBuf },
}

/// Files, folders and links, in the order of their paths; folders come before what is in them, because some that unpack make none themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Archive {
    entries: BTreeMap<PathBuf, Entry>,
}

impl Archive {
    /// An archive with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file; a path with a slash in front is the same as one without.
    pub fn file(&mut self, path: impl AsRef<Path>, contents: Vec<u8>, executable: bool) {
        self.add(path.as_ref(), Entry::File { contents, executable });
    }

    /// Adds a folder with a mode of its own. Folders on the way to files need not be added.
    pub fn folder(&mut self, path: impl AsRef<Path>, mode: u32) {
        self.add(path.as_ref(), Entry::Folder { mode });
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: impl AsRef<Path>, target: impl Into<PathBuf>) {
        self.add(path.as_ref(), Entry::Link { target: target.into() });
    }

    /// The paths of files, without folders and links.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.entries.iter().filter(|(_, entry)| matches!(entry, Entry::File { .. })).map(|(path, _)| &**path)
    }

    fn add(&mut self, path: &Path, entry: Entry) {
        self.entries.insert(path.strip_prefix("/").unwrap_or(path).to_owned(), entry);
    }

    /// The tar file.
    pub fn tar(&self) -> Result<Vec<u8>, ArchiveError> {
        let inside = |path: &&PathBuf| {
            !path.as_os_str().is_empty() && path.components().all(|part| matches!(part, Component::Normal(_)))
        };
        if let Some(outside) = self.entries.keys().find(|path| !inside(path)) {
            return Err(ArchiveError::Outside(outside.clone()));
        }
        let mut tar = tar::Builder::new(Vec::new());
        let on_the_way: BTreeSet<&Path> = self
            .entries
            .keys()
            .flat_map(|path| path.ancestors().skip(1))
            .filter(|folder| !folder.as_os_str().is_empty() && !self.entries.contains_key(*folder))
            .collect();
        let usual = Entry::Folder { mode: 0o755 };
        let mut all: BTreeMap<&Path, &Entry> =
            self.entries.iter().map(|(path, entry)| (&**path, entry)).collect();
        all.extend(on_the_way.into_iter().map(|folder| (folder, &usual)));
        for (path, entry) in all {
            append(&mut tar, path, entry)
                .map_err(|error| ArchiveError::Unfit { path: path.to_owned(), why: error.to_string() })?;
        }
        tar.into_inner().map_err(|error| ArchiveError::Unfit { path: PathBuf::new(), why: error.to_string() })
    }

    /// The tar file, compressed.
    pub fn tar_gz(&self) -> Result<Vec<u8>, ArchiveError> {
        Ok(gzip(&self.tar()?))
    }
}

fn append(tar: &mut tar::Builder<Vec<u8>>, path: &Path, entry: &Entry) -> std::io::Result<()> {
    // No clock, no owner: the same archive is the same bytes.
    let mut header = tar::Header::new_gnu();
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    match entry {
        Entry::Folder { mode } => {
            header.set_mode(*mode);
            header.set_entry_type(tar::EntryType::Directory);
            tar.append_data(&mut header, path, std::io::empty())
        }
        Entry::File { contents, executable } => {
            header.set_mode(if *executable { 0o755 } else { 0o644 });
            header.set_size(contents.len() as u64);
            tar.append_data(&mut header, path, &contents[..])
        }
        Entry::Link { target } => {
            header.set_mode(0o777);
            header.set_entry_type(tar::EntryType::Symlink);
            tar.append_link(&mut header, path, target)
        }
    }
}

/// Compresses without a name, a time or an operating system in the header.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    /// "Unknown", by RFC 1952: otherwise it would say on what it was made.
    const UNKNOWN_SYSTEM: u8 = 255;
    let gzip = GzBuilder::new().mtime(0).operating_system(UNKNOWN_SYSTEM);
    let mut encoder = gzip.write(Vec::new(), Compression::new(6));
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.expect("a Vec takes everything")
}

#[cfg(test)]
mod tests {
    use super::{Archive, ArchiveError, gzip};
    use proptest::prelude::*;
    use std::io::Read;
    use std::path::PathBuf;

    fn listed(tar: &[u8]) -> Vec<(String, u32, u64)> {
        let mut archive = tar::Archive::new(tar);
        let entries = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let header = entry.header();
            (entry.path().unwrap().display().to_string(), header.mode().unwrap(), header.mtime().unwrap())
        });
        entries.collect()
    }

    #[test]
    fn folders_come_first_and_nothing_has_a_time() {
        let mut archive = Archive::new();
        archive.file("/usr/bin/carve", b"x".to_vec(), true);
        archive.file("etc/passwd", b"y".to_vec(), false);
        archive.folder("/tmp", 0o1777);
        archive.link("/bin", "usr/bin");
        let names = [
            ("bin", 0o777),
            ("etc", 0o755),
            ("etc/passwd", 0o644),
            ("tmp", 0o1777),
            ("usr", 0o755),
            ("usr/bin", 0o755),
            ("usr/bin/carve", 0o755),
        ];
        let expected: Vec<_> = names.iter().map(|(name, mode)| ((*name).to_owned(), *mode, 0)).collect();
        assert_eq!(listed(&archive.tar().unwrap()), expected);
    }

    #[test]
    fn a_path_that_leads_out_is_refused() {
        let mut archive = Archive::new();
        archive.file("a/../../b", Vec::new(), false);
        assert_eq!(archive.tar(), Err(ArchiveError::Outside(PathBuf::from("a/../../b"))));
    }

    proptest! {
        #[test]
        fn what_was_compressed_comes_back(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let packed = gzip(&bytes);
            let mut back = Vec::new();
            flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut back).unwrap();
            prop_assert_eq!(back, bytes);
            // Flags, time and system: nothing.
            prop_assert_eq!(&packed[3..8], &[0; 5]);
            prop_assert_eq!(packed[9], 255);
        }
    }
}
