//! The files and device nodes that an installed driver brings, for programs that hand them to containers.

use crate::Cage;
use crate::built;
use crate::cage::{CageError, io_error};
use carve_gpu_host::{GpuHost, compute_instance_minor, gpu_instance_minor};
use carve_sim_store::SharedMachine;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Where distributions keep libraries.
const FOLDER: &str = "/usr/lib/x86_64-linux-gnu";
/// Libraries that every driver has. What is in them is of no concern here, only that they are libraries.
const STEMS: [&str; 4] = ["libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler", "libnvidia-nvvm"];

/// Numbers that the kernel modules use.
const NVIDIA: u32 = 195;
const UVM: u32 = 507;
const CAPS: u32 = 509;
const IMEX: u32 = 510;

impl Cage {
    /// Installs the driver of the machine in the cage: libraries of its version, with the links that belong to them, and
    /// an IMEX channel, which some machines have.
    pub fn install_driver(&self, machine: &SharedMachine) -> Result<(), CageError> {
        self.make_node("/dev/nvidia-caps-imex-channels/channel0", (IMEX, 0))?;
        let version = machine.driver()?.version;
        let library = built::library();
        for stem in STEMS {
            let name = format!("{stem}.so.{version}");
            let inside = Path::new(FOLDER).join(&name);
            if !self.outside(&inside).exists() {
                self.place(&library, &inside)?;
                let link = self.outside(&Path::new(FOLDER).join(format!("{stem}.so.1")));
                symlink(&name, &link).map_err(io_error(&link, "make a link"))?;
            }
        }
        Ok(())
    }

    /// Puts a program in the place of the MPS daemon's that says yes to everything and does nothing.
    pub fn pretend_mps(&self) -> Result<(), CageError> {
        let yes = Path::new("/usr/bin/true");
        self.place_needs_of(&[yes])?;
        self.place(yes, Path::new("/bin/nvidia-cuda-mps-control"))
    }

    /// Takes the libraries of the driver away again.
    pub fn remove_driver(&self) -> Result<(), CageError> {
        let folder = self.outside(Path::new(FOLDER));
        let entries = fs::read_dir(&folder).map_err(io_error(&folder, "list the folder"))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if STEMS.iter().any(|stem| name.starts_with(&format!("{stem}.so."))) {
                fs::remove_file(&path).map_err(io_error(&path, "remove the file"))?;
            }
        }
        Ok(())
    }

    /// Makes the device nodes of the machine in the cage, in place of those of the one before.
    pub fn make_device_nodes(&self, machine: &SharedMachine) -> Result<(), CageError> {
        let folder = self.outside(Path::new("/dev"));
        fs::remove_dir_all(&folder).map_err(io_error(&folder, "empty the folder"))?;
        self.make_node("/dev/null", (1, 3))?;
        self.make_node("/dev/nvidiactl", (NVIDIA, 255))?;
        self.make_node("/dev/nvidia-modeset", (NVIDIA, 254))?;
        self.make_node("/dev/nvidia-uvm", (UVM, 0))?;
        self.make_node("/dev/nvidia-uvm-tools", (UVM, 1))?;
        for gpu in machine.gpus()? {
            self.make_node(&format!("/dev/nvidia{}", gpu.minor), (NVIDIA, gpu.minor))?;
            if !machine.mig_mode(gpu.index)?.is_some_and(|mode| mode.current) {
                continue;
            }
            for instance in machine.gpu_instances(gpu.index)? {
                let mut guards = vec![gpu_instance_minor(gpu.minor, instance.id).0];
                for compute in machine.compute_instances(gpu.index, instance.id)? {
                    guards.push(compute_instance_minor(gpu.minor, instance.id, compute.id).0);
                }
                for guard in guards {
                    self.make_node(&format!("/dev/nvidia-caps/nvidia-cap{guard}"), (CAPS, guard))?;
                }
            }
        }
        Ok(())
    }
}
