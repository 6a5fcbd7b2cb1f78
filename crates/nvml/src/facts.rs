//! What does not change about the GPUs, and what to say about those that do not answer.

use crate::Nvml;
use crate::call::{Answer, Device};
use carve_gpu_host::Gpu;
use carve_gpu_model::{Bytes, GpuIndex, GpuUuid, PciAddress, PciId};
use nvml_wrapper_sys::bindings::nvmlPciInfo_t;
use std::path::Path;

/// The address in NVML's PCI facts.
pub(crate) fn address(pci: &nvmlPciInfo_t) -> PciAddress {
    PciAddress { domain: pci.domain, bus: pci.bus as u8, device: pci.device as u8 }
}

impl Nvml {
    /// All GPUs. One that does not answer is told as it was last seen, or left out if it never was; it does not take
    /// the others with it. Only if no GPU answers at all, the first refusal is the answer.
    pub(crate) fn all_gpus(&self) -> Answer<Vec<Gpu>> {
        let mut gpus = Vec::new();
        let mut refusal = None;
        for index in (0..self.calls.count()?).map(GpuIndex) {
            match self.device(index).and_then(|device| self.facts(index, device)) {
                Ok(gpu) => {
                    self.seen.borrow_mut().insert(index, gpu.clone());
                    gpus.push(gpu);
                }
                Err(failure) => {
                    refusal = refusal.or(Some(failure));
                    gpus.extend(self.seen.borrow().get(&index).cloned());
                }
            }
        }
        match refusal {
            Some(failure) if gpus.is_empty() => Err(failure),
            _ => Ok(gpus),
        }
    }

    fn facts(&self, index: GpuIndex, device: Device) -> Answer<Gpu> {
        let pci = self.calls.pci(device)?;
        let address = address(&pci);
        Ok(Gpu {
            index,
            uuid: GpuUuid(self.calls.uuid(device)?),
            name: self.calls.name(device)?,
            address,
            pci_id: PciId::from_packed(pci.pciDeviceId),
            subsystem: Some(pci.pciSubSystemId).filter(|id| *id != 0).map(PciId::from_packed),
            minor: self.calls.minor(device)?,
            memory: Bytes(self.calls.memory(device)?.total),
            compute_capability: self.calls.compute_capability(device)?,
            numa_node: numa_node(&self.paths.pci_devices, address),
            mig_capable: self.mode(device)?.is_some(),
        })
    }
}

/// NVML does not tell the NUMA node of a PCI device, the kernel does; a machine with one node says -1.
fn numa_node(pci_devices: &Path, address: PciAddress) -> Option<u32> {
    let text = std::fs::read_to_string(pci_devices.join(address.to_string()).join("numa_node")).ok()?;
    text.trim().parse().ok()
}
