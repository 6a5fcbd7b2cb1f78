//! Finds what the tests run, building it first so that a test never runs against an old one, and makes machines.

#[path = "../../../nvml-sim/tests/support/built.rs"]
mod built;

#[allow(unused_imports, reason = "not every test that includes this file runs itself again")]
pub(crate) use built::BUILT;

use carve_cuda::Probe;
use carve_gpu_host::{GpuHost, Machine, MigDevice};
use carve_gpu_model::{GpuIndex, ProfileId};
use carve_sim_store::SharedMachine;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// Long enough for any machine; nothing is asserted about it.
const PATIENCE: Duration = Duration::from_secs(120);

/// The simulated `libcuda.so.1`.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| built::package("carve-cuda-sim").join("libcarve_cuda_sim.so"))
}

/// The example, which is the child that `carve cuda-probe` is.
#[allow(dead_code, reason = "not every test that includes this file has children")]
pub(crate) fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| built::example("carve-cuda", "probe"))
}

/// A machine in a file.
#[derive(Debug)]
pub(crate) struct Simulated {
    #[allow(dead_code, reason = "kept so that the folder stays")]
    pub(crate) folder: tempfile::TempDir,
    pub(crate) machine: SharedMachine,
}

impl Simulated {
    pub(crate) fn named(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state.json");
        let machine = SharedMachine::open(&state, Machine::named(name).unwrap()).unwrap();
        Simulated { folder, machine }
    }

    /// A probe of the machine's first device, with more variables.
    #[allow(dead_code, reason = "not every test that includes this file has children")]
    pub(crate) fn probe<'a>(&self, env: impl IntoIterator<Item = (&'a str, &'a str)>) -> Probe {
        let mut probe = Probe::new(program());
        probe.library = Some(library().to_owned());
        probe.timeout = PATIENCE;
        probe.env.insert("CARVE_SIM_STATE".into(), self.machine.path().into());
        probe.env.extend(env.into_iter().map(|(name, value)| (name.into(), value.into())));
        probe
    }

    /// Cuts the first GPU with a profile and answers the new MIG device.
    #[allow(dead_code, reason = "not every test that includes this file cuts")]
    pub(crate) fn cut(&mut self, profile: u32) -> MigDevice {
        let gpu = GpuIndex(0);
        self.machine.set_mig_mode(gpu, true).unwrap();
        let instance = self.machine.create_gpu_instance(gpu, ProfileId(profile), None).unwrap();
        let offer = *self.machine.compute_profiles(gpu, instance.id).unwrap().last().unwrap();
        let part = self.machine.create_compute_instance(gpu, instance.id, offer.index).unwrap();
        let mut devices = self.machine.mig_devices(gpu).unwrap().into_iter();
        devices.find(|mig| mig.gpu_instance == instance.id && mig.compute_instance == part.id).unwrap()
    }
}
