//! Turns: a node has one driver and one kubelet, so tests of one program that install or restart them do not run beside each other.

use std::sync::{Mutex, MutexGuard, PoisonError};

static TURN: Mutex<()> = Mutex::new(());

/// Waits until no other test of this program has the turn; it ends when what is returned is dropped.
pub fn alone() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
