//! Multicast objects: memory that is bound to them stays as long as they do.

use crate::abi::{In, Out};
use crate::error::{Answer, Code};
use crate::handle::Handle;
use crate::session::{Session, with};
use crate::structs::MulticastProperties;
use std::ffi::c_int;

fn bind(
    session: &mut Session,
    object: u64,
    device: Option<c_int>,
    offset: usize,
    (handle, from): (u64, usize),
    flags: u64,
) -> Answer {
    match (from, flags) {
        (0, 0) => session.bind_to_multicast(Handle::from_value(object), device, offset, handle),
        _ => Err(Code::INVALID_VALUE),
    }
}

fn bind_address(
    session: &mut Session,
    object: u64,
    device: Option<c_int>,
    offset: usize,
    address: u64,
    flags: u64,
) -> Answer {
    let handle = session.retain_physical(address)?.value() as u64;
    let answer = bind(session, object, device, offset, (handle, 0), flags);
    session.release_physical(handle)?;
    answer
}

export! {
    12010 fn cuMulticastCreate(object: Out<u64>, properties: In<MulticastProperties>) {
        with(|session| {
            let object = object.required()?;
            object.set(session.create_multicast(properties.get()?)?.value() as u64)
        })
    }

    12010 fn cuMulticastAddDevice(object: u64, device: c_int) {
        with(|session| session.add_to_multicast(Handle::from_value(object), device))
    }

    12010 fn cuMulticastBindMem(object: u64, offset: usize, handle: u64, from: usize, _size: usize, flags: u64) {
        with(|session| bind(session, object, None, offset, (handle, from), flags))
    }

    13010 fn cuMulticastBindMem_v2(
        object: u64,
        device: c_int,
        offset: usize,
        handle: u64,
        from: usize,
        _size: usize,
        flags: u64,
    ) {
        with(|session| bind(session, object, Some(device), offset, (handle, from), flags))
    }

    12010 fn cuMulticastBindAddr(object: u64, offset: usize, address: u64, _size: usize, flags: u64) {
        with(|session| bind_address(session, object, None, offset, address, flags))
    }

    13010 fn cuMulticastBindAddr_v2(
        object: u64,
        device: c_int,
        offset: usize,
        address: u64,
        _size: usize,
        flags: u64,
    ) {
        with(|session| bind_address(session, object, Some(device), offset, address, flags))
    }

    12010 fn cuMulticastUnbind(object: u64, device: c_int, offset: usize, _size: usize) {
        with(|session| session.unbind_from_multicast(Handle::from_value(object), device, offset))
    }
}
