//! Calls about the ways between GPUs.

use super::device::empty_pci;
use super::{Answer, Calls, Device, VERSION_MISMATCH, call, or_older, struct_version};
use carve_gpu_host::HostFailure;
use nvml_wrapper_sys::bindings::{
    NVML_GPU_FABRIC_STATE_COMPLETED, nvmlGpuFabricInfo_t, nvmlGpuFabricInfo_v2_t, nvmlPciInfo_t,
};

/// What the driver tells about a GPU and its fabric.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Membership {
    pub(crate) cluster: [u8; 16],
    pub(crate) clique: u32,
    /// Whether the fabric manager is done with the GPU, and without an error.
    pub(crate) taken_in: bool,
}

impl Calls {
    /// NVML's level of the nearest common ancestor on PCI.
    pub(crate) fn common_ancestor(&self, from: Device, to: Device) -> Answer<u32> {
        let mut level = 0;
        call!(self, nvmlDeviceGetTopologyCommonAncestor(from.0, to.0, &mut level))?;
        Ok(level)
    }

    /// Whether an NVLink is up.
    pub(crate) fn nvlink_is_up(&self, device: Device, link: u32) -> Answer<bool> {
        let mut state = 0;
        call!(self, nvmlDeviceGetNvLinkState(device.0, link, &mut state))?;
        Ok(state != 0)
    }

    /// What kind of thing is at the other end.
    pub(crate) fn nvlink_remote_kind(&self, device: Device, link: u32) -> Answer<u32> {
        let mut kind = 0;
        call!(self, nvmlDeviceGetNvLinkRemoteDeviceType(device.0, link, &mut kind))?;
        Ok(kind)
    }

    /// Where the other end sits.
    pub(crate) fn nvlink_remote_pci(&self, device: Device, link: u32) -> Answer<nvmlPciInfo_t> {
        let mut info = empty_pci();
        or_older(call!(self, nvmlDeviceGetNvLinkRemotePciInfo_v2(device.0, link, &mut info)), || {
            call!(self, nvmlDeviceGetNvLinkRemotePciInfo(device.0, link, &mut info))
        })?;
        Ok(info)
    }

    /// Which fabric a GPU belongs to. The second form of the answer is asked for, because the third came later and tells
    /// no more of what is needed here.
    pub(crate) fn fabric(&self, device: Device) -> Answer<Membership> {
        let mut info = nvmlGpuFabricInfo_v2_t {
            version: struct_version::<nvmlGpuFabricInfo_v2_t>(2),
            clusterUuid: [0; 16],
            status: 0,
            cliqueId: 0,
            state: 0,
            healthMask: 0,
        };
        // The library looks at the version before it writes, so the shorter struct is large enough for it.
        let newer = call!(self, nvmlDeviceGetGpuFabricInfoV(device.0, (&raw mut info).cast()));
        match newer {
            Err(HostFailure::FunctionNotFound | VERSION_MISMATCH) => self.fabric_in_first_form(device),
            answer => answer
                .map(|()| membership(info.clusterUuid, info.cliqueId, u32::from(info.state), info.status)),
        }
    }

    fn fabric_in_first_form(&self, device: Device) -> Answer<Membership> {
        let mut info = nvmlGpuFabricInfo_t { clusterUuid: [0; 16], status: 0, cliqueId: 0, state: 0 };
        call!(self, nvmlDeviceGetGpuFabricInfo(device.0, &mut info))?;
        Ok(membership(info.clusterUuid, info.cliqueId, u32::from(info.state), info.status))
    }
}

/// The status counts only once the state says that the fabric manager is done.
fn membership(cluster: [u8; 16], clique: u32, state: u32, status: u32) -> Membership {
    Membership { cluster, clique, taken_in: state == NVML_GPU_FABRIC_STATE_COMPLETED && status == 0 }
}
