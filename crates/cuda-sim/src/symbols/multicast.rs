//! Multicast objects: memory that is bound to them stays as long as they do.

use crate::abi::{In, Out};
use crate::error::Code;
use crate::handle::Handle;
use crate::session::with;
use crate::structs::MulticastProperties;
use std::ffi::c_int;

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
        with(|session| match (from, flags) {
            (0, 0) => session.bind_to_multicast(Handle::from_value(object), offset, handle),
            _ => Err(Code::INVALID_VALUE),
        })
    }

    12010 fn cuMulticastBindAddr(object: u64, offset: usize, address: u64, _size: usize, flags: u64) {
        with(|session| {
            if flags != 0 {
                return Err(Code::INVALID_VALUE);
            }
            let handle = session.retain_physical(address)?.value() as u64;
            let answer = session.bind_to_multicast(Handle::from_value(object), offset, handle);
            session.release_physical(handle)?;
            answer
        })
    }

    12010 fn cuMulticastUnbind(object: u64, device: c_int, offset: usize, _size: usize) {
        with(|session| session.unbind_from_multicast(Handle::from_value(object), device, offset))
    }
}
