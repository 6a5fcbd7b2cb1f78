//! The driver's own events, with which work is measured.

use crate::driver::own::{cuEventElapsedTime, cuEventQuery, cuEventRecord};
use crate::driver::{NOT_READY, SUCCESS};

pub(crate) fn record(event: usize, stream: usize) -> bool {
    // SAFETY: an event of ours, in a stream that the program is about to use.
    unsafe { cuEventRecord::call(event, stream) == SUCCESS }
}

pub(crate) fn has_ended(event: usize) -> bool {
    // SAFETY: an event of ours. Whatever is wrong with it, waiting for it would not help.
    unsafe { cuEventQuery::call(event) != NOT_READY }
}

/// Nanoseconds of the GPU between two events.
pub(crate) fn between(from: usize, to: usize) -> Option<u64> {
    let mut milliseconds = 0f32;
    // SAFETY: two events of ours that were recorded.
    let told = unsafe { cuEventElapsedTime::call(&mut milliseconds, from, to) };
    (told == SUCCESS && milliseconds >= 0.0).then(|| (f64::from(milliseconds) * 1e6) as u64)
}
