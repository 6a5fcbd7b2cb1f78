//! What a container gets with the devices that kubelet chose for it.

use crate::{Device, DeviceIds, DeviceList, FlatEdits, Mechanism, PartId, Resource, Settings};
use carve_formats::device_plugin::ResourceName;
use std::collections::BTreeMap;
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
    /// A container talks to one MPS daemon, and each GPU has its own.
    #[error(
        "invalid allocation request for \"{resource}\": a container has one MPS pipe directory, and {first} and {second} \
         have a daemon each; ask for shares of one GPU, or for whole GPUs"
    )]
    SeveralDaemons {
        /// The resource.
        resource: ResourceName,
        /// One part.
        first: PartId,
        /// Another.
        second: PartId,
    },
}

/// Where NVIDIA's runtime looks for mounts that name devices.
const MOUNTED_LIST: &str = "/var/run/nvidia-container-devices";
/// Kind of the devices in the CDI file, as NVIDIA's plugin names them.
const CDI_VENDOR: &str = "k8s.device-plugin.nvidia.com";

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
        name_for_cdi(&devices, settings, context, &mut answer);
    }
    connect_to_mps(resource, &devices, settings, &mut answer)?;
    if !settings.any_legacy_list() {
        return Ok(answer);
    }
    let names: Vec<String> =
        distinct(&devices).iter().map(|device| towards_container(device, settings)).collect();
    let mut set = |name: &str, value: &str| answer.envs.insert(name.to_owned(), value.to_owned());
    if settings.device_lists.contains(&DeviceList::Envvar) {
        set("NVIDIA_VISIBLE_DEVICES", &names.join(","));
        if !settings.imex_channels.is_empty() {
            let channels: Vec<String> = settings.imex_channels.iter().map(u64::to_string).collect();
            set("NVIDIA_IMEX_CHANNELS", &channels.join(","));
        }
    }
    for (wanted, name) in
        [(settings.gdrcopy, "NVIDIA_GDRCOPY"), (settings.gds, "NVIDIA_GDS"), (settings.mofed, "NVIDIA_MOFED")]
    {
        if wanted {
            set(name, "enabled");
        }
    }
    if settings.device_lists.contains(&DeviceList::VolumeMounts) {
        set("NVIDIA_VISIBLE_DEVICES", MOUNTED_LIST);
        let channels = settings.imex_channels.iter().map(|channel| format!("imex/{channel}"));
        answer.mounts.extend(names.into_iter().chain(channels).map(|name| Mount {
            container_path: format!("{MOUNTED_LIST}/{name}"),
            host_path: "/dev/null".to_owned(),
            read_only: false,
        }));
    }
    if settings.pass_device_specs {
        let own = distinct(&devices).into_iter().flat_map(|device| device.nodes.iter());
        let mut paths: Vec<&String> = Vec::new();
        for path in context.control_nodes.iter().chain(own) {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        answer.devices.extend(paths.into_iter().map(|path| DeviceNode {
            container_path: path.clone(),
            host_path: under(&settings.dev_root, path),
        }));
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

fn towards_container(device: &Device, settings: &Settings) -> String {
    match settings.device_ids {
        DeviceIds::Uuid => device.part.to_string(),
        DeviceIds::Index => device.index.clone(),
    }
}

fn name_for_cdi(devices: &[&Device], settings: &Settings, context: &AnswerContext, answer: &mut Answer) {
    if let Some(flat) = &context.flat {
        let names: Vec<String> =
            distinct(devices).iter().map(|device| towards_container(device, settings)).collect();
        return flat.add(&names, answer);
    }
    let named = |class: &str, name: &str| format!("{CDI_VENDOR}/{class}={name}");
    let mut names: Vec<String> =
        distinct(devices).iter().map(|device| named("gpu", &towards_container(device, settings))).collect();
    names.extend(settings.imex_channels.iter().map(|channel| named("imex-channel", &channel.to_string())));
    for (wanted, class) in [(settings.gdrcopy, "gdrcopy"), (settings.gds, "gds"), (settings.mofed, "mofed")] {
        if wanted {
            names.push(named(class, "all"));
        }
    }
    if settings.device_lists.contains(&DeviceList::CdiAnnotations) {
        let key = format!("{}nvidia-device-plugin_{}", settings.cdi_annotation_prefix, context.id);
        answer.annotations.insert(key, names.join(","));
    }
    if settings.device_lists.contains(&DeviceList::CdiCri) {
        answer.cdi_devices = names;
    }
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
