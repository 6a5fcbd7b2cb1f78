//! How GPUs are connected: over PCI, and by NVLink directly or through switches.

use crate::abi::{Out, nvml};
use crate::device::{gpu_pci_info, pci_info};
use crate::handle::Handle;
use crate::session::Answer;
use crate::simulation::{Simulation, said};
use carve_gpu_host::machine::NvLink;
use carve_gpu_host::{HostFailure, PciPath};
use carve_gpu_model::{GpuIndex, PciAddress, PciId};
use nvml_wrapper_sys::bindings::nvmlPciInfo_t;
use std::ffi::c_uint;

/// More NVLinks than this no GPU has; higher numbers are nonsense rather than absent.
const MOST_LINKS: c_uint = 18;

/// A bus where no simulated GPU sits; the NVSwitches are put there.
const SWITCH_BUS: u8 = 0xF0;

/// What is at the other end of a link.
enum Remote {
    Gpu(GpuIndex),
    Switch,
}

const REMOTE_IS_GPU: c_uint = 0;
const REMOTE_IS_SWITCH: c_uint = 2;

/// The other end of each NVLink of a GPU. Through switches one link reaches every peer, so they are not added up.
fn links(simulation: &Simulation, gpu: GpuIndex) -> Answer<Vec<Remote>> {
    let mut before = 0;
    let group = simulation.machine.groups().iter().find(|group| {
        before += group.count;
        gpu.0 < before
    });
    let switched = group.is_some_and(|group| group.nvlink == NvLink::Switched);
    let mut remotes = Vec::new();
    for peer in &simulation.gpus {
        // A lost peer takes its end of the link down with it.
        let Ok(link) = simulation.host.plain().link(gpu, peer.index) else { continue };
        if switched && link.nvlinks > 0 {
            return Ok((0..link.nvlinks).map(|_| Remote::Switch).collect());
        }
        remotes.extend((0..link.nvlinks).map(|_| Remote::Gpu(peer.index)));
    }
    Ok(remotes)
}

fn remote(simulation: &Simulation, device: Handle, link: c_uint) -> Answer<Remote> {
    let gpu = simulation.gpu(device)?;
    let links = links(simulation, gpu)?;
    // A GPU without NVLink does not look at the number.
    if !links.is_empty() && link >= MOST_LINKS {
        return Err(HostFailure::InvalidArgument);
    }
    links.into_iter().nth(link as usize).ok_or(HostFailure::NotSupported)
}

nvml! {
    fn nvmlDeviceGetTopologyCommonAncestor(simulation, from: Handle, to: Handle, level: Out<c_uint>) {
        let (from, to) = (simulation.gpu(from)?, simulation.gpu(to)?);
        level.set(match said(simulation.host.link(from, to))?.pci {
            PciPath::SameBoard => 0,
            PciPath::OneSwitch => 10,
            PciPath::SeveralSwitches => 20,
            PciPath::HostBridge => 30,
            PciPath::SameNode => 40,
            PciPath::AcrossNodes => 50,
        })
    }

    fn nvmlDeviceGetNvLinkState(simulation, device: Handle, link: c_uint, active: Out<c_uint>) {
        remote(simulation, device, link)?;
        active.set(1)
    }

    fn nvmlDeviceGetNvLinkRemotePciInfo | nvmlDeviceGetNvLinkRemotePciInfo_v2(
        simulation, device: Handle, link: c_uint, pci: Out<nvmlPciInfo_t>,
    ) {
        match remote(simulation, device, link)? {
            Remote::Gpu(peer) => pci.set(gpu_pci_info(simulation.facts(peer)?)),
            Remote::Switch => {
                let address = PciAddress { domain: 0, bus: SWITCH_BUS + link as u8 % 6, device: 0 };
                pci.set(pci_info(address, PciId::nvidia(0).packed(), 0))
            }
        }
    }

    fn nvmlDeviceGetNvLinkRemoteDeviceType(simulation, device: Handle, link: c_uint, kind: Out<c_uint>) {
        match remote(simulation, device, link)? {
            Remote::Gpu(_) => kind.set(REMOTE_IS_GPU),
            Remote::Switch => kind.set(REMOTE_IS_SWITCH),
        }
    }
}
