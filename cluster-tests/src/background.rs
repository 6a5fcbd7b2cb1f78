//! A program that runs beside the test and ends with it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

/// A program on the node; killed when dropped.
#[derive(Debug)]
pub struct Background {
    child: Child,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Background {
    pub(crate) fn start(mut command: Command, shown: &str) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("can not start {shown}: {error}"));
        let heard = Arc::new(Mutex::new(Vec::new()));
        if let Some(stderr) = child.stderr.take() {
            let heard = Arc::clone(&heard);
            std::thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    heard.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                }
            });
        }
        Background { child, heard }
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
}

impl Drop for Background {
    fn drop(&mut self) {
        self.kill();
    }
}
