//! The directories of one part's daemon, and the note in them of what the daemon was told.

use crate::MpsSettings;
use carve_gpu_model::Mebibytes;
use carve_slicing::PartId;
use carve_slicing::mps::MpsLimits;
use rustix::fs::{XattrFlags, setxattr};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use thiserror::Error;

/// Why the directories of a part can not be used.
#[derive(Debug, Error)]
pub enum DirectoryError {
    /// The part's name is no name of a folder.
    #[error("{part:?} can not be the name of a folder below {}", root.display())]
    Name {
        /// The part.
        part: String,
        /// Where it should be.
        root: PathBuf,
    },
    /// The system refused.
    #[error("{} can not be {verb}; is the MPS root on a writable disk, and does the agent run as root?", path.display())]
    Refused {
        /// What was to be done.
        verb: &'static str,
        /// With what.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
}

/// What a daemon was told when it was started: the daemon itself tells memory only in whole gibibytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) limits: MpsLimits,
    pub(crate) users_together: bool,
}

impl Note {
    fn text(&self) -> String {
        let MpsLimits { pinned_memory, active_thread_percentage } = self.limits;
        let users = if self.users_together { "together" } else { "one-at-a-time" };
        format!("memory-mib {}\nthreads-percent {active_thread_percentage}\nusers {users}\n", pinned_memory.0)
    }

    /// Anything that is not exactly what [`Note::text`] writes is no note.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut value = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let limits = MpsLimits {
            pinned_memory: Mebibytes(value("memory-mib")?.parse().ok()?),
            active_thread_percentage: value("threads-percent")?.parse().ok()?,
        };
        let note = Note { limits, users_together: value("users")? == "together" };
        (note.text() == text).then_some(note)
    }
}

/// The label without which a confined container can not use a folder of the host.
const SELINUX_LABEL: &[u8] = b"system_u:object_r:container_file_t:s0\0";
const SELINUX: &str = "/sys/fs/selinux";
const NOTE: &str = "limits";
const PIPE: &str = "pipe";
/// More mounts than ever lie on top of each other.
const MOUNTS: usize = 8;

/// Where the daemon of one part has its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartDirectories {
    folder: PathBuf,
}

impl PartDirectories {
    /// Below the root of all.
    pub fn new(root: &Path, part: &PartId) -> Result<Self, DirectoryError> {
        let name = Path::new(part.as_str());
        let plain = name.components().all(|component| matches!(component, Component::Normal(_)));
        if part.as_str().is_empty() || !plain {
            return Err(DirectoryError::Name { part: part.to_string(), root: root.to_owned() });
        }
        Ok(PartDirectories { folder: root.join(name) })
    }

    /// Parts below a root that an earlier process ran daemons for, or was about to: one that was killed between the start of a
    /// daemon and the note of its limits has left a daemon without limits.
    pub fn left_behind(root: &Path) -> Vec<PartId> {
        let entries = fs::read_dir(root).into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.path().join(NOTE).is_file() || entry.path().join(PIPE).is_dir())
            .filter_map(|entry| Some(PartId::new(entry.file_name().to_str()?)))
            .collect()
    }

    /// Where clients meet the daemon.
    pub fn pipe(&self) -> PathBuf {
        self.folder.join(PIPE)
    }

    /// Where the daemon writes.
    pub fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// What the daemon says, in the file NVIDIA's daemon would choose.
    pub fn control_log(&self) -> PathBuf {
        self.log().join("control.log")
    }

    /// What containers have as `/dev/shm`.
    pub fn shm(&self) -> PathBuf {
        self.folder.join("shm")
    }

    /// Makes everything that is not there, and says what could not be had.
    pub(crate) fn prepare(&self, settings: &MpsSettings) -> Result<Vec<String>, DirectoryError> {
        let mut remarks = Vec::new();
        for (folder, mode) in
            [(self.folder.clone(), 0o755), (self.pipe(), 0o755), (self.log(), 0o755), (self.shm(), 0o1777)]
        {
            let refused = |source| DirectoryError::Refused { verb: "made", path: folder.clone(), source };
            fs::create_dir_all(&folder).map_err(refused)?;
            // Said again, because a process's umask takes rights away from new folders.
            fs::set_permissions(&folder, Permissions::from_mode(mode)).map_err(refused)?;
        }
        if Path::new(SELINUX).exists() {
            for folder in [self.pipe(), self.shm()] {
                let label = setxattr(&folder, "security.selinux", SELINUX_LABEL, XattrFlags::empty());
                if let Err(error) = label {
                    remarks.push(format!(
                        "{} has no label for containers ({error}); confined containers may not reach MPS",
                        folder.display()
                    ));
                }
            }
        }
        if settings.mount_shm
            && !is_mount(&self.shm())
            && let Err(error) = mount_shm(&self.shm())
        {
            remarks.push(format!(
                "{} is a plain folder without a size, because it can not be mounted ({error})",
                self.shm().display()
            ));
        }
        Ok(remarks)
    }

    pub(crate) fn note(&self) -> Option<Note> {
        Note::parse(&fs::read_to_string(self.folder.join(NOTE)).ok()?)
    }

    /// Writes what the daemon was told, whole or not at all.
    pub(crate) fn write_note(&self, note: &Note) -> Result<(), DirectoryError> {
        let path = self.folder.join(NOTE);
        let new = self.folder.join("limits.new");
        fs::write(&new, note.text())
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|source| DirectoryError::Refused { verb: "written", path, source })
    }

    /// Forgets what a daemon was told, before there is another.
    pub(crate) fn remove_note(&self) -> Result<(), DirectoryError> {
        let path = self.folder.join(NOTE);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(DirectoryError::Refused { verb: "removed", path, source })
            }
            _ => Ok(()),
        }
    }

    /// Removes everything; for a part whose daemon has ended for good.
    pub(crate) fn remove(&self) -> Result<(), DirectoryError> {
        let refused = |source| DirectoryError::Refused { verb: "removed", path: self.folder.clone(), source };
        // Let go of rather than ended: others may hold it for as long as they like, and a mount that came twice lies under itself.
        for _ in 0..MOUNTS {
            if is_mount(&self.shm()) {
                unmount(self.shm(), UnmountFlags::DETACH).map_err(|error| refused(error.into()))?;
            }
        }
        for what in [self.pipe(), self.log()] {
            match fs::remove_dir_all(&what) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(refused(source)),
                _ => {}
            }
        }
        self.remove_note()?;
        match fs::remove_dir_all(&self.folder) {
            // An agent that was started beside the mount may have a second sight of it, through another folder of the host, and keeps the
            // kernel from removing the folder below. An empty folder harms nobody.
            Err(source) if source.kind() == io::ErrorKind::ResourceBusy => Ok(()),
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(refused(source)),
            _ => Ok(()),
        }
    }
}

