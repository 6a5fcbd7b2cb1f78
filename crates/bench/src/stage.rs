//! How tenants share the GPU in a cell: what their processes are started with, and what must run beside them.

use crate::mps::MpsDaemon;
use crate::{Bench, CellError};
use carve_cuda::STEERING;
use carve_study::{Strategy, Workload};
use carve_workload::{Inside, PYTHON, Spec};
use std::ffi::OsString;
use std::fs;
use std::process::Command;

/// What tenants of a cell are started with.
#[derive(Debug)]
pub(crate) struct Stage {
    strategy: Strategy,
    tenants: u32,
    /// The device of each tenant.
    devices: Vec<String>,
    /// Bytes of memory that are to be shared.
    memory: u64,
    /// Dropped after the tenants, whose server it has.
    mps: Option<MpsDaemon>,
    /// A folder in which no MPS daemon listens, so that none of the machine's is taken by mistake.
    nowhere: String,
}

impl Bench<'_> {
    /// Why a strategy can not be had here for a workload; nothing where it can.
    pub(crate) fn why_not(&self, strategy: Strategy, workloads: &[Workload], tenants: u32) -> Option<String> {
        let missing = workloads.iter().filter_map(|workload| workload.package());
        for package in missing {
            if !self.programs.packages.contains(&package) {
                return Some(format!("{} has no {package}", self.programs.python.display()));
            }
        }
        let needs_mps = matches!(strategy, Strategy::Mps | Strategy::MpsLimits | Strategy::MigMps);
        if needs_mps && let Err(why) = &self.programs.mps_control {
            return Some(why.clone());
        }
        if strategy == Strategy::Limiter
            && let Err(why) = &self.programs.limiter
        {
            return Some(why.clone());
        }
        if strategy.is_mig() {
            return self.why_no_mig(strategy, tenants);
        }
        if self.mig_is_on() && !self.change_settings {
            return Some("MIG is on at this GPU, so nothing can use it as a whole; --change-settings may switch it off and on again".to_owned());
        }
        if strategy.sets_turns() && !self.change_settings {
            return Some(
                "it changes how long turns are on this GPU; --change-settings allows that".to_owned(),
            );
        }
        None
    }

    /// Makes the GPU ready for so many tenants.
    pub(crate) fn stage(&mut self, strategy: Strategy, tenants: u32) -> Result<Stage, CellError> {
        let devices = self.devices(strategy, tenants)?;
        let nowhere = self.folder.join("nowhere");
        fs::create_dir_all(&nowhere).map_err(|source| CellError::Folder { path: nowhere.clone(), source })?;
        let mps = match (strategy, &self.programs.mps_control) {
            (Strategy::Mps | Strategy::MpsLimits | Strategy::MigMps, Ok(program)) => {
                Some(MpsDaemon::start(program, &self.folder, &devices[0])?)
            }
            _ => None,
        };
        let reserved = self.host.memory(self.gpu.index).map_or(0, |memory| memory.reserved.0);
        let memory = self.gpu.memory.0.saturating_sub(reserved);
        Ok(Stage { strategy, tenants, devices, memory, mps, nowhere: nowhere.display().to_string() })
    }

    /// The device of each tenant.
    fn devices(&mut self, strategy: Strategy, tenants: u32) -> Result<Vec<String>, CellError> {
        self.set_turns(strategy)?;
        if strategy.is_mig() {
            return self.mig_devices(strategy, tenants);
        }
        self.uncut()?;
        Ok(vec![self.gpu.uuid.0.clone(); tenants as usize])
    }

    /// The command of a tenant's process, or of all tenants' where they are one.
    pub(crate) fn command(&self, stage: &Stage, which: u32, spec: &Spec) -> Command {
        let text = serde_json::to_string(spec).unwrap_or_default();
        let own: [OsString; 2] = ["bench-tenant".into(), text.clone().into()];
        let mut command = match (spec.workload.package(), stage.strategy) {
            (Some(_), _) => {
                let mut command = Command::new(&self.programs.python);
                command.args(["-c", PYTHON, &text]);
                command
            }
            (None, _) => {
                let mut command = Command::new(&self.programs.carve);
                command.args(own);
                command
            }
        };
        if stage.strategy == Strategy::Limiter {
            command = self.limited(stage, &command);
        }
        // Tenants have from the stage what steers CUDA, and what is loaded into them, or not at all.
        for name in STEERING.into_iter().chain(["LD_PRELOAD"]) {
            command.env_remove(name);
        }
        command
            .env("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
            .env("CUDA_VISIBLE_DEVICES", &stage.devices[which as usize]);
        match &stage.mps {
            Some(daemon) => command.envs(daemon.environment()),
            None => command.env("CUDA_MPS_PIPE_DIRECTORY", &stage.nowhere),
        };
        if stage.strategy == Strategy::MpsLimits {
            command.env("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", (100 / stage.tenants).to_string());
            command.env("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", format!("0={}M", stage.part() >> 20));
        }
        command
    }

    /// The same under `carve run`, which is how people use the limiter.
    fn limited(&self, stage: &Stage, inner: &Command) -> Command {
        let mut command = Command::new(&self.programs.carve);
        command.args(["run", "--quiet", "--apart", "--mechanism", "limiter", "--gpu", &self.gpu.uuid.0]);
        command.arg("--compute").arg(format!("{:.2}", 100.0 / f64::from(stage.tenants)));
        command.arg("--memory").arg(format!("{}Mi", stage.part() >> 20));
        command.arg("--run-dir").arg(self.folder.join("run"));
        if let Ok(library) = &self.programs.limiter {
            command.arg("--limiter").arg(library);
        }
        command.arg("--").arg(inner.get_program()).args(inner.get_args());
        command
    }
}

impl Stage {
    /// Bytes of memory of each tenant, where each has its part.
    fn part(&self) -> u64 {
        self.memory / u64::from(self.tenants)
    }

    /// Whether an MPS daemon was started for it.
    pub(crate) fn has_daemon(&self) -> bool {
        self.mps.is_some()
    }

    /// How many processes there are.
    pub(crate) fn processes(&self) -> u32 {
        if self.strategy.is_one_process() { 1 } else { self.tenants }
    }

    /// What a process of this stage is told to be.
    pub(crate) fn spec(&self, workload: Workload, seed: u64) -> Spec {
        let one = self.strategy.is_one_process();
        Spec {
            workload,
            tenants: if one { self.tenants } else { 1 },
            inside: if self.strategy == Strategy::GreenContexts {
                Inside::GreenContexts
            } else {
                Inside::Streams
            },
            // One program divides its memory itself; several take what they find.
            memory: one.then_some(self.memory),
            takes_memory: false,
            seed,
        }
    }
}
