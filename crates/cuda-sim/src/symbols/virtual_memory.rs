//! Physical memory, addresses, and mapping one at the other.

use crate::abi::{HostMemory, In, Out, OutAny};
use crate::error::Code;
use crate::physical::GRANULARITY;
use crate::session::with;
use crate::structs::{Access, AllocationProperties, Location};
use std::ffi::{c_int, c_uint};

export! {
    10020 fn cuMemGetAllocationGranularity(
        bytes: Out<usize>,
        properties: In<AllocationProperties>,
        option: c_uint,
    ) {
        with(|_| {
            properties.get()?;
            if option > 1 { Err(Code::INVALID_VALUE) } else { bytes.set(GRANULARITY as usize) }
        })
    }

    10020 fn cuMemCreate(handle: Out<u64>, size: usize, properties: In<AllocationProperties>, flags: u64) {
        with(|session| {
            let (handle, properties) = (handle.required()?, properties.get()?);
            if flags != 0 {
                return Err(Code::INVALID_VALUE);
            }
            handle.set(session.create_physical(size, properties)?.value() as u64)
        })
    }

    10020 fn cuMemRelease(handle: u64) { with(|session| session.release_physical(handle)) }

    11000 fn cuMemRetainAllocationHandle(handle: Out<u64>, address: HostMemory) {
        with(|session| {
            let handle = handle.required()?;
            handle.set(session.retain_physical(address.address())?.value() as u64)
        })
    }

    10020 fn cuMemGetAllocationPropertiesFromHandle(properties: Out<AllocationProperties>, handle: u64) {
        with(|session| properties.set(session.physical_properties(handle)?))
    }

    10020 fn cuMemAddressReserve(address: Out<u64>, size: usize, alignment: usize, _wish: u64, flags: u64) {
        with(|session| {
            let address = address.required()?;
            if flags != 0 {
                return Err(Code::INVALID_VALUE);
            }
            address.set(session.reserve_addresses(size, alignment)?)
        })
    }

    10020 fn cuMemAddressFree(address: u64, size: usize) {
        with(|session| session.free_addresses(address, size))
    }

    10020 fn cuMemMap(address: u64, size: usize, offset: usize, handle: u64, flags: u64) {
        with(|session| {
            if flags != 0 { Err(Code::INVALID_VALUE) } else { session.map(address, size, offset, handle) }
        })
    }

    10020 fn cuMemUnmap(address: u64, size: usize) { with(|session| session.unmap(address, size)) }

    10020 fn cuMemSetAccess(address: u64, size: usize, access: In<Access>, count: usize) {
        with(|session| session.set_access(address, size, &access.list(count)?))
    }

    10020 fn cuMemGetAccess(flags: Out<u64>, location: In<Location>, address: u64) {
        with(|session| {
            location.get()?;
            flags.set(session.access(address)?)
        })
    }

    10020 fn cuMemExportToShareableHandle(shareable: OutAny, handle: u64, kind: c_int, _flags: u64) {
        with(|session| shareable.of::<c_int>().set(session.export(handle, kind)?))
    }

    10020 fn cuMemImportFromShareableHandle(handle: Out<u64>, shareable: usize, kind: c_int) {
        with(|session| {
            let handle = handle.required()?;
            handle.set(session.import(shareable, kind)?.value() as u64)
        })
    }
}
