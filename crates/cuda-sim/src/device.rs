//! Devices as CUDA sees them: whole GPUs and MIG devices of the simulated machine, and what they tell.

use crate::error::{Answer, Code};
use crate::session::Session;
use carve_gpu_host::{Gpu, GpuHost, HostResult, MigDevice};
use carve_gpu_model::{GpuIndex, Product};
use carve_sim_store::DeviceNodes;
use std::ffi::c_int;

/// Multiprocessors of a GPU whose number is not known; nothing depends on it being right.
const GUESS: u32 = 100;

/// A whole GPU or a MIG device, with what does not change about it.
#[derive(Debug, Clone)]
pub(crate) struct Device {
    pub(crate) gpu: Gpu,
    pub(crate) mig: Option<MigDevice>,
    pub(crate) name: String,
    pub(crate) uuid: String,
    /// All memory that CUDA programs can use.
    pub(crate) memory: u64,
    pub(crate) multiprocessors: u32,
}

/// A GPU that answers, with the devices it is cut into.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    /// Its number among the GPUs whose nodes this process has, lost ones counted.
    pub(crate) number: u32,
    /// The GPU as one device; CUDA does not show it while MIG is on.
    pub(crate) whole: Device,
    /// `None` while MIG is off.
    pub(crate) parts: Option<Vec<Device>>,
}

/// Every GPU of the machine that is not lost, in the driver's order; with nodes, those alone that they give.
pub(crate) fn all(host: &dyn GpuHost, nodes: Option<&DeviceNodes>) -> HostResult<Vec<Candidate>> {
    let gpus = host.gpus()?;
    let given = gpus.into_iter().filter(|gpu| nodes.is_none_or(|nodes| nodes.show_gpu(gpu)));
    let alive = |(_, gpu): &(u32, Gpu)| host.memory(gpu.index).is_ok();
    (0..).zip(given).filter(alive).map(|(number, gpu)| candidate(host, nodes, number, gpu)).collect()
}

fn candidate(
    host: &dyn GpuHost,
    nodes: Option<&DeviceNodes>,
    number: u32,
    gpu: Gpu,
) -> HostResult<Candidate> {
    let product = Product::by_pci_id(gpu.pci_id).or_else(|| Product::by_name(&gpu.name));
    let multiprocessors = product.and_then(Product::multiprocessors).map_or(GUESS, u32::from);
    let parts = match host.mig_mode(gpu.index)? {
        Some(mode) if mode.current => {
            let parts = host.mig_devices(gpu.index)?.into_iter();
            let parts = parts.filter(|mig| nodes.is_none_or(|nodes| nodes.allow_mig(&gpu, mig)));
            Some(parts.map(|mig| part(host, &gpu, mig)).collect::<HostResult<_>>()?)
        }
        _ => None,
    };
    let memory = host.memory(gpu.index)?;
    let whole = Device {
        mig: None,
        name: gpu.name.clone(),
        uuid: gpu.uuid.0.clone(),
        memory: memory.total.0.saturating_sub(memory.reserved.0),
        multiprocessors,
        gpu,
    };
    Ok(Candidate { number, whole, parts })
}

fn part(host: &dyn GpuHost, gpu: &Gpu, mig: MigDevice) -> HostResult<Device> {
    let instances = host.gpu_instances(gpu.index)?;
    let instance = instances.iter().find(|instance| instance.id == mig.gpu_instance);
    let table = host.profile_table(gpu.index)?;
    let profile = instance.and_then(|instance| table.by_id(instance.profile));
    let name = profile.map(|(_, profile)| profile.name.with_compute_slices(u64::from(mig.compute_slices)));
    Ok(Device {
        name: name.map_or_else(|| format!("{} MIG", gpu.name), |name| format!("{} MIG {name}", gpu.name)),
        uuid: mig.uuid.0.clone(),
        memory: mig.memory.bytes().0,
        multiprocessors: mig.multiprocessors,
        gpu: gpu.clone(),
        mig: Some(mig),
    })
}

impl Device {
    /// A number for the device that all processes know it by. It is never 0.
    pub(crate) fn key(&self) -> u64 {
        fold(&self.uuid)
    }

    /// The same for its memory, which all MIG devices of a GPU instance share.
    pub(crate) fn memory_key(&self) -> u64 {
        match &self.mig {
            Some(mig) => fold(&self.gpu.uuid.0).wrapping_add(u64::from(mig.gpu_instance.0) + 1).max(1),
            None => self.key(),
        }
    }

