//! Files under a root that is not trusted: no path leads out of it, whatever links say.
//!
//! The kernel resolves every path with that root as `/`, so a link to `/etc` or to `../../..` stays inside, and nothing
//! can be swapped between a check and a use. What is written is written beside its place and renamed.

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fchmod, fstat, mkdirat, openat, openat2,
    readlinkat, renameat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// How often a path is tried again when something under the root was renamed meanwhile.
const TRIES: usize = 16;

/// A folder that is the root for everything done through it.
#[derive(Debug)]
pub(crate) struct Beneath {
    root: OwnedFd,
    resolve: ResolveFlags,
}

impl Beneath {
    /// A root whose mounts belong to it, such as the root of a driver.
    pub(crate) fn new(root: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, root, flags, Mode::empty())?;
        Ok(Beneath { root, resolve: ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS })
    }

    /// The same, and what is mounted somewhere under it is out of reach: it belongs to somebody else.
    pub(crate) fn on_one_mount(root: &Path) -> io::Result<Self> {
        let mut beneath = Beneath::new(root)?;
        beneath.resolve |= ResolveFlags::NO_XDEV;
        Ok(beneath)
    }

    fn open(&self, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
        // Relative, so that it starts at the root whatever the flags are.
        let path = match path.trim_start_matches('/') {
            "" => ".",
            path => path,
        };
        for _ in 0..TRIES {
            match openat2(&self.root, path, flags | OFlags::CLOEXEC, Mode::empty(), self.resolve) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
        Err(Errno::AGAIN.into())
    }

    /// What a path leads to, links followed.
    pub(crate) fn stat(&self, path: &str) -> io::Result<Stat> {
        Ok(fstat(self.open(path, OFlags::PATH)?)?)
    }

    /// Whether there is anything, a link that leads nowhere and a place out of reach included.
    pub(crate) fn has_name(&self, path: &str) -> bool {
        let missing = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        !self.open(path, OFlags::PATH | OFlags::NOFOLLOW).is_err_and(|error| missing.contains(&error.kind()))
    }

    /// The path with no link on the way, as seen from the root.
    pub(crate) fn without_links(&self, path: &str) -> io::Result<String> {
        let found = self.open(path, OFlags::PATH)?;
        let (root, path) = (named(&self.root)?, named(&found)?);
        let outside = || io::Error::other(format!("{} is not under {}", path.display(), root.display()));
        let rest = path.strip_prefix(&root).map_err(|_| outside())?;
        Ok(format!("/{}", rest.to_str().ok_or_else(outside)?))
    }

    /// A regular file for reading. Anything else could block or act when it is opened.
    pub(crate) fn file(&self, path: &str) -> io::Result<File> {
        let regular = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let refused = || io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
        if !regular(self.stat(path)?) {
            return Err(refused());
        }
        let file = self.open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        if !regular(fstat(&file)?) {
            return Err(refused());
        }
        Ok(File::from(file))
    }

    /// A file's content, if it is not longer than `most` bytes.
    pub(crate) fn read(&self, path: &str, most: u64) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        self.file(path)?.take(most + 1).read_to_end(&mut content)?;
        if content.len() as u64 > most {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("longer than {most} bytes")));
        }
        Ok(content)
    }

    /// The first bytes of a file, or all of a shorter one.
    pub(crate) fn read_start(&self, path: &str, bytes: u64) -> io::Result<Vec<u8>> {
        let mut start = Vec::new();
        self.file(path)?.take(bytes).read_to_end(&mut start)?;
        Ok(start)
    }

    /// A folder.
    pub(crate) fn folder(&self, path: &str) -> io::Result<Folder> {
        Ok(Folder(self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)?))
    }

    /// A folder, made with those above it where they are missing.
    pub(crate) fn make_folder(&self, path: &str) -> io::Result<Folder> {
        let mut at = String::from("/");
        let mut folder = self.folder(&at)?;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            at.push_str(name);
            let next = match self.folder(&at) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match mkdirat(&folder.0, name, Mode::from_raw_mode(0o755)) {
                        Ok(()) | Err(Errno::EXIST) => self.folder(&at)?,
                        Err(error) => return Err(error.into()),
                    }
                }
                other => other?,
            };
            folder = next;
            at.push('/');
        }
        Ok(folder)
    }
}

/// The kernel's name for an open file.
fn named(file: &OwnedFd) -> io::Result<PathBuf> {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// An open folder. Names given to it are single names, never paths.
#[derive(Debug)]
pub(crate) struct Folder(OwnedFd);

impl Folder {
    /// A folder that is trusted, by its path.
    pub(crate) fn trusted(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Folder(openat(CWD, path, flags, Mode::empty())?))
    }

    /// The names in it, in order; those that are no text are passed over, as nothing of the driver is called so.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            if let Ok(name) = entry?.file_name().to_str() {
                names.push(name.to_owned());
            }
        }
        names.retain(|name| name != "." && name != "..");
        names.sort();
        Ok(names)
    }

    /// Puts a file in place of whatever has the name, all at once.
    pub(crate) fn put_file(&self, name: &str, content: &[u8], mode: u32) -> io::Result<()> {
        self.replace(name, |beside| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = openat(&self.0, beside, flags, Mode::from_raw_mode(0o600))?;
            let mut file = File::from(file);
            file.write_all(content)?;
            // After the content, so that nobody reads half of it, and against any umask.
            fchmod(&file, Mode::from_raw_mode(mode))?;
            file.sync_all()
        })
    }

    /// Puts a link in place of whatever has the name. Says whether anything had to be done.
    pub(crate) fn put_link(&self, name: &str, target: &str) -> io::Result<bool> {
        if readlinkat(&self.0, name, Vec::new()).is_ok_and(|found| found.as_bytes() == target.as_bytes()) {
            return Ok(false);
        }
        self.replace(name, |beside| Ok(symlinkat(target, &self.0, beside)?))?;
        Ok(true)
    }

    /// Takes a file away, if there is one. Says whether there was.
    pub(crate) fn remove(&self, name: &str) -> io::Result<bool> {
        match unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn replace(&self, name: &str, make: impl Fn(&str) -> io::Result<()>) -> io::Result<()> {
        let beside = format!(".{name}.carve");
        // One that a crash left behind; there is one writer.
        self.remove(&beside)?;
        let done = make(&beside).and_then(|()| Ok(renameat(&self.0, &beside, &self.0, name)?));
        if done.is_err() {
            // The first error is the one to tell.
            let _ = self.remove(&beside);
        }
        done
    }
}
