//! A program that runs beside the test and ends with it.

use crate::PATIENCE;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

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

    /// Kills it with SIGKILL, now, and returns when it is gone.
    pub fn kill(&mut self) {
        // Whoever waits for the program ends with it; killed first, it would leave the program to itself. One that was only just started
        // may not be there yet.
        let start = Instant::now();
        while !self.signal(Signal::KILL) && matches!(self.child.try_wait(), Ok(None)) {
            assert!(start.elapsed() < PATIENCE, "what was started does not come up and can not be killed");
            std::thread::sleep(Duration::from_millis(5));
        }
        self.wake();
        let _ = self.child.wait();
    }

    /// Stops it in its tracks, until [`Background::resume`].
    pub fn pause(&self) {
        assert!(self.signal(Signal::STOP), "nothing runs that could be stopped");
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.wake();
        assert!(self.signal(Signal::CONT), "nothing runs that could go on");
    }

    /// Whoever waits for a program that is stopped stops itself.
    fn wake(&self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::CONT);
        }
    }

    /// Sends a signal to the program itself: the process that was started only entered the lab for it.
    fn signal(&self, signal: Signal) -> bool {
        let sent = children(self.child.id()).map(|pid| kill_process(pid, signal).is_ok());
        sent.filter(|sent| *sent).count() > 0
    }

    /// The program's process, once it is there.
    pub fn process(&self) -> Option<u32> {
        children(self.child.id()).next().and_then(|pid| u32::try_from(pid.as_raw_nonzero().get()).ok())
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

/// Processes that a process has started.
fn children(parent: u32) -> impl Iterator<Item = Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten();
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter_map(move |number| {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        let of: u32 = stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse().ok()?;
        if of == parent { Pid::from_raw(number) } else { None }
    })
}

impl Drop for Background {
    fn drop(&mut self) {
        self.kill();
    }
}
