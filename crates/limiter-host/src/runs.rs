//! Commands that share the GPUs of one machine without an agent: each has a folder, and they find each other there.
//!
//! ```text
//!   <root>/lock                      held while somebody looks what is left and takes it
//!   <root>/<part>.lock               held by whoever gives turns on that part; another takes over when it ends
//!   <root>/<part>@<driver>.context   what a context takes there, once somebody has measured it
//!   <root>/<pid>-<start>/alive       held by a command and everything it started
//!   <root>/<pid>-<start>/libcarve_limiter.so, limits/, usage/
//! ```
//!
//! Only the kernel's file locks say who lives, so whoever is killed leaves nothing that another could take for alive.

use crate::contexts::Contexts;
use crate::keeper::Keeper;
use crate::share::{Counters, Share, ShareError};
use carve_limiter_abi::Limits;
use rustix::io::FdFlags;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thiserror::Error;

/// What the limiter is called where processes load it.
pub const LIBRARY: &str = "libcarve_limiter.so";
const ALIVE: &str = "alive";
const NAME: &str = "share";
/// How often to look who came and went, and whether a part has nobody to give turns.
const ROUND: Duration = Duration::from_millis(200);

/// Why a command has no share.
#[derive(Debug, Error)]
pub enum RunError {
    /// Something in a folder of commands.
    #[error("{}: can not {doing} it", path.display())]
    File {
        /// What it is about.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// The share itself.
    #[error(transparent)]
    Share(#[from] ShareError),
}

fn failed(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> RunError {
    let path = path.to_owned();
    move |source| RunError::File { path, doing, source }
}

fn lock_file(path: &Path) -> Result<File, RunError> {
    File::options().create(true).truncate(false).write(true).open(path).map_err(failed(path, "open"))
}

/// The folder in which commands find each other.
#[derive(Debug, Clone)]
pub struct Runs {
    root: PathBuf,
}

impl Runs {
    /// Opens the folder, and makes it where it is not there.
    pub fn open(root: &Path) -> Result<Self, RunError> {
        fs::create_dir_all(root).map_err(failed(root, "make"))?;
        Ok(Runs { root: root.to_owned() })
    }

    /// Waits until nobody else takes anything, and clears away what dead commands left.
    pub fn enter(&self) -> Result<Entry<'_>, RunError> {
        let path = self.root.join("lock");
        let lock = lock_file(&path)?;
        lock.lock().map_err(failed(&path, "lock"))?;
        for folder in self.folders()? {
            if !is_alive(&folder) {
                fs::remove_dir_all(&folder).map_err(failed(&folder, "remove"))?;
            }
        }
        Ok(Entry { runs: self, _lock: lock })
    }

    /// The folders of commands, dead ones and half made ones too.
    fn folders(&self) -> Result<Vec<PathBuf>, RunError> {
        let entries = fs::read_dir(&self.root).map_err(failed(&self.root, "read"))?;
        let folders = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
        let mut folders: Vec<PathBuf> = folders.filter(|path| path.is_dir()).collect();
        folders.sort();
        Ok(folders)
    }

    /// Folders of commands that live and have a share of a part.
    fn sharing(&self, uuid: &str) -> Result<Vec<PathBuf>, RunError> {
        let mut folders = self.folders()?;
        folders.retain(|folder| folder.join("limits").join(uuid).join(NAME).exists() && is_alive(folder));
        Ok(folders)
    }

    /// Every command that lives and has a share, for those who look on. What is just being made or going away is not among them.
    pub fn seen(&self) -> Result<Vec<SeenRun>, RunError> {
        let mut seen = Vec::new();
        for folder in self.folders()? {
            let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let pid = name.split('-').next().and_then(|pid| pid.parse().ok());
            let (Some(pid), true) = (pid, is_alive(&folder)) else { continue };
            let parts = fs::read_dir(folder.join("limits")).into_iter().flatten().flatten();
            for uuid in parts.map(|part| part.file_name().to_string_lossy().into_owned()) {
                let Ok(share) = Share::open(&folder, &uuid, NAME) else { continue };
                let counters = share.counters().unwrap_or_default();
                seen.push(SeenRun { pid, uuid, limits: *share.limits(), counters });
            }
        }
        Ok(seen)
    }

    /// What contexts take of GPUs under a driver, as far as commands have measured it.
    pub fn contexts(&self, driver: &str) -> Contexts {
        Contexts::new(&self.root, driver)
    }

    /// Gives turns on a part as long as nobody else does.
    pub fn arbiter(&self, uuid: &str) -> Arbiter {
        let keeper = Keeper::default();
        Arbiter { runs: self.clone(), uuid: uuid.to_owned(), lock: None, keeper, round: None }
    }
}

/// A command that lives, as those see it who look on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenRun {
    /// The `carve run` that took its share, which may be gone while what it started lives.
    pub pid: u32,
    /// The part of which it has a share.
    pub uuid: String,
    /// Its share.
    pub limits: Limits,
    /// What it has used.
    pub counters: Counters,
}

/// Whether a command or anything it started lives. One that is just being made is locked before it has its name.
fn is_alive(folder: &Path) -> bool {
    let hidden = folder.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
    !hidden && File::open(folder.join(ALIVE)).is_ok_and(|file| file.try_lock_shared().is_err())
}

/// The right to look what is left of parts, and to take it.
#[derive(Debug)]
pub struct Entry<'a> {
    runs: &'a Runs,
    _lock: File,
}

