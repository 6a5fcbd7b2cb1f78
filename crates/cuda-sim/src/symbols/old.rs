//! Functions that have later versions: of CUDA before 3.2, whose addresses and sizes have 32 bits, and ways to launch and to end contexts
//! and streams.

use crate::abi::{HostMemory, In, Out};
use crate::error::{Answer, Code};
use crate::handle::Handle;
use crate::session::{Session, with};
use crate::stream::Zero;
use crate::structs::{Array3DDescriptor, OldArray3DDescriptor, OldArrayDescriptor};
use std::ffi::{c_int, c_uint};

/// Rows of pitched memory begin at multiples of this.
const PITCH: u32 = 512;

fn narrow(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn allocate(session: &mut Session, bytes: u32) -> Answer<u32> {
    let address = session.allocate_below(bytes as usize)?;
    u32::try_from(address).map_err(|_| Code::OUT_OF_MEMORY)
}

fn launch(session: &mut Session, function: Handle, blocks: [c_int; 2], stream: Handle) -> Answer {
    let stream = session.stream(stream, Zero::Legacy)?;
    let side = |length: c_int| u32::try_from(length).map_err(|_| Code::INVALID_VALUE);
    session.launch_prepared(stream, function, [side(blocks[0])?, side(blocks[1])?, 1])
}

export! {
    2000 fn cuMemGetInfo(free: Out<u32>, total: Out<u32>) {
        with(|session| {
            let (free_bytes, total_bytes) = session.memory_info()?;
            free.set(narrow(free_bytes))?;
            total.set(narrow(total_bytes))
        })
    }

    2000 fn cuDeviceTotalMem(bytes: Out<u32>, device: c_int) {
        with(|session| bytes.set(narrow(session.device(device)?.memory as usize)))
    }

    2000 fn cuMemAlloc(address: Out<u32>, bytes: u32) {
        with(|session| {
            let address = address.required()?;
            address.set(allocate(session, bytes)?)
        })
    }

    2000 fn cuMemAllocPitch(address: Out<u32>, pitch: Out<u32>, width: u32, height: u32, element: c_uint) {
        with(|session| {
            let (address, pitch) = (address.required()?, pitch.required()?);
            if !matches!(element, 4 | 8 | 16) {
                return Err(Code::INVALID_VALUE);
            }
            let row = width.checked_next_multiple_of(PITCH).ok_or(Code::INVALID_VALUE)?;
            address.set(allocate(session, row.checked_mul(height).ok_or(Code::OUT_OF_MEMORY)?)?)?;
            pitch.set(row)
        })
    }

    2000 fn cuMemFree(address: u32) { with(|session| session.free_allocation(u64::from(address))) }

    2000 fn cuArrayCreate(array: Out<Handle>, shape: In<OldArrayDescriptor>) {
        with(|session| {
            let (array, shape) = (array.required()?, shape.get()?);
            let dimensions = [shape.width as usize, shape.height as usize, 0];
            array.set(session.create_array(Array3DDescriptor::new(dimensions, shape.format, shape.channels))?)
        })
    }

    2000 fn cuArray3DCreate(array: Out<Handle>, shape: In<OldArray3DDescriptor>) {
        with(|session| {
            let (array, shape) = (array.required()?, shape.get()?);
            let dimensions = [shape.width, shape.height, shape.depth].map(|length| length as usize);
            array.set(session.create_array(Array3DDescriptor::new(dimensions, shape.format, shape.channels))?)
        })
    }

    2000 fn cuCtxCreate(context: Out<Handle>, _flags: c_uint, device: c_int) {
        with(|session| {
            let context = context.required()?;
            context.set(session.create_context(device)?)
        })
    }

    2000 fn cuCtxDestroy(context: Handle) { with(|session| session.destroy_context(context)) }

    7000 fn cuDevicePrimaryCtxRelease(device: c_int) { with(|session| session.release(device)) }

    7000 fn cuDevicePrimaryCtxReset(device: c_int) { with(|session| session.reset(device)) }

    2000 fn cuStreamDestroy(stream: Handle) { with(|session| session.destroy_stream(stream)) }

    2000 fn cuCtxAttach(context: Out<Handle>, flags: c_uint) {
        with(|session| {
            let context = context.required()?;
            if flags == 0 { context.set(session.attach()?) } else { Err(Code::INVALID_VALUE) }
        })
    }

    2000 fn cuCtxDetach(context: Handle) { with(|session| session.detach(context)) }

    2000 fn cuFuncSetBlockShape(function: Handle, x: c_int, y: c_int, z: c_int) {
        with(|session| {
            let threads = [x, y, z].map(|length| u32::try_from(length).unwrap_or(0));
            session.prepared.entry(function.value()).or_default().threads = threads;
            Ok(())
        })
    }

    2000 fn cuParamSetSize(function: Handle, bytes: c_uint) {
        with(|session| {
            session.prepared.entry(function.value()).or_default().arguments.resize(bytes as usize, 0);
            Ok(())
        })
    }

    2000 fn cuParamSetv(function: Handle, offset: c_int, value: HostMemory, bytes: c_uint) {
        with(|session| {
            let value = value.bytes(bytes as usize)?;
            let start = usize::try_from(offset).map_err(|_| Code::INVALID_VALUE)?;
            let arguments = &mut session.prepared.entry(function.value()).or_default().arguments;
            let place = arguments.get_mut(start..start.saturating_add(value.len()));
            place.ok_or(Code::INVALID_VALUE)?.copy_from_slice(value);
            Ok(())
        })
    }

    2000 fn cuLaunch(function: Handle) { with(|session| launch(session, function, [1, 1], Handle::NULL)) }

    2000 fn cuLaunchGrid(function: Handle, width: c_int, height: c_int) {
        with(|session| launch(session, function, [width, height], Handle::NULL))
    }

    2000 fn cuLaunchGridAsync(function: Handle, width: c_int, height: c_int, stream: Handle) {
        with(|session| launch(session, function, [width, height], stream))
    }
}
