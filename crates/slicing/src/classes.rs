//! The kinds of CDI devices: GPUs, and what a configuration puts into every container with a GPU beside it.
//!
//! One list, [`beside`], decides both which names an answer has and which files are written, so that no name leads
//! nowhere. What is asked for and not on the node is told as [`Absent`], before a container fails to start for it.

use crate::Settings;
use crate::cdi::{CDI_VERSION, DriverFile, DriverNode, device_node, mount};
use carve_formats::cdi::{ContainerEdits, Device, Spec};
use std::collections::BTreeMap;
use thiserror::Error;

/// Who the devices are from, as NVIDIA's plugin says it.
const VENDOR: &str = "k8s.device-plugin.nvidia.com";
/// The one device of a class that a container has whole or not at all.
const WHOLE_CLASS: &str = "all";
/// Where the driver keeps the nodes of IMEX channels.
const IMEX_FOLDER: &str = "/dev/nvidia-caps-imex-channels";

/// A kind of device, with a CDI file of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CdiClass {
    /// GPUs and MIG devices.
    Gpu,
    /// Channels to the memory of GPUs in other nodes.
    ImexChannel,
    /// Copies between host and GPU memory by the processor.
    Gdrcopy,
    /// GPUDirect Storage.
    Gds,
    /// InfiniBand.
    Mofed,
}

impl CdiClass {
    /// Every class, in the order in which answers name them.
    pub const ALL: [CdiClass; 5] =
        [CdiClass::Gpu, CdiClass::ImexChannel, CdiClass::Gdrcopy, CdiClass::Gds, CdiClass::Mofed];

    fn name(self) -> &'static str {
        match self {
            CdiClass::Gpu => "gpu",
            CdiClass::ImexChannel => "imex-channel",
            CdiClass::Gdrcopy => "gdrcopy",
            CdiClass::Gds => "gds",
            CdiClass::Mofed => "mofed",
        }
    }

    /// Vendor and class, as a file has it: `k8s.device-plugin.nvidia.com/gpu`.
    pub fn kind(self) -> String {
        format!("{VENDOR}/{}", self.name())
    }

    /// What a request calls one device of the class.
    pub fn qualified(self, device: &str) -> String {
        format!("{}={device}", self.kind())
    }

    /// The name of the class's file: `k8s.device-plugin.nvidia.com-gpu.json`.
    pub fn file_name(self) -> String {
        format!("{VENDOR}-{}.json", self.name())
    }
}

/// What the node has of the classes beside GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClassFiles {
    /// The node of GDRCopy.
    pub gdrcopy_nodes: Vec<DriverNode>,
    /// The nodes of GPUDirect Storage.
    pub gds_nodes: Vec<DriverNode>,
    /// Its settings, and the folder by which it tells storage devices apart.
    pub gds_files: Vec<DriverFile>,
    /// The nodes of InfiniBand.
    pub mofed_nodes: Vec<DriverNode>,
    /// The nodes of IMEX channels, by their numbers.
    pub imex_channels: BTreeMap<u64, DriverNode>,
}

/// Something that a configuration asks for and the node does not have.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Absent {
    /// No IMEX channel of that number.
    #[error(
        "imex.channelIDs asks for channel {channel}, but {root}{IMEX_FOLDER}/channel{channel} is no device node; \
         load the nvidia kernel module with NVreg_CreateImexChannel0=1, which makes channel 0, or take the channel out of \
         this node's configuration"
    )]
    ImexChannel {
        /// Where device nodes are on the host, without the last `/`.
        root: String,
        /// Its number.
        channel: u64,
    },
    /// No GDRCopy.
    #[error(
        "gdrcopyEnabled is set, but {root}/dev/gdrdrv is no device node; load the kernel module gdrdrv on the node, or \
         take gdrcopyEnabled out of this node's configuration"
    )]
    Gdrcopy {
        /// Where device nodes are on the host, without the last `/`.
        root: String,
    },
    /// No GPUDirect Storage.
    #[error(
        "gdsEnabled is set, but there is no device node {root}/dev/nvidia-fs*; load the kernel module nvidia-fs on the \
         node, or take gdsEnabled out of this node's configuration"
    )]
    Gds {
        /// Where device nodes are on the host, without the last `/`.
        root: String,
    },
    /// No InfiniBand.
    #[error(
        "mofedEnabled is set, but there is no device node {root}/dev/infiniband/uverbs* or rdma_cm; load the kernel \
         modules ib_uverbs and rdma_ucm on the node, or take mofedEnabled out of this node's configuration"
    )]
    Mofed {
        /// Where device nodes are on the host, without the last `/`.
        root: String,
    },
}

