//! Every symbol that the library exports, with what it does; the types are those of NVIDIA's header.
//!
//! Names carry the version where the header renames the function: `cuMemAlloc` in a program is `cuMemAlloc_v2` here.

use crate::abi::{Arguments, HostMemory, Out, Text};
use crate::error::words;
use crate::handle::Handle;
use crate::launch::synchronise;
use crate::session::{start, with};
use std::ffi::{c_char, c_int, c_uint};

/// Exports functions under their C names.
macro_rules! export {
    ($( fn $name:ident($($argument:ident: $type:ty),* $(,)?) { $body:expr } )*) => { $(
        #[unsafe(no_mangle)]
        pub(crate) extern "C" fn $name($($argument: $type),*) -> c_uint {
            crate::session::guard(|| $body)
        }
    )* };
}

// The start, versions, errors.
export! {
    fn cuInit(flags: c_uint) { start(flags) }

    fn cuDriverGetVersion(version: Out<c_int>) {
        with(|session| version.set((session.cuda.0 * 1000 + session.cuda.1 * 10) as c_int))
    }

    fn cuGetErrorName(code: c_uint, name: Out<*const c_char>) {
        match words(code) {
            Ok((words, _)) => name.set(words.as_ptr()),
            Err(unknown) => name.set(std::ptr::null()).and(Err(unknown)),
        }
    }

    fn cuGetErrorString(code: c_uint, text: Out<*const c_char>) {
        match words(code) {
            Ok((_, words)) => text.set(words.as_ptr()),
            Err(unknown) => text.set(std::ptr::null()).and(Err(unknown)),
        }
    }
}

// Devices.
export! {
    fn cuDeviceGetCount(count: Out<c_int>) {
        with(|session| count.set(session.devices.len() as c_int))
    }

    fn cuDeviceGet(device: Out<c_int>, ordinal: c_int) {
        with(|session| session.device(ordinal).and_then(|_| device.set(ordinal)))
    }

    fn cuDeviceGetName(name: Out<c_char>, length: c_int, device: c_int) {
        with(|session| name.set_text(length, &session.device(device)?.name))
    }

    fn cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, device: c_int) {
        with(|session| uuid.set(session.device(device)?.uuid_bytes()))
    }

    fn cuDeviceTotalMem_v2(bytes: Out<usize>, device: c_int) {
        with(|session| bytes.set(session.device(device)?.memory as usize))
    }

    fn cuDeviceGetAttribute(value: Out<c_int>, attribute: c_int, device: c_int) {
        with(|session| value.set(session.attribute(attribute, device)?))
    }
}

// Contexts.
export! {
    fn cuDevicePrimaryCtxRetain(context: Out<Handle>, device: c_int) {
        with(|session| {
            let context = context.required()?;
            context.set(session.retain(device)?)
        })
    }

    fn cuDevicePrimaryCtxRelease_v2(device: c_int) { with(|session| session.release(device)) }

    fn cuCtxSetCurrent(context: Handle) { with(|session| session.set_current(context)) }

    fn cuCtxSynchronize() { synchronise() }
}

// Memory.
export! {
    fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) {
        with(|session| {
            let (free_bytes, total_bytes) = session.memory_info()?;
            free.set(free_bytes)?;
            total.set(total_bytes)
        })
    }

    fn cuMemAlloc_v2(address: Out<u64>, bytes: usize) {
        with(|session| {
            let address = address.required()?;
            address.set(session.allocate(bytes)?)
        })
    }

    fn cuMemFree_v2(address: u64) { with(|session| session.free_allocation(address)) }

    fn cuMemcpyHtoD_v2(to: u64, from: HostMemory, bytes: usize) {
        synchronise().and_then(|()| with(|session| session.copy_in(to, from.bytes(bytes)?)))
    }

    fn cuMemcpyDtoH_v2(to: HostMemory, from: u64, bytes: usize) {
        synchronise().and_then(|()| with(|session| session.copy_out(to.bytes_mut(bytes)?, from)))
    }
}

// Programs.
export! {
    fn cuModuleLoadData(module: Out<Handle>, image: Text) {
        with(|session| {
            let module = module.required()?;
            module.set(session.load(image.get()?)?)
        })
    }

    fn cuModuleUnload(module: Handle) { with(|session| session.unload(module)) }

    fn cuModuleGetFunction(function: Out<Handle>, module: Handle, name: Text) {
        with(|session| function.set(session.function(module, &name.get()?)?))
    }

    fn cuLaunchKernel(
        function: Handle,
        blocks_x: c_uint,
        blocks_y: c_uint,
        blocks_z: c_uint,
        threads_x: c_uint,
        threads_y: c_uint,
        threads_z: c_uint,
        _shared_memory: c_uint,
        _stream: Handle,
        arguments: Arguments,
        _extra: Handle,
    ) {
        with(|session| {
            let shape = ([blocks_x, blocks_y, blocks_z], [threads_x, threads_y, threads_z]);
            session.launch(function, shape, arguments)
        })
    }

    // There is no stream but the default one, and that is the context's.
    fn cuStreamSynchronize(_stream: Handle) { synchronise() }
}