impl Entry<'_> {
    /// What other commands have of a part.
    pub fn taken(&self, uuid: &str) -> Result<Vec<Limits>, RunError> {
        let folders = self.runs.sharing(uuid)?;
        // One that ends meanwhile has nothing any more.
        let shares = folders.iter().filter_map(|folder| Share::open(folder, uuid, NAME).ok());
        Ok(shares.map(|share| *share.limits()).collect())
    }

    /// Takes a share for a command that is to be started by this process, and puts the limiter beside it.
    pub fn take(self, library: &Path, uuid: &str, limits: &Limits) -> Result<Run, RunError> {
        let name = format!("{}-{}", std::process::id(), crate::monotonic());
        let (new, folder) = (self.runs.root.join(format!(".{name}")), self.runs.root.join(name));
        fs::create_dir(&new).map_err(failed(&new, "make"))?;
        let alive = File::create_new(new.join(ALIVE)).map_err(failed(&new, "write"))?;
        alive.lock().map_err(failed(&new, "lock"))?;
        // Whatever the command starts holds the lock, too, and so keeps its share when this process is killed.
        rustix::io::fcntl_setfd(&alive, FdFlags::empty())
            .map_err(|error| failed(&new, "hand on")(error.into()))?;
        fs::copy(library, new.join(LIBRARY)).map_err(failed(library, "copy"))?;
        drop(Share::create(&new, uuid, NAME, limits)?);
        fs::rename(&new, &folder).map_err(failed(&folder, "make"))?;
        let share = Share::open(&folder, uuid, NAME)?;
        Ok(Run { folder, alive, share })
    }
}

/// The share of one command.
#[derive(Debug)]
pub struct Run {
    folder: PathBuf,
    alive: File,
    share: Share,
}

impl Run {
    /// The limiter, for the command to load.
    pub fn library(&self) -> PathBuf {
        self.folder.join(LIBRARY)
    }

    /// Its share.
    pub fn share(&self) -> &Share {
        &self.share
    }

    /// Ends it. Says whether something that the command started still lives; its folder stays until that has ended, too.
    pub fn end(self) -> bool {
        drop(self.alive);
        let goes_on = is_alive(&self.folder);
        if !goes_on {
            // What stays is cleared away by whoever comes next.
            let _ = fs::remove_dir_all(&self.folder);
        }
        goes_on
    }
}

/// Whoever gives turns on a part, or waits to.
#[derive(Debug)]
pub struct Arbiter {
    runs: Runs,
    uuid: String,
    lock: Option<File>,
    keeper: Keeper,
    round: Option<Instant>,
}

impl Arbiter {
    /// Looks, and says how long to wait until the next look.
    pub fn look(&mut self) -> Duration {
        if self.lock.is_none() {
            let path = self.runs.root.join(format!("{}.lock", self.uuid));
            self.lock = lock_file(&path).ok().filter(|lock| lock.try_lock().is_ok());
        }
        if self.lock.is_none() {
            return ROUND;
        }
        if self.round.is_none_or(|round| round.elapsed() >= ROUND) {
            self.round = Some(Instant::now());
            self.gather();
        }
        self.keeper.look()
    }

