//! Files that say what this container may use, and who a process is.

use carve_limiter_abi::{LIMITS_FOLDER, Limits, Region, TurnCell, USAGE_FOLDER};
use core::ffi::CStr;
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags, RawDir};
use rustix::mm::{MapFlags, ProtFlags};

const LONGEST: usize = 1_024;

/// A path without the heap.
#[derive(Clone, Copy)]
pub(crate) struct Path {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Path {
    /// From its bytes; one that is too long is empty and is found nowhere.
    pub(crate) fn new(text: &[u8]) -> Self {
        let mut path = Path { bytes: [0; LONGEST], length: 0 };
        path.push(text);
        path
    }

    fn push(&mut self, text: &[u8]) {
        let end = self.length + text.len();
        match self.bytes.get_mut(self.length..end) {
            Some(room) if end < LONGEST => {
                room.copy_from_slice(text);
                self.length = end;
            }
            _ => *self = Path { bytes: [0; LONGEST], length: 0 },
        }
    }

    /// The folder that it is in.
    pub(crate) fn parent(mut self) -> Self {
        let bytes = self.bytes.get(..self.length).unwrap_or_default();
        self.length = bytes.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        for byte in self.bytes.iter_mut().skip(self.length) {
            *byte = 0;
        }
        self
    }

    fn join(mut self, name: &[u8]) -> Self {
        self.push(b"/");
        self.push(name);
        self
    }

