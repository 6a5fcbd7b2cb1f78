//! A share of a part in files: made for processes that are to be limited, read, and told its turn.

use crate::memory::{Copied, TurnPage};
use carve_limiter_abi::{Host, Limits, LimitsError, Owner, Trouble, Turn, Usage};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Why there is no share, or nothing is known of it.
#[derive(Debug, Error)]
pub enum ShareError {
    /// A file could not be made, opened or read.
    #[error("{}: can not {doing} it", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// A file of limits that can not be understood.
    #[error("{}: remove it, or let the carve that wrote it look after it", path.display())]
    Limits {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: LimitsError,
    },
    /// A file that should count use and does not.
    #[error("{}: this is no file that counts use; remove it, and its share with it", path.display())]
    Usage {
        /// The file.
        path: PathBuf,
    },
}

/// What the processes of a share used, for people and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Time of the GPU. Only counted where time is limited.
    pub gpu_time: Duration,
    /// Bytes of memory held now.
    pub memory: u64,
    /// Time in which processes were kept from starting work.
    pub throttled: Duration,
    /// How often memory was refused.
    pub denials: u64,
    /// Pieces of work that were started.
    pub launches: u64,
    /// Processes that use the part.
    pub processes: u32,
    /// What keeps the limiter from its work in one of them.
    pub trouble: Option<Trouble>,
}

impl From<Usage> for Counters {
    fn from(usage: Usage) -> Self {
        Counters {
            gpu_time: Duration::from_nanos(usage.busy),
            memory: usage.held,
            throttled: Duration::from_nanos(usage.throttled),
            denials: usage.denials,
            launches: usage.launches,
            processes: usage.processes,
            trouble: usage.trouble,
        }
    }
}

/// A share that is there.
#[derive(Debug)]
pub struct Share {
    limits: Limits,
    page: TurnPage,
    usage: File,
    usage_path: PathBuf,
}

/// Owners other than root open the file again to say whose turn it is; a mode does not keep them from that anyway.
fn mode_of_limits() -> u32 {
    if rustix::process::geteuid().is_root() { 0o444 } else { 0o644 }
}

/// Processes of a container may be any user's.
const MODE_OF_USAGE: u32 = 0o666;

impl Share {
    /// Makes a share in a folder, or takes the one that is there. What its processes used goes on counting; processes that run keep
    /// the limits that they were started with.
    pub fn create(folder: &Path, uuid: &str, name: &str, limits: &Limits) -> Result<Self, ShareError> {
        let (limits_path, usage_path) = paths(folder, uuid, name);
        for path in [&limits_path, &usage_path] {
            let parent = path.parent().unwrap_or(folder);
            fs::create_dir_all(parent).map_err(failed(parent, "make"))?;
        }
        // Use before limits: a process that finds limits and nowhere to count must refuse to work.
        if open_usage(&usage_path).is_err() {
            beside(&usage_path, MODE_OF_USAGE, |file| Copied::fresh().write(file))?;
        }
        match Self::open(folder, uuid, name) {
            Ok(there) if there.limits == *limits => Ok(there),
            _ => {
                beside(&limits_path, mode_of_limits(), |file| file.write_all_at(&limits.to_bytes(), 0))?;
                Self::open(folder, uuid, name)
            }
        }
    }

    /// Opens a share that is there.
    pub fn open(folder: &Path, uuid: &str, name: &str) -> Result<Self, ShareError> {
        let (limits_path, usage_path) = paths(folder, uuid, name);
        let file = open(&limits_path)?;
        let mut bytes = [0; Limits::SIZE];
        file.read_exact_at(&mut bytes, 0).map_err(failed(&limits_path, "read"))?;
        let limits = Limits::from_bytes(&bytes)
            .map_err(|source| ShareError::Limits { path: limits_path.clone(), source })?;
        let page = TurnPage::map(&file).map_err(failed(&limits_path, "map"))?;
        let usage = open_usage(&usage_path)?;
        Ok(Share { limits, page, usage, usage_path })
    }

    /// What its processes may use.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What they use, summed up.
    pub fn usage(&self) -> Result<Usage, ShareError> {
        self.snapshot().map(|snapshot| snapshot.0.region().usage())
    }

