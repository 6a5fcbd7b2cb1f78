//! Arrays for textures: memory of a device whose addresses programs do not see.

use crate::error::{Answer, Code};
use crate::handle::{Handle, Numbered, Thing};
use crate::session::Session;
use crate::structs::{Array3DDescriptor, ArrayMapInfo};
use std::collections::BTreeMap;
use std::ffi::c_uint;

/// Where an array's memory lies.
#[derive(Debug)]
struct Array {
    /// None where memory is bound to its regions.
    address: Option<u64>,
    /// Regions with the physical memory that is bound to them.
    bound: BTreeMap<(c_uint, [u64; 4]), u32>,
}

/// Flags of arrays that have no memory before it is bound to them.
const WITHOUT_MEMORY: c_uint = 0x40 | 0x80;

/// All arrays of the process.
#[derive(Debug, Default)]
pub(crate) struct Arrays {
    plain: Numbered<Array>,
    mipmapped: Numbered<Array>,
}

/// Bytes of one element in one channel, for the formats that have channels.
fn element(format: c_uint) -> Answer<u64> {
    match format {
        0x01 | 0x08 => Ok(1),
        0x02 | 0x09 | 0x10 => Ok(2),
        0x03 | 0x0a | 0x20 => Ok(4),
        _ => Err(Code::INVALID_VALUE),
    }
}

/// Bytes of an array halved so many times in each direction. A dimension of 0 is not there.
fn bytes(shape: &Array3DDescriptor, level: c_uint) -> Answer<u64> {
    if shape.width == 0 || !matches!(shape.channels, 1 | 2 | 4) {
        return Err(Code::INVALID_VALUE);
    }
    let dimension = |length: usize| (length as u64).checked_shr(level).unwrap_or(0).max(1);
    [shape.width, shape.height, shape.depth]
        .into_iter()
        .map(dimension)
        .chain([u64::from(shape.channels), element(shape.format)?])
        .try_fold(1_u64, u64::checked_mul)
        .ok_or(Code::OUT_OF_MEMORY)
}

impl Session {
    fn allocate_array(&mut self, shape: &Array3DDescriptor, levels: c_uint) -> Answer<Array> {
        let here = self.here()?;
        self.refuse_while_capturing()?;
        let mut all = 0_u64;
        for level in 0..levels {
            all = all.checked_add(bytes(shape, level)?).ok_or(Code::OUT_OF_MEMORY)?;
        }
        if all == 0 {
            return Err(Code::INVALID_VALUE);
        }
        self.count_allocation()?;
        let bound_later = shape.flags & WITHOUT_MEMORY != 0;
        let address = if bound_later { None } else { Some(self.place(here, all)?) };
        Ok(Array { address, bound: BTreeMap::new() })
    }

    /// Makes an array.
    pub(crate) fn create_array(&mut self, shape: Array3DDescriptor) -> Answer<Handle> {
        let array = self.allocate_array(&shape, 1)?;
        Ok(Handle::of(Thing::Array(self.arrays.plain.add(array))))
    }

    /// Makes an array in several sizes, each half of the one before. No array can be halved more than 32 times.
    pub(crate) fn create_mipmap(&mut self, shape: Array3DDescriptor, levels: c_uint) -> Answer<Handle> {
        let array = self.allocate_array(&shape, levels.min(32))?;
        Ok(Handle::of(Thing::Mipmap(self.arrays.mipmapped.add(array))))
    }

    /// Ends an array of either kind. If its context has ended, its memory is gone already.
    pub(crate) fn destroy_array(&mut self, array: Handle) -> Answer {
        let array = match array.thing()? {
            Thing::Array(number) => self.arrays.plain.remove(number)?,
            Thing::Mipmap(number) => self.arrays.mipmapped.remove(number)?,
            _ => return Err(Code::INVALID_HANDLE),
        };
        for number in array.bound.into_values() {
            self.unmap_one(number)?;
        }
        array
            .address
            .map_or(Ok(()), |address| self.take_back(address))
            .map_err(|_| Code::CONTEXT_IS_DESTROYED)
    }

    /// Binds physical memory to a region of an array, or takes it away.
    pub(crate) fn bind(&mut self, binding: &ArrayMapInfo) -> Answer {
        let number = match binding.operation {
            1 => Some(self.map_one(binding.handle)?),
            2 => None,
            _ => return Err(Code::INVALID_VALUE),
        };
        let array = match binding.array.thing()? {
            Thing::Array(number) => self.arrays.plain.get_mut(number)?,
            Thing::Mipmap(number) => self.arrays.mipmapped.get_mut(number)?,
            _ => return Err(Code::INVALID_HANDLE),
        };
        let region = (binding.subresource, binding.region);
        let before = match number {
            Some(number) => array.bound.insert(region, number),
            None => array.bound.remove(&region),
        };
        before.map_or(Ok(()), |number| self.unmap_one(number))
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;
    use crate::structs::Array3DDescriptor;

    #[test]
    fn sizes_are_products_and_halve_with_each_level() {
        let shape = |width, height, depth, format, channels| {
            Array3DDescriptor::new([width, height, depth], format, channels)
        };
        assert_eq!(bytes(&shape(1024, 0, 0, 0x20, 4), 0), Ok(16384));
        assert_eq!(bytes(&shape(8, 4, 2, 0x10, 1), 0), Ok(128));
        assert_eq!(bytes(&shape(8, 4, 2, 0x10, 1), 1), Ok(16));
        assert_eq!(bytes(&shape(8, 4, 2, 0x10, 1), 9), Ok(2));
        assert!(bytes(&shape(8, 4, 2, 0x10, 3), 0).is_err());
        assert!(bytes(&shape(0, 4, 2, 0x10, 1), 0).is_err());
        assert!(bytes(&shape(8, 4, 2, 0x11, 1), 0).is_err());
        assert!(bytes(&shape(usize::MAX, 4, 2, 0x20, 4), 0).is_err());
    }
}
