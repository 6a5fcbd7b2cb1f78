//! Simulated GPUs on a node of the lab: a driver installation of stand-ins, a machine, device nodes, and the chart's values that lead there.

use crate::lab::Lab;
use anyhow::{Context, Result, bail};
use carve_gpu_host::{GpuHost, Machine};
use carve_sim_store::SharedMachine;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Version of the simulated driver.
const DRIVER: &str = "580.159.04";
/// Where libraries are under the driver's root.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// A folder that a node sees, with everything that is a driver and its GPUs there.
#[derive(Debug, Clone)]
pub struct SimulatedGpus {
    folder: PathBuf,
}

impl SimulatedGpus {
    /// Those that were installed into a folder.
    pub fn at(folder: &Path) -> Self {
        SimulatedGpus { folder: folder.to_owned() }
    }

    /// Installs stand-ins that were built into a folder, and a machine by its name, in place of whatever was there.
    pub fn install(folder: &Path, built: &Path, machine: &str) -> Result<Self> {
        let gpus = SimulatedGpus::at(folder);
        let _ = fs::remove_dir_all(folder);
        gpus.driver(built)?;
        fs::create_dir_all(gpus.machine_folder())?;
        let machine = Machine::named(machine).map_err(|error| anyhow::anyhow!("{error}"))?;
        let machine =
            SharedMachine::open(&gpus.state(), machine).map_err(|error| anyhow::anyhow!("{error}"))?;
        gpus.device_nodes(machine.gpus().map_or(0, |gpus| gpus.len() as u32))?;
        Ok(gpus)
    }

    fn driver(&self, built: &Path) -> Result<()> {
        let (libraries, programs) = (self.libraries(), self.root().join("usr/bin"));
        for folder in [&libraries, &programs, &self.root().join("dev/nvidia-caps")] {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        let copy = |from: &str, to: &Path| {
            fs::copy(built.join(from), to)
                .with_context(|| format!("{} was not built", built.join(from).display()))
        };
        for (library, name) in [("libcarve_nvml_sim.so", "libnvidia-ml"), ("libcarve_cuda_sim.so", "libcuda")]
        {
            copy(library, &libraries.join(format!("{name}.so.{DRIVER}")))?;
            symlink(format!("{name}.so.{DRIVER}"), libraries.join(format!("{name}.so.1")))?;
        }
        for program in ["nvidia-smi", "nvidia-cuda-mps-control"] {
            copy(program, &programs.join(program))?;
        }
        Ok(())
    }

    /// Character devices with NVIDIA's numbers, behind which there is no driver.
    fn device_nodes(&self, gpus: u32) -> Result<()> {
        let dev = self.root().join("dev");
        let mut nodes = vec![("nvidiactl".to_owned(), 195, 255), ("nvidia-uvm".to_owned(), 510, 0)];
        nodes.push(("nvidia-uvm-tools".to_owned(), 510, 1));
        nodes.extend((0..gpus).map(|gpu| (format!("nvidia{gpu}"), 195, gpu)));
        let last = carve_gpu_host::gpu_instance_minor(gpus, carve_gpu_model::GpuInstanceId(0)).0;
        nodes.extend((1..last).map(|minor| (format!("nvidia-caps/nvidia-cap{minor}"), 237, minor)));
        let lines = nodes
            .iter()
            .map(|(name, major, minor)| format!("mknod -m 666 {}/{name} c {major} {minor}\n", dev.display()));
        if !Command::new("sh").arg("-c").arg(lines.collect::<String>()).status()?.success() {
            bail!("device nodes can not be made; is this root?");
        }
        Ok(())
    }

    /// The driver's root on the node.
    pub fn root(&self) -> PathBuf {
        self.folder.join("driver")
    }

    /// The driver's libraries.
    pub fn libraries(&self) -> PathBuf {
        self.root().join(LIBRARIES)
    }

    /// The folder of the file that is the machine, which whoever uses the driver must have.
    pub fn machine_folder(&self) -> PathBuf {
        self.folder.join("machine")
    }

    /// The file that is the machine.
    pub fn state(&self) -> PathBuf {
        self.machine_folder().join("machine.json")
    }
}

impl Lab {
    /// Values of carve's chart for a node with simulated GPUs: what it has elsewhere than a real one.
    pub fn chart_values(&self, node: &str, gpus: &SimulatedGpus) -> Result<Value> {
        let text = |path: &Path| path.display().to_string();
        let config =
            self.containerd_config_of(node).with_context(|| format!("the lab has no node {node}"))?;
        let (folder, file) = (config.parent().map(text), config.file_name().and_then(|name| name.to_str()));
        let cgroup = self.cgroup_of(node).unwrap_or_default();
        let variable = |name: &str, value: String| json!({"name": name, "value": value});
        Ok(json!({
            "image": {"repository": "localhost/carve", "tag": "test", "pullPolicy": "Never"},
            "agent": {
                "nodeSelector": {"kubernetes.io/hostname": node},
                "driverRoot": text(&gpus.root()),
                "containerdConfig": folder,
                "env": [
                    variable("NVIDIA_DEV_ROOT", text(&gpus.root())),
                    variable("CARVE_SIM_STATE", "/machine/machine.json".to_owned()),
                    variable("CARVE_PROBE_SECONDS", "1".to_owned()),
                    variable("CONTAINERD_CONFIG", format!("/etc/containerd/{}", file.unwrap_or_default())),
                    // Below the cgroup of the lab's node, which goes with the lab.
                    variable("CARVE_MPS_CGROUP", format!("{cgroup}/carve-mps")),
                ],
                "extraVolumes": [{"name": "machine", "hostPath": {"path": text(&gpus.machine_folder())}}],
                "extraVolumeMounts": [{"name": "machine", "mountPath": "/machine"}],
            },
            // Nodes without kubelets that another suite left say nothing of their system.
            "controller": {"nodeSelector": {"kubernetes.io/os": "linux"}},
        }))
    }
}
