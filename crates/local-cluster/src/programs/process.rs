//! A process of this machine: who it is, whether it lives, what it has started, and its end.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::str::FromStr;

/// A process that is not mistaken for another that has its number later: `PID/START`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// When it began, in ticks since the machine did.
    began: u64,
}

/// State, parent and beginning of a process, as the kernel writes them after its name.
fn stat(pid: u32) -> Option<(char, u32, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // A name may have spaces and brackets of its own.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let (state, parent) = (fields.next()?.chars().next()?, fields.next()?.parse().ok()?);
    Some((state, parent, fields.nth(17)?.parse().ok()?))
}

impl Process {
    /// The process that has a number now.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        stat(pid).map(|(_, _, began)| Process { pid, began })
    }

    /// Whether it lives; one that only waits to be buried does not.
    pub(crate) fn is_alive(self) -> bool {
        stat(self.pid).is_some_and(|(state, _, began)| began == self.began && !matches!(state, 'Z' | 'X'))
    }

    /// Asks it to end.
    pub(crate) fn ask_to_end(self) {
        if let (true, Some(pid)) = (self.is_alive(), pid(self.pid)) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Ends it and everything that it has started.
    pub(crate) fn kill(self) {
        let mut tree = descendants(self.pid);
        if self.is_alive() {
            tree.insert(self.pid);
        }
        for one in tree {
            if let Some(pid) = pid(one) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }

    /// Ends those that it has started and that outlived it, where it led them.
    pub(crate) fn kill_group(self) {
        if let Some(pid) = pid(self.pid) {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

fn pid(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}

impl std::fmt::Display for Process {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{}/{}", self.pid, self.began)
    }
}

impl FromStr for Process {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (pid, began) = text.split_once('/').ok_or(())?;
        Ok(Process { pid: pid.parse().map_err(drop)?, began: began.parse().map_err(drop)? })
    }
}

/// Everything that a process has started, and that they have.
pub(crate) fn descendants(pid: u32) -> BTreeSet<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(one) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if let Some((_, parent, _)) = stat(one) {
            children.entry(parent).or_default().push(one);
        }
    }
    let (mut found, mut look) = (BTreeSet::new(), vec![pid]);
    while let Some(one) = look.pop() {
        for child in children.remove(&one).unwrap_or_default() {
            found.insert(child);
            look.push(child);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Process, descendants};
    use std::process::Command;

    #[test]
    fn a_process_is_itself_until_it_ends() {
        let mut child = Command::new("sh").args(["-c", "sleep 1000 & wait"]).spawn().expect("a process");
        let process = Process::of(child.id()).expect("it lives");
        assert_eq!(process.to_string().parse(), Ok(process));
        assert!(process.is_alive());
        let started = loop {
            let found = descendants(child.id());
            if let Some(one) = found.into_iter().next() {
                break Process::of(one).expect("it lives");
            }
        };
        let other = Process { began: process.began + 1, ..process };
        assert!(!other.is_alive(), "one that has its number is another");
        process.kill();
        let _ = child.wait();
        let begun = std::time::Instant::now();
        while started.is_alive() && begun.elapsed().as_secs() < 20 {
            std::thread::yield_now();
        }
        assert!(!process.is_alive() && !started.is_alive());
    }
}
