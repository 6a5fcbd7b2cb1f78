//! NVIDIA's own programs on the first node, on the machine of a test.

use crate::{Background, GpuNode};
use carve_conformance::{Incumbents, Program};

/// Gives the program what a driver would have made: the kernel's list of the files that guard MIG devices, and the
/// driver's device nodes in `/dev`, where it looks which of them there are.
const SCRIPT: &str = "mount -t tmpfs none /proc/driver && mkdir /proc/driver/nvidia-caps \
     && cp \"$1/incumbent/mig-minors\" /proc/driver/nvidia-caps/mig-minors \
     && mkdir -p \"$1/incumbent/dev\" && mount -t tmpfs none \"$1/incumbent/dev\" \
     && cp -a /dev/null /dev/zero /dev/urandom \"$1\"/driver/dev/nvidia* \"$1/incumbent/dev\" \
     && mount --bind \"$1/incumbent/dev\" /dev && exec \"$0\"";

impl GpuNode {
    /// Starts a program of NVIDIA's beside kubelet, with further environment. It ends when the answer is dropped.
    pub fn start_incumbent(
        &self,
        incumbents: &Incumbents,
        program: Program,
        environment: &[(&str, &str)],
    ) -> Background {
        let path = incumbents.path(program).display().to_string();
        let minors = self.files("incumbent").join("mig-minors");
        std::fs::write(&minors, carve_gpu_host::mig_minors(self.machine_gpus()))
            .unwrap_or_else(|error| panic!("{}: {error}", minors.display()));
        let libraries = self.libraries().display().to_string();
        let (root, state) = (self.root().display().to_string(), self.state().display().to_string());
        let mut all = vec![
            ("LD_LIBRARY_PATH", libraries.as_str()),
            ("CARVE_SIM_STATE", &state),
            ("NODE_NAME", "node0"),
            ("NVIDIA_DRIVER_ROOT", &root),
            ("NVIDIA_DEV_ROOT", &root),
            ("DRIVER_ROOT_CTR_PATH", &root),
            // NVIDIA's toolkit is not here; what its hooks would do is not what these suites are about.
            ("NVIDIA_CDI_HOOK_PATH", "/bin/true"),
        ];
        all.extend(environment);
        let folder = self.root().parent().map(|folder| folder.display().to_string()).unwrap_or_default();
        self.cluster().background(&["unshare", "--mount", "sh", "-c", SCRIPT, &path, &folder], &all)
    }
}
