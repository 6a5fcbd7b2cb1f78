//! Streams that are captured: work in them does not run yet, and calls such as ours would spoil the capture.

use crate::driver::SUCCESS;
use crate::driver::own::{cuStreamIsCapturing, cuThreadExchangeStreamCaptureMode};
use crate::process::Process;
use core::sync::atomic::Ordering;

/// Whether what is launched in a stream is noted down and does not run.
pub(crate) fn is_captured(stream: usize) -> bool {
    let mut status = 0;
    // SAFETY: the driver writes one number.
    let told = unsafe { cuStreamIsCapturing::call(stream, &mut status) };
    // One that can not be asked is the old default stream while another is captured: nothing runs there then.
    told != SUCCESS || status != 0
}

/// While a stream is captured the driver refuses calls such as ours unless the thread says that it knows what it does.
pub(crate) struct Relaxed(Option<i32>);

impl Relaxed {
    pub(crate) fn enter(process: &Process) -> Self {
        if process.captures.load(Ordering::Relaxed) == 0 {
            return Relaxed(None);
        }
        let mut mode = 2;
        // SAFETY: the driver reads and writes one number.
        let told = unsafe { cuThreadExchangeStreamCaptureMode::call(&mut mode) };
        Relaxed((told == SUCCESS).then_some(mode))
    }
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        if let Some(mut mode) = self.0 {
            // SAFETY: as above.
            unsafe { cuThreadExchangeStreamCaptureMode::call(&mut mode) };
        }
    }
}
