//! Calls about the ways between GPUs.

use super::device::empty_pci;
use super::{Answer, Calls, Device, call, or_older};
use nvml_wrapper_sys::bindings::nvmlPciInfo_t;

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
}
