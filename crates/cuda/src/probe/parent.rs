//! The parent's side of a probe: starts the child, waits no longer than told, reads its line.

use super::{Answer, DeviceChoice, Line, ProbeVerb, Seen, VectorAdd};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long a probe may take when nothing is said: the first context after a reboot of a machine with eight GPUs
/// and no persistence daemon takes the better part of a minute.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(90);

/// How often the child is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// How long a killed child may take to go. One that waits inside a broken driver never does.
const GOING: Duration = Duration::from_secs(5);

/// No child has more to say than this.
const MOST_OUTPUT: u64 = 64 * 1024;

/// Variables that steer CUDA: a child whose view is to be known has them from whoever starts it, or not at all.
pub const STEERING: [&str; 7] = [
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_MPS_LOG_DIRECTORY",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING",
];

/// How a probe is started.
#[derive(Debug, Clone)]
pub struct Probe {
    /// The program whose `cuda-probe` leads to [`super::probe_main`]; usually the running one.
    pub program: PathBuf,
    /// Which device.
    pub device: DeviceChoice,
    /// The CUDA library; `None` leaves the search to the dynamic linker.
    pub library: Option<PathBuf>,
    /// Variables the child gets besides those of this process. Those that steer CUDA it gets from here alone, so
    /// that it sees what a container with these variables would see.
    pub env: BTreeMap<OsString, OsString>,
    /// How long it may take, after which it is killed.
    pub timeout: Duration,
}

impl Probe {
    /// A probe of the first device that CUDA shows.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Probe {
            program: program.into(),
            device: DeviceChoice::default(),
            library: None,
            env: BTreeMap::new(),
            timeout: DEFAULT_TIMEOUT,
        }
    }

    /// What a client of the device sees.
    pub fn look(&self) -> Result<Seen, RunError> {
        match run_probe(self, ProbeVerb::Look)? {
            Answer::Look(seen) => Ok(seen),
            other => Err(RunError::garbled(self, ProbeVerb::Look, &format!("{other:?}"))),
        }
    }

    /// Whether the device calculates right.
    pub fn vector_add(&self) -> Result<VectorAdd, RunError> {
        match run_probe(self, ProbeVerb::VectorAdd)? {
            Answer::VectorAdd(added) => Ok(added),
            other => Err(RunError::garbled(self, ProbeVerb::VectorAdd, &format!("{other:?}"))),
        }
    }

    fn command(&self, verb: ProbeVerb) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["cuda-probe", verb.as_str(), "--device", &self.device.to_string()]);
        if let Some(library) = &self.library {
            command.arg("--library").arg(library);
        }
        STEERING.iter().for_each(|variable| {
            command.env_remove(variable);
        });
        // NVML counts in this order; CUDA's own default puts the fastest GPU first.
        command.env("CUDA_DEVICE_ORDER", "PCI_BUS_ID").envs(&self.env);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// Why there is no answer from a probe.
#[derive(Debug, Error)]
pub enum RunError {
    /// The child could not be started.
    #[error("the CUDA probe {program} can not be started", program = program.display())]
    NotStarted {
        /// The program.
        program: PathBuf,
        /// The refusal.
        source: io::Error,
    },
    /// The child took too long.
    #[error(
        "the CUDA probe '{verb}' had not finished after {seconds} s and was killed{left}; the GPU or its MPS server \
         hangs: look into dmesg for XIDs, and at the log of the MPS daemon",
        seconds = timeout.as_secs_f64(),
        left = if *ended { "" } else { ", but does not go: it waits inside the driver" }
    )]
    TimedOut {
        /// What it was to do.
        verb: ProbeVerb,
        /// How long it had.
        timeout: Duration,
        /// Whether it is gone.
        ended: bool,
    },
    /// The probe ran and failed.
    #[error("{message}")]
    Failed {
        /// A short word for metrics and events, as [`super::ProbeError::reason`] gives it.
        reason: String,
        /// The child's sentence.
        message: String,
    },
    /// The child ended without an answer.
    #[error("the CUDA probe '{verb}' ended without an answer ({status}); it said: {said}")]
    NoAnswer {
        /// What it was to do.
        verb: ProbeVerb,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it wrote to stderr.
        said: String,
    },
    /// The child printed something else than an answer.
    #[error(
        "{program} cuda-probe {verb} printed something that is no answer ({found}); is it the carve of this version?",
        program = program.display()
    )]
    Garbled {
        /// The program.
        program: PathBuf,
        /// What it was to do.
        verb: ProbeVerb,
        /// The beginning of what it printed.
        found: String,
    },
}

impl RunError {
    fn garbled(probe: &Probe, verb: ProbeVerb, found: &str) -> Self {
        let found = found.chars().take(200).collect();
        RunError::Garbled { program: probe.program.clone(), verb, found }
    }
}

/// Starts the probe as a child process and waits for its answer, or kills it when its time is up.
///
/// Blocks the thread; asynchronous callers put it where blocking is allowed.
pub fn run_probe(probe: &Probe, verb: ProbeVerb) -> Result<Answer, RunError> {
    let not_started = |program: &Path, source| RunError::NotStarted { program: program.to_owned(), source };
    let until = Instant::now() + probe.timeout;
    let mut child = probe.command(verb).spawn().map_err(|error| not_started(&probe.program, error))?;
    let data = child.stdout.take().map(collect);
    let talk = child.stderr.take().map(collect);
    let ended = match wait(&mut child, until) {
        Ok(Some(status)) => Some(status),
        Ok(None) | Err(_) => None,
    };
    let Some(status) = ended else {
        // The collecting threads are left alone: they end with the child.
        let _ = child.kill();
        let ended = matches!(wait(&mut child, Instant::now() + GOING), Ok(Some(_)));
        return Err(RunError::TimedOut { verb, timeout: probe.timeout, ended });
    };
    let (data, talk) = (collected(data), collected(talk));
    if data.trim().is_empty() {
        let said = talk.trim();
        let from = said.char_indices().rev().nth(500).map_or(0, |(at, _)| at);
        let said = if said.is_empty() { "nothing" } else { &said[from..] };
        return Err(RunError::NoAnswer { verb, status, said: said.to_owned() });
    }
    match serde_json::from_str(&data) {
        Ok(Line::Answer(answer)) => Ok(answer),
        Ok(Line::Failed { reason, message }) => Err(RunError::Failed { reason, message }),
        Err(_) => Err(RunError::garbled(probe, verb, data.trim())),
    }
}

/// Waits for the child's end, until then at the longest.
fn wait(child: &mut Child, until: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        std::thread::sleep(left.min(LOOK_AGAIN));
    }
}

/// Reads a pipe to its end, so that a talkative child does not wait for a reader.
fn collect(pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before a failing read is kept; past the limit the pipe is closed on the child.
        let _ = pipe.take(MOST_OUTPUT).read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn collected(reader: Option<JoinHandle<String>>) -> String {
    reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
}
