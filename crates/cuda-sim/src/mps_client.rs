//! What a process is to an MPS daemon: one of several clients that die together when a kernel of any of them does.
//!
//! NVIDIA's guide says that a fatal fault is told to all clients of the server on that GPU. Processes learn of each other's
//! faults on the board, so they must share one.

use crate::board::Board;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

/// A daemon that listens has this file in its pipe directory.
const DAEMON: &str = "nvidia-cuda-mps-control.pid";

/// A client of a daemon.
#[derive(Debug)]
pub(crate) struct MpsClient {
    daemon: u64,
    /// Faults that the daemon's clients had met before this one came.
    before: u64,
}

impl MpsClient {
    /// A client of the daemon of a pipe directory; none where no daemon has it.
    pub(crate) fn of(pipe_directory: &Path, board: Board) -> Option<Self> {
        // A daemon is its process: another one may have the same folder later.
        let pid = std::fs::read_to_string(pipe_directory.join(DAEMON)).ok()?;
        let mut hasher = DefaultHasher::new();
        (pipe_directory, pid).hash(&mut hasher);
        let daemon = hasher.finish().max(1);
        Some(MpsClient { daemon, before: board.faults(daemon) })
    }

    /// A kernel of this client has died, and all clients with it.
    pub(crate) fn die(&self, board: Board) {
        board.add_fault(self.daemon);
    }

    /// Whether a kernel of any client has died since this one came.
    pub(crate) fn is_lost(&self, board: Board) -> bool {
        board.faults(self.daemon) != self.before
    }
}

#[cfg(test)]
mod tests {
    use super::{DAEMON, MpsClient};
    use crate::board::Board;

    #[test]
    fn clients_of_one_daemon_die_together_and_later_ones_live() {
        let (board, folder, other) =
            (Board::own(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        assert!(MpsClient::of(folder.path(), board).is_none(), "nobody listens");
        for folder in [&folder, &other] {
            std::fs::write(folder.path().join(DAEMON), "1").unwrap();
        }
        let client = |folder: &tempfile::TempDir| MpsClient::of(folder.path(), board).unwrap();
        let (first, second, elsewhere) = (client(&folder), client(&folder), client(&other));
        first.die(board);
        assert!(first.is_lost(board) && second.is_lost(board) && !elsewhere.is_lost(board));
        assert!(!client(&folder).is_lost(board));
    }
}
