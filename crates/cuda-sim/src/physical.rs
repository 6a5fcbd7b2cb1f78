//! Physical memory and addresses apart from each other: made, reserved, mapped, shared, let go.

use crate::error::{Answer, Code};
use crate::handle::{Handle, Numbered, Thing};
use crate::pages::Pages;
use crate::session::Session;
use crate::structs::{Access, AllocationProperties, Location};
use std::collections::BTreeMap;
use std::ffi::c_int;

/// Sizes and addresses are multiples of this.
pub(crate) const GRANULARITY: u64 = 2 << 20;

/// Descriptors that stand for exported memory begin here, far above those of files.
const FIRST_DESCRIPTOR: c_int = 1 << 28;

/// The kind of handle that is a file descriptor.
const DESCRIPTOR: c_int = 1;

/// Memory that may be mapped at several addresses.
#[derive(Debug)]
struct Physical {
    /// `None` for memory of the host, which counts against no device.
    device: Option<u32>,
    size: u64,
    pages: Pages,
    /// Handles that the program has of it.
    handles: u32,
    mappings: u32,
    properties: AllocationProperties,
}

/// Memory at an address.
#[derive(Debug, Clone, Copy)]
struct Mapping {
    size: u64,
    offset: u64,
    physical: u32,
    access: bool,
}

/// All of both, of the process.
#[derive(Debug, Default)]
pub(crate) struct Virtual {
    physical: Numbered<Physical>,
    reserved: BTreeMap<u64, u64>,
    mappings: BTreeMap<u64, Mapping>,
}

fn is_whole(number: u64) -> bool {
    number.is_multiple_of(GRANULARITY)
}

impl Virtual {
    /// The pages that so many bytes at a mapped address lie in, and where in them. Whether anybody may touch them was
    /// said by `cuMemSetAccess`.
    pub(crate) fn at(&mut self, address: u64, length: usize) -> Option<(&mut Pages, u64)> {
        let (start, mapping) = self.mappings.range(..=address).next_back()?;
        let inside = (address - start).checked_add(length as u64).is_some_and(|end| end <= mapping.size);
        if !inside || !mapping.access {
            return None;
        }
        let offset = mapping.offset + (address - start);
        Some((&mut self.physical.get_mut(mapping.physical).ok()?.pages, offset))
    }

    /// The mapping that an address lies in: where it begins, how long it is, and the device.
    pub(crate) fn mapping(&self, address: u64) -> Option<(u64, u64, Option<u32>)> {
        let (start, mapping) = self.mappings.range(..=address).next_back()?;
        let device = self.physical.get(mapping.physical).ok()?.device;
        (address - start < mapping.size).then_some((*start, mapping.size, device))
    }
}

impl Session {
    /// Makes physical memory.
    pub(crate) fn create_physical(
        &mut self,
        size: usize,
        properties: AllocationProperties,
    ) -> Answer<Handle> {
        let size = size as u64;
        if size == 0 || !is_whole(size) || properties.kind == 0 {
            return Err(Code::INVALID_VALUE);
        }
        self.count_allocation()?;
        let device = match properties.location.kind {
            Location::DEVICE => Some(self.ordinal(properties.location.number)?),
            2..=4 => None,
            _ => return Err(Code::INVALID_VALUE),
        };
        if let Some(device) = device {
            self.charge(device, size)?;
        }
        let pages = Pages::new(size);
        let physical = Physical { device, size, pages, handles: 1, mappings: 0, properties };
        Ok(Handle::of(Thing::Physical(self.mapped.physical.add(physical))))
    }

