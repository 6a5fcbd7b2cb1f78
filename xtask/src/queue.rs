//! Programs that wait in one queue for several places to run in: the slowest first, each one's output shown whole when it ends.

use crate::run::what_failed;
use crate::times::Times;
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A program that is run once.
#[derive(Debug)]
pub(crate) struct Job {
    /// How it is told from all others; its last time is remembered under this name.
    pub(crate) name: String,
    pub(crate) command: Command,
    /// Runs after all others, with nothing beside it.
    pub(crate) alone: bool,
}

/// Where one job at a time runs.
pub(crate) struct Place<'a> {
    /// What people read; a place without a name is not spoken of.
    pub(crate) name: &'a str,
    /// Told to every job that runs here.
    pub(crate) environment: Vec<(String, String)>,
    /// What else there is to say right after a job failed here.
    pub(crate) complaint: &'a (dyn Fn() -> String + Sync),
}

/// Says nothing about a failure.
pub(crate) const SILENT: &(dyn Fn() -> String + Sync) = &String::new;

/// Runs every job, whatever becomes of the others, and remembers how long each took that passed.
pub(crate) fn run_all(jobs: Vec<Job>, places: &[Place<'_>], times: &mut Times) -> Result<()> {
    let number = jobs.len();
    let queue = Queue::new(jobs, times);
    std::thread::scope(|scope| {
        for place in places {
            scope.spawn(|| {
                while let Some(mut job) = queue.next() {
                    let done = run_one(&mut job, place);
                    queue.finished(job, done, place);
                }
            });
        }
    });
    let Done { passed, failed } = queue.end();
    for (name, time) in passed {
        times.took(&name, time);
    }
    times.write()?;
    if failed.is_empty() {
        return Ok(());
    }
    // Once more at the end, because the end is what people read.
    for failure in &failed {
        eprintln!("{}── what failed in {}\n{}", failure.complaint, failure.name, failure.words);
    }
    let names: Vec<&str> = failed.iter().map(|failure| failure.name.as_str()).collect();
    bail!("{} of {number} failed: {}", failed.len(), names.join(", "));
}

struct Failure {
    name: String,
    words: String,
    complaint: String,
}

#[derive(Default)]
struct Done {
    passed: Vec<(String, Duration)>,
    failed: Vec<Failure>,
}

struct State {
    /// The next one last.
    waiting: Vec<Job>,
    running: usize,
    /// Somebody runs who wants nobody beside him.
    taken: bool,
    done: Done,
}

struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    fn new(mut jobs: Vec<Job>, times: &Times) -> Self {
        // From the end: unknown ones, then the slowest; who must be alone at the very beginning, which comes last.
        jobs.sort_by_key(|job| (!job.alone, times.last(&job.name).unwrap_or(Duration::MAX)));
        let state = State { waiting: jobs, running: 0, taken: false, done: Done::default() };
        Queue { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job, as soon as it may run; `None` when there are no more.
    fn next(&self) -> Option<Job> {
        let mut state = self.state();
        loop {
            let alone = state.waiting.last()?.alone;
            if !state.taken && (!alone || state.running == 0) {
                state.running += 1;
                state.taken = alone;
                return state.waiting.pop();
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Shows what a job said, while nobody else speaks.
    fn finished(&self, job: Job, done: Result<Ended>, place: &Place<'_>) {
        let complaint = if matches!(&done, Ok(ended) if ended.status.success()) {
            String::new()
        } else {
            (place.complaint)()
        };
        let mut state = self.state();
        state.running -= 1;
        state.taken = false;
        match done {
            Ok(Ended { status, said, time }) => {
                let verdict =
                    if status.success() { "passed".to_owned() } else { format!("FAILED ({status})") };
                println!("── {}{}: {verdict} in {:.1} s", job.name, within(place), time.as_secs_f64());
                // A line that is not text is for people to see, not for this program to stumble over.
                let _ = std::io::stdout().write_all(said.as_bytes());
                if status.success() {
                    state.done.passed.push((job.name, time));
                } else {
                    state.done.failed.push(Failure { name: job.name, words: what_failed(&said), complaint });
                }
            }
            Err(error) => {
                println!("── {}{}: {error:#}", job.name, within(place));
                state.done.failed.push(Failure { name: job.name, words: format!("{error:#}"), complaint });
            }
        }
        self.changed.notify_all();
    }

    fn end(self) -> Done {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).done
    }
}

/// A job that ran to its end.
struct Ended {
    status: ExitStatus,
    said: String,
    time: Duration,
}

fn within(place: &Place<'_>) -> String {
    if place.name.is_empty() { String::new() } else { format!(" in {}", place.name) }
}

/// Runs a job with everything that it says kept in one file, so that both its streams stay in order.
fn run_one(job: &mut Job, place: &Place<'_>) -> Result<Ended> {
    if !place.name.is_empty() {
        println!("── {} begins{}", job.name, within(place));
    }
    let start = Instant::now();
    let mut said = nameless()?;
    let status = job
        .command
        .envs(place.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(said.try_clone()?)
        .stderr(said.try_clone()?)
        .status()
        .with_context(|| format!("can not start {:?}", job.command.get_program()))?;
    let time = start.elapsed();
    let mut bytes = Vec::new();
    said.rewind()?;
    said.read_to_end(&mut bytes)?;
    Ok(Ended { status, said: String::from_utf8_lossy(&bytes).into_owned(), time })
}

/// A file that nobody else finds and that is gone with its last user.
fn nameless() -> Result<File> {
    static NUMBER: Mutex<u32> = Mutex::new(0);
    let number = {
        let mut number = NUMBER.lock().unwrap_or_else(PoisonError::into_inner);
        *number += 1;
        *number
    };
    let path: &Path = &std::env::temp_dir().join(format!("carve-said-{}-{number}", std::process::id()));
    let file = File::options().read(true).append(true).create_new(true).open(path);
    let file = file.with_context(|| path.display().to_string())?;
    std::fs::remove_file(path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::{Job, Place, Queue, SILENT, run_all};
    use crate::times::Times;
    use std::path::Path;
    use std::process::Command;
    use std::time::Duration;

    fn job(name: &str, script: &str, alone: bool) -> Job {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Job { name: name.to_owned(), command, alone }
    }

    fn place(name: &'static str) -> Place<'static> {
        Place { name, environment: vec![("PLACE".to_owned(), name.to_owned())], complaint: SILENT }
    }

    #[test]
    fn unknown_ones_come_first_and_then_the_slowest() {
        let mut times = Times::forgetful();
        for (name, seconds) in [("quick", 1), ("slow", 9), ("alone", 99)] {
            times.took(name, Duration::from_secs(seconds));
        }
        let jobs = [("quick", false), ("alone", true), ("new", false), ("slow", false)];
        let queue = Queue::new(jobs.map(|(name, alone)| job(name, "", alone)).into(), &times);
        let mut order = Vec::new();
        while let Some(job) = queue.next() {
            order.push(job.name);
            queue.state().running -= 1;
        }
        assert_eq!(order, ["new", "slow", "quick", "alone"]);
    }

    /// Each job of the first two waits for the other one, so they must run at once; who is alone must find that both are gone.
    #[test]
    fn places_work_at_once_and_who_must_be_alone_is() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().display();
        let meet = |own: &str, other: &str| {
            format!(
                "cd {here}; touch {own}; until [ -e {other} ]; do sleep 0.02; done; sleep 0.2; touch {own}-ended"
            )
        };
        let alone = format!("cd {here}; test -e a-ended && test -e b-ended && test -n \"$PLACE\"");
        let jobs = vec![
            job("alone", &alone, true),
            job("a", &meet("a", "b"), false),
            job("b", &meet("b", "a"), false),
            job("alone too", &format!("cd {here}; mkdir lock && sleep 0.1 && rmdir lock"), true),
            job("alone as well", &format!("cd {here}; mkdir lock && sleep 0.1 && rmdir lock"), true),
        ];
        let mut times = Times::forgetful();
        run_all(jobs, &[place("one"), place("two")], &mut times).unwrap();
        assert!(times.last("a").is_some() && times.last("alone as well").is_some());
    }

    #[test]
    fn a_failure_keeps_nobody_from_running_and_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let ran = folder.path().join("ran");
        let jobs = vec![
            job("breaks", "echo last words; exit 3", false),
            Job { command: Command::new("/nowhere"), ..job("is not there", "", false) },
            job("goes on", &format!("touch {}", Path::new(&ran).display()), true),
        ];
        let mut times = Times::forgetful();
        let error = run_all(jobs, &[place("")], &mut times).unwrap_err().to_string();
        assert!(error.starts_with("2 of 3 failed: "), "{error}");
        assert!(error.contains("breaks") && error.contains("is not there"), "{error}");
        assert!(ran.exists() && times.last("goes on").is_some() && times.last("breaks").is_none());
    }
}
