//! Processes of tenants: started, told what to do, listened to, and ended for certain.

use crate::CellError;
use carve_workload::{Command as Told, Done, Reply};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two looks around while tenants work.
const GLANCE: Duration = Duration::from_millis(50);
/// How long the first context of a machine without a persistence daemon may take.
pub(crate) const START: f64 = 90.0;
/// Beyond the time that was asked for.
pub(crate) const PATIENCE: f64 = 30.0;
/// How long a process may take to go after it was told.
const GOING: Duration = Duration::from_secs(3);

/// A process of tenants.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    begun: Instant,
    /// Seconds until it was ready.
    pub(crate) start_up: f64,
    /// Mebibytes of device memory that each tenant has allocated.
    pub(crate) memory_mib: Vec<u64>,
}

/// What came from a process.
enum Came {
    Line(Reply),
    /// It is no line of ours; kept as what was said last.
    Odd(String),
    End,
}

/// Processes that are looked at together.
#[derive(Debug)]
pub(crate) struct Tenants {
    processes: Vec<Process>,
    sender: Sender<(usize, Came, Instant)>,
    came: Receiver<(usize, Came, Instant)>,
    /// Those that have something to say and have not said it.
    waited_for: Vec<bool>,
}

/// Called while tenants work; an answer of `Err` ends the wait.
pub(crate) type Meanwhile<'a> = &'a mut dyn FnMut() -> Result<(), CellError>;

impl Tenants {
    pub(crate) fn none() -> Self {
        let (sender, came) = channel();
        Tenants { processes: Vec::new(), sender, came, waited_for: Vec::new() }
    }

    /// Starts one; answers its number.
    pub(crate) fn start(&mut self, mut command: Command) -> Result<usize, CellError> {
        let program = command.get_program().into();
        // Of a group of its own, so that a terminal's Ctrl-C reaches this process first, and so that all of it can be ended.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let begun = Instant::now();
        let mut child = command.spawn().map_err(|source| CellError::NotStarted { program, source })?;
        let number = self.processes.len();
        let (input, output, talk) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        if let (Some(output), Some(talk)) = (output, talk) {
            let sender = self.sender.clone();
            thread::spawn(move || listen(number, output, talk, &sender));
        }
        self.processes.push(Process { child, input, begun, start_up: 0.0, memory_mib: Vec::new() });
        self.waited_for.push(true);
        Ok(number)
    }

    /// Waits until all that were started are ready.
    pub(crate) fn ready(&mut self, meanwhile: Meanwhile<'_>) -> Result<(), CellError> {
        for (number, reply, at) in self.replies(START, meanwhile)? {
            let process = &mut self.processes[number];
            if let Reply::Ready { memory_mib } = reply {
                process.start_up = at.saturating_duration_since(process.begun).as_secs_f64();
                process.memory_mib = memory_mib;
            }
        }
        Ok(())
    }

    /// Tells one what to do next.
    pub(crate) fn tell(&mut self, number: usize, told: Told) -> Result<(), CellError> {
        let gone = |why: String| CellError::Tenant { which: number + 1, why };
        let mut line = serde_json::to_string(&told).map_err(|error| gone(error.to_string()))?;
        line.push('\n');
        let input = self.processes[number].input.as_mut().ok_or_else(|| gone("it has ended".to_owned()))?;
        input
            .write_all(line.as_bytes())
            .and_then(|()| input.flush())
            .map_err(|error| gone(error.to_string()))?;
        self.waited_for[number] = true;
        Ok(())
    }

    /// Tells all, and waits for what each of their tenants did.
    pub(crate) fn all(
        &mut self,
        told: Told,
        seconds: f64,
        meanwhile: Meanwhile<'_>,
    ) -> Result<Vec<Done>, CellError> {
        for number in 0..self.processes.len() {
            self.tell(number, told)?;
        }
        self.done(seconds, meanwhile)
    }

