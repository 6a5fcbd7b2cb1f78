//! Memory of devices and of the host, addresses, and handles for other processes.

use crate::abi::{HostMemory, In, Out, OutAny};
use crate::error::{Answer, Code};
use crate::pointer::Width;
use crate::session::with;
use crate::structs::IpcHandle;
use std::ffi::{c_int, c_uint};

/// Rows of pitched memory begin at multiples of this, as on every GPU that carve knows.
const PITCH: usize = 512;

fn write(width: Width, data: OutAny) -> Answer {
    match width {
        Width::Byte(value) => data.of::<u8>().set(value),
        Width::Word(value) => data.of::<u32>().set(value),
        Width::Long(value) => data.of::<u64>().set(value),
    }
}

/// What is told where there is nothing to tell. No device has the number -2.
fn nothing(attribute: c_int) -> Width {
    match attribute {
        2 => Width::Word(0),
        9 => Width::Word(-2_i32 as u32),
        8 | 10 | 13 => Width::Byte(0),
        _ => Width::Long(0),
    }
}

export! {
    3020 fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) {
        with(|session| {
            let (free_bytes, total_bytes) = session.memory_info()?;
            free.set(free_bytes)?;
            total.set(total_bytes)
        })
    }

    3020 fn cuMemAlloc_v2(address: Out<u64>, bytes: usize) {
        with(|session| {
            let address = address.required()?;
            address.set(session.allocate(bytes)?)
        })
    }

    3020 fn cuMemAllocPitch_v2(
        address: Out<u64>,
        pitch: Out<usize>,
        width: usize,
        height: usize,
        element: c_uint,
    ) {
        with(|session| {
            let (address, pitch) = (address.required()?, pitch.required()?);
            if !matches!(element, 4 | 8 | 16) {
                return Err(Code::INVALID_VALUE);
            }
            let row = width.checked_next_multiple_of(PITCH).ok_or(Code::INVALID_VALUE)?;
            let bytes = row.checked_mul(height).ok_or(Code::OUT_OF_MEMORY)?;
            address.set(session.allocate(bytes)?)?;
            pitch.set(row)
        })
    }

    6000 fn cuMemAllocManaged(address: Out<u64>, bytes: usize, flags: c_uint) {
        with(|session| {
            let address = address.required()?;
            address.set(session.allocate_managed(bytes, flags)?)
        })
    }

    3020 fn cuMemFree_v2(address: u64) { with(|session| session.free_allocation(address)) }

    3020 fn cuMemAllocHost_v2(pointer: Out<u64>, bytes: usize) {
        with(|session| {
            let pointer = pointer.required()?;
            pointer.set(session.allocate_host(bytes, 0)?)
        })
    }

    2020 fn cuMemHostAlloc(pointer: Out<u64>, bytes: usize, flags: c_uint) {
        with(|session| {
            let pointer = pointer.required()?;
            pointer.set(session.allocate_host(bytes, flags)?)
        })
    }

    2000 fn cuMemFreeHost(pointer: HostMemory) { with(|session| session.free_host(pointer.address())) }

    6050 fn cuMemHostRegister_v2(pointer: HostMemory, bytes: usize, flags: c_uint) {
        with(|session| session.register_host(pointer.address(), bytes, flags))
    }

    4000 fn cuMemHostUnregister(pointer: HostMemory) {
        with(|session| session.unregister_host(pointer.address()))
    }

    3020 fn cuMemHostGetDevicePointer_v2(address: Out<u64>, pointer: HostMemory, _flags: c_uint) {
        with(|session| {
            session.host_piece(pointer.address())?;
            address.set(pointer.address())
        })
    }

    2030 fn cuMemHostGetFlags(flags: Out<c_uint>, pointer: HostMemory) {
        with(|session| flags.set(session.host_piece(pointer.address())?.flags))
    }

    3020 fn cuMemGetAddressRange_v2(start: Out<u64>, bytes: Out<usize>, address: u64) {
        with(|session| {
            let found = session.find(address).map_err(|_| Code::NOT_FOUND)?;
            start.offer(found.start);
            bytes.offer(found.length as usize);
            Ok(())
        })
    }

    4000 fn cuPointerGetAttribute(data: OutAny, attribute: c_int, address: u64) {
        with(|session| write(session.pointer_attribute(attribute, address)?, data))
    }

    // About what it does not know, this one tells zeros and is content.
    7000 fn cuPointerGetAttributes(count: c_uint, attributes: In<c_int>, data: In<OutAny>, address: u64) {
        with(|session| {
            let places = data.list(count as usize)?;
            for (attribute, place) in attributes.list(count as usize)?.into_iter().zip(places) {
                match session.pointer_attribute(attribute, address) {
                    Ok(width) => write(width, place)?,
                    Err(_) => write(nothing(attribute), place)?,
                }
            }
            Ok(())
        })
    }

    4010 fn cuIpcGetMemHandle(handle: Out<IpcHandle>, address: u64) {
        with(|session| handle.set(session.ipc_handle(address)?))
    }

    11000 fn cuIpcOpenMemHandle_v2(address: Out<u64>, handle: IpcHandle, _flags: c_uint) {
        with(|session| {
            let address = address.required()?;
            address.set(session.open_ipc(&handle)?)
        })
    }

    4010 fn cuIpcCloseMemHandle(address: u64) { with(|session| session.close_ipc(address)) }
}