    /// The identity as CUDA tells it: the digits alone.
    pub(crate) fn uuid_bytes(&self) -> [u8; 16] {
        digits(&self.uuid).to_be_bytes()
    }

    fn attribute(&self, session: &Session, attribute: c_int) -> Answer<u32> {
        Ok(match attribute {
            1 => 1024, // threads of a block
            10 => 32,  // threads of a warp
            16 => session.limits.multiprocessors(self.multiprocessors),
            33 => u32::from(self.gpu.address.bus),
            34 => u32::from(self.gpu.address.device),
            39 => THREADS,
            41 => 1, // unified addressing
            50 => self.gpu.address.domain,
            75 => self.gpu.compute_capability.0,
            76 => self.gpu.compute_capability.1,
            83 | 102 | 103 | 115 => 1, // managed memory, virtual memory, file descriptors for it, pools
            _ => return Err(Code::INVALID_VALUE),
        })
    }
}

/// The number that the digits of a UUID are.
fn digits(uuid: &str) -> u128 {
    let digits: String = uuid.chars().skip(4).filter(|digit| *digit != '-').collect();
    u128::from_str_radix(&digits, 16).unwrap_or_default()
}

/// A UUID in fewer digits.
fn fold(uuid: &str) -> u64 {
    let digits = digits(uuid);
    ((digits >> 64) as u64 ^ digits as u64).max(1)
}

/// Threads of a multiprocessor, as on every data centre GPU since Volta but for those for inference.
const THREADS: u32 = 2048;

/// What a context takes before its program allocates anything, in bytes: measured on an H200 for 32 and 132
/// multiprocessors under MPS, and a straight line through the two. Most of it is local memory of the multiprocessors.
fn context_memory(multiprocessors: u32) -> u64 {
    (27_320 + 3_776 * u64::from(multiprocessors)) * 1024
}

impl Session {
    /// What a context on a device takes: less for a client that may use a part of the multiprocessors alone.
    pub(crate) fn context_memory(&self, device: &Device) -> u64 {
        context_memory(self.limits.multiprocessors(device.multiprocessors))
    }

    /// Threads that can run on a device at a time.
    pub(crate) fn threads(&self, device: u32) -> Answer<u64> {
        let device = self.device(device as c_int)?;
        Ok(u64::from(THREADS) * u64::from(self.limits.multiprocessors(device.multiprocessors)))
    }

    /// A device by the number that C has for it.
    pub(crate) fn device(&self, ordinal: c_int) -> Answer<&Device> {
        let ordinal = usize::try_from(ordinal).map_err(|_| Code::INVALID_DEVICE)?;
        self.devices.get(ordinal).ok_or(Code::INVALID_DEVICE)
    }

    /// The number of a device that is there.
    pub(crate) fn ordinal(&self, ordinal: c_int) -> Answer<u32> {
        self.device(ordinal)?;
        u32::try_from(ordinal).map_err(|_| Code::INVALID_DEVICE)
    }

    /// One number about a device.
    pub(crate) fn attribute(&self, attribute: c_int, ordinal: c_int) -> Answer<c_int> {
        let value = self.device(ordinal)?.attribute(self, attribute)?;
        c_int::try_from(value).map_err(|_| Code::UNKNOWN)
    }

    /// What other processes hold of a device's memory. All MIG devices of a GPU instance share its memory.
    pub(crate) fn held_by_others(&self, device: &Device) -> Answer<u64> {
        let index: GpuIndex = device.gpu.index;
        let processes = self.host.processes(index).map_err(|_| Code::UNKNOWN)?;
        let instance = device.mig.as_ref().map(|mig| mig.gpu_instance);
        let others = processes.iter().filter(|process| process.pid != std::process::id());
        let here = others.filter(|process| instance.is_none() || process.gpu_instance == instance);
        Ok(here.filter_map(|process| process.memory).map(|bytes| bytes.0).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::context_memory;

    #[test]
    fn a_context_takes_what_one_takes_on_real_hardware() {
        // An H200 under MPS with a limit of 3 GiB; what was missing in what was free, for 132 and 32 multiprocessors.
        for (multiprocessors, measured) in [(132, 538_339_472_u64), (32, 151_700_496)] {
            let off = context_memory(multiprocessors).abs_diff(measured);
            assert!(off < 64 * 1024, "{multiprocessors}: {off} bytes off");
        }
    }
}
