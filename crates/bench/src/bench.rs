//! What a study runs with: the GPU, the programs, and what may be changed.

use crate::settings::Changed;
use carve_gpu_host::{Gpu, GpuHost};
use carve_mig_manager::StateDir;
use carve_study::{Card, Workload};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// Programs that cells need; where one is missing, the reason to tell.
#[derive(Debug, Clone)]
pub struct Programs {
    /// carve itself, whose `bench-tenant` is a process of tenants.
    pub carve: PathBuf,
    /// The limiter's library.
    pub limiter: Result<PathBuf, String>,
    /// `nvidia-cuda-mps-control`.
    pub mps_control: Result<PathBuf, String>,
    /// `nvidia-smi`, which sets the length of turns.
    pub nvidia_smi: PathBuf,
    /// A Python that may have packages.
    pub python: PathBuf,
    /// Python packages that were found.
    pub packages: Vec<&'static str>,
}

impl Programs {
    /// Looks which of the packages that workloads need a Python has.
    pub fn packages_of(python: &PathBuf) -> Vec<&'static str> {
        let mut wanted: Vec<&str> = Workload::ALL.iter().filter_map(|workload| workload.package()).collect();
        wanted.dedup();
        wanted.retain(|package| {
            // Finding is not loading, which takes seconds.
            let question = format!(
                "import importlib.util, sys; sys.exit(importlib.util.find_spec('{package}') is None)"
            );
            let mut command = Command::new(python);
            command.args(["-c", &question]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        });
        wanted
    }
}

/// What a study runs with.
pub struct Bench<'a> {
    /// The machine.
    pub host: &'a mut dyn GpuHost,
    /// The GPU that is measured.
    pub gpu: Gpu,
    /// Programs.
    pub programs: Programs,
    /// A folder for this run alone, with a short name: sockets are in it.
    pub folder: PathBuf,
    /// Where the manager of MIG keeps its journal.
    pub state_dir: &'a StateDir,
    /// Whether MIG and the length of turns may be changed, to be put back afterwards.
    pub change_settings: bool,
    /// Set when the run is to end.
    pub stop: &'a AtomicBool,
    /// What was changed and is to be put back.
    pub(crate) changed: Changed,
}

impl std::fmt::Debug for Bench<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench").field("gpu", &self.gpu).field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl<'a> Bench<'a> {
    /// Nothing is started or changed yet.
    pub fn new(
        host: &'a mut dyn GpuHost,
        gpu: Gpu,
        programs: Programs,
        (folder, state_dir): (PathBuf, &'a StateDir),
        change_settings: bool,
        stop: &'a AtomicBool,
    ) -> Self {
        let changed = Changed::default();
        Bench { host, gpu, programs, folder, state_dir, change_settings, stop, changed }
    }

    /// Whether the run is to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// The card, as studies tell of it.
    pub fn card(&self, multiprocessors: u32) -> Card {
        let driver = self.host.driver().ok();
        let cuda = driver.as_ref().map(|driver| format!("{}.{}", driver.cuda.0, driver.cuda.1));
        let processors = std::thread::available_parallelism().map_or(0, usize::from);
        Card {
            name: self.gpu.name.clone(),
            memory_mib: self.gpu.memory.0 >> 20,
            multiprocessors,
            driver: driver.map(|driver| driver.version).unwrap_or_default(),
            cuda: cuda.unwrap_or_default(),
            mig: self.host.mig_mode(self.gpu.index).ok().flatten().map(|mode| mode.current),
            processors: u32::try_from(processors).unwrap_or(0),
            simulated: false,
        }
    }

    /// Whether MIG is on at the GPU.
    pub(crate) fn mig_is_on(&self) -> bool {
        self.host.mig_mode(self.gpu.index).ok().flatten().is_some_and(|mode| mode.current)
    }
}
