//! What a container gets with the devices that kubelet chose for it.

use crate::cdi::container_name;
use crate::classes::{Beside, CdiClass, beside, imex_node};
use crate::{Device, DeviceList, FlatEdits, Mechanism, PartId, Resource, Settings};
use carve_formats::device_plugin::ResourceName;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thiserror::Error;

/// Everything a container is given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// Environment variables.
    pub envs: BTreeMap<String, String>,
    /// Files and folders of the host.
    pub mounts: Vec<Mount>,
    /// Device nodes of the host.
    pub devices: Vec<DeviceNode>,
    /// Annotations for the container runtime.
    pub annotations: BTreeMap<String, String>,
    /// Devices that the container runtime looks up: `vendor/class=name`.
    pub cdi_devices: Vec<String>,
}

/// A file or folder of the host in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Where the container sees it.
    pub container_path: String,
    /// Where it is on the host.
    pub host_path: String,
    /// Whether the container may not write.
    pub read_only: bool,
}

/// A device node of the host in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceNode {
    /// Where the container sees it.
    pub container_path: String,
    /// Where it is on the host.
    pub host_path: String,
}

/// What an answer needs to know besides devices and settings.
#[derive(Debug, Clone, Default)]
pub struct AnswerContext {
    /// Device nodes that every container with a GPU needs, as far as they exist: `/dev/nvidiactl`, …
    pub control_nodes: Vec<String>,
    /// Tells one answer from another in annotations.
    pub id: String,
    /// What containers get where their runtime does not read CDI files.
    pub flat: Option<Arc<FlatEdits>>,
    /// Classes that are asked for and that the node does not have: containers do without, as with NVIDIA's plugin.
    pub absent: BTreeSet<CdiClass>,
}

/// Why a request is refused. NVIDIA's words where it refuses the same.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AnswerError {
    /// No such device.
    #[error("invalid allocation request for \"{resource}\": invalid request: unknown device: {device}")]
    UnknownDevice {
        /// The resource.
        resource: ResourceName,
        /// The device asked for.
        device: String,
    },
    /// More than one share where one is the most.
    #[error(
        "invalid allocation request for \"{resource}\": invalid request: maximum request size for shared resources is 1; \
         found {found}"
    )]
    SeveralShares {
        /// The resource.
        resource: ResourceName,
        /// How many were asked for.
        found: usize,
    },
    /// A container talks to one MPS daemon, and each daemon has one GPU or MIG device.
    #[error(
        "invalid allocation request for \"{resource}\": a container has one MPS daemon, and through that of {first} it \
         does not reach {second}; ask for shares of one GPU, or for whole GPUs"
    )]
    SeveralDaemons {
        /// The resource.
        resource: ResourceName,
        /// The part that is shared by MPS.
        first: PartId,
        /// Another, shared or not.
        second: PartId,
    },
    /// Nobody knows the device nodes of a part, where the container runtime is not the one to know them.
    #[error(
        "invalid allocation request for \"{resource}\": the device nodes of '{device}' are not known; the agent finds \
         them when it reads the node anew, so make the pod again, and if that does not help, see the agent's log"
    )]
    UnknownNodes {
        /// The resource.
        resource: ResourceName,
        /// The part, as containers know it.
        device: String,
    },
}

/// Where NVIDIA's runtime looks for mounts that name devices.
const MOUNTED_LIST: &str = "/var/run/nvidia-container-devices";

/// Says what a container gets.
pub fn answer(
    resource: &Resource,
    ids: &[String],
    settings: &Settings,
    context: &AnswerContext,
) -> Result<Answer, AnswerError> {
    let devices = find(resource, ids)?;
    let mut answer = Answer::default();
    if settings.any_cdi_list() {
        name_for_cdi(resource, &devices, settings, context, &mut answer)?;
    }
    connect_to_mps(resource, &devices, settings, &mut answer)?;
    // Programs may look at these, so they are there however the devices come into the container.
    for (wanted, name) in
        [(settings.gdrcopy, "NVIDIA_GDRCOPY"), (settings.gds, "NVIDIA_GDS"), (settings.mofed, "NVIDIA_MOFED")]
    {
        if wanted {
            answer.envs.insert(name.to_owned(), "enabled".to_owned());
        }
    }
    if !settings.any_legacy_list() {
        return Ok(answer);
    }
    let names = names(&devices, settings);
    let without_imex = context.absent.contains(&CdiClass::ImexChannel);
    let imex_channels: &[u64] = if without_imex { &[] } else { &settings.imex_channels };
    let mut set = |name: &str, value: &str| answer.envs.insert(name.to_owned(), value.to_owned());
    if settings.device_lists.contains(&DeviceList::Envvar) {
        set("NVIDIA_VISIBLE_DEVICES", &names.join(","));
        if !imex_channels.is_empty() {
            let channels: Vec<String> = imex_channels.iter().map(u64::to_string).collect();
            set("NVIDIA_IMEX_CHANNELS", &channels.join(","));
        }
    }
    if settings.device_lists.contains(&DeviceList::VolumeMounts) {
        set("NVIDIA_VISIBLE_DEVICES", MOUNTED_LIST);
        let channels = imex_channels.iter().map(|channel| format!("imex/{channel}"));
        answer.mounts.extend(names.into_iter().chain(channels).map(|name| Mount {
            container_path: format!("{MOUNTED_LIST}/{name}"),
            host_path: "/dev/null".to_owned(),
            read_only: false,
        }));
    }
    if settings.pass_device_specs {
        let own = distinct(&devices).into_iter().flat_map(|device| device.nodes.iter());
        let channels = imex_channels.iter().map(|channel| imex_node(*channel));
        for path in context.control_nodes.iter().chain(own).cloned().chain(channels) {
            let node = DeviceNode { host_path: under(&settings.dev_root, &path), container_path: path };
            if !answer.devices.contains(&node) {
                answer.devices.push(node);
            }
        }
    }
    Ok(answer)
}

