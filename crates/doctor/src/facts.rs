//! What is known of a machine.

use crate::version::Version;
use serde::Serialize;

/// The driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Driver {
    /// Its version.
    pub version: String,
    /// The highest CUDA version that it serves.
    pub cuda: (u32, u32),
    /// How many GPUs it has.
    pub gpus: usize,
    /// Those that answer nothing any more.
    pub lost: usize,
    /// Those that MIG could divide.
    pub mig_capable: usize,
}

/// A program that is there, and what it says that it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// What it printed.
    pub said: String,
    /// The version in it.
    pub version: Option<Version>,
}

/// Everything; what could not be found out is absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// The driver, or why there is none.
    pub driver: Option<Result<Driver, String>>,
    /// Whether the machine's device files are there: `/dev/nvidiactl`.
    pub control_device: bool,
    /// Whether whoever asks may open them.
    pub control_device_opens: bool,
    /// Whether whoever asks is root.
    pub root: bool,
    /// `nvidia-ctk --version`.
    pub toolkit: Option<Program>,
    /// `nvidia-cuda-mps-control`.
    pub mps: bool,
    /// `containerd --version`.
    pub containerd: Option<Program>,
    /// Its configuration.
    pub containerd_config: Option<String>,
    /// `crio --version`.
    pub crio: Option<Program>,
    /// `docker --version`.
    pub docker: Option<Program>,
    /// `kubelet --version`.
    pub kubelet: Option<Program>,
    /// Whether kubelet's folder for device plugins is there.
    pub device_plugins: bool,
    /// Whether kubelet's folder for DRA drivers is there.
    pub dra_plugins: bool,
    /// The first line of `/proc/version`.
    pub kernel: Option<String>,
    /// Whether control groups are of version 2.
    pub cgroup2: bool,
    /// Whether somebody has switched SELinux on, and enforces it.
    pub selinux: bool,
}

impl Serialize for Version {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}
