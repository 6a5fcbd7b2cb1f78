//! Mishaps on purpose, so that it can be seen what neighbours have of them.

use crate::spec::Offence;
use crate::work::Place;
use carve_cuda::{CudaCode, CudaError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What is asked for at a time.
const STEP: usize = 1 << 30;
/// What is asked for when there is no more of that.
const LAST_STEP: usize = 2 << 20;
/// Time between two refusals.
const AGAIN: Duration = Duration::from_millis(5);

/// Does wrong, and says what came of it.
pub(crate) fn offend(place: &Place<'_>, offence: Offence, seconds: f64) -> String {
    match offence {
        Offence::Fault => {
            let met = place.kernels.fault(place.stream).and_then(|()| place.stream.synchronise());
            met.err().map_or_else(|| "the device let it pass".to_owned(), |error| error.to_string())
        }
        Offence::OutOfMemory => out_of_memory(place, seconds),
    }
}

fn out_of_memory(place: &Place<'_>, seconds: f64) -> String {
    let begun = Instant::now();
    let (mut held, mut bytes, mut step, mut refused) = (Vec::new(), 0, STEP, 0u64);
    let mut last: Option<CudaError> = None;
    while begun.elapsed().as_secs_f64() < seconds {
        match place.context.allocate(step) {
            Ok(buffer) => {
                bytes += step;
                held.push(buffer);
            }
            Err(error) if error.code == CudaCode::OUT_OF_MEMORY && step > LAST_STEP => step /= 8,
            Err(error) => {
                refused += 1;
                last = Some(error);
                sleep(AGAIN);
            }
        }
        step = step.max(LAST_STEP);
    }
    let mebibytes = bytes >> 20;
    match last {
        Some(error) => format!("held {mebibytes} MiB, was refused {refused} times: {}", error.name),
        None => format!("held {mebibytes} MiB and was never refused"),
    }
}