impl Absent {
    /// The class that is missed, wholly or in part.
    pub fn class(&self) -> CdiClass {
        match self {
            Absent::ImexChannel { .. } => CdiClass::ImexChannel,
            Absent::Gdrcopy { .. } => CdiClass::Gdrcopy,
            Absent::Gds { .. } => CdiClass::Gds,
            Absent::Mofed { .. } => CdiClass::Mofed,
        }
    }
}

/// The files of the classes beside GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClassSpecs {
    /// What to write. A class that is not here is not asked for, or the node has nothing of it.
    pub specs: BTreeMap<CdiClass, Spec>,
    /// What is asked for and not there. Containers that are given it do not start.
    pub absent: Vec<Absent>,
}

/// One device that a container gets beside its GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    ImexChannel(u64),
    Gdrcopy,
    Gds,
    Mofed,
}

impl Beside {
    pub(crate) fn class(self) -> CdiClass {
        match self {
            Beside::ImexChannel(_) => CdiClass::ImexChannel,
            Beside::Gdrcopy => CdiClass::Gdrcopy,
            Beside::Gds => CdiClass::Gds,
            Beside::Mofed => CdiClass::Mofed,
        }
    }

    fn name(self) -> String {
        match self {
            Beside::ImexChannel(channel) => channel.to_string(),
            Beside::Gdrcopy | Beside::Gds | Beside::Mofed => WHOLE_CLASS.to_owned(),
        }
    }

    /// What an answer calls it.
    pub(crate) fn qualified(self) -> String {
        self.class().qualified(&self.name())
    }
}

/// What every container with a GPU gets beside it, in the order of an answer.
pub(crate) fn beside(settings: &Settings) -> Vec<Beside> {
    let whole =
        [(settings.gdrcopy, Beside::Gdrcopy), (settings.gds, Beside::Gds), (settings.mofed, Beside::Mofed)];
    let channels = settings.imex_channels.iter().map(|channel| Beside::ImexChannel(*channel));
    channels.chain(whole.into_iter().filter(|(wanted, _)| *wanted).map(|(_, device)| device)).collect()
}

/// The node of an IMEX channel.
pub(crate) fn imex_node(channel: u64) -> String {
    format!("{IMEX_FOLDER}/channel{channel}")
}

/// Builds the files of the classes that the settings ask for.
pub fn class_specs(settings: &Settings, files: &ClassFiles) -> ClassSpecs {
    let mut built = ClassSpecs::default();
    for device in beside(settings) {
        let class = device.class();
        let edits = edits(device, files);
        // A runtime refuses a file with an empty device, and with it everything else in the file.
        if edits.device_nodes.is_empty() {
            built.absent.push(absent(device, settings));
            continue;
        }
        let spec = built.specs.entry(class).or_insert_with(|| Spec {
            cdi_version: CDI_VERSION.to_owned(),
            kind: class.kind(),
            ..Spec::default()
        });
        spec.devices.push(Device { name: device.name(), container_edits: edits });
    }
    built
}

/// What a container gets with a device; nothing, where the node has no device node of it.
fn edits(device: Beside, files: &ClassFiles) -> ContainerEdits {
    let (nodes, mounted): (Vec<&DriverNode>, &[DriverFile]) = match device {
        Beside::ImexChannel(channel) => (files.imex_channels.get(&channel).into_iter().collect(), &[]),
        Beside::Gdrcopy => (files.gdrcopy_nodes.iter().collect(), &[]),
        Beside::Gds => (files.gds_nodes.iter().collect(), &files.gds_files),
        Beside::Mofed => (files.mofed_nodes.iter().collect(), &[]),
    };
    let mut device_nodes: Vec<_> = nodes.into_iter().map(device_node).collect();
    device_nodes.sort_by(|one, other| one.path.cmp(&other.path));
    let mounts = mounted.iter().map(|file| mount(file, &[])).collect();
    ContainerEdits { device_nodes, mounts, ..ContainerEdits::default() }
}

fn absent(device: Beside, settings: &Settings) -> Absent {
    let root = settings.dev_root.trim_end_matches('/').to_owned();
    match device {
        Beside::ImexChannel(channel) => Absent::ImexChannel { root, channel },
        Beside::Gdrcopy => Absent::Gdrcopy { root },
        Beside::Gds => Absent::Gds { root },
        Beside::Mofed => Absent::Mofed { root },
    }
}
