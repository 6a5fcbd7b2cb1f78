//! The GPUs of a node at one moment, with their MIG devices and names.

use crate::{MigMinors, PartId};
use carve_gpu_host::{Driver, Gpu, GpuHost, HostFailure, HostResult, MigDevice};
use carve_gpu_model::{Bytes, CapabilityMinor, GpuIndex, ProfileName};

/// What is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeGpus {
    /// The driver.
    pub driver: Driver,
    /// Every GPU, in the driver's order, lost ones included.
    pub gpus: Vec<NodeGpu>,
}

/// One GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeGpu {
    /// What does not change about it.
    pub gpu: Gpu,
    /// Memory the driver keeps for itself.
    pub reserved: Bytes,
    /// Whether MIG is on.
    pub mig_enabled: bool,
    /// Its MIG devices, in the driver's order.
    pub migs: Vec<NodeMig>,
    /// Why nothing more is known: the GPU is lost.
    pub lost: bool,
}

/// One MIG device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeMig {
    /// What the driver tells.
    pub device: MigDevice,
    /// What people call it.
    pub profile: ProfileName,
    /// Guards of its GPU instance and of its compute instance.
    pub guards: (CapabilityMinor, CapabilityMinor),
}

impl NodeGpus {
    /// Reads a host. A lost GPU is listed and does not hide the others.
    pub fn read(host: &dyn GpuHost, minors: &MigMinors) -> HostResult<Self> {
        let driver = host.driver()?;
        let mut gpus = Vec::new();
        for gpu in host.gpus()? {
            let mut node =
                NodeGpu { gpu, reserved: Bytes(0), mig_enabled: false, migs: Vec::new(), lost: false };
            match read_mig(host, minors, &mut node) {
                Ok(()) => {}
                Err(error) if error.failure == HostFailure::GpuLost => node.lost = true,
                Err(error) => return Err(error),
            }
            gpus.push(node);
        }
        Ok(NodeGpus { driver, gpus })
    }

    /// Fills in what a lost GPU was before, so that its devices stay in the list as sick ones.
    pub fn remembering(mut self, before: &NodeGpus) -> Self {
        for node in self.gpus.iter_mut().filter(|node| node.lost) {
            if let Some(known) = before.gpus.iter().find(|known| known.gpu.uuid == node.gpu.uuid) {
                *node = NodeGpu { lost: true, ..known.clone() };
            }
        }
        // A driver may drop a lost GPU from its enumeration altogether.
        for known in &before.gpus {
            if !self.gpus.iter().any(|node| node.gpu.uuid == known.gpu.uuid) {
                self.gpus.push(NodeGpu { lost: true, ..known.clone() });
            }
        }
        self.gpus.sort_by_key(|node| node.gpu.index);
        self
    }

    /// A GPU by its place in the driver's order.
    pub fn gpu(&self, index: GpuIndex) -> Option<&NodeGpu> {
        self.gpus.iter().find(|node| node.gpu.index == index)
    }

    /// The GPU that a whole-GPU or MIG device is, or is a part of.
    pub fn gpu_of(&self, part: &PartId) -> Option<&NodeGpu> {
        self.gpus.iter().find(|node| node.part() == *part || node.migs.iter().any(|mig| mig.part() == *part))
    }
}

impl NodeGpu {
    /// The GPU as something to hand out.
    pub fn part(&self) -> PartId {
        PartId::new(self.gpu.uuid.0.clone())
    }
}

impl NodeMig {
    /// The MIG device as something to hand out.
    pub fn part(&self) -> PartId {
        PartId::new(self.device.uuid.0.clone())
    }
}

fn read_mig(host: &dyn GpuHost, minors: &MigMinors, node: &mut NodeGpu) -> HostResult<()> {
    let index = node.gpu.index;
    // Asked first because every driver answers it for a GPU that is there, and says so for one that is lost.
    node.reserved = host.memory(index)?.reserved;
    node.mig_enabled = host.mig_mode(index)?.is_some_and(|mode| mode.current);
    if !node.mig_enabled {
        return Ok(());
    }
    let table = host.profile_table(index)?;
    let instances = host.gpu_instances(index)?;
    for device in host.mig_devices(index)? {
        let instance = instances.iter().find(|instance| instance.id == device.gpu_instance);
        let Some((_, profile)) = instance.and_then(|instance| table.by_id(instance.profile)) else {
            // Destroyed between two questions; the next reading will not have it at all.
            continue;
        };
        let profile = profile.name.with_compute_slices(u64::from(device.compute_slices));
        let guards = minors.of(node.gpu.minor, device.gpu_instance, device.compute_instance);
        node.migs.push(NodeMig { device, profile, guards });
    }
    Ok(())
}
