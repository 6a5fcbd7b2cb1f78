//! A program that runs beside the test and ends with it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

/// Lines that somebody wrote so far.
type Lines = Arc<Mutex<Vec<String>>>;

/// A program on the node; killed when dropped.
#[derive(Debug)]
pub struct Background {
    child: Child,
    heard: Lines,
    printed: Lines,
}

/// Collects lines until the other end is closed.
fn collect(from: Option<impl Read + Send + 'static>) -> Lines {
    let lines = Lines::default();
    if let Some(from) = from {
        let into = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                into.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
    }
    lines
}

impl Background {
    pub(crate) fn start(mut command: Command, shown: &str) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("can not start {shown}: {error}"));
        let (printed, heard) = (collect(child.stdout.take()), collect(child.stderr.take()));
        Background { child, heard, printed }
    }

    /// Kills it with SIGKILL, now.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Everything it has written to stderr so far.
    pub fn heard(&self) -> String {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).join("\n")
    }

    /// Everything it has written to stdout so far.
    pub fn printed(&self) -> String {
        self.printed.lock().unwrap_or_else(PoisonError::into_inner).join("\n")
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.kill();
    }
}
