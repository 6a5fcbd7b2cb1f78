//! Devices.

use crate::abi::Out;
use crate::session::with;
use std::ffi::{c_char, c_int};

export! {
    2000 fn cuDeviceGetCount(count: Out<c_int>) {
        with(|session| count.set(session.devices.len() as c_int))
    }

    2000 fn cuDeviceGet(device: Out<c_int>, ordinal: c_int) {
        with(|session| session.device(ordinal).and_then(|_| device.set(ordinal)))
    }

    2000 fn cuDeviceGetName(name: Out<c_char>, length: c_int, device: c_int) {
        with(|session| name.set_text(length, &session.device(device)?.name))
    }

    11040 fn cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, device: c_int) {
        with(|session| uuid.set(session.device(device)?.uuid_bytes()))
    }

    3020 fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: c_int) {
        with(|session| bytes.set(session.device(device)?.memory as usize))
    }

    2000 fn cuDeviceGetAttribute(value: Out<c_int>, attribute: c_int, device: c_int) {
        with(|session| value.set(session.attribute(attribute, device)?))
    }
}