    fn text(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

/// A share that the agent left for this container.
pub(crate) struct Share {
    /// The part that it is of.
    pub(crate) uuid: [u8; 16],
    pub(crate) limits: Limits,
    /// When the container may work; mapped for good.
    pub(crate) turn: *const TurnCell,
    /// Where use is counted; null where there is no such file.
    pub(crate) region: *const Region,
}

/// What counts where a file of limits can not be read: there are limits, and they can not be held.
const UNREADABLE: Limits =
    Limits { memory: 0, compute: 0, context: 0, burst: false, pass: false, mps: false };

fn open(path: &Path, flags: OFlags) -> Option<OwnedFd> {
    rustix::fs::openat(CWD, path.text(), flags | OFlags::CLOEXEC, Mode::empty()).ok()
}

/// Calls something for every entry of a folder.
fn each(folder: &Path, mut visit: impl FnMut(&[u8])) {
    let Some(opened) = open(folder, OFlags::RDONLY | OFlags::DIRECTORY) else { return };
    let mut buffer = [core::mem::MaybeUninit::uninit(); 2_048];
    let mut entries = RawDir::new(opened, &mut buffer);
    while let Some(Ok(entry)) = entries.next() {
        let name = entry.file_name().to_bytes();
        if !name.starts_with(b".") {
            visit(name);
        }
    }
}

/// Every share: beside the library itself where there are such folders, otherwise where containers have them. Nothing that the process
/// can set, such as its environment, has a say in it.
pub(crate) fn shares(beside: &Path, mut found: impl FnMut(&Share)) {
    let own = beside.join(b"limits");
    let (limits, usage) = match open(&own, OFlags::PATH) {
        Some(_) => (own, beside.join(b"usage")),
        None => (Path::new(LIMITS_FOLDER.as_bytes()), Path::new(USAGE_FOLDER.as_bytes())),
    };
    each(&limits, |part| {
        let Some(uuid) = uuid(part) else { return };
        each(&limits.join(part), |name| {
            let Some((limits, turn)) = limits_of(&limits.join(part).join(name)) else {
                found(&Share {
                    uuid,
                    limits: UNREADABLE,
                    turn: core::ptr::null(),
                    region: core::ptr::null(),
                });
                return;
            };
            let region = region_of(&usage.join(part).join(name)).unwrap_or(core::ptr::null());
            found(&Share { uuid, limits, turn, region });
        });
    });
}

fn map(path: &Path, flags: OFlags, protection: ProtFlags, size: usize) -> Option<*const u8> {
    let opened = open(path, flags)?;
    let there = rustix::fs::fstat(&opened).ok()?.st_size;
    if usize::try_from(there).ok()? < size {
        return None;
    }
    // SAFETY: new memory that shows the file; what is in it is only ever read as plain numbers.
    unsafe { rustix::mm::mmap(core::ptr::null_mut(), size, protection, MapFlags::SHARED, &opened, 0) }
        .ok()
        .map(|mapped| mapped.cast_const().cast())
}

fn limits_of(path: &Path) -> Option<(Limits, *const TurnCell)> {
    let mapped = map(path, OFlags::RDONLY, ProtFlags::READ, Limits::SIZE)?;
    // SAFETY: that many bytes are mapped.
    let bytes = unsafe { core::slice::from_raw_parts(mapped, Limits::TURN) };
    let mut copy = [0; Limits::SIZE];
    copy[..Limits::TURN].copy_from_slice(bytes);
    let limits = Limits::from_bytes(&copy).ok()?;
    Some((limits, mapped.wrapping_add(Limits::TURN).cast()))
}

fn region_of(path: &Path) -> Option<*const Region> {
    map(path, OFlags::RDWR, ProtFlags::READ | ProtFlags::WRITE, Region::SIZE).map(<*const u8>::cast)
}

/// The bytes of `GPU-…` or `MIG-…`.
pub(crate) fn uuid(name: &[u8]) -> Option<[u8; 16]> {
    let digits = name.strip_prefix(b"GPU-").or_else(|| name.strip_prefix(b"MIG-"))?;
    let mut bytes = [0u8; 16];
    let mut count = 0;
    for &digit in digits.iter().filter(|&&digit| digit != b'-') {
        let value = (digit as char).to_digit(16)? as u8;
        let byte = bytes.get_mut(count / 2)?;
        *byte = *byte << 4 | value;
        count += 1;
    }
    (count == 32).then_some(bytes)
}

/// The kernel's file about a process; this one's where no number is given.
fn stat_of(pid: Option<u32>) -> Option<OwnedFd> {
    let mut path = Path::new(b"/proc/");
    match pid {
        None => path.push(b"self"),
        Some(mut pid) => {
            let mut digits = [0u8; 10];
            let mut at = digits.len();
            while at > 0 {
                at -= 1;
                digits[at] = b'0' + (pid % 10) as u8;
                pid /= 10;
                if pid == 0 {
                    break;
                }
            }
            path.push(&digits[at..]);
        }
    }
    path.push(b"/stat");
    open(&path, OFlags::RDONLY)
}

/// Whether a process is there of which nothing can be read, because `/proc` is missing or hides it.
pub(crate) fn is_hidden(pid: u32) -> bool {
    let Some(number) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else { return false };
    stat_of(Some(pid)).is_none() && rustix::process::test_kill_process(number) != Err(rustix::io::Errno::SRCH)
}

/// When a process was started, in ticks after the machine; this one's where no number is given. None for one that is not there.
pub(crate) fn start_of(pid: Option<u32>) -> Option<u64> {
    let opened = stat_of(pid)?;
    let mut text = [0u8; 1_024];
    let length = rustix::io::read(&opened, &mut text).ok()?;
    let text = text.get(..length)?;
    // The name may contain anything, so fields are counted from its end.
    let end = text.iter().rposition(|&byte| byte == b')')?;
    let mut fields = text.get(end + 1..)?.split(|&byte| byte == b' ').filter(|field| !field.is_empty());
    // A process that has ended and was not collected yet has nothing any more.
    if matches!(fields.next()?, b"Z" | b"X") {
        return None;
    }
    let start = fields.nth(18)?;
    core::str::from_utf8(start).ok()?.parse().ok()
}

/// Which pid namespace this process is in.
pub(crate) fn pid_namespace() -> u64 {
    rustix::fs::stat(c"/proc/self/ns/pid").map_or(0, |found| found.st_ino)
}

#[cfg(test)]
mod tests {
    use super::{Path, start_of, uuid};
    extern crate std;

    #[test]
    fn processes_and_names_are_told_apart() {
        let me = start_of(Some(std::process::id()));
        assert!(me.is_some() && me == start_of(None));
        assert_ne!(start_of(Some(1)), me);
        assert_eq!(start_of(Some(4_194_304)), None);
        assert_eq!(uuid(b"GPU-00112233-4455-6677-8899-aabbccddeeff").map(|uuid| uuid[15]), Some(0xff));
        assert_eq!(uuid(b"GPU-00112233-4455-6677-8899-aabbccddee"), None);
        assert_eq!(uuid(b"gpu"), None);
        assert_eq!(Path::new(b"/a/b.so").parent().join(b"c").text(), c"/a/c");
    }
}