/// A path of the machine as it is called under another root.
fn under(root: &str, path: &str) -> String {
    format!("{}{path}", root.trim_end_matches('/'))
}

/// The devices asked for, checked.
fn find<'a>(resource: &'a Resource, ids: &[String]) -> Result<Vec<&'a Device>, AnswerError> {
    let one = |id: &String| {
        let unknown = || AnswerError::UnknownDevice { resource: resource.name.clone(), device: id.clone() };
        resource.devices.iter().find(|device| device.id.as_str() == id).ok_or_else(unknown)
    };
    let devices: Vec<&Device> = ids.iter().map(one).collect::<Result<_, _>>()?;
    let shared = devices.iter().any(|device| device.share.mechanism != Mechanism::Exclusive);
    if resource.one_share_each && shared && devices.len() > 1 {
        return Err(AnswerError::SeveralShares { resource: resource.name.clone(), found: devices.len() });
    }
    Ok(devices)
}

/// One device of each part, in the order asked for: two shares of a GPU are one GPU to the container.
fn distinct<'a>(devices: &[&'a Device]) -> Vec<&'a Device> {
    let mut seen: Vec<&Device> = Vec::new();
    for device in devices {
        if !seen.iter().any(|known| known.part == device.part) {
            seen.push(device);
        }
    }
    seen
}

/// What the parts are called towards the container, each once.
fn names(devices: &[&Device], settings: &Settings) -> Vec<String> {
    let name = |device: &&Device| container_name(&device.part, &device.index, settings);
    distinct(devices).iter().map(name).collect()
}

fn name_for_cdi(
    resource: &Resource,
    devices: &[&Device],
    settings: &Settings,
    context: &AnswerContext,
    answer: &mut Answer,
) -> Result<(), AnswerError> {
    let gpus = names(devices, settings);
    if let Some(flat) = &context.flat {
        let unknown = |device| AnswerError::UnknownNodes { resource: resource.name.clone(), device };
        return flat.add(&gpus, answer).map_err(unknown);
    }
    let mut names: Vec<String> = gpus.iter().map(|name| CdiClass::Gpu.qualified(name)).collect();
    let there = beside(settings).into_iter().filter(|device| !context.absent.contains(&device.class()));
    names.extend(there.map(Beside::qualified));
    if names.is_empty() {
        return Ok(());
    }
    if settings.device_lists.contains(&DeviceList::CdiAnnotations) {
        let key = format!("{}nvidia-device-plugin_{}", settings.cdi_annotation_prefix, context.id);
        answer.annotations.insert(key, names.join(","));
    }
    if settings.device_lists.contains(&DeviceList::CdiCri) {
        answer.cdi_devices = names;
    }
    Ok(())
}

/// The way to the MPS daemon of the part, and to no other GPU.
fn connect_to_mps(
    resource: &Resource,
    devices: &[&Device],
    settings: &Settings,
    answer: &mut Answer,
) -> Result<(), AnswerError> {
    let parts = distinct(devices);
    let Some(first) = parts.iter().find(|device| device.share.mechanism == Mechanism::Mps) else {
        return Ok(());
    };
    if let Some(second) = parts.iter().find(|device| device.part != first.part) {
        return Err(AnswerError::SeveralDaemons {
            resource: resource.name.clone(),
            first: first.part.clone(),
            second: second.part.clone(),
        });
    }
    let part = &first.part;
    let pipe = format!("/mps/{part}/pipe");
    answer.envs.insert("CUDA_MPS_PIPE_DIRECTORY".to_owned(), pipe.clone());
    answer.envs.insert("CUDA_VISIBLE_DEVICES".to_owned(), part.to_string());
    let root = settings.mps_root.trim_end_matches('/');
    let mount =
        |container_path: String, host_path: String| Mount { container_path, host_path, read_only: false };
    answer.mounts.push(mount(pipe, format!("{root}/{part}/pipe")));
    answer.mounts.push(mount("/dev/shm".to_owned(), format!("{root}/{part}/shm")));
    Ok(())
}
