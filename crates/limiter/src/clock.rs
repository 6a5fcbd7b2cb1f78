//! The clock that all containers of a machine have in common, and waiting until a moment of it.

use rustix::thread::{ClockId, Timespec};

/// Timers of Linux ring about this much late, so the rest is spent awake.
const LATE: u64 = 70_000;

/// Nanoseconds of the monotonic clock.
pub(crate) fn now() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::Monotonic);
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Waits until a moment, and not much longer.
pub(crate) fn sleep_until(when: u64) {
    loop {
        let left = when.saturating_sub(now());
        if left == 0 {
            return;
        }
        if left > LATE {
            nap(left - LATE);
        } else {
            core::hint::spin_loop();
        }
    }
}

/// Sleeps about so long.
pub(crate) fn nap(nanoseconds: u64) {
    let time = Timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as i64,
        tv_nsec: (nanoseconds % 1_000_000_000) as i64,
    };
    let _ = rustix::thread::nanosleep(&time);
}
