//! A progress line while GPUs change, on a terminal only.

use carve_mig_manager::{Progress, Step};
use std::io::{IsTerminal, Write};

/// Rewrites one line on a terminal; says nothing elsewhere, where a log would fill up.
pub(crate) struct ProgressLine {
    terminal: bool,
    steps: usize,
    done: usize,
}

impl ProgressLine {
    /// A line that counts up to so many steps.
    pub(crate) fn new(steps: usize) -> Self {
        ProgressLine { terminal: std::io::stderr().is_terminal(), steps, done: 0 }
    }

    /// Takes the line away.
    pub(crate) fn clear(&self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }
}

impl Progress for ProgressLine {
    fn step(&mut self, step: &Step) {
        self.done += 1;
        if !self.terminal {
            return;
        }
        let steps = self.steps.max(self.done);
        let mut stderr = std::io::stderr().lock();
        // A terminal that is gone must not stop a change half way.
        let _ = write!(stderr, "\r\x1b[K[{}/{steps}] {step}", self.done).and_then(|()| stderr.flush());
    }
}
