//! Device memory: what is free, what is allocated, and copies to and from the host.

use crate::error::{Answer, Code};
use crate::pages::Pages;
use crate::session::Session;
use carve_gpu_model::Mebibytes;
use std::collections::BTreeMap;

/// Allocations begin at multiples of this and take up multiples of it, as the driver's do at the least.
const GRAIN: u64 = 512;

/// Addresses of a device begin here, far from those of the process; each device has 2^44 bytes of them.
const FIRST_ADDRESS: u64 = 1 << 60;

/// What a context has allocated.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Taken by the context itself and by its allocations.
    taken: u64,
    next_address: u64,
    allocations: BTreeMap<u64, Pages>,
}

impl Memory {
    /// The memory of a context on a device that itself takes some.
    pub(crate) fn new(ordinal: u32, taken: u64) -> Self {
        let next_address = FIRST_ADDRESS + (u64::from(ordinal) << 44);
        Memory { taken, next_address, allocations: BTreeMap::new() }
    }

    /// The allocation that so many bytes at an address lie in, and where in it.
    fn at(&mut self, address: u64, length: usize) -> Option<(&mut Pages, u64)> {
        let (start, pages) = self.allocations.range_mut(..=address).next_back()?;
        let offset = address - start;
        pages.holds(offset, length).then_some((pages, offset))
    }

    /// Copies out of device memory.
    pub(crate) fn read(&mut self, address: u64, to: &mut [u8]) -> Option<()> {
        let (pages, offset) = self.at(address, to.len())?;
        pages.read(offset, to);
        Some(())
    }

    /// Copies into device memory.
    pub(crate) fn write(&mut self, address: u64, from: &[u8]) -> Option<()> {
        let (pages, offset) = self.at(address, from.len())?;
        pages.write(offset, from);
        Some(())
    }
}

fn grains(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(GRAIN)
}

impl Session {
    /// What can still be allocated on a device: what nobody holds of it, or of the client's limit if that is less.
    pub(crate) fn free(&self, ordinal: u32) -> Answer<u64> {
        let device = self.devices.get(ordinal as usize).ok_or(Code::INVALID_DEVICE)?;
        let taken = self.contexts.get(&ordinal).map_or(0, |context| context.memory.taken);
        let of_device = device.memory.saturating_sub(self.held_by_others(device)?);
        let limit = self.limits.pinned_mib.map_or(u64::MAX, |limit| Mebibytes(limit).bytes().0);
        Ok(of_device.min(limit).saturating_sub(taken))
    }

    /// Free and total bytes of the current context's device. A client's limit shows in what is free alone.
    pub(crate) fn memory_info(&mut self) -> Answer<(usize, usize)> {
        let (ordinal, _) = self.current()?;
        let total = self.devices.get(ordinal as usize).ok_or(Code::INVALID_DEVICE)?.memory;
        Ok((self.free(ordinal)? as usize, total as usize))
    }

    /// Allocates in the current context.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Answer<u64> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let (ordinal, _) = self.current()?;
        let free = self.free(ordinal)?;
        let size = grains(bytes as u64).filter(|size| *size <= free).ok_or(Code::OUT_OF_MEMORY)?;
        let (_, context) = self.current()?;
        let memory = &mut context.memory;
        let address = memory.next_address;
        // One grain between allocations, so that what runs over the end of one hits nothing.
        memory.next_address = address + size + GRAIN;
        memory.taken += size;
        memory.allocations.insert(address, Pages::new(bytes as u64));
        Ok(address)
    }

    /// Gives an allocation of the current context back; address 0 is no allocation and no mistake.
    pub(crate) fn free_allocation(&mut self, address: u64) -> Answer {
        let (_, context) = self.current()?;
        if address == 0 {
            return Ok(());
        }
        let pages = context.memory.allocations.remove(&address).ok_or(Code::INVALID_VALUE)?;
        context.memory.taken -= grains(pages.length()).unwrap_or_default();
        Ok(())
    }

    /// Copies to the device.
    pub(crate) fn copy_in(&mut self, to: u64, from: &[u8]) -> Answer {
        let (_, context) = self.current()?;
        context.memory.write(to, from).ok_or(Code::INVALID_VALUE)
    }

    /// Copies from the device.
    pub(crate) fn copy_out(&mut self, to: &mut [u8], from: u64) -> Answer {
        let (_, context) = self.current()?;
        context.memory.read(from, to).ok_or(Code::INVALID_VALUE)
    }
}