    /// Waits for what tenants did that were told something. One that was stopped by an error is an error.
    pub(crate) fn done(&mut self, seconds: f64, meanwhile: Meanwhile<'_>) -> Result<Vec<Done>, CellError> {
        let mut replies = self.replies(seconds + PATIENCE, meanwhile)?;
        replies.sort_by_key(|(number, _, _)| *number);
        let mut all = Vec::new();
        for (number, reply, _) in replies {
            if let Reply::Done(done) = reply {
                let stopped = done.iter().find_map(|one| one.error.clone());
                if let Some(why) = stopped {
                    return Err(CellError::Tenant { which: number + 1, why });
                }
                all.extend(done);
            }
        }
        Ok(all)
    }

    /// Waits for everybody who has something to say.
    pub(crate) fn replies(
        &mut self,
        seconds: f64,
        meanwhile: Meanwhile<'_>,
    ) -> Result<Vec<(usize, Reply, Instant)>, CellError> {
        let deadline = Instant::now() + Duration::from_secs_f64(seconds);
        let mut replies = Vec::new();
        while let Some(which) = self.waited_for.iter().position(|waits| *waits) {
            meanwhile()?;
            match self.next(which)? {
                Some(reply) => replies.push(reply),
                None if Instant::now() >= deadline => {
                    return Err(CellError::NoAnswer { which: which + 1, seconds });
                }
                None => {}
            }
        }
        Ok(replies)
    }

    /// What one of them says next; nothing where none says anything for a moment.
    fn next(&mut self, waited_for: usize) -> Result<Option<(usize, Reply, Instant)>, CellError> {
        let failed = |number: usize, why: String| Err(CellError::Tenant { which: number + 1, why });
        match self.came.recv_timeout(GLANCE) {
            Ok((number, Came::Line(Reply::Failed(why)), _)) => failed(number, why),
            Ok((number, Came::Line(reply), at)) => {
                self.waited_for[number] = false;
                Ok(Some((number, reply, at)))
            }
            Ok((number, Came::Odd(said), _)) => failed(number, said),
            Ok((number, Came::End, _)) if self.waited_for[number] => {
                let status = self.processes[number].child.wait().map(|status| status.to_string());
                failed(number, format!("it ended ({})", status.unwrap_or_else(|error| error.to_string())))
            }
            Ok((_, Came::End, _)) | Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => failed(waited_for, "nobody is left".to_owned()),
        }
    }

    /// What is known of each.
    pub(crate) fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// Kills one as it is.
    pub(crate) fn kill(&mut self, number: usize) {
        self.waited_for[number] = false;
        end(&mut self.processes[number].child);
    }
}

fn end(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // One that has ended is no process any more.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

impl Drop for Tenants {
    /// The end of input is the end of a tenant; one that does not see it is killed.
    fn drop(&mut self) {
        for process in &mut self.processes {
            process.input = None;
        }
        let deadline = Instant::now() + GOING;
        for process in &mut self.processes {
            while matches!(process.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(2));
            }
            end(&mut process.child);
        }
    }
}

/// Reads what a process says until it ends. What it says on the side is told where it ends without a word.
fn listen(
    number: usize,
    output: impl std::io::Read,
    talk: impl std::io::Read + Send + 'static,
    sender: &Sender<(usize, Came, Instant)>,
) {
    let aside = thread::spawn(move || {
        let mut last = String::new();
        for line in BufReader::new(talk).lines().map_while(Result::ok) {
            if !line.trim().is_empty() {
                last = line;
            }
        }
        last
    });
    let mut said = false;
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        said = true;
        let came = match serde_json::from_str(&line) {
            Ok(reply) => Came::Line(reply),
            Err(_) => Came::Odd(format!("it said '{line}'")),
        };
        if sender.send((number, came, Instant::now())).is_err() {
            return;
        }
    }
    if !said
        && let Ok(last) = aside.join()
        && !last.is_empty()
    {
        let _ = sender.send((number, Came::Odd(last), Instant::now()));
    }
    let _ = sender.send((number, Came::End, Instant::now()));
}
