//! What a program came to: its exit, and what it said.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A program that has ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to stdout.
    pub stdout: String,
    /// What it wrote to stderr.
    pub stderr: String,
}

impl Outcome {
    /// Exit code, or `None` if a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }
}

/// A program that runs until it is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    heard: Vec<String>,
}

impl Running {
    /// Listens to the stderr of a child that was started with one.
    pub(crate) fn new(mut child: Child) -> io::Result<Self> {
        let stderr = child.stderr.take().ok_or_else(|| io::Error::other("the child has no stderr"))?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            // Ends with the child, or when nobody listens any more.
            BufReader::new(stderr).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Ok(Running { child, lines, heard: Vec::new() })
    }

    /// Waits for a line on stderr that contains a text.
    pub fn wait_for(&mut self, text: &str, most: Duration) -> Option<String> {
        let until = Instant::now() + most;
        if let Some(line) = self.heard.iter().find(|line| line.contains(text)) {
            return Some(line.clone());
        }
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.heard.push(line.clone());
                    if line.contains(text) {
                        return Some(line);
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Everything heard on stderr so far.
    pub fn heard(&mut self) -> String {
        self.heard.extend(self.lines.try_iter());
        self.heard.join("\n")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
