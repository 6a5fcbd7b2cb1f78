//! The clock that completion times are told by, which all processes of a machine read alike, and waiting for it.

use crate::error::Answer;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Nanoseconds since the machine was started.
pub(crate) type Moment = u64;

/// When that ends which never ends.
pub(crate) const NEVER: Moment = Moment::MAX;

/// A waiting thread looks at least so often whether what it waits for is still there.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The present moment.
pub(crate) fn now() -> Moment {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Waits until a moment, which is asked for again and again because it may move. The session must not be held:
/// other threads go on.
pub(crate) fn wait(mut until: impl FnMut() -> Answer<Moment>) -> Answer {
    loop {
        let until = until()?;
        let now = now();
        if until <= now {
            return Ok(());
        }
        std::thread::sleep(Duration::from_nanos(until - now).min(LOOK_AGAIN));
    }
}
