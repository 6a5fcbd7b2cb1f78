//! Functions that start work on the multiprocessors.

use crate::costs::Kind;
use crate::driver::own::{cuCtxGetCurrent, cuStreamGetCtx};
use crate::driver::{CUDA, Code, SUCCESS, hooks};
use crate::hooks::graph_memory::launched;
use crate::process::{Process, known_process, process};
use crate::work;
use core::ffi::c_void;

/// The default stream of a thread, by the handle that means it everywhere.
const PER_THREAD: usize = 2;

/// A program built for per-thread default streams means its own by zero.
pub(crate) fn own(stream: usize) -> usize {
    if stream == 0 { PER_THREAD } else { stream }
}

/// Lets work start when it may, and notes that it did.
#[inline]
fn gated(stream: usize, kind: impl FnOnce() -> Kind, launch: impl FnOnce() -> Code) -> Code {
    if known_process().is_some_and(|process| !process.is_timed()) {
        return launch();
    }
    match work::enter(stream, kind) {
        Err(refused) => refused,
        Ok(ticket) => {
            let answer = launch();
            work::leave(ticket);
            answer
        }
    }
}

/// What `cuLaunchKernelEx` is told; it may go on behind this.
#[repr(C)]
pub(crate) struct Config {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: usize,
}

fn size(dimensions: [u32; 3]) -> u64 {
    dimensions.iter().fold(1, |size: u64, &one| size.wrapping_mul(u64::from(one)))
}

/// SAFETY: as the driver's.
#[inline]
unsafe fn stream_of(config: *const Config) -> usize {
    // SAFETY: the driver reads it as well, and refuses null.
    unsafe { config.as_ref() }.map_or(0, |config| config.stream)
}

/// SAFETY: as the driver's.
unsafe fn kind_of(config: *const Config, function: usize) -> Kind {
    // SAFETY: the driver reads it as well, and refuses null.
    match unsafe { config.as_ref() } {
        None => Kind::of(&[]),
        Some(config) => Kind::of(&[function as u64, size(config.grid), size(config.block)]),
    }
}

/// What `cuLaunchCooperativeKernelMultiDevice` is told of each device.
#[repr(C)]
pub(crate) struct OnDevice {
    function: usize,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: usize,
    arguments: *mut *mut c_void,
}

const _: () = assert!(size_of::<OnDevice>() == 56);

/// The kernel of a launch on several devices that is the current context's, and its stream. Events stand in streams of their own context
/// alone, and in no other stream than the launch's would they show how long it takes.
///
/// SAFETY: as the driver's.
unsafe fn launch_here(launches: *const OnDevice, count: u32) -> (usize, Kind) {
    let timed = process().is_some_and(Process::is_timed);
    let number = if timed && !launches.is_null() { count as usize } else { 0 };
    let mut current = 0;
    // SAFETY: the driver writes one handle.
    unsafe { cuCtxGetCurrent::call(&mut current) };
    for number in 0..number {
        // SAFETY: the driver reads as many as well.
        let launch = unsafe { &*launches.add(number) };
        let mut context = 0;
        // SAFETY: the driver writes one handle.
        let told = unsafe { cuStreamGetCtx::call(launch.stream, &mut context) };
        if told == SUCCESS && context == current {
            return (
                launch.stream,
                Kind::of(&[launch.function as u64, size(launch.grid), size(launch.block)]),
            );
        }
    }
    (0, Kind::of(&[u64::from(count), 0x006d_756c_7469]))
}

