//! The program of one container: what it is, how it is started, and how it is.

use super::{Policy, Process};
use crate::here::Runner;
use crate::objects::{moment, text};
use crate::tenant::{Given, Tenant};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The longest pause before a program that ends again and again is started anew, in milliseconds.
const LONGEST: i64 = 60_000;

/// What a container asks for.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) name: String,
    words: Vec<OsString>,
    folder: Option<PathBuf>,
    env: Vec<(String, String)>,
    /// What it asks for and can not have here.
    missing: Option<String>,
    share: Share,
    log: String,
}

/// What it has of GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Share {
    None,
    /// Whole ones, or devices that MIG has cut.
    Devices(Vec<String>),
    Part {
        gpu: String,
        memory: u64,
        compute: u32,
        burst: bool,
    },
}

impl Asked {
    pub(crate) fn of(spec: &Value, tenant: &Tenant) -> Self {
        let name = text(&spec["name"]).to_owned();
        let words = |field: &str| {
            let list = spec[field].as_array().into_iter().flatten();
            list.map(|word| OsString::from(text(word))).collect::<Vec<_>>()
        };
        let command = words("command");
        let mut missing = None;
        if command.is_empty() {
            let image = text(&spec["image"]);
            missing = Some(format!(
                "container '{name}' has no command, and there are no images here to take one from ({image}); give it a command of this machine"
            ));
        }
        let mut env = Vec::new();
        for variable in spec["env"].as_array().into_iter().flatten() {
            match (text(&variable["name"]), variable["value"].as_str(), variable["valueFrom"].is_object()) {
                (name, Some(value), _) => env.push((name.to_owned(), value.to_owned())),
                (name, None, false) => env.push((name.to_owned(), String::new())),
                (variable, None, true) => {
                    missing = Some(format!(
                        "container '{name}', env {variable}: valueFrom is not known here; write its value"
                    ));
                }
            }
        }
        let folder = spec["workingDir"].as_str().map(PathBuf::from);
        let log = format!("{}_{}_{name}.log", tenant.namespace, tenant.name);
        let share = share(&name, tenant);
        let words = command.into_iter().chain(words("args")).collect();
        Asked { words, folder, env, missing, share, log, name }
    }

    /// The command line, with what holds it to its share.
    fn command(&self, runner: &Runner) -> Command {
        let mut words: Vec<OsString> = Vec::new();
        let mut env: Vec<(String, String)> = Vec::new();
        match &self.share {
            Share::None => env.push(("CUDA_VISIBLE_DEVICES".to_owned(), String::new())),
            Share::Devices(devices) => env.push(("CUDA_VISIBLE_DEVICES".to_owned(), devices.join(","))),
            Share::Part { gpu, memory, compute, burst } => {
                words.extend(runner.carve_run.iter().cloned());
                let mut add = |flag: &str, value: String| words.extend([flag.into(), value.into()]);
                add("--mechanism", "limiter".to_owned());
                add("--gpu", gpu.clone());
                add("--memory", format!("{memory}Mi"));
                if *compute > 0 {
                    add("--compute", format!("{}", f64::from(*compute) / 10.0));
                }
                words.extend(["--quiet", "--apart"].map(OsString::from));
                if *burst && *compute > 0 {
                    words.push("--burst".into());
                }
                words.push("--".into());
            }
        }
        words.extend(self.words.iter().cloned());
        let mut words = words.into_iter();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).envs(env).envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
    }

    fn start(&self, runner: &Runner) -> Result<Child, (&'static str, String)> {
        if let Some(missing) = &self.missing {
            return Err(("CreateContainerConfigError", missing.clone()));
        }
        let log = runner.logs.join(&self.log);
        let unable =
            |what: String| move |error: std::io::Error| ("RunContainerError", format!("{what}: {error}"));
        fs::create_dir_all(&runner.logs).map_err(unable(runner.logs.display().to_string()))?;
        let out = File::options().create(true).append(true).open(&log);
        let out = out.map_err(unable(log.display().to_string()))?;
        let err = out.try_clone().map_err(unable(log.display().to_string()))?;
        let mut command = self.command(runner);
        // A group of its own: what a terminal sends to carve up is not meant for it.
        command.process_group(0).stdin(Stdio::null()).stdout(out).stderr(err);
        let program = command.get_program().to_string_lossy().into_owned();
        command.spawn().map_err(unable(format!("can not start {program}")))
    }
}

fn share(container: &str, tenant: &Tenant) -> Share {
    let mut devices = Vec::new();
    for held in tenant.held.iter().filter(|held| held.container == container) {
        match (&held.given, &held.device) {
            (Given::Part { gpu, memory, compute, burst }, _) => {
                let (gpu, memory) = (gpu.clone(), *memory);
                return Share::Part { gpu, memory, compute: *compute, burst: *burst };
            }
            (Given::Device { .. }, Some(device)) => devices.push(device.part.as_str().to_owned()),
            (Given::Device { .. }, None) => {}
        }
    }
    if devices.is_empty() { Share::None } else { Share::Devices(devices) }
}

