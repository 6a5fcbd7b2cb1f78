//! Programs of pods as processes of this machine: started with their share of a GPU, looked after, started again as the pod says, and ended.
//!
//! There are no images here. A container's `command` is a program of this machine, run as the person who runs `carve up`; `carve run` brings its own.

mod container;
mod process;

pub(crate) use container::{Asked, State};
pub(crate) use process::{Process, descendants};

use crate::here::Runner;
use crate::objects::text;
use crate::tenant::Tenant;
use carve_limiter_host::{Runs, SeenRun};
use container::Container;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Of a pod: the `carve run` that has it made, as `PID/START`. Its program is started there and not here.
pub const RUN_BY: &str = "carve.dev/run-by";
/// Of a pod: its containers' processes, so that they are found again after a restart.
pub(crate) const PROGRAMS: &str = "carve.dev/programs";

/// This process, as [`RUN_BY`] names it.
pub fn this_process() -> String {
    Process::of(std::process::id()).map(|process| process.to_string()).unwrap_or_default()
}

/// How long programs have to end when `carve up` does.
const PATIENCE: Duration = Duration::from_secs(5);

/// The programs of one pod.
#[derive(Debug)]
pub(crate) struct PodPrograms {
    containers: Vec<Container>,
    policy: Policy,
    /// Whether `carve run` started it.
    outside: bool,
    /// From then on they are not asked to end any more, but ended.
    kill_at: Option<i64>,
}

/// When a program is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    Always,
    OnFailure,
    Never,
}

/// How a pod's programs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tended {
    /// Nothing is new.
    Same,
    /// Something has begun, ended or failed.
    Changed,
    /// All have ended for good; whether one of them failed.
    Over {
        /// Whether one failed.
        failed: bool,
    },
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Programs {
    runner: Runner,
    pods: BTreeMap<String, PodPrograms>,
    /// Commands that have a share, as they were at the last look.
    shares: Vec<SeenRun>,
}

impl Programs {
    pub(crate) fn new(runner: Runner) -> Self {
        Programs { runner, pods: BTreeMap::new(), shares: Vec::new() }
    }

    /// A pod has come, or is found again.
    pub(crate) fn take_in(&mut self, tenant: &Tenant, annotations: &Value, policy: &str, now: i64) {
        let policy = match policy {
            "Never" => Policy::Never,
            "OnFailure" => Policy::OnFailure,
            _ => Policy::Always,
        };
        let run_by = annotations[RUN_BY].as_str().map(|text| text.parse::<Process>().ok());
        let known: BTreeMap<String, String> = annotations[PROGRAMS]
            .as_str()
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        let mut containers = Vec::new();
        for spec in tenant.spec["containers"].as_array().into_iter().flatten() {
            let asked = Asked::of(spec, tenant);
            let process = known.get(&asked.name).and_then(|text| text.parse::<Process>().ok());
            let state = match (&run_by, process) {
                (Some(process), _) => container::found(*process, now),
                (None, Some(process)) if process.is_alive() => container::found(Some(process), now),
                (None, Some(_)) if policy == Policy::Never => container::found(None, now),
                (None, _) => State::Waiting { until: now, reason: "ContainerCreating", why: String::new() },
            };
            containers.push(Container { asked, state, restarts: 0 });
        }
        let pod = PodPrograms { containers, policy, outside: run_by.is_some(), kill_at: None };
        self.pods.insert(tenant.uid.clone(), pod);
    }

    /// Looks which commands have a share now.
    pub(crate) fn look(&mut self) {
        let seen = Runs::open(&self.runner.runs).and_then(|runs| runs.seen());
        self.shares = seen.unwrap_or_default();
    }