    /// The same, as it is shown.
    pub fn counters(&self) -> Result<Counters, ShareError> {
        self.usage().map(Counters::from)
    }

    /// All of it as it is now, for several questions about one moment.
    pub fn snapshot(&self) -> Result<Snapshot, ShareError> {
        Copied::read(&self.usage).map(Snapshot).map_err(failed(&self.usage_path, "read"))
    }

    /// Says when its processes may work.
    pub fn say(&self, turn: &Turn) {
        self.page.cell().set(turn);
    }

    /// Says how many bytes its processes have beyond what they count; so much less can they allocate from now on.
    pub fn charge(&self, overhead: u64) {
        self.page.cell().set_overhead(overhead);
    }

    /// What was last said of that.
    pub fn overhead(&self) -> u64 {
        self.page.cell().overhead()
    }

    /// What was last said.
    pub fn said(&self) -> Option<Turn> {
        self.page.cell().get()
    }
}

/// What the processes of a share have written down, at one moment.
#[derive(Debug)]
pub struct Snapshot(Copied);

impl Snapshot {
    /// What they used.
    pub fn counters(&self) -> Counters {
        self.0.region().usage().into()
    }

    /// Every process that has a slot, with the pid namespace in which its number means something.
    pub fn owners(&self) -> Vec<(Owner, u64)> {
        self.0.region().owners().collect()
    }

    /// Forgets what dead processes hold. They stay in the file until somebody in the container needs their room; what they used before
    /// they died is counted all the same.
    pub fn forget_the_dead(&mut self, lives: impl Fn(Owner, u64) -> bool) {
        let namespaces: BTreeSet<u64> = self.owners().into_iter().map(|(_, namespace)| namespace).collect();
        // In a copy it is nobody's business who has a slot for a moment.
        let me = Owner::new(1, 1);
        for namespace in namespaces {
            self.0.region().reap(me, namespace, &Census { namespace, lives: &lives });
        }
    }
}

/// Who lives in one pid namespace.
struct Census<'a, F> {
    namespace: u64,
    lives: &'a F,
}

impl<F: Fn(Owner, u64) -> bool> Host for Census<'_, F> {
    fn lives(&self, owner: Owner) -> bool {
        (self.lives)(owner, self.namespace)
    }

    /// Nobody else has the copy, so there is nothing to wait for.
    fn pause(&self, _: u32) {}
}

fn paths(folder: &Path, uuid: &str, name: &str) -> (PathBuf, PathBuf) {
    let of = |kind: &str| folder.join(kind).join(uuid).join(name);
    (of("limits"), of("usage"))
}

fn failed(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> ShareError {
    let path = path.to_owned();
    move |source| ShareError::File { path, doing, source }
}

/// Opens a file to read and write; one in a folder that a container can write may be a link to anywhere, and is not followed.
fn open(path: &Path) -> Result<File, ShareError> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    opened.map(File::from).map_err(|error| failed(path, "open")(error.into()))
}

fn open_usage(path: &Path) -> Result<File, ShareError> {
    let file = open(path)?;
    let copied = Copied::read(&file);
    if copied.is_ok_and(|copied| copied.region().is_ready()) {
        Ok(file)
    } else {
        Err(ShareError::Usage { path: path.to_owned() })
    }
}

/// Writes a file that is there whole or not at all. The limiter passes over names that begin with a dot.
fn beside(path: &Path, mode: u32, write: impl FnOnce(&File) -> io::Result<()>) -> Result<(), ShareError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.new"));
    let act = || -> io::Result<()> {
        let _ = fs::remove_file(&new);
        let file = File::create_new(&new)?;
        write(&file)?;
        // Not by the mode of creation, of which the umask takes away.
        file.set_permissions(Permissions::from_mode(mode))?;
        fs::rename(&new, path)
    };
    act().map_err(failed(path, "write"))
}

#[cfg(test)]
mod tests {
    use super::{Counters, Share, ShareError};
    use carve_limiter_abi::{Host, Limits, Owner, Region, Turn};
    use std::os::unix::fs::MetadataExt;
    use std::sync::atomic::Ordering;

    const UUID: &str = "GPU-00112233-4455-6677-8899-aabbccddeeff";

