//! Finds what a container needs of the driver on this node: libraries, programs, firmware, sockets, device nodes.
//!
//! Nothing is created and nothing outside the given roots is looked at. What is missing becomes a remark that says what
//! will not work; only a root without any driver is an error.

use crate::beneath::Beneath;
use crate::{elf, libraries};
use carve_gpu_model::CapabilityMinor;
use carve_slicing::cdi::{DriverFile, DriverFiles, DriverNode};
use rustix::fs::{FileType, Stat, major, minor};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A folder of the host that is the root of something, and where this process sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRoot {
    /// Its path on the host, which the container runtime will use.
    pub on_host: String,
    /// Its path for this process, which may run in a container itself.
    pub here: PathBuf,
}

impl HostRoot {
    /// A root that has the same path for everybody.
    pub fn same(path: &str) -> Self {
        HostRoot { on_host: path.to_owned(), here: PathBuf::from(path) }
    }

    /// What the host calls a path under this root.
    pub(crate) fn path(&self, path: &str) -> String {
        format!("{}{path}", self.on_host.trim_end_matches('/'))
    }

    /// Opens it; `what` is what should be there, for a person.
    pub(crate) fn open(&self, what: &'static str) -> Result<Beneath, FindError> {
        let error = |source| FindError::Root { root: self.on_host.clone(), what, source };
        Beneath::new(&self.here).map_err(error)
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The files.
    pub files: DriverFiles,
    /// What is missing, what will not work without it, and what to do.
    pub remarks: Vec<String>,
}

/// Why there is nothing to give to containers.
#[derive(Debug, Error)]
pub enum FindError {
    /// The root can not be opened.
    #[error(
        "cannot open {root}, where {what} should be; check nvidiaDriverRoot and nvidiaDevRoot, and what is mounted there"
    )]
    Root {
        /// Its path on the host.
        root: String,
        /// What it is the root of.
        what: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The version is none.
    #[error("'{0}' is no driver version like 580.65.06; nothing can be looked for by it")]
    Version(String),
    /// No library of the driver at all.
    #[error(
        "no library of an NVIDIA driver is under {root}; install the driver, or set nvidiaDriverRoot to where it is \
         (/run/nvidia/driver if the GPU operator installs it)"
    )]
    NoDriver {
        /// The root's path on the host.
        root: String,
    },
    /// Libraries of another driver than the one that runs.
    #[error(
        "the kernel runs driver {running}, but the libraries under {root} are of {found}; after an upgrade of the driver \
         the node must be rebooted, or the kernel modules reloaded"
    )]
    OtherVersion {
        /// The root's path on the host.
        root: String,
        /// What runs.
        running: String,
        /// What was found.
        found: String,
    },
}

/// Programs of the driver that are useful in a container.
const PROGRAMS: &[&str] = &[
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-smi",
];
const PROGRAM_FOLDERS: &[&str] = &[
    "/usr/bin",
    "/usr/sbin",
    "/bin",
    "/sbin",
    "/usr/local/bin",
    "/usr/local/nvidia/bin",
    "/opt/bin",
    "/run/current-system/sw/bin",
];
const FIRMWARE_FOLDERS: &[&str] = &["/lib/firmware/nvidia", "/usr/lib/firmware/nvidia"];
/// Not the socket of the fabric manager: who holds it can switch the links of all GPUs of the node.
const SOCKETS: &[&str] = &["/run/nvidia-persistenced/socket"];

/// Nodes for every container: the name, and what fails without it where that concerns computing.
const CONTROL_NODES: &[(&str, Option<(&str, &str)>)] = &[
    ("nvidiactl", Some(("no program will see a GPU", "nvidia-modprobe"))),
    ("nvidia-uvm", Some(("CUDA programs will not start", "nvidia-modprobe -u -c 0"))),
    ("nvidia-uvm-tools", Some(("profilers will not see unified memory", "nvidia-modprobe -u -c 0"))),
    ("nvidia-modeset", None),
];

/// Libraries without which something common does not work.
const EXPECTED: &[(&str, &str)] = &[
    ("libcuda", "CUDA programs will not run"),
    ("libnvidia-ml", "nvidia-smi and programs that watch GPUs will not run"),
    ("libnvidia-ptxjitcompiler", "CUDA programs that carry PTX for an older GPU will not run"),
    ("libnvidia-nvvm", "programs that compile for the GPU while they run may fail"),
];

/// Looks for the files of a driver.
pub fn find_driver_files(driver: &HostRoot, dev: &HostRoot, version: &str) -> Result<Found, FindError> {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !version.contains('.') || !version.split('.').all(number) {
        return Err(FindError::Version(version.to_owned()));
    }
    let root = driver.open("the driver")?;
    let nodes = dev.open("the device nodes")?;

    let found = libraries::find(&root, driver, version);
    let mut remarks = found.remarks;
    let stems: BTreeSet<&str> = found
        .libraries
        .iter()
        .filter_map(|library| library.file.container_path.rsplit('/').next()?.split(".so.").next())
        .collect();
    if !stems.contains("libcuda") && !stems.contains("libnvidia-ml") {
        let root = driver.on_host.clone();
        let others: Vec<String> = found.other_versions.into_iter().collect();
        return Err(match others.is_empty() {
            true => FindError::NoDriver { root },
            false => FindError::OtherVersion { root, running: version.to_owned(), found: others.join(", ") },
        });
    }
    for (stem, consequence) in EXPECTED.iter().filter(|(stem, _)| !stems.contains(stem)) {
        remarks.push(format!(
            "no {stem}.so.{version} under {}: {consequence} in containers; install that part of the driver",
            driver.on_host
        ));
    }
    let mut files = DriverFiles {
        version: version.to_owned(),
        libraries: found.libraries,
        programs: programs(&root, driver, &mut remarks),
        firmware: firmware(&root, driver, version),
        sockets: sockets(&root, driver),
        ..DriverFiles::default()
    };
    device_nodes(&nodes, dev, &mut files, &mut remarks);
    Ok(Found { files, remarks })
}

