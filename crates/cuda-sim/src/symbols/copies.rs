//! Copies and filling.

use crate::abi::HostMemory;
use crate::copy::Place;
use crate::error::{Answer, Code};
use crate::handle::Handle;
use crate::session::with;
use crate::stream::{Zero, synchronise_stream};
use crate::work::Work;
use std::ffi::{c_uchar, c_uint, c_ushort};

/// A copy that the caller waits for.
fn copy(zero: Zero, to: Place, from: Place, bytes: usize) -> Answer {
    synchronise_stream(Handle::NULL, zero)?;
    with(|session| session.copy(to, from, bytes as u64))
}

/// A copy in a stream.
fn copy_in(stream: Handle, zero: Zero, to: Place, from: Place, bytes: usize) -> Answer {
    with(|session| {
        let stream = session.stream(stream, zero)?;
        session.submit(stream, Work::Copy { to, from, bytes: bytes as u64 })
    })
}

/// Fills in a stream.
fn fill_in(stream: Handle, zero: Zero, to: u64, value: u32, size: usize, times: usize) -> Answer {
    if !to.is_multiple_of(size as u64) {
        return Err(Code::INVALID_VALUE);
    }
    with(|session| {
        let stream = session.stream(stream, zero)?;
        session.submit(stream, Work::Fill { to, pitch: 0, value, size, width: times as u64, height: 1 })
    })
}

/// Memory of the program.
fn program(memory: HostMemory) -> Place {
    Place::Program(memory.address())
}

export_pairs! {
    3020 fn cuMemcpyHtoD_v2 / cuMemcpyHtoD_v2_ptds(zero; to: u64, from: HostMemory, bytes: usize) {
        copy(zero, Place::Known(to), program(from), bytes)
    }

    3020 fn cuMemcpyDtoH_v2 / cuMemcpyDtoH_v2_ptds(zero; to: HostMemory, from: u64, bytes: usize) {
        copy(zero, program(to), Place::Known(from), bytes)
    }

    3020 fn cuMemcpyDtoD_v2 / cuMemcpyDtoD_v2_ptds(zero; to: u64, from: u64, bytes: usize) {
        copy(zero, Place::Known(to), Place::Known(from), bytes)
    }

    4000 fn cuMemcpy / cuMemcpy_ptds(zero; to: u64, from: u64, bytes: usize) {
        copy(zero, Place::any(to), Place::any(from), bytes)
    }

    3020 fn cuMemcpyHtoDAsync_v2 / cuMemcpyHtoDAsync_v2_ptsz(
        zero; to: u64, from: HostMemory, bytes: usize, stream: Handle,
    ) {
        copy_in(stream, zero, Place::Known(to), program(from), bytes)
    }

    3020 fn cuMemcpyDtoHAsync_v2 / cuMemcpyDtoHAsync_v2_ptsz(
        zero; to: HostMemory, from: u64, bytes: usize, stream: Handle,
    ) {
        copy_in(stream, zero, program(to), Place::Known(from), bytes)
    }

    3020 fn cuMemcpyDtoDAsync_v2 / cuMemcpyDtoDAsync_v2_ptsz(
        zero; to: u64, from: u64, bytes: usize, stream: Handle,
    ) {
        copy_in(stream, zero, Place::Known(to), Place::Known(from), bytes)
    }

    4000 fn cuMemcpyAsync / cuMemcpyAsync_ptsz(zero; to: u64, from: u64, bytes: usize, stream: Handle) {
        copy_in(stream, zero, Place::any(to), Place::any(from), bytes)
    }

    3020 fn cuMemsetD8_v2 / cuMemsetD8_v2_ptds(zero; to: u64, value: c_uchar, times: usize) {
        fill_in(Handle::NULL, zero, to, value.into(), 1, times)
    }

    3020 fn cuMemsetD16_v2 / cuMemsetD16_v2_ptds(zero; to: u64, value: c_ushort, times: usize) {
        fill_in(Handle::NULL, zero, to, value.into(), 2, times)
    }

    3020 fn cuMemsetD32_v2 / cuMemsetD32_v2_ptds(zero; to: u64, value: c_uint, times: usize) {
        fill_in(Handle::NULL, zero, to, value, 4, times)
    }

    3020 fn cuMemsetD8Async / cuMemsetD8Async_ptsz(
        zero; to: u64, value: c_uchar, times: usize, stream: Handle,
    ) {
        fill_in(stream, zero, to, value.into(), 1, times)
    }

    3020 fn cuMemsetD16Async / cuMemsetD16Async_ptsz(
        zero; to: u64, value: c_ushort, times: usize, stream: Handle,
    ) {
        fill_in(stream, zero, to, value.into(), 2, times)
    }

    3020 fn cuMemsetD32Async / cuMemsetD32Async_ptsz(
        zero; to: u64, value: c_uint, times: usize, stream: Handle,
    ) {
        fill_in(stream, zero, to, value, 4, times)
    }
}
