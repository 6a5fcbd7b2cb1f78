//! What the container runtime is told about the node's GPUs: the CDI file, built from the driver's files.
//!
//! It holds what NVIDIA's plugin writes, so that requests mean the same, with one hook instead of NVIDIA's six:
//! - links and the loader's cache are made by `carve cdi-hook`, which runs no program and trusts no file of the container;
//! - `enable-cuda-compat` is left out: it decides which `libcuda` a container loads by files that the container brings;
//! - `disable-device-node-modification` is left out: nodes that a container makes for itself are refused by the device
//!   cgroup, whatever they are called;
//! - `update-application-profile` is left out: it concerns OpenGL programs, and compute ones never read the profile.

use crate::classes::CdiClass;
use crate::{DeviceIds, MigStrategy, NodeGpu, NodeGpus, NodeMig, PartId, Settings};
use carve_formats::cdi::{ContainerEdits, Device, DeviceNode, Hook, Mount, Spec};
use carve_gpu_model::CapabilityMinor;
use std::collections::BTreeMap;
use std::fmt;

/// The oldest version of the interface that has all fields used here.
pub(crate) const CDI_VERSION: &str = "0.5.0";

/// The files of one driver that containers need, as found on the node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DriverFiles {
    /// The driver's version: `580.65.06`.
    pub version: String,
    /// Libraries of exactly this version.
    pub libraries: Vec<Library>,
    /// Programs: `nvidia-smi` and the like.
    pub programs: Vec<DriverFile>,
    /// Firmware that the driver may load on behalf of a container.
    pub firmware: Vec<DriverFile>,
    /// Sockets of the driver's daemons.
    pub sockets: Vec<DriverFile>,
    /// Device nodes that every container with a GPU needs.
    pub control_nodes: Vec<DriverNode>,
    /// Device nodes of each GPU by its minor number: `/dev/nvidiaN`, and those under `/dev/dri` where there are any.
    pub gpu_nodes: BTreeMap<u32, Vec<DriverNode>>,
    /// Guards of MIG instances.
    pub capability_nodes: BTreeMap<CapabilityMinor, DriverNode>,
}

/// A library of the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// Where it is.
    pub file: DriverFile,
    /// The name under which programs ask for it, from the library itself; `None` where it carries none.
    pub soname: Option<String>,
    /// Links that lead to it.
    pub links: Vec<Link>,
}

/// A file of the driver.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DriverFile {
    /// Where it is on the host, with no link on the way.
    pub host_path: String,
    /// Where containers see it.
    pub container_path: String,
}

/// A symbolic link inside a container.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// Where it is.
    pub path: String,
    /// What it says.
    pub target: String,
}

/// A device node of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverNode {
    /// Where containers see it.
    pub path: String,
    /// Where it is on the host.
    pub host_path: String,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Permission bits.
    pub mode: u32,
}

/// The verb by which the hook is called; a CDI file that has it is one of ours.
pub const HOOK_VERB: &str = "cdi-hook";

/// Where the executable that has the verb `cdi-hook` is on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookPath(String);

impl HookPath {
    /// From a path of the host; it must be absolute, for a runtime searches nowhere.
    pub fn new(path: impl Into<String>) -> Option<Self> {
        let path = path.into();
        path.starts_with('/').then_some(HookPath(path))
    }
}

impl fmt::Display for HookPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a part is called towards containers: in the CDI file, and in variables and mounts for NVIDIA's runtime.
pub(crate) fn container_name(part: &PartId, index: &str, settings: &Settings) -> String {
    match settings.device_ids {
        DeviceIds::Uuid => part.to_string(),
        DeviceIds::Index => index.to_owned(),
    }
}

/// Builds the file. It has no device where the node has none; a runtime refuses such a file, so it is not to be written.
pub fn cdi_spec(node: &NodeGpus, files: &DriverFiles, settings: &Settings, hook: &HookPath) -> Spec {
    let mut devices = Vec::new();
    let mut all = ContainerEdits::default();
    for gpu in &node.gpus {
        let mut add = |name: String, device_nodes: Vec<DeviceNode>| {
            if !gpu.lost {
                for node in &device_nodes {
                    if !all.device_nodes.contains(node) {
                        all.device_nodes.push(node.clone());
                    }
                }
            }
            let container_edits = ContainerEdits { device_nodes, ..ContainerEdits::default() };
            devices.push(Device { name, container_edits });
        };
        // Under strategy 'none' a GPU is offered whole whether MIG is on or off, and what is offered must be found.
        if !gpu.mig_enabled || settings.mig_strategy == MigStrategy::None {
            let index = gpu.gpu.index.to_string();
            add(container_name(&gpu.part(), &index, settings), gpu_nodes(gpu, files, settings));
        }
        for mig in &gpu.migs {
            let index = format!("{}:{}", gpu.gpu.index, mig.device.position);
            add(container_name(&mig.part(), &index, settings), mig_nodes(gpu, mig, files, settings));
        }
    }
    if !all.device_nodes.is_empty() {
        devices.push(Device { name: "all".to_owned(), container_edits: all });
    }
    Spec {
        cdi_version: CDI_VERSION.to_owned(),
        kind: CdiClass::Gpu.kind(),
        devices,
        container_edits: for_every_container(files, hook),
    }
}