    fn physical_number(&self, handle: u64) -> Answer<u32> {
        match Handle::from_value(handle).thing() {
            Ok(Thing::Physical(number)) if self.mapped.physical.get(number).is_ok() => Ok(number),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// How physical memory was made.
    pub(crate) fn physical_properties(&self, handle: u64) -> Answer<AllocationProperties> {
        Ok(self.mapped.physical.get(self.physical_number(handle)?)?.properties)
    }

    /// Lets go of a handle; memory without handles and mappings is free.
    pub(crate) fn release_physical(&mut self, handle: u64) -> Answer {
        if let Ok(Thing::Multicast(number)) = Handle::from_value(handle).thing() {
            return self.release_multicast(number);
        }
        let number = self.physical_number(handle)?;
        let physical = self.mapped.physical.get_mut(number)?;
        physical.handles = physical.handles.checked_sub(1).ok_or(Code::INVALID_VALUE)?;
        self.drop_unused(number)
    }

    /// The device whose memory it is; none where it is the host's.
    pub(crate) fn device_of_physical(&self, handle: u64) -> Answer<Option<u32>> {
        Ok(self.mapped.physical.get(self.physical_number(handle)?)?.device)
    }

    /// One more place keeps physical memory.
    pub(crate) fn map_one(&mut self, handle: u64) -> Answer<u32> {
        let number = self.physical_number(handle)?;
        self.mapped.physical.get_mut(number)?.mappings += 1;
        Ok(number)
    }

    /// One fewer.
    pub(crate) fn unmap_one(&mut self, number: u32) -> Answer {
        self.mapped.physical.get_mut(number)?.mappings -= 1;
        self.drop_unused(number)
    }

    fn drop_unused(&mut self, number: u32) -> Answer {
        let physical = self.mapped.physical.get(number)?;
        if physical.handles > 0 || physical.mappings > 0 {
            return Ok(());
        }
        let physical = self.mapped.physical.remove(number)?;
        if let Some(device) = physical.device {
            self.refund(device, physical.size);
        }
        Ok(())
    }

    /// One more handle of what is mapped at an address.
    pub(crate) fn retain_physical(&mut self, address: u64) -> Answer<Handle> {
        let found = self.mapped.mappings.range(..=address).next_back();
        let (_, mapping) =
            found.filter(|(start, mapping)| address - *start < mapping.size).ok_or(Code::INVALID_VALUE)?;
        let number = mapping.physical;
        self.mapped.physical.get_mut(number)?.handles += 1;
        Ok(Handle::of(Thing::Physical(number)))
    }

    /// Sets addresses aside.
    pub(crate) fn reserve_addresses(&mut self, size: usize, alignment: usize) -> Answer<u64> {
        let (size, alignment) = (size as u64, alignment as u64);
        if size == 0 || !is_whole(size) || (alignment != 0 && !alignment.is_power_of_two()) {
            return Err(Code::INVALID_VALUE);
        }
        let address = self.memory.addresses(size, alignment.max(GRANULARITY))?;
        self.mapped.reserved.insert(address, size);
        Ok(address)
    }

    /// Gives addresses back at which nothing is mapped any more.
    pub(crate) fn free_addresses(&mut self, address: u64, size: usize) -> Answer {
        let size = size as u64;
        let mapped = self.mapped.mappings.range(address..address.saturating_add(size)).next().is_some();
        if self.mapped.reserved.get(&address) != Some(&size) || mapped {
            return Err(Code::INVALID_VALUE);
        }
        self.mapped.reserved.remove(&address);
        Ok(())
    }

    /// Maps memory at an address that was set aside.
    pub(crate) fn map(&mut self, address: u64, size: usize, offset: usize, handle: u64) -> Answer {
        let (size, offset) = (size as u64, offset as u64);
        let physical = self.physical_number(handle)?;
        let reserved = self.mapped.reserved.range(..=address).next_back();
        let reserved = reserved.is_some_and(|(start, length)| {
            (address - start).checked_add(size).is_some_and(|end| end <= *length)
        });
        // The real driver refuses any other offset.
        if size == 0 || !is_whole(size) || !is_whole(address) || offset != 0 || !reserved {
            return Err(Code::INVALID_VALUE);
        }
        if size > self.mapped.physical.get(physical)?.size {
            return Err(Code::INVALID_VALUE);
        }
        let below = self.mapped.mappings.range(..address + size).next_back();
        if below.is_some_and(|(start, mapping)| start + mapping.size > address) {
            return Err(Code::ALREADY_MAPPED);
        }
        self.mapped.mappings.insert(address, Mapping { size, offset, physical, access: false });
        self.mapped.physical.get_mut(physical)?.mappings += 1;
        Ok(())
    }

    /// The mappings that make up a stretch of addresses exactly.
    fn mappings_of(&self, address: u64, size: u64) -> Answer<Vec<u64>> {
        let end = address.checked_add(size).ok_or(Code::INVALID_VALUE)?;
        let (mut at, mut found) = (address, Vec::new());
        while at < end {
            let mapping = self.mapped.mappings.get(&at).ok_or(Code::INVALID_VALUE)?;
            found.push(at);
            at += mapping.size;
        }
        if at == end && !found.is_empty() { Ok(found) } else { Err(Code::INVALID_VALUE) }
    }

    /// Takes memory away from its addresses.
    pub(crate) fn unmap(&mut self, address: u64, size: usize) -> Answer {
        for start in self.mappings_of(address, size as u64)? {
            let mapping = self.mapped.mappings.remove(&start).ok_or(Code::UNKNOWN)?;
            self.unmap_one(mapping.physical)?;
        }
        Ok(())
    }

    /// Says who may touch mapped memory.
    pub(crate) fn set_access(&mut self, address: u64, size: usize, access: &[Access]) -> Answer {
        let starts = self.mappings_of(address, size as u64)?;
        for start in starts {
            if let (Some(mapping), Some(last)) = (self.mapped.mappings.get_mut(&start), access.last()) {
                mapping.access = last.flags != 0;
            }
        }
        Ok(())
    }

    /// Whether mapped memory may be touched, in CUDA's words: 0 not at all, 3 read and written.
    pub(crate) fn access(&self, address: u64) -> Answer<u64> {
        let found = self.mapped.mappings.range(..=address).next_back();
        let (_, mapping) =
            found.filter(|(start, mapping)| address - *start < mapping.size).ok_or(Code::INVALID_VALUE)?;
        Ok(if mapping.access { 3 } else { 0 })
    }

    /// A descriptor that stands for physical memory inside this process.
    pub(crate) fn export(&self, handle: u64, kind: c_int) -> Answer<c_int> {
        let number = self.physical_number(handle)?;
        let allowed = self.mapped.physical.get(number)?.properties.handle_types & kind != 0;
        if kind != DESCRIPTOR || !allowed {
            return Err(Code::INVALID_VALUE);
        }
        c_int::try_from(number).map(|number| FIRST_DESCRIPTOR + number).map_err(|_| Code::UNKNOWN)
    }

    /// One more handle of the memory that a descriptor stands for.
    pub(crate) fn import(&mut self, descriptor: usize, kind: c_int) -> Answer<Handle> {
        let number = c_int::try_from(descriptor).ok().and_then(|number| number.checked_sub(FIRST_DESCRIPTOR));
        let number = number.and_then(|number| u32::try_from(number).ok()).ok_or(Code::INVALID_VALUE)?;
        if kind != DESCRIPTOR {
            return Err(Code::INVALID_VALUE);
        }
        self.mapped.physical.get_mut(number).map_err(|_| Code::INVALID_VALUE)?.handles += 1;
        Ok(Handle::of(Thing::Physical(number)))
    }
}