    fn quarter() -> Limits {
        Limits { memory: 5 << 30, compute: 2_500, context: 0, burst: false, pass: false, mps: false }
    }

    #[test]
    fn a_share_is_made_found_again_and_changed() {
        let folder = tempfile::tempdir().expect("a folder");
        let share = Share::create(folder.path(), UUID, "web", &quarter()).expect("a share");
        assert_eq!(share.counters().expect("counters"), Counters::default());
        let turn = Turn { period: 20, offset: 3, length: 4, lent: 5, said: 6 };
        share.say(&turn);
        let again = Share::create(folder.path(), UUID, "web", &quarter()).expect("the same share");
        assert_eq!(again.said(), Some(turn));
        let more = Limits { compute: 5_000, ..quarter() };
        let more = Share::create(folder.path(), UUID, "web", &more).expect("the share, changed");
        assert_eq!((more.limits().compute, more.said()), (5_000, Some(Turn::default())));
        // Nothing lies beside them that is not meant to.
        for (kind, size) in [("limits", Limits::SIZE), ("usage", Region::SIZE)] {
            let files: Vec<_> = std::fs::read_dir(folder.path().join(kind).join(UUID))
                .expect("the folder")
                .map(|entry| entry.expect("a file"))
                .collect();
            assert_eq!(files.len(), 1, "{files:?}");
            assert_eq!(files[0].metadata().expect("its size").size(), size as u64);
        }
        let usage = folder.path().join("usage").join(UUID).join("web");
        assert_eq!(usage.metadata().expect("its mode").mode() & 0o777, 0o666);
    }

    #[test]
    fn a_file_that_a_process_made_shorter_is_an_error_and_no_death() {
        let folder = tempfile::tempdir().expect("a folder");
        let share = Share::create(folder.path(), UUID, "web", &quarter()).expect("a share");
        let path = folder.path().join("usage").join(UUID).join("web");
        std::fs::File::options().write(true).open(&path).expect("the file").set_len(5).expect("shorter");
        assert!(matches!(share.usage(), Err(ShareError::File { .. })));
        assert!(matches!(Share::open(folder.path(), UUID, "web"), Err(ShareError::Usage { .. })));
        let mended = Share::create(folder.path(), UUID, "web", &quarter()).expect("the share, mended");
        assert!(mended.usage().is_ok());
    }

    #[test]
    fn the_dead_hold_nothing_and_what_they_used_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let share = Share::create(folder.path(), UUID, "web", &quarter()).expect("a share");
        let mut copied = crate::memory::Copied::fresh();
        for (pid, namespace, held) in [(2, 7, 10), (3, 7, 20), (3, 8, 40)] {
            let slot = copied.region().claim(Owner::new(pid, 5), namespace, &All).expect("a slot");
            copied.region().add(slot, held);
            copied.region().slot(slot).expect("it").busy.store(1_000, Ordering::Relaxed);
        }
        copied.write(&share.usage).expect("written");
        let mut snapshot = share.snapshot().expect("a snapshot");
        assert_eq!((snapshot.counters().memory, snapshot.owners().len()), (70, 3));
        snapshot.forget_the_dead(|owner, namespace| (owner.pid(), namespace) != (3, 7));
        let counters = snapshot.counters();
        assert_eq!((counters.memory, counters.processes, snapshot.owners().len()), (50, 2, 2));
        assert_eq!(counters.gpu_time, std::time::Duration::from_micros(3));
        assert_eq!(share.counters().expect("counters").memory, 70, "the file is the container's");
    }

    /// A machine on which nobody dies.
    struct All;

    impl Host for All {
        fn lives(&self, _: Owner) -> bool {
            true
        }

        fn pause(&self, _: u32) {}
    }

    #[test]
    fn a_writer_that_died_halfway_left_no_share() {
        let folder = tempfile::tempdir().expect("a folder");
        let limits = folder.path().join("limits").join(UUID);
        std::fs::create_dir_all(&limits).expect("a folder");
        std::fs::write(limits.join(".web.new"), b"CARVE").expect("half a file");
        assert!(Share::open(folder.path(), UUID, "web").is_err());
        assert!(Share::create(folder.path(), UUID, "web", &quarter()).is_ok());
        assert!(!limits.join(".web.new").exists());
    }
}
