//! What processes share of the devices: until when each device is busy, how much memory every process holds, and how many
//! faults the clients of each MPS daemon have met.
//!
//! The board is a file that all of them have in memory (`CARVE_SIM_CUDA_CLOCK`), or memory of this process alone.
//! Kernels of a device run one after another, first come first served: a launch moves the device's `busy_until` and
//! thereby knows when its kernel ends. A process that has died holds no memory any more, but what it launched still
//! takes its time. A file is good until the machine is started again, because the clock begins anew then.

use crate::clock::{Moment, now};
use crate::mapping;
use rustix::process::{Pid, test_kill_process};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use thiserror::Error;

/// More devices than any machine has, and more MPS daemons than any test.
const DEVICES: usize = 64;
const DAEMONS: usize = 256;

/// More pairs of process and device than any test has.
const HOLDERS: usize = 1024;

/// The board as it lies in memory. Zeros are an empty one.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Layout {
    /// Until when each is busy.
    devices: [Line; DEVICES],
    /// How many faults the clients of each have met.
    daemons: [Line; DAEMONS],
    holders: [Holder; HOLDERS],
}

#[derive(Debug)]
#[repr(C)]
struct Line {
    /// Of what; 0 is nothing.
    key: AtomicU64,
    value: AtomicU64,
}

#[derive(Debug)]
#[repr(C)]
struct Holder {
    /// Which process; 0 is none.
    pid: AtomicU64,
    key: AtomicU64,
    bytes: AtomicU64,
}

/// The board can not be used.
#[derive(Debug, Error)]
pub(crate) enum BoardError {
    #[error("can not use {path}: {error}", path = path.display())]
    File { path: PathBuf, error: io::Error },
    #[error(
        "{path} is {length} bytes long and so was not made for this; name a file that is not there yet",
        path = path.display()
    )]
    Foreign { path: PathBuf, length: u64 },
}

/// The board of this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Board(&'static Layout);

impl Board {
    /// One that this process has to itself.
    pub(crate) fn own() -> Self {
        let line = || Line { key: AtomicU64::new(0), value: AtomicU64::new(0) };
        let holder = || Holder { pid: AtomicU64::new(0), key: AtomicU64::new(0), bytes: AtomicU64::new(0) };
        let layout = Layout {
            devices: std::array::from_fn(|_| line()),
            daemons: std::array::from_fn(|_| line()),
            holders: std::array::from_fn(|_| holder()),
        };
        // The session lives as long as the process, and so does its board.
        Board(Box::leak(Box::new(layout)))
    }

    /// The one in a file, which is made if it is not there.
    pub(crate) fn shared(path: &Path) -> Result<Self, BoardError> {
        let refused = |error| BoardError::File { path: path.to_owned(), error };
        let options = File::options().read(true).write(true).create(true).truncate(false).open(path);
        let file = options.map_err(refused)?;
        let wanted = size_of::<Layout>() as u64;
        match file.metadata().map_err(refused)?.len() {
            0 => file.set_len(wanted).map_err(refused)?,
            length if length == wanted => {}
            length => return Err(BoardError::Foreign { path: path.to_owned(), length }),
        }
        let board = Board(mapping::board(&file).map_err(refused)?);
        board.forget(own_pid());
        Ok(board)
    }

