//! Handles: what they mean is written into their value, so that a stale one is harmless.
//!
//! A handle is never followed as a pointer. It lies at one tebibyte, where neither C's heap nor Go's is, because Go
//! refuses to keep small numbers in a pointer and gets confused by pointers into its own heap.

use crate::session::Answer;
use carve_gpu_host::HostFailure;
use carve_gpu_model::{ComputeInstanceId, GpuIndex, GpuInstanceId};

/// What C holds for a GPU, an instance, a MIG device or a set of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Handle(usize);

/// What a handle stands for, whether or not it exists any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Thing {
    Gpu(GpuIndex),
    MigDevice(GpuIndex, GpuInstanceId, ComputeInstanceId),
    GpuInstance(GpuIndex, GpuInstanceId),
    ComputeInstance(GpuIndex, GpuInstanceId, ComputeInstanceId),
    EventSet(u32),
    Sample(u32),
}

const BASE: usize = 1 << 40;
const LOW: usize = 0xFFFF_FFFF;

impl Handle {
    /// The handle of a thing.
    pub(crate) fn of(thing: Thing) -> Self {
        let pack = |kind: u8, gpu: GpuIndex, instance: u32, compute: u32| {
            u32::from_be_bytes([kind, gpu.0 as u8, instance as u8, compute as u8])
        };
        let low = match thing {
            Thing::Gpu(gpu) => pack(1, gpu, 0, 0),
            Thing::MigDevice(gpu, instance, compute) => pack(2, gpu, instance.0, compute.0),
            Thing::GpuInstance(gpu, instance) => pack(3, gpu, instance.0, 0),
            Thing::ComputeInstance(gpu, instance, compute) => pack(4, gpu, instance.0, compute.0),
            Thing::EventSet(number) => (5 << 24) | (number & 0xFF_FFFF),
            Thing::Sample(number) => (6 << 24) | (number & 0xFF_FFFF),
        };
        Handle(BASE | low as usize)
    }

    /// What the handle stands for; any other value is not one of ours.
    pub(crate) fn thing(self) -> Answer<Thing> {
        if self.0 & !LOW != BASE {
            return Err(HostFailure::InvalidArgument);
        }
        let low = (self.0 & LOW) as u32;
        let [kind, gpu, instance, compute] = low.to_be_bytes();
        let gpu = GpuIndex(u32::from(gpu));
        let instance = GpuInstanceId(u32::from(instance));
        let compute = ComputeInstanceId(u32::from(compute));
        Ok(match kind {
            1 => Thing::Gpu(gpu),
            2 => Thing::MigDevice(gpu, instance, compute),
            3 => Thing::GpuInstance(gpu, instance),
            4 => Thing::ComputeInstance(gpu, instance, compute),
            5 => Thing::EventSet(low & 0xFF_FFFF),
            6 => Thing::Sample(low & 0xFF_FFFF),
            _ => return Err(HostFailure::InvalidArgument),
        })
    }

    /// The handle as it stands inside NVML's structs.
    pub(crate) fn pointer<T>(self) -> *mut T {
        std::ptr::without_provenance_mut(self.0)
    }
}
