//! What the container runtime is told about the devices of a claim: one CDI file for the driver's files, one for each claim.

use crate::record::{ClaimRecord, DeviceRecord, UsageRecord};
use carve_formats::cdi::{ContainerEdits, Device, Mount, Spec};
use carve_gpu_model::CapabilityMinor;
use carve_limiter_abi::{LIMITS_FOLDER, USAGE_FOLDER};
use carve_slicing::cdi::{DriverFiles, HookPath, for_every_container, instance_nodes, whole_nodes};
use std::path::{Path, PathBuf};

/// The oldest version of the interface that has all fields used here.
const CDI_VERSION: &str = "0.5.0";

/// What is known about the node's driver.
#[derive(Debug, Clone, Default)]
pub struct NodeFiles {
    /// Its files.
    pub driver: DriverFiles,
    /// The program that answers `cdi-hook`, on the host; without one nothing can be made ready.
    pub hook: Option<HookPath>,
    /// The root under which device nodes are.
    pub dev_root: String,
}

/// Names of files, kinds and devices for a driver.
#[derive(Debug, Clone)]
pub struct CdiNames {
    vendor: String,
}

impl CdiNames {
    /// For a driver's name.
    pub fn new(driver: &str) -> Self {
        CdiNames { vendor: format!("k8s.{driver}") }
    }

    /// The file with what every container needs.
    pub fn node_file(&self) -> String {
        format!("{}-node.json", self.vendor)
    }

    fn claim_prefix(&self) -> String {
        format!("{}-claim_", self.vendor)
    }

    /// The file of a claim.
    pub fn claim_file(&self, uid: &str) -> String {
        format!("{}{uid}.json", self.claim_prefix())
    }

    /// The claim whose file this is.
    pub fn claim_of<'a>(&self, file: &'a str) -> Option<&'a str> {
        file.strip_prefix(&self.claim_prefix())?.strip_suffix(".json")
    }

    fn device(uid: &str, device: &DeviceRecord) -> String {
        let share = device.share.as_ref().map(|share| format!("-{share}")).unwrap_or_default();
        format!("{uid}-{}{share}", device.device)
    }

    /// What kubelet passes on for a device.
    pub fn ids(&self, uid: &str, device: &DeviceRecord) -> Vec<String> {
        vec![
            format!("{}/node=driver", self.vendor),
            format!("{}/claim={}", self.vendor, Self::device(uid, device)),
        ]
    }

    /// The file with what every container needs.
    pub fn node_spec(&self, files: &NodeFiles, hook: &HookPath) -> Spec {
        let container_edits = for_every_container(&files.driver, hook);
        Spec {
            cdi_version: CDI_VERSION.to_owned(),
            kind: format!("{}/node", self.vendor),
            devices: vec![Device { name: "driver".to_owned(), container_edits }],
            container_edits: ContainerEdits::default(),
        }
    }

    /// The file of a claim whose parts are known.
    pub fn claim_spec(&self, record: &ClaimRecord, files: &NodeFiles, places: &Places) -> Spec {
        let device = |device: &DeviceRecord| Device {
            name: Self::device(&record.uid, device),
            container_edits: edits(&record.uid, device, files, places),
        };
        Spec {
            cdi_version: CDI_VERSION.to_owned(),
            kind: format!("{}/claim", self.vendor),
            devices: record.devices.iter().map(device).collect(),
            container_edits: ContainerEdits::default(),
        }
    }
}

/// Where things are on the host.
#[derive(Debug, Clone)]
pub struct Places {
    /// Where MPS daemons have their pipes.
    pub mps_root: String,
    /// Where limits of shares are, by claim.
    pub limits: PathBuf,
    /// The limiter's library, where there is one.
    pub limiter: Option<PathBuf>,
}

/// Where containers find the limiter.
const LIMITER: &str = "/run/carve/libcarve_limiter.so";

impl Places {
    /// The file that makes every program of a container load the limiter.
    pub fn preload(&self) -> PathBuf {
        self.limits.join("ld.so.preload")
    }

    /// What is in it.
    pub fn preload_text() -> String {
        format!("{LIMITER}\n")
    }

    /// Where the shares of a claim are: limits that containers read, and use that they count.
    pub fn shares_of(&self, uid: &str) -> PathBuf {
        self.limits.join(uid)
    }

    /// Limits that containers read, memory in which they count, and the limiter that does both.
    pub fn share_mounts(&self, uid: &str, part: &str, share: &str) -> Vec<Mount> {
        let share = format!("{part}/{share}");
        let on_host = self.shares_of(uid);
        let mut mounts = vec![
            read_only(&on_host.join("limits").join(&share), format!("{LIMITS_FOLDER}/{share}")),
            Mount {
                host_path: on_host.join("usage").join(&share).display().to_string(),
                container_path: format!("{USAGE_FOLDER}/{share}"),
                options: ["rw", "nosuid", "nodev", "noexec", "bind"].map(str::to_owned).to_vec(),
            },
        ];
        if let Some(limiter) = &self.limiter {
            mounts.push(read_only(limiter, LIMITER.to_owned()));
            mounts.push(read_only(&self.preload(), "/etc/ld.so.preload".to_owned()));
        }
        mounts
    }
}

fn read_only(host: &Path, container: String) -> Mount {
    Mount {
        host_path: host.display().to_string(),
        container_path: container,
        options: ["ro", "nosuid", "nodev", "bind"].map(str::to_owned).to_vec(),
    }
}

fn edits(uid: &str, device: &DeviceRecord, files: &NodeFiles, places: &Places) -> ContainerEdits {
    let minor = device.device.parse::<carve_dra::DeviceName>().map_or(0, |name| name.minor);
    let mut edits = ContainerEdits {
        device_nodes: match device.guards {
            Some((instance, compute)) => {
                let guards = (CapabilityMinor(instance), CapabilityMinor(compute));
                instance_nodes(minor, guards, &files.driver, &files.dev_root)
            }
            None => whole_nodes(minor, &files.driver, &files.dev_root),
        },
        ..ContainerEdits::default()
    };
    let part = device.part.as_deref().unwrap_or(&device.gpu);
    match &device.usage {
        UsageRecord::Alone
        | UsageRecord::Turns { .. }
        | UsageRecord::Fraction { .. }
        | UsageRecord::Watch => {}
        UsageRecord::Mps { memory, threads, .. } => {
            let pipe = format!("/mps/{part}/pipe");
            edits.env.push(format!("CUDA_MPS_PIPE_DIRECTORY={pipe}"));
            // Through the daemon a client would see every GPU that the daemon has.
            edits.env.push(format!("CUDA_VISIBLE_DEVICES={part}"));
            if let Some(memory) = memory {
                edits.env.push(format!("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0={memory}M"));
            }
            if let Some(threads) = threads {
                edits.env.push(format!("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={threads}"));
            }
            let root = places.mps_root.trim_end_matches('/');
            for (host, container) in [("pipe", pipe.as_str()), ("shm", "/dev/shm")] {
                edits.mounts.push(Mount {
                    host_path: format!("{root}/{part}/{host}"),
                    container_path: container.to_owned(),
                    options: ["rw", "nosuid", "nodev", "bind"].map(str::to_owned).to_vec(),
                });
            }
        }
    }
    if device.usage.has_share() {
        edits.mounts.extend(places.share_mounts(uid, part, device.share_name()));
    }
    edits
}