/// Whether a folder is on another file system than the one it lies in.
fn is_mount(folder: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
    folder.parent().is_some_and(|parent| device(folder) != device(parent))
}

/// A memory file system of half the machine's memory, as a machine's own `/dev/shm` is.
fn mount_shm(folder: &Path) -> io::Result<()> {
    let half = memory_kib(&fs::read_to_string("/proc/meminfo")?).unwrap_or(128 << 10) / 2;
    let options = CString::new(format!("size={half}k,mode=1777")).map_err(io::Error::other)?;
    Ok(mount("shm", folder, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?)
}

/// All memory of the machine, from the text of `/proc/meminfo`.
fn memory_kib(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Note, PartDirectories, memory_kib};
    use crate::MpsSettings;
    use carve_gpu_model::Mebibytes;
    use carve_slicing::PartId;
    use carve_slicing::mps::MpsLimits;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    fn note() -> Note {
        let limits = MpsLimits { pinned_memory: Mebibytes(35_635), active_thread_percentage: 25 };
        Note { limits, users_together: true }
    }

    #[test]
    fn a_note_is_read_back_whole_or_not_at_all() {
        assert_eq!(Note::parse(&note().text()), Some(note()));
        let text = note().text();
        for cut in 0..text.len() {
            assert_eq!(Note::parse(&text[..cut]), None, "a note of {cut} bytes is no note");
        }
    }

    #[test]
    fn names_that_leave_the_root_are_refused() {
        for name in ["", "..", "/etc", "GPU-1/../../etc", "./GPU-1"] {
            assert!(PartDirectories::new(Path::new("/r"), &PartId::new(name)).is_err(), "{name}");
        }
        // The old names of MIG devices have slashes in them.
        let old = PartDirectories::new(Path::new("/r"), &PartId::new("MIG-GPU-1/2/0")).unwrap();
        assert_eq!(old.pipe(), Path::new("/r/MIG-GPU-1/2/0/pipe"));
    }

    #[test]
    fn directories_are_open_to_containers_of_every_user() {
        let root = tempfile::tempdir().unwrap();
        let settings = MpsSettings { mount_shm: false, ..MpsSettings::new(root.path(), "/none") };
        let directories = PartDirectories::new(root.path(), &PartId::new("GPU-1")).unwrap();
        assert!(PartDirectories::left_behind(root.path()).is_empty());
        directories.prepare(&settings).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(&directories.pipe()), mode(&directories.shm())), (0o755, 0o1777));
        let behind = PartDirectories::left_behind(root.path());
        assert_eq!(
            behind,
            [PartId::new("GPU-1")],
            "a daemon may have been started, and not been told limits"
        );
        directories.write_note(&note()).unwrap();
        assert_eq!(directories.note(), Some(note()));
        assert_eq!(PartDirectories::left_behind(root.path()), [PartId::new("GPU-1")]);
        directories.remove().unwrap();
        directories.remove().unwrap();
        assert!(!root.path().join("GPU-1").exists());
    }

    #[test]
    fn memory_of_the_machine() {
        assert_eq!(memory_kib("MemTotal:       131907888 kB\nMemFree: 1 kB\n"), Some(131_907_888));
        assert_eq!(memory_kib("MemFree: 1 kB\n"), None);
    }
}
