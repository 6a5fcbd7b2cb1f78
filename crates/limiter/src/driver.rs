//! The driver's own functions: where they are, and how they are called.

use crate::elf;
use core::sync::atomic::{AtomicUsize, Ordering};

/// What the driver answers.
pub(crate) type Code = i32;

pub(crate) const SUCCESS: Code = 0;
pub(crate) const INVALID_VALUE: Code = 1;
pub(crate) const OUT_OF_MEMORY: Code = 2;
pub(crate) const NOT_FOUND: Code = 500;
pub(crate) const NOT_READY: Code = 600;
pub(crate) const NOT_PERMITTED: Code = 800;

/// A function that is hooked.
#[derive(Debug)]
pub(crate) struct Hook {
    /// Its name, as the driver exports it.
    pub(crate) name: &'static str,
    /// Our function of that name.
    pub(crate) ours: usize,
    /// The driver's.
    pub(crate) place: &'static AtomicUsize,
    /// The library that has it.
    pub(crate) library: &'static [u8],
}

/// The driver's library for programs.
pub(crate) const CUDA: &[u8] = b"libcuda.so";
/// The driver's library for operators.
pub(crate) const NVML: &[u8] = b"libnvidia-ml.so";

/// No such function; no function is at this address.
const ABSENT: usize = 1;

/// Where a function of the driver is, if the driver has it.
#[inline]
pub(crate) fn find(place: &AtomicUsize, library: &[u8], name: &str) -> Option<usize> {
    match place.load(Ordering::Relaxed) {
        0 => search(place, library, name),
        ABSENT => None,
        known => Some(known),
    }
}

#[cold]
fn search(place: &AtomicUsize, library: &[u8], name: &str) -> Option<usize> {
    let (mut there, mut found) = (false, None);
    elf::each(|loaded| {
        if loaded.is_called(library) {
            there = true;
            found = loaded.function(name.as_bytes());
        }
        found.is_some()
    });
    // A library that is not loaded yet may still come.
    if there {
        place.store(found.unwrap_or(ABSENT), Ordering::Relaxed);
    }
    found
}

/// Declares functions of the driver that are called and not hooked.
macro_rules! driver {
    ($($name:ident($($argument:ident: $type:ty),* $(,)?);)*) => { $(
        #[allow(non_snake_case, reason = "the driver calls it so")]
        pub(crate) mod $name {
            static PLACE: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);

            /// SAFETY: as the driver says of this function.
            #[allow(clippy::too_many_arguments, reason = "the driver has so many")]
            pub(crate) unsafe fn call($($argument: $type),*) -> $crate::driver::Code {
                match $crate::driver::find(&PLACE, $crate::driver::CUDA, stringify!($name)) {
                    None => $crate::driver::NOT_FOUND,
                    Some(place) => {
                        type Real = unsafe extern "C" fn($($type),*) -> $crate::driver::Code;
                        // SAFETY: that is the driver's function of this name, which has these parameters.
                        let real = unsafe { core::mem::transmute::<usize, Real>(place) };
                        // SAFETY: as for the whole function.
                        unsafe { real($($argument),*) }
                    }
                }
            }
        }
    )* };
}

/// Declares hooked functions: what the driver's is called with, and what we do instead.
macro_rules! hooks {
    ($table:ident in $library:expr; $($name:ident($($argument:ident: $type:ty),* $(,)?) => $body:expr;)*) => {
        $(
            #[allow(non_snake_case, reason = "the driver calls it so")]
            pub(crate) mod $name {
                #[allow(unused_imports, reason = "not all have such parameters")]
                use super::*;
                pub(crate) static PLACE: core::sync::atomic::AtomicUsize =
                    core::sync::atomic::AtomicUsize::new(0);

                /// SAFETY: as the driver says of this function.
                #[allow(clippy::too_many_arguments, reason = "the driver has so many")]
                #[inline]
                pub(crate) unsafe fn call($($argument: $type),*) -> $crate::driver::Code {
                    match $crate::driver::find(&PLACE, $library, stringify!($name)) {
                        None => $crate::driver::NOT_FOUND,
                        Some(place) => {
                            type Real = unsafe extern "C" fn($($type),*) -> $crate::driver::Code;
                            // SAFETY: that is the driver's function of this name, which has these parameters.
                            let real = unsafe { core::mem::transmute::<usize, Real>(place) };
                            // SAFETY: as for the whole function.
                            unsafe { real($($argument),*) }
                        }
                    }
                }
            }

            /// SAFETY: as the driver says of this function.
            #[allow(non_snake_case, clippy::too_many_arguments, reason = "the driver has it so")]
            #[cfg_attr(carve_export, unsafe(no_mangle))]
            pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> $crate::driver::Code {
                $body
            }
        )*

        /// What is hooked here.
        pub(crate) static $table: &[$crate::driver::HookMaker] = &[
            $(|| $crate::driver::Hook {
                name: stringify!($name),
                ours: $name as *const () as usize,
                place: &$name::PLACE,
                library: $library,
            }),*
        ];
    };
}

/// Makes the description of a hook; an address is not known before the program runs.
pub(crate) type HookMaker = fn() -> Hook;

pub(crate) use driver;
pub(crate) use hooks;

/// Ordinary functions that the limiter uses itself.
pub(crate) mod own {
    super::driver! {
        cuCtxFromGreenCtx(context: *mut usize, green: usize);
        cuCtxGetCurrent(context: *mut usize);
        cuCtxGetDevice(device: *mut i32);
        cuDeviceGetCount(count: *mut i32);
        cuDeviceGetDefaultMemPool(pool: *mut usize, device: i32);
        cuDeviceGetAttribute(value: *mut i32, attribute: i32, device: i32);
        cuCtxGetLimit(value: *mut usize, limit: i32);
        cuDeviceGetUuid_v2(uuid: *mut [u8; 16], device: i32);
        cuDeviceGetUuid(uuid: *mut [u8; 16], device: i32);
        cuDevicePrimaryCtxGetState(device: i32, flags: *mut u32, active: *mut i32);
        cuEventCreate(event: *mut usize, flags: u32);
        cuEventRecord(event: usize, stream: usize);
        cuEventQuery(event: usize);
        cuEventElapsedTime(milliseconds: *mut f32, from: usize, to: usize);
        cuStreamGetCtx(stream: usize, context: *mut usize);
        cuStreamQuery(stream: usize);
        cuStreamIsCapturing(stream: usize, status: *mut i32);
        cuThreadExchangeStreamCaptureMode(mode: *mut i32);
        cuMemPoolGetAttribute(pool: usize, attribute: i32, value: *mut u64);
        cuMemPoolTrimTo(pool: usize, keep: usize);
        cuDeviceGetMemPool(pool: *mut usize, device: i32);
        cuDeviceGetGraphMemAttribute(device: i32, attribute: i32, value: *mut u64);
        cuDeviceGraphMemTrim(device: i32);
        cuGraphGetNodes(graph: usize, nodes: *mut usize, count: *mut usize);
        cuGraphNodeGetType(node: usize, kind: *mut i32);
        cuGraphChildGraphNodeGetGraph(node: usize, graph: *mut usize);
        cuGraphMemAllocNodeGetParams(node: usize, parameters: *mut core::ffi::c_void);
    }
}