hooks! {
    HOOKS in CUDA;

    cuLaunchKernel(
        function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared: u32, stream: usize, arguments: *mut *mut c_void, extra: *mut *mut c_void,
    ) => {
        let kind = || Kind::of(&[function as u64, size([grid_x, grid_y, grid_z]), size([block_x, block_y, block_z])]);
        // SAFETY: the program's own arguments.
        gated(stream, kind, || unsafe {
            cuLaunchKernel::call(
                function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, arguments, extra,
            )
        })
    };

    cuLaunchKernelEx(
        config: *const Config, function: usize, arguments: *mut *mut c_void, extra: *mut *mut c_void,
    ) => {
        // SAFETY: the program's own arguments.
        let (stream, kind) = unsafe { (stream_of(config), || kind_of(config, function)) };
        // SAFETY: see above.
        gated(stream, kind, || unsafe { cuLaunchKernelEx::call(config, function, arguments, extra) })
    };

    cuLaunchCooperativeKernel(
        function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared: u32, stream: usize, arguments: *mut *mut c_void,
    ) => {
        let kind = || Kind::of(&[function as u64, size([grid_x, grid_y, grid_z]), size([block_x, block_y, block_z])]);
        // SAFETY: the program's own arguments.
        gated(stream, kind, || unsafe {
            cuLaunchCooperativeKernel::call(
                function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, arguments,
            )
        })
    };

    cuGraphLaunch(graph: usize, stream: usize) => {
        // SAFETY: the program's own arguments.
        gated(stream, || Kind::of(&[graph as u64, 0x0067_7261_7068]), || launched(graph, stream, || unsafe { cuGraphLaunch::call(graph, stream) }))
    };

    cuLaunchKernel_ptsz(
        function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared: u32, stream: usize, arguments: *mut *mut c_void, extra: *mut *mut c_void,
    ) => {
        let kind = || Kind::of(&[function as u64, size([grid_x, grid_y, grid_z]), size([block_x, block_y, block_z])]);
        // SAFETY: the program's own arguments.
        gated(own(stream), kind, || unsafe {
            cuLaunchKernel_ptsz::call(
                function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, arguments, extra,
            )
        })
    };

    cuLaunchKernelEx_ptsz(
        config: *const Config, function: usize, arguments: *mut *mut c_void, extra: *mut *mut c_void,
    ) => {
        // SAFETY: the program's own arguments.
        let (stream, kind) = unsafe { (stream_of(config), || kind_of(config, function)) };
        // SAFETY: see above.
        gated(own(stream), kind, || unsafe { cuLaunchKernelEx_ptsz::call(config, function, arguments, extra) })
    };

    cuLaunchCooperativeKernel_ptsz(
        function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared: u32, stream: usize, arguments: *mut *mut c_void,
    ) => {
        let kind = || Kind::of(&[function as u64, size([grid_x, grid_y, grid_z]), size([block_x, block_y, block_z])]);
        // SAFETY: the program's own arguments.
        gated(own(stream), kind, || unsafe {
            cuLaunchCooperativeKernel_ptsz::call(
                function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, arguments,
            )
        })
    };

    cuGraphLaunch_ptsz(graph: usize, stream: usize) => {
        // SAFETY: the program's own arguments.
        gated(own(stream), || Kind::of(&[graph as u64, 0x0067_7261_7068]), || launched(graph, own(stream), || unsafe { cuGraphLaunch_ptsz::call(graph, stream) }))
    };

    cuLaunchCooperativeKernelMultiDevice(launches: *mut OnDevice, count: u32, flags: u32) => {
        // SAFETY: the program's own arguments.
        let (stream, kind) = unsafe { launch_here(launches, count) };
        // SAFETY: see above.
        gated(stream, || kind, || unsafe { cuLaunchCooperativeKernelMultiDevice::call(launches, count, flags) })
    };

    cuLaunchGrid(function: usize, width: i32, height: i32) => {
        let kind = || Kind::of(&[function as u64, size([width as u32, height as u32, 1])]);
        // SAFETY: the program's own arguments.
        gated(0, kind, || unsafe { cuLaunchGrid::call(function, width, height) })
    };

    cuLaunchGridAsync(function: usize, width: i32, height: i32, stream: usize) => {
        let kind = || Kind::of(&[function as u64, size([width as u32, height as u32, 1])]);
        // SAFETY: the program's own arguments.
        gated(stream, kind, || unsafe { cuLaunchGridAsync::call(function, width, height, stream) })
    };

    cuStreamDestroy_v2(stream: usize) => {
        work::forget_stream(stream);
        // SAFETY: the program's own arguments.
        unsafe { cuStreamDestroy_v2::call(stream) }
    };

    cuStreamDestroy(stream: usize) => {
        work::forget_stream(stream);
        // SAFETY: the program's own arguments.
        unsafe { cuStreamDestroy::call(stream) }
    };

    cuLaunch(function: usize) => {
        // SAFETY: the program's own arguments.
        gated(0, || Kind::of(&[function as u64]), || unsafe { cuLaunch::call(function) })
    };
}
