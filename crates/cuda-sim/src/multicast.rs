//! Multicast objects: places for memory of several devices, which they keep.

use crate::error::{Answer, Code};
use crate::handle::{Handle, Thing};
use crate::session::Session;
use crate::structs::MulticastProperties;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;

/// An object. Nothing reads or writes through it here.
#[derive(Debug, Default)]
pub(crate) struct Multicast {
    most: u32,
    devices: BTreeSet<u32>,
    /// Physical memory by device and offset.
    bound: BTreeMap<(u32, usize), u32>,
}

impl Session {
    fn multicast(&mut self, object: Handle) -> Answer<&mut Multicast> {
        let Thing::Multicast(number) = object.thing()? else { return Err(Code::INVALID_VALUE) };
        self.multicasts.get_mut(number)
    }

    /// Makes an object for a number of devices.
    pub(crate) fn create_multicast(&mut self, properties: MulticastProperties) -> Answer<Handle> {
        if properties.devices == 0 || properties.size == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let object = Multicast { most: properties.devices, ..Multicast::default() };
        Ok(Handle::of(Thing::Multicast(self.multicasts.add(object))))
    }

    /// Lets a device take part.
    pub(crate) fn add_to_multicast(&mut self, object: Handle, ordinal: c_int) -> Answer {
        let device = self.ordinal(ordinal)?;
        let object = self.multicast(object)?;
        if object.devices.len() as u32 >= object.most || !object.devices.insert(device) {
            return Err(Code::INVALID_VALUE);
        }
        Ok(())
    }

    /// Binds physical memory, in the place of its device. Memory of the host takes the place of a device that is told, which for
    /// memory of a device must be its own.
    pub(crate) fn bind_to_multicast(
        &mut self,
        object: Handle,
        told: Option<c_int>,
        offset: usize,
        handle: u64,
    ) -> Answer {
        let told = told.map(|ordinal| self.ordinal(ordinal)).transpose()?;
        let device = match (self.device_of_physical(handle)?, told) {
            (Some(own), Some(told)) if own != told => return Err(Code::INVALID_VALUE),
            (own, told) => own.or(told).ok_or(Code::INVALID_VALUE)?,
        };
        let place = (device, offset);
        let found = self.multicast(object)?;
        if !found.devices.contains(&device) || found.bound.contains_key(&place) {
            return Err(Code::INVALID_VALUE);
        }
        let number = self.map_one(handle)?;
        self.multicast(object)?.bound.insert(place, number);
        Ok(())
    }

    /// Takes it away.
    pub(crate) fn unbind_from_multicast(&mut self, object: Handle, ordinal: c_int, offset: usize) -> Answer {
        let device = self.ordinal(ordinal)?;
        let bound = self.multicast(object)?.bound.remove(&(device, offset));
        self.unmap_one(bound.ok_or(Code::INVALID_VALUE)?)
    }

    /// Ends an object, which lets go of what is bound to it.
    pub(crate) fn release_multicast(&mut self, number: u32) -> Answer {
        let object = self.multicasts.remove(number)?;
        object.bound.into_values().try_for_each(|number| self.unmap_one(number))
    }
}