    /// What is due of a pod is done.
    pub(crate) fn tend(&mut self, uid: &str, now: i64) -> Tended {
        let dead = |container: &Container| container.process().is_some_and(|process| !process.is_alive());
        if self.pods.get(uid).is_some_and(|pod| pod.containers.iter().any(dead)) {
            // It may have taken its share, and started what holds it, since the last look.
            self.look();
        }
        let shares = &self.shares;
        let holds = |process: Process| shares.iter().any(|run| run.pid == process.pid);
        let Some(pod) = self.pods.get_mut(uid) else { return Tended::Same };
        let mut changed = false;
        for container in &mut pod.containers {
            changed |= container.tend(&self.runner, pod.policy, pod.kill_at, &holds, now);
        }
        let codes: Option<Vec<Option<i32>>> = pod.containers.iter().map(Container::ended).collect();
        match codes {
            Some(codes) => Tended::Over { failed: codes.iter().any(|code| *code != Some(0)) },
            None if changed => Tended::Changed,
            None => Tended::Same,
        }
    }

    /// Asks the programs of a pod to end until a moment, after which they are ended.
    pub(crate) fn stop(&mut self, uid: &str, kill_at: i64) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        if pod.kill_at.is_none() {
            pod.kill_at = Some(kill_at);
            pod.containers.iter().filter_map(Container::process).for_each(Process::ask_to_end);
        }
    }

    /// A pod is gone, and its programs with it.
    pub(crate) fn let_go(&mut self, uid: &str) {
        let Some(mut pod) = self.pods.remove(uid) else { return };
        for container in &mut pod.containers {
            container.kill();
        }
    }

    /// Whether one of them may soon be somewhere else.
    pub(crate) fn is_busy(&self) -> bool {
        !self.pods.is_empty()
    }

    /// Processes of a container, the one that was started first.
    pub(crate) fn processes(&self, uid: &str, container: &str) -> BTreeSet<u32> {
        let found = self.pods.get(uid).and_then(|pod| {
            pod.containers.iter().find(|one| one.asked.name == container).and_then(Container::process)
        });
        let Some(process) = found else { return BTreeSet::new() };
        let mut all = descendants(process.pid);
        all.insert(process.pid);
        all
    }

    /// The share that a container has now.
    pub(crate) fn share(&self, uid: &str, container: &str) -> Option<&SeenRun> {
        let pod = self.pods.get(uid)?;
        let process = pod.containers.iter().find(|one| one.asked.name == container)?.process()?;
        self.shares.iter().find(|run| run.pid == process.pid)
    }

    /// What is written of a pod's containers: their processes, and how they are.
    pub(crate) fn told(&self, uid: &str, pod: &Value) -> (Map<String, Value>, Value) {
        let mut processes = Map::new();
        let mut statuses = Vec::new();
        let Some(programs) = self.pods.get(uid) else { return (processes, Value::Null) };
        for container in &programs.containers {
            if let Some(process) = container.process().filter(|_| !programs.outside) {
                processes.insert(container.asked.name.clone(), process.to_string().into());
            }
            let specs = pod["spec"]["containers"].as_array().into_iter().flatten();
            let image = specs
                .filter(|spec| text(&spec["name"]) == container.asked.name)
                .map(|spec| spec["image"].clone())
                .next();
            let (state, ready) = container.state.told();
            statuses.push(json!({
                "name": container.asked.name, "image": image, "imageID": "", "ready": ready, "started": ready,
                "restartCount": container.restarts, "state": state,
            }));
        }
        (processes, Value::Array(statuses))
    }

    /// Whether every container of a pod runs.
    pub(crate) fn all_run(&self, uid: &str) -> bool {
        let runs = |container: &Container| matches!(container.state, State::Running { .. });
        self.pods.get(uid).is_some_and(|pod| pod.containers.iter().all(runs))
    }

    /// Whether `carve run` started a pod's program.
    pub(crate) fn is_outside(&self, uid: &str) -> bool {
        self.pods.get(uid).is_some_and(|pod| pod.outside)
    }

    /// Ends what was started here; what `carve run` started is not ours to end.
    pub(crate) fn close(&mut self) {
        let mut ours: Vec<Container> = Vec::new();
        for pod in std::mem::take(&mut self.pods).into_values().filter(|pod| !pod.outside) {
            ours.extend(pod.containers);
        }
        ours.iter().filter_map(Container::process).for_each(Process::ask_to_end);
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE && ours.iter_mut().any(|one| !one.has_ended()) {
            std::thread::sleep(Duration::from_millis(20));
        }
        ours.iter_mut().for_each(Container::kill);
    }
}
