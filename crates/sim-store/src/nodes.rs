//! Device nodes: what a process sees of a simulated machine is what its folder of devices holds.
//!
//! A driver shows a process the GPUs whose `nvidia<minor>` it can open, and the MIG devices whose two nodes in
//! `nvidia-caps` it has. Who has the node for watching MIG is shown all MIG devices of those GPUs, and can use none by it.
//! That administrators need no such node is not simulated: every container would be shown everything in a test as root.

use carve_gpu_host::{Gpu, MIG_MONITOR_MINOR, MigDevice, compute_instance_minor, gpu_instance_minor};
use carve_gpu_model::CapabilityMinor;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// A folder of device nodes, such as `/dev` in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceNodes {
    folder: PathBuf,
    /// Only root can make devices, so that a folder elsewhere may hold plain files in their place.
    devices_only: bool,
}

impl DeviceNodes {
    /// The environment variable that names the folder.
    pub const VARIABLE: &str = "CARVE_SIM_DEV";

    /// The nodes in a folder. In `/dev` itself only character devices count.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        DeviceNodes { devices_only: folder == Path::new("/dev"), folder }
    }

    /// Whether a GPU is there at all.
    pub fn show_gpu(&self, gpu: &Gpu) -> bool {
        self.holds(&format!("nvidia{}", gpu.minor))
    }

    /// Whether a MIG device of a GPU can be used.
    pub fn allow_mig(&self, gpu: &Gpu, mig: &MigDevice) -> bool {
        let MigDevice { gpu_instance, compute_instance, .. } = mig;
        self.holds_capability(gpu_instance_minor(gpu.minor, *gpu_instance))
            && self.holds_capability(compute_instance_minor(gpu.minor, *gpu_instance, *compute_instance))
    }

    /// Whether a MIG device of a GPU is listed.
    pub fn show_mig(&self, gpu: &Gpu, mig: &MigDevice) -> bool {
        self.holds_capability(MIG_MONITOR_MINOR) || self.allow_mig(gpu, mig)
    }

    fn holds_capability(&self, minor: CapabilityMinor) -> bool {
        self.holds(&format!("nvidia-caps/nvidia-cap{minor}"))
    }

    fn holds(&self, name: &str) -> bool {
        let found = std::fs::metadata(self.folder.join(name));
        found.is_ok_and(|found| !self.devices_only || found.file_type().is_char_device())
    }
}

#[cfg(test)]
mod tests {
    use super::DeviceNodes;
    use carve_gpu_host::{GpuHost, Machine, SimulatedHost};
    use carve_gpu_model::{GpuIndex, ProfileId};

    #[test]
    fn a_mig_device_needs_both_of_its_nodes_and_the_right_to_watch_shows_it_only() {
        let mut host = SimulatedHost::new(Machine::named("h200").unwrap());
        let gpu = GpuIndex(0);
        host.set_mig_mode(gpu, true).unwrap();
        let instance = host.create_gpu_instance(gpu, ProfileId(9), None).unwrap();
        for _ in 0..2 {
            let offer = host.compute_profiles(gpu, instance.id).unwrap()[0];
            host.create_compute_instance(gpu, instance.id, offer.index).unwrap();
        }
        let (facts, migs) = (&host.gpus().unwrap()[0], host.mig_devices(gpu).unwrap());
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str| std::fs::write(folder.path().join(name), "").unwrap();
        let nodes = DeviceNodes::new(folder.path());
        let seen = || {
            let each = |see: &dyn Fn(usize) -> bool| [see(0), see(1)];
            (each(&|at| nodes.show_mig(facts, &migs[at])), each(&|at| nodes.allow_mig(facts, &migs[at])))
        };
        assert!(!nodes.show_gpu(facts));
        make("nvidia0");
        assert!(nodes.show_gpu(facts));
        std::fs::create_dir(folder.path().join("nvidia-caps")).unwrap();
        assert_eq!(instance.id.0, 2, "its node is 3 + 9 * 2");
        make("nvidia-caps/nvidia-cap21");
        assert_eq!(seen(), ([false; 2], [false; 2]));
        make("nvidia-caps/nvidia-cap23");
        assert_eq!(seen(), ([false, true], [false, true]));
        make("nvidia-caps/nvidia-cap2");
        assert_eq!(seen(), ([true; 2], [false, true]));
    }

    #[test]
    fn in_the_real_folder_only_devices_count() {
        let nodes = DeviceNodes::new("/dev");
        assert!(nodes.holds("null") && !nodes.holds("shm") && !nodes.holds("nothing-of-that-name"));
        assert!(DeviceNodes::new("/dev/..").holds("dev"));
    }
}