/// What a container gets with any GPU: the driver's own files and device nodes, and the hook.
pub fn for_every_container(files: &DriverFiles, hook: &HookPath) -> ContainerEdits {
    let mut device_nodes: Vec<DeviceNode> = files.control_nodes.iter().map(device_node).collect();
    device_nodes.sort_by(|one, other| one.path.cmp(&other.path));
    let plain = files.programs.iter().chain(&files.firmware).chain(files.libraries.iter().map(|l| &l.file));
    let mut mounts: Vec<Mount> = plain.map(|file| mount(file, &[])).collect();
    mounts.extend(files.sockets.iter().map(|file| mount(file, &["noexec"])));
    mounts.sort_by(|one, other| one.container_path.cmp(&other.container_path));
    let args = hook_args(files);
    let hooks = if args.is_empty() {
        Vec::new()
    } else {
        let call = ["carve", HOOK_VERB].map(str::to_owned);
        vec![Hook {
            hook_name: "createContainer".to_owned(),
            path: hook.to_string(),
            args: call.into_iter().chain(args).collect(),
            env: Vec::new(),
        }]
    };
    // `void` keeps NVIDIA's own runtime, where it is installed as well, from putting in devices a second time.
    ContainerEdits { env: vec!["NVIDIA_VISIBLE_DEVICES=void".to_owned()], device_nodes, hooks, mounts }
}

/// What `carve cdi-hook` is told: links to make, names for the loader's cache, folders for later runs of ldconfig.
fn hook_args(files: &DriverFiles) -> Vec<String> {
    let mut links: Vec<&Link> = files.libraries.iter().flat_map(|library| &library.links).collect();
    links.sort();
    links.dedup();
    let mut args = Vec::new();
    let mut add = |option: &str, value: String| args.extend([option.to_owned(), value]);
    for link in links {
        add("--link", format!("{}::{}", link.target, link.path));
    }
    let mut names = BTreeMap::new();
    for library in &files.libraries {
        let Some((folder, _)) = library.file.container_path.rsplit_once('/') else { continue };
        if let Some(soname) = &library.soname {
            names.entry(soname).or_insert(folder);
        }
    }
    let mut folders: Vec<&str> = names.values().copied().collect();
    for (soname, folder) in names {
        add("--library", format!("{soname}::{folder}/{soname}"));
    }
    folders.sort_unstable();
    folders.dedup();
    for folder in folders {
        add("--folder", folder.to_owned());
    }
    args
}

fn gpu_nodes(gpu: &NodeGpu, files: &DriverFiles, settings: &Settings) -> Vec<DeviceNode> {
    whole_nodes(gpu.gpu.minor, files, &settings.dev_root)
}

fn mig_nodes(gpu: &NodeGpu, mig: &NodeMig, files: &DriverFiles, settings: &Settings) -> Vec<DeviceNode> {
    instance_nodes(gpu.gpu.minor, mig.guards, files, &settings.dev_root)
}

/// The device nodes of a GPU by its minor number.
pub fn whole_nodes(minor: u32, files: &DriverFiles, dev_root: &str) -> Vec<DeviceNode> {
    match files.gpu_nodes.get(&minor) {
        Some(nodes) => nodes.iter().map(device_node).collect(),
        None => vec![unseen(&format!("/dev/nvidia{minor}"), dev_root)],
    }
}

/// The device nodes of an instance: the GPU's own node and the two guards, but nothing under `/dev/dri`, because MIG devices do no
/// graphics.
pub fn instance_nodes(
    minor: u32,
    guards: (CapabilityMinor, CapabilityMinor),
    files: &DriverFiles,
    dev_root: &str,
) -> Vec<DeviceNode> {
    let mut nodes = whole_nodes(minor, files, dev_root);
    nodes.retain(|node| !node.path.starts_with("/dev/dri/"));
    let guard = |minor: CapabilityMinor| match files.capability_nodes.get(&minor) {
        Some(node) => device_node(node),
        None => unseen(&format!("/dev/nvidia-caps/nvidia-cap{minor}"), dev_root),
    };
    let mut guards = [guard(guards.0), guard(guards.1)];
    guards.sort_by(|one, other| one.path.cmp(&other.path));
    nodes.extend(guards);
    nodes
}

pub(crate) fn device_node(node: &DriverNode) -> DeviceNode {
    DeviceNode {
        path: node.path.clone(),
        host_path: node.host_path.clone(),
        major: node.major,
        minor: node.minor,
        file_mode: node.mode,
        permissions: "rwm".to_owned(),
    }
}

/// A node that was not there when the files were looked for. Without numbers the runtime looks itself when a container
/// starts, and names the path if it is still missing.
fn unseen(path: &str, dev_root: &str) -> DeviceNode {
    DeviceNode {
        path: path.to_owned(),
        host_path: format!("{}{path}", dev_root.trim_end_matches('/')),
        permissions: "rwm".to_owned(),
        ..DeviceNode::default()
    }
}

pub(crate) fn mount(file: &DriverFile, more: &[&str]) -> Mount {
    let options = ["ro", "nosuid", "nodev", "rbind", "rprivate"];
    Mount {
        host_path: file.host_path.clone(),
        container_path: file.container_path.clone(),
        options: options.iter().chain(more).map(|option| (*option).to_owned()).collect(),
    }
}