/// How a container is. Times are milliseconds since 1970.
#[derive(Debug)]
pub(crate) enum State {
    /// It is started then.
    Waiting {
        /// Then.
        until: i64,
        /// In one word.
        reason: &'static str,
        /// In more.
        why: String,
    },
    /// It runs.
    Running {
        /// Its process.
        process: Process,
        /// The same, where it was started by this process.
        child: Option<Child>,
        /// Since when.
        since: i64,
    },
    /// It has ended.
    Ended {
        /// How; none where nobody saw it.
        code: Option<i32>,
        /// When.
        at: i64,
    },
}

/// A process that was there before, or is not.
pub(crate) fn found(process: Option<Process>, now: i64) -> State {
    match process {
        Some(process) => State::Running { process, child: None, since: now },
        None => State::Ended { code: None, at: now },
    }
}

impl State {
    /// As a pod's status has it, and whether it is ready.
    pub(super) fn told(&self) -> (Value, bool) {
        match self {
            State::Waiting { reason, why, .. } => {
                (json!({"waiting": {"reason": reason, "message": why}}), false)
            }
            State::Running { since, .. } => (json!({"running": {"startedAt": moment(*since)}}), true),
            State::Ended { code, at } => {
                let reason = match code {
                    Some(0) => "Completed",
                    Some(_) => "Error",
                    None => "ContainerStatusUnknown",
                };
                let code = code.unwrap_or(137);
                (
                    json!({"terminated": {"exitCode": code, "finishedAt": moment(*at), "reason": reason}}),
                    false,
                )
            }
        }
    }
}

/// A container.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) asked: Asked,
    pub(super) state: State,
    pub(super) restarts: u32,
}

impl Container {
    pub(super) fn process(&self) -> Option<Process> {
        match self.state {
            State::Running { process, .. } => Some(process),
            _ => None,
        }
    }

    /// How it ended, if it did for good.
    pub(super) fn ended(&self) -> Option<Option<i32>> {
        match self.state {
            State::Ended { code, .. } => Some(code),
            _ => None,
        }
    }

    /// Does what is due. Returns whether something is new.
    pub(super) fn tend(
        &mut self,
        runner: &Runner,
        policy: Policy,
        kill_at: Option<i64>,
        holds: &dyn Fn(Process) -> bool,
        now: i64,
    ) -> bool {
        match &mut self.state {
            State::Ended { .. } => false,
            State::Waiting { .. } if kill_at.is_some() => {
                self.state = State::Ended { code: None, at: now };
                true
            }
            State::Waiting { until, .. } if now < *until => false,
            State::Waiting { why, .. } => match self.asked.start(runner) {
                Ok(child) => {
                    // It is our child, so its number is its own until we have buried it.
                    let process = Process::of(child.id());
                    self.state = match process {
                        Some(process) => State::Running { process, child: Some(child), since: now },
                        None => State::Ended { code: None, at: now },
                    };
                    true
                }
                Err((reason, new)) => {
                    let changed = *why != new;
                    self.state = State::Waiting { until: now + pause(self.restarts), reason, why: new };
                    self.restarts += 1;
                    changed
                }
            },
            State::Running { process, child, .. } => {
                let process = *process;
                let code = match child {
                    Some(child) => match child.try_wait() {
                        Ok(Some(status)) => {
                            // As in a container, nothing outlives the program it was started for.
                            process.kill_group();
                            Some(status.code().or_else(|| status.signal().map(|one| 128 + one)))
                        }
                        Ok(None) => None,
                        Err(_) => Some(None),
                    },
                    // What it started may live on with its share.
                    None => (!process.is_alive() && !holds(process)).then_some(None),
                };
                let Some(code) = code else {
                    if kill_at.is_some_and(|kill_at| now >= kill_at) {
                        process.kill();
                    }
                    return false;
                };
                let again = kill_at.is_none()
                    && (policy == Policy::Always || (policy == Policy::OnFailure && code != Some(0)));
                self.state = if again {
                    let why = code.map_or_else(
                        || "nobody saw how it ended".to_owned(),
                        |code| {
                            format!(
                                "it ended with code {code}; what it said is in {}",
                                runner.logs.join(&self.asked.log).display()
                            )
                        },
                    );
                    State::Waiting { until: now + pause(self.restarts), reason: "CrashLoopBackOff", why }
                } else {
                    State::Ended { code, at: now }
                };
                if again {
                    self.restarts += 1;
                }
                true
            }
        }
    }

    /// Whether its process is gone.
    pub(super) fn has_ended(&mut self) -> bool {
        match &mut self.state {
            State::Running { child: Some(child), .. } => !matches!(child.try_wait(), Ok(None)),
            State::Running { process, .. } => !process.is_alive(),
            _ => true,
        }
    }

    /// Ends it at once.
    pub(super) fn kill(&mut self) {
        if let State::Running { process, child, .. } = &mut self.state {
            process.kill();
            if let Some(child) = child {
                process.kill_group();
                let _ = child.wait();
            }
        }
    }
}

/// The pause before the next try.
fn pause(tries: u32) -> i64 {
    (1_000_i64 << tries.min(6)).min(LONGEST)
}