    /// Whether this one gives turns.
    pub fn is_in_charge(&self) -> bool {
        self.lock.is_some()
    }

    fn gather(&mut self) {
        // A folder that can not be read now can be at the next round; until then the shares are those that were known.
        let Ok(folders) = self.runs.sharing(&self.uuid) else { return };
        self.keeper.keep(|name| folders.iter().any(|folder| folder.as_os_str() == name));
        for folder in &folders {
            let name = folder.display().to_string();
            if !self.keeper.has(&name)
                && let Ok(share) = Share::open(folder, &self.uuid, NAME)
            {
                self.keeper.add(&name, share);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Runs;
    use carve_limiter_abi::Limits;
    use std::path::{Path, PathBuf};
    use std::sync::Mutex;

    /// A process that one test starts would hold what another has open.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    const UUID: &str = "GPU-00112233-4455-6677-8899-aabbccddeeff";

    fn limits(compute: u32) -> Limits {
        Limits { memory: 1 << 30, compute, context: 0, burst: false, pass: false, mps: false }
    }

    fn library(folder: &Path) -> PathBuf {
        let path = folder.join("library.so");
        std::fs::write(&path, b"stands for the limiter").expect("a file");
        path
    }

    #[test]
    fn commands_see_each_other_and_leave_nothing() {
        let _alone = ONE_AT_A_TIME.lock();
        let place = tempfile::tempdir().expect("a folder");
        let (library, root) = (library(place.path()), place.path().join("run"));
        let runs = Runs::open(&root).expect("the folder of commands");
        let first = runs.enter().expect("entry").take(&library, UUID, &limits(3_000)).expect("a share");
        assert!(first.library().exists());
        let entry = runs.enter().expect("entry");
        assert_eq!(entry.taken(UUID).expect("what is taken"), [limits(3_000)]);
        assert_eq!(entry.taken("GPU-another").expect("what is taken"), []);
        let second = entry.take(&library, UUID, &limits(5_000)).expect("a share");
        let seen = runs.seen().expect("who lives");
        let of = |run: &super::SeenRun| (run.pid, run.uuid.clone(), run.limits.compute);
        let mine = |compute| (std::process::id(), UUID.to_owned(), compute);
        assert_eq!(seen.iter().map(of).collect::<Vec<_>>(), [mine(3_000), mine(5_000)]);
        // One gives turns to both, and the other takes over.
        let (mut one, mut other) = (runs.arbiter(UUID), runs.arbiter(UUID));
        one.look();
        other.look();
        assert_eq!((one.is_in_charge(), other.is_in_charge()), (true, false));
        let turn = |run: &super::Run| run.share().said().expect("a turn");
        assert!(turn(&first).period > 0 && turn(&second).period > 0);
        assert!(!first.end());
        drop(one);
        other.look();
        assert!(other.is_in_charge());
        assert_eq!(turn(&second).period, 0);
        assert!(!second.end());
        assert_eq!(runs.seen().expect("who lives"), []);
        drop(runs.enter().expect("entry"));
        let folders = std::fs::read_dir(&root).expect("the folder").filter_map(Result::ok);
        assert_eq!(folders.filter(|entry| entry.path().is_dir()).count(), 0);
    }

    #[test]
    fn what_a_command_started_keeps_its_share() {
        let _alone = ONE_AT_A_TIME.lock();
        let place = tempfile::tempdir().expect("a folder");
        let library = library(place.path());
        let runs = Runs::open(&place.path().join("run")).expect("the folder of commands");
        let run = runs.enter().expect("entry").take(&library, UUID, &limits(3_000)).expect("a share");
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("a process");
        assert!(run.end(), "the process has the share");
        assert_eq!(runs.enter().expect("entry").taken(UUID).expect("what is taken"), [limits(3_000)]);
        child.kill().expect("its end");
        child.wait().expect("its end");
        let entry = runs.enter().expect("entry");
        assert_eq!(entry.taken(UUID).expect("what is taken"), []);
        assert!(runs.folders().expect("the folders").is_empty());
    }
}
