//! The machine that this process runs on: its real GPUs, and how programs are run on them.

use carve_gpu_host::GpuHost;
use std::ffi::OsString;
use std::path::PathBuf;

/// This machine.
pub struct Here {
    /// Its GPUs.
    pub host: Box<dyn GpuHost + Send>,
    /// What the cluster calls it.
    pub name: String,
    /// What it is: a type of a cloud, or its GPUs.
    pub kind: String,
    /// Whether its GPUs may be cut anew, which changes their MIG mode.
    pub may_cut: bool,
    /// How programs are run.
    pub runner: Runner,
}

impl std::fmt::Debug for Here {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Here").field("name", &self.name).field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// How programs are run.
#[derive(Debug, Clone)]
pub struct Runner {
    /// `carve run` and what it must know of the machine; shares and the command come after it.
    pub carve_run: Vec<OsString>,
    /// Where commands with a share find each other.
    pub runs: PathBuf,
    /// Where programs write what they say.
    pub logs: PathBuf,
}

/// What the machine has besides GPUs, and what it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Body {
    pub(crate) cpus: u32,
    /// MiB.
    pub(crate) memory: u64,
    pub(crate) kernel: String,
    pub(crate) system: String,
}

impl Body {
    /// As the kernel tells it.
    pub(crate) fn read() -> Self {
        let line = |file: &str, key: &str| {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let found =
                text.lines().find_map(|line| line.strip_prefix(key).map(str::trim).map(str::to_owned));
            found.unwrap_or_default()
        };
        let kilobytes: u64 = line("/proc/meminfo", "MemTotal:").trim_end_matches(" kB").parse().unwrap_or(0);
        Body {
            cpus: std::thread::available_parallelism()
                .map_or(1, |count| u32::try_from(count.get()).unwrap_or(1)),
            memory: kilobytes >> 10,
            kernel: line("/proc/sys/kernel/osrelease", ""),
            system: line("/etc/os-release", "PRETTY_NAME=").trim_matches('"').to_owned(),
        }
    }
}