pub(crate) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Programs go to `/usr/bin` wherever the node has them, because that is where a container looks.
fn programs(root: &Beneath, host: &HostRoot, remarks: &mut Vec<String>) -> Vec<DriverFile> {
    let mut programs = Vec::new();
    for name in PROGRAMS {
        let place = PROGRAM_FOLDERS.iter().map(|folder| format!("{folder}/{name}")).find_map(|path| {
            // A script of that name is somebody's wrapper, which would not find in a container what it calls.
            let program = root.file(&path).ok().and_then(elf::read);
            program.filter(|program| program.for_this_machine)?;
            root.without_links(&path).ok()
        });
        match place {
            Some(real) => programs
                .push(DriverFile { host_path: host.path(&real), container_path: format!("/usr/bin/{name}") }),
            None if *name == "nvidia-smi" => remarks.push(format!(
                "no nvidia-smi under {}: containers will not have it; GPUs work without",
                host.on_host
            )),
            None => {}
        }
    }
    programs
}

fn firmware(root: &Beneath, host: &HostRoot, version: &str) -> Vec<DriverFile> {
    for folder in FIRMWARE_FOLDERS {
        let folder = format!("{folder}/{version}");
        let Ok(names) = root.folder(&folder).and_then(|folder| folder.names()) else { continue };
        let images = names.iter().filter(|name| name.starts_with("gsp") && name.ends_with(".bin"));
        return images
            .filter_map(|name| {
                let real = root.without_links(&format!("{folder}/{name}")).ok()?;
                let container_path = format!("/lib/firmware/nvidia/{version}/{name}");
                Some(DriverFile { host_path: host.path(&real), container_path })
            })
            .collect();
    }
    Vec::new()
}

fn sockets(root: &Beneath, host: &HostRoot) -> Vec<DriverFile> {
    let is_socket = |path: &&&str| root.stat(path).is_ok_and(|stat| kind(&stat) == FileType::Socket);
    let file = |path: &&str| {
        let real = root.without_links(path).ok()?;
        Some(DriverFile { host_path: host.path(&real), container_path: (*path).to_owned() })
    };
    SOCKETS.iter().filter(is_socket).filter_map(file).collect()
}

fn device_nodes(root: &Beneath, host: &HostRoot, files: &mut DriverFiles, remarks: &mut Vec<String>) {
    for (name, missing) in CONTROL_NODES {
        match (node(root, host, &format!("/dev/{name}")), missing) {
            (Some(node), _) => files.control_nodes.push(node),
            (None, Some((consequence, program))) => remarks.push(format!(
                "no device node {}: {consequence} in containers; run '{program}' on the node, carve makes no nodes",
                host.path(&format!("/dev/{name}"))
            )),
            (None, None) => {}
        }
    }
    let numbered = |folder: &str, start: &str| -> Vec<(u32, DriverNode)> {
        let names = root.folder(folder).and_then(|folder| folder.names()).unwrap_or_default();
        let number = |name: &str| name.strip_prefix(start)?.parse::<u32>().ok();
        let nodes = names.iter().filter_map(|name| {
            let found = node(root, host, &format!("{folder}/{name}"));
            Some((number(name)?, found?))
        });
        nodes.collect()
    };
    for (number, node) in numbered("/dev", "nvidia") {
        files.gpu_nodes.insert(number, vec![node]);
    }
    if files.gpu_nodes.is_empty() {
        remarks.push(format!(
            "no device node {}N: containers will fail to start with a GPU; run 'nvidia-modprobe -c 0' on the node for GPU 0 \
             and so on, carve makes no nodes",
            host.path("/dev/nvidia")
        ));
    }
    for (number, node) in numbered("/dev/nvidia-caps", "nvidia-cap") {
        // 1 and 2 let a holder change and watch MIG on the whole node; they guard no instance.
        if number > 2 {
            files.capability_nodes.insert(CapabilityMinor(number), node);
        }
    }
}

/// A character device; anything else under the name is none.
pub(crate) fn node(root: &Beneath, host: &HostRoot, path: &str) -> Option<DriverNode> {
    let stat = root.stat(path).ok()?;
    if kind(&stat) != FileType::CharacterDevice {
        return None;
    }
    Some(DriverNode {
        path: path.to_owned(),
        host_path: host.path(&root.without_links(path).ok()?),
        major: major(stat.st_rdev),
        minor: minor(stat.st_rdev),
        mode: stat.st_mode & 0o777,
    })
}