    /// A kernel takes its place on a device: not before a moment, and after all that were launched before it. Answers
    /// when it ends.
    pub(crate) fn occupy(self, key: u64, not_before: Moment, nanoseconds: u64) -> Moment {
        let Some(line) = line(&self.0.devices, key) else {
            return not_before.max(now()).saturating_add(nanoseconds);
        };
        let start = |busy_until: Moment| busy_until.max(not_before).max(now());
        let mut end = 0;
        // The closure never refuses, so neither does the update.
        let _ = line.value.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |busy_until| {
            end = start(busy_until).saturating_add(nanoseconds);
            Some(end)
        });
        end
    }

    /// How many faults the clients of an MPS daemon have met so far.
    pub(crate) fn faults(self, daemon: u64) -> u64 {
        line(&self.0.daemons, daemon).map_or(0, |line| line.value.load(Ordering::SeqCst))
    }

    /// One of them has met one more.
    pub(crate) fn add_fault(self, daemon: u64) {
        if let Some(line) = line(&self.0.daemons, daemon) {
            line.value.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// What other living processes hold of a device.
    pub(crate) fn held_by_others(self, key: u64) -> u64 {
        let own = own_pid();
        let held = |holder: &&Holder| {
            let pid = holder.pid.load(Ordering::SeqCst);
            pid != 0 && pid != own && holder.key.load(Ordering::SeqCst) == key && lives(pid)
        };
        let holders = self.0.holders.iter().filter(held);
        holders.map(|holder| holder.bytes.load(Ordering::SeqCst)).fold(0, u64::saturating_add)
    }

    /// Writes down what this process holds of a device. `false` if the board is full.
    #[must_use]
    pub(crate) fn hold(self, key: u64, bytes: u64) -> bool {
        let own = own_pid();
        let mine = |holder: &&Holder| {
            holder.pid.load(Ordering::SeqCst) == own && holder.key.load(Ordering::SeqCst) == key
        };
        match self.0.holders.iter().find(mine).or_else(|| self.claim(own, key)) {
            Some(holder) => {
                holder.bytes.store(bytes, Ordering::SeqCst);
                true
            }
            None => false,
        }
    }

    /// A line that nobody living has.
    fn claim(self, own: u64, key: u64) -> Option<&'static Holder> {
        let holder = self.0.holders.iter().find(|holder| {
            let pid = holder.pid.load(Ordering::SeqCst);
            (pid == 0 || !lives(pid))
                && holder.pid.compare_exchange(pid, own, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        })?;
        holder.bytes.store(0, Ordering::SeqCst);
        holder.key.store(key, Ordering::SeqCst);
        Some(holder)
    }

    /// What a process with this number held that has died; the number may have been given out again.
    fn forget(self, pid: u64) {
        for holder in self.0.holders.iter().filter(|holder| holder.pid.load(Ordering::SeqCst) == pid) {
            holder.bytes.store(0, Ordering::SeqCst);
            holder.pid.store(0, Ordering::SeqCst);
        }
    }
}

/// The line of a key, or the first that is nobody's.
fn line(lines: &'static [Line], key: u64) -> Option<&'static Line> {
    let claims = |line: &&Line| match line.key.compare_exchange(0, key, Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) => true,
        Err(found) => found == key,
    };
    lines.iter().find(claims)
}

fn own_pid() -> u64 {
    u64::from(std::process::id())
}

fn lives(pid: u64) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    // One that may not be asked is there.
    test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use super::{Board, BoardError, HOLDERS};
    use crate::clock::now;
    use std::sync::atomic::Ordering;

    #[test]
    fn kernels_of_a_device_follow_each_other_and_other_devices_do_not_wait() {
        let board = Board::own();
        let before = now();
        let first = board.occupy(1, 0, 1_000_000_000);
        let second = board.occupy(1, 0, 5);
        assert!(first >= before + 1_000_000_000);
        assert_eq!(second, first + 5);
        assert_eq!(board.occupy(1, second + 7, 1), second + 8, "what must wait begins later");
        assert!(board.occupy(2, 0, 5) < first);
    }

    #[test]
    fn the_living_hold_memory_and_the_dead_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("board");
        let (board, again) = (Board::shared(&path).unwrap(), Board::shared(&path).unwrap());
        assert!(board.hold(1, 10));
        assert_eq!(board.held_by_others(1), 0, "not by others");
        let line = &again.0.holders[0];
        assert_eq!(line.bytes.load(Ordering::SeqCst), 10, "both look at one file");
        // The parent of a test lives, and no process has the largest number.
        line.pid.store(u64::from(std::os::unix::process::parent_id()), Ordering::SeqCst);
        assert_eq!((board.held_by_others(1), board.held_by_others(2)), (10, 0));
        line.pid.store(i32::MAX as u64, Ordering::SeqCst);
        assert_eq!(board.held_by_others(1), 0);
        assert!(board.hold(1, 3));
        assert_eq!(line.bytes.load(Ordering::SeqCst), 3, "a dead process's line is taken over");
        assert!((2..=HOLDERS as u64).all(|key| board.hold(key, 1)));
        assert!(!board.hold(0, 1), "full");
    }

    #[test]
    fn a_file_of_another_kind_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("letter");
        std::fs::write(&path, "Dear").unwrap();
        assert!(matches!(Board::shared(&path), Err(BoardError::Foreign { length: 4, .. })));
    }
}
