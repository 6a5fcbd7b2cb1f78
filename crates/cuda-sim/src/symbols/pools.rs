//! Memory pools and allocation in streams.

use crate::abi::{In, Out, OutAny};
use crate::error::{Answer, Code};
use crate::handle::{Handle, Thing};
use crate::session::{Session, with};
use crate::stream::Zero;
use crate::structs::{Location, PoolProperties};
use crate::work::Work;
use std::ffi::c_int;

/// Allocates from a pool in a stream, or in a capture promises to.
fn allocate(
    session: &mut Session,
    bytes: usize,
    pool: Option<Handle>,
    stream: Handle,
    zero: Zero,
) -> Answer<u64> {
    let stream = session.stream(stream, zero)?;
    let Some(capture) = session.capture_for(stream)? else { return session.allocate_from_pool(pool, bytes) };
    let device = session.here()?.device;
    let before = session.allocation_again(capture);
    let Work::Allocate { address, .. } = before.map_or_else(|| session.promise(device, bytes), Ok)? else {
        return Err(Code::UNKNOWN);
    };
    let work = Work::Allocate { device, address, bytes: bytes as u64 };
    session.submit(stream, work)?;
    Ok(address)
}

/// The device that a location is; there are no pools but for pinned memory of devices.
fn device(location: In<Location>, kind: c_int) -> Answer<c_int> {
    let location = location.get()?;
    let supported = location.kind == Location::DEVICE && kind == 1;
    if supported { Ok(location.number) } else { Err(Code::NOT_SUPPORTED) }
}

export! {
    11020 fn cuDeviceGetDefaultMemPool(pool: Out<Handle>, device: c_int) {
        with(|session| pool.set(Handle::of(Thing::Pool(session.default_pool(device)?))))
    }

    11020 fn cuDeviceGetMemPool(pool: Out<Handle>, device: c_int) {
        with(|session| pool.set(Handle::of(Thing::Pool(session.current_pool(device)?))))
    }

    11020 fn cuDeviceSetMemPool(device: c_int, pool: Handle) {
        with(|session| session.set_current_pool(device, pool))
    }

    13000 fn cuMemGetDefaultMemPool(pool: Out<Handle>, location: In<Location>, kind: c_int) {
        with(|session| pool.set(Handle::of(Thing::Pool(session.default_pool(device(location, kind)?)?))))
    }

    13000 fn cuMemGetMemPool(pool: Out<Handle>, location: In<Location>, kind: c_int) {
        with(|session| pool.set(Handle::of(Thing::Pool(session.current_pool(device(location, kind)?)?))))
    }

    13000 fn cuMemSetMemPool(location: In<Location>, kind: c_int, pool: Handle) {
        with(|session| session.set_current_pool(device(location, kind)?, pool))
    }

    11020 fn cuMemPoolCreate(pool: Out<Handle>, properties: In<PoolProperties>) {
        with(|session| {
            let pool = pool.required()?;
            pool.set(session.create_pool(properties.get()?)?)
        })
    }

    11020 fn cuMemPoolDestroy(pool: Handle) { with(|session| session.destroy_pool(pool)) }

    11020 fn cuMemPoolTrimTo(pool: Handle, keep: usize) { with(|session| session.trim_pool(pool, keep)) }

    11020 fn cuMemPoolGetAttribute(pool: Handle, attribute: c_int, value: OutAny) {
        with(|session| match session.pool_attribute(pool, attribute)? {
            (number, true) => value.of::<c_int>().set(number as c_int),
            (number, false) => value.of::<u64>().set(number),
        })
    }

    11020 fn cuMemPoolSetAttribute(pool: Handle, attribute: c_int, value: OutAny) {
        with(|session| {
            let number = match session.pool_attribute(pool, attribute)? {
                (_, true) => value.of::<c_int>().get()? as u64,
                (_, false) => value.of::<u64>().get()?,
            };
            session.set_pool_attribute(pool, attribute, number)
        })
    }
}

export_pairs! {
    11020 fn cuMemAllocAsync / cuMemAllocAsync_ptsz(zero; address: Out<u64>, bytes: usize, stream: Handle) {
        with(|session| {
            let address = address.required()?;
            address.set(allocate(session, bytes, None, stream, zero)?)
        })
    }

    11020 fn cuMemAllocFromPoolAsync / cuMemAllocFromPoolAsync_ptsz(
        zero;
        address: Out<u64>,
        bytes: usize,
        pool: Handle,
        stream: Handle,
    ) {
        with(|session| {
            let address = address.required()?;
            address.set(allocate(session, bytes, Some(pool), stream, zero)?)
        })
    }

    11020 fn cuMemFreeAsync / cuMemFreeAsync_ptsz(zero; address: u64, stream: Handle) {
        with(|session| {
            let stream = session.stream(stream, zero)?;
            if address == 0 { Ok(()) } else { session.submit(stream, Work::Free(address)) }
        })
    }
}
