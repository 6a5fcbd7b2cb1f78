//! The ways between GPUs: over PCI, by NVLink directly or through switches, and in a fabric over several machines.

use crate::Nvml;
use crate::call::{Answer, Device};
use crate::facts::address;
use carve_gpu_host::{CliqueId, ClusterUuid, Fabric, HostFailure, Link, PciPath};
use carve_gpu_model::{GpuIndex, PciAddress};

/// NVML's own limit.
const MOST_LINKS: u32 = 18;
/// NVML's number for a switch at the other end.
const SWITCH: u32 = 2;

/// NVLinks of one GPU: those straight to another GPU, and those to switches.
#[derive(Debug, Default)]
struct Links {
    direct: Vec<PciAddress>,
    to_switches: u32,
}

impl Nvml {
    pub(crate) fn link_between(&self, from: GpuIndex, to: GpuIndex) -> Answer<Link> {
        let (a, b) = (self.device(from)?, self.device(to)?);
        if from == to {
            return Ok(Link { pci: PciPath::SameBoard, nvlinks: 0 });
        }
        let pci = match self.calls.common_ancestor(a, b)? {
            0 => PciPath::SameBoard,
            1..=10 => PciPath::OneSwitch,
            11..=20 => PciPath::SeveralSwitches,
            21..=30 => PciPath::HostBridge,
            31..=40 => PciPath::SameNode,
            _ => PciPath::AcrossNodes,
        };
        Ok(Link { pci, nvlinks: self.nvlinks(a, b)? })
    }

    /// A GPU belongs to a fabric once the fabric manager has taken it in without an error.
    pub(crate) fn fabric_of(&self, device: Device) -> Answer<Option<Fabric>> {
        let membership = absent_is(self.calls.fabric(device).map(Some), None)?;
        Ok(membership.filter(|told| told.taken_in).and_then(|told| {
            Some(Fabric { cluster: ClusterUuid::new(told.cluster)?, clique: CliqueId(told.clique) })
        }))
    }

    /// Through switches, as many links lead from one to the other as the one with fewer has.
    fn nvlinks(&self, a: Device, b: Device) -> Answer<u32> {
        let here = self.links(a)?;
        let there = address(&self.calls.pci(b)?);
        let direct = here.direct.iter().filter(|remote| **remote == there).count() as u32;
        if direct > 0 || here.to_switches == 0 {
            return Ok(direct);
        }
        Ok(here.to_switches.min(self.links(b)?.to_switches))
    }

    fn links(&self, device: Device) -> Answer<Links> {
        let mut links = Links::default();
        for link in 0..MOST_LINKS {
            let up = self.calls.nvlink_is_up(device, link);
            if !absent_is(up, false)? {
                continue;
            }
            if absent_is(self.calls.nvlink_remote_kind(device, link), u32::MAX)? == SWITCH {
                links.to_switches += 1;
            } else if let Some(remote) =
                absent_is(self.calls.nvlink_remote_pci(device, link).map(Some), None)?
            {
                links.direct.push(address(&remote));
            }
        }
        Ok(links)
    }
}

/// A GPU without NVLink and a driver without the question both mean that there is none.
fn absent_is<T>(answer: Answer<T>, instead: T) -> Answer<T> {
    match answer {
        Err(HostFailure::NotSupported | HostFailure::InvalidArgument | HostFailure::FunctionNotFound) => {
            Ok(instead)
        }
        answer => answer,
    }
}
