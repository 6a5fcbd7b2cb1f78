//! What few programs use: captures into a graph again and into command lists, contexts beside graphics libraries, memory that is bound
//! for a device, launches on several devices, functions as they once were. And the record of all calls.

mod support;

use std::ffi::c_void;
use std::ptr::{from_mut, null, null_mut};
use support::{C, Pointer, c, loaded, ready};

const MILLISECOND: u64 = 1_000_000;
const MIB: usize = 1 << 20;

fn spin(c: &C, function: Pointer, stream: Pointer, nanoseconds: u64) {
    assert_eq!(c.spin(function, stream, nanoseconds), 0);
}

fn end(c: &C, stream: Pointer) -> (u32, Pointer) {
    let mut graph = null_mut();
    (c!(c, cuStreamEndCapture(stream => Pointer, &mut graph => *mut Pointer)), graph)
}

fn again(c: &C, stream: Pointer, graph: Pointer) {
    let answer = c!(c, cuStreamBeginRecaptureToGraph(
        stream => Pointer, 0 => u32, graph => Pointer, null_mut() => Pointer, null_mut() => Pointer,
    ));
    assert_eq!(answer, 0);
}

fn allocate(c: &C, stream: Pointer, bytes: usize) -> (u32, u64) {
    let mut address = 0;
    (c!(c, cuMemAllocAsync(&mut address => *mut u64, bytes => usize, stream => Pointer)), address)
}

#[test]
fn a_graph_can_be_captured_again_if_it_stays_the_same() {
    support::run("child_captures_again", &[]);
}

#[test]
#[ignore = "run as a child process"]
fn child_captures_again() {
    let Some(c) = ready() else { return };
    let (function, stream) = (c.function(c"spin"), c.stream(1));
    assert_eq!(c!(c, cuStreamBeginCapture(stream => Pointer)), 0);
    let (_, address) = allocate(&c, stream, MIB);
    spin(&c, function, stream, MILLISECOND);
    let (answer, graph) = end(&c, stream);
    assert_eq!(answer, 0);

    // The kernel takes longer now; the memory is where it was.
    again(&c, stream, graph);
    assert_eq!(allocate(&c, stream, MIB), (0, address));
    spin(&c, function, stream, 7 * MILLISECOND);
    assert_eq!(end(&c, stream), (0, graph));
    let mut executable = null_mut();
    let (log, size) = (null_mut(), 0);
    assert_eq!(
        c!(c, cuGraphInstantiate(
            &mut executable => *mut Pointer, graph => Pointer, null_mut() => *mut Pointer, log => Pointer, size => usize,
        )),
        0
    );
    let before = c.recorded(stream);
    assert_eq!(c!(c, cuGraphLaunch(executable => Pointer, stream => Pointer)), 0);
    let after = c.recorded(stream);
    assert_eq!(c!(c, cuStreamSynchronize(stream => Pointer)), 0);
    assert!(c.elapsed(before, after) > 6.9e6);

    // Another size, another kind, one node fewer, one more.
    again(&c, stream, graph);
    assert_eq!(allocate(&c, stream, 2 * MIB).0, 918);
    assert_eq!(end(&c, stream).0, 918);
    again(&c, stream, graph);
    assert_eq!(c.spin(function, stream, MILLISECOND), 918);
    assert_eq!(end(&c, stream).0, 918);
    again(&c, stream, graph);
    assert_eq!(allocate(&c, stream, MIB), (0, address));
    assert_eq!(end(&c, stream).0, 918);
    again(&c, stream, graph);
    assert_eq!(allocate(&c, stream, MIB), (0, address));
    spin(&c, function, stream, MILLISECOND);
    assert_eq!(c.spin(function, stream, MILLISECOND), 918);
    assert_eq!(end(&c, stream).0, 918);
    assert_eq!(c!(c, cuGraphDestroy(graph => Pointer)), 0, "it is still the program's");
    assert_eq!(c!(c, cuStreamDestroy(stream => Pointer)), 0);
}

/// `CUctxCreateParams` and `CUstreamCigCaptureParams`.
#[repr(C)]
struct Beside(*const c_void, i32, *const c_void);
#[repr(C)]
struct List(*const c_void);

#[test]
fn what_goes_into_a_command_list_does_not_run_here() {
    support::run("child_captures_to_lists", &[]);
}

#[test]
#[ignore = "run as a child process"]
fn child_captures_to_lists() {
    let Some(c) = ready() else { return };
    let (library, mut context) = (1_u8, null_mut());
    let thing: *const c_void = (&raw const library).cast();
    let (list, none) = (List(thing), List(null()));
    let begin = |stream: Pointer, list: &List| c!(c, cuStreamBeginCaptureToCig(stream => Pointer, list => *const List));
    assert_eq!(begin(c.stream(1), &list), 201, "the primary context has nothing to do with graphics");
    let beside = Beside(null(), 0, thing);
    let answer = c!(c, cuCtxCreate_v4(
        &mut context => *mut Pointer, &raw const beside => *const Beside, 0 => u32, 0 => i32,
    ));
    assert_eq!(answer, 0);
    let (function, stream) = (c.function(c"spin"), c.stream(1));
    assert_eq!(begin(stream, &none), 1);
    assert_eq!(begin(stream, &list), 0);
    assert_eq!(begin(stream, &list), 401, "it is captured already");
    spin(&c, function, stream, 10_000 * MILLISECOND);
    let mut status = 0;
    assert_eq!(c!(c, cuStreamIsCapturing(stream => Pointer, &mut status => *mut u32)), 0);
    assert_eq!((status, end(&c, stream).0), (1, 1), "it makes no graph");
    assert_eq!(c!(c, cuStreamEndCaptureToCig(stream => Pointer)), 0);
    assert_eq!(c!(c, cuStreamSynchronize(stream => Pointer)), 0, "nothing ran");
    assert_eq!(c!(c, cuStreamEndCaptureToCig(stream => Pointer)), 401);

    assert_eq!(begin(stream, &list), 0);
    assert_eq!(allocate(&c, stream, MIB).0, 900, "no command list can");
    assert_eq!(c!(c, cuStreamEndCaptureToCig(stream => Pointer)), 901);
    assert_eq!(c!(c, cuCtxDestroy_v2(context => Pointer)), 0);
}

#[test]
fn contexts_beside_graphics_take_memory_like_others() {
    support::run("child_makes_contexts", &[]);
}

#[test]
#[ignore = "run as a child process"]
fn child_makes_contexts() {
    let Some(c) = ready() else { return };
    let before = c.free();
    let mut context = null_mut();
    let place = &raw mut context;
    let mut taken = Vec::new();
    for kind in 0..5 {
        let nothing = null_mut();
        let answer = match kind {
            0 => c!(c, cuCtxCreate_v2(place => *mut Pointer, 0 => u32, 0 => i32)),
            1 => c!(c, cuGLCtxCreate(place => *mut Pointer, 0 => u32, 0 => i32)),
            2 => c!(c, cuGLCtxCreate_v2(place => *mut Pointer, 0 => u32, 0 => i32)),
            3 => {
                c!(c, cuVDPAUCtxCreate(place => *mut Pointer, 0 => u32, 0 => i32, 1 => u32, nothing => Pointer))
            }
            _ => {
                c!(c, cuVDPAUCtxCreate_v2(place => *mut Pointer, 0 => u32, 0 => i32, 1 => u32, nothing => Pointer))
            }
        };
        assert_eq!(answer, 0, "{kind}");
        taken.push(before - c.free());
        assert_eq!(c!(c, cuCtxDestroy_v2(context => Pointer)), 0);
        assert_eq!(c.free(), before);
    }
    assert!(taken[0] > 0 && taken.iter().all(|bytes| *bytes == taken[0]), "{taken:?}");
    assert_eq!(c!(c, cuDevicePrimaryCtxRelease(0 => i32)), 0);
    assert_eq!(c!(c, cuDevicePrimaryCtxRelease(0 => i32)), 201, "it was the last one");
    assert_eq!(c!(c, cuDevicePrimaryCtxRetain(place => *mut Pointer, 0 => i32)), 0);
    assert_eq!(c!(c, cuDevicePrimaryCtxReset(0 => i32)), 0);
    assert_eq!(c!(c, cuDevicePrimaryCtxRelease(0 => i32)), 201);
}

const TWO: &[(&str, &str)] = &[("CARVE_SIM_MACHINE", "h200-141gb:2")];

#[test]
fn memory_is_bound_for_its_own_device() {
    support::run("child_binds_for_devices", TWO);
}

#[test]
#[ignore = "run as a child process"]
fn child_binds_for_devices() {
    let Some(c) = ready() else { return };
    #[repr(C)]
    struct Properties(u32, usize, u64, u64);
    let properties = Properties(2, 1 << 30, 0, 0);
    let (mut object, mut memory, mut of_host) = (0_u64, 0_u64, 0_u64);
    assert_eq!(
        c!(c, cuMulticastCreate(&mut object => *mut u64, &raw const properties => *const Properties)),
        0
    );
    for device in [0, 1] {
        assert_eq!(c!(c, cuMulticastAddDevice(object => u64, device => i32)), 0);
    }
    let size = 2 * MIB;
    for (handle, place) in [(&mut memory, [1_i32, 0, 1, 0]), (&mut of_host, [1, 0, 3, 0])] {
        let properties = [place[0], place[1], place[2], place[3], 0, 0, 0, 0];
        let answer = c!(c, cuMemCreate(
            handle => *mut u64, size => usize, properties.as_ptr() => *const i32, 0 => u64,
        ));
        assert_eq!(answer, 0, "{place:?}");
    }
    let bind = |device: i32, handle: u64| {
        c!(c, cuMulticastBindMem_v2(
            object => u64, device => i32, 0 => usize, handle => u64, 0 => usize, size => usize, 0 => u64,
        ))
    };
    assert_eq!(bind(1, memory), 1, "it is the other one's");
    assert_eq!(bind(0, memory), 0);
    assert_eq!(bind(0, memory), 1, "there is something already");
    assert_eq!(bind(1, of_host), 0, "memory of the host is where it is told");
    let taken = c.free();
    assert_eq!(c!(c, cuMemRelease(memory => u64)), 0);
    assert_eq!(c.free(), taken, "the object keeps it");
    let unbind =
        |device: i32| c!(c, cuMulticastUnbind(object => u64, device => i32, 0 => usize, size => usize));
    assert_eq!(unbind(0), 0);
    assert_eq!(c.free(), taken + size);

    let mut address = 0_u64;
    let none = 0_u64;
    let reserved = c!(c, cuMemAddressReserve(
        &mut address => *mut u64, size => usize, 0 => usize, none => u64, none => u64,
    ));
    assert_eq!(reserved, 0);
    assert_eq!(
        c!(c, cuMemMap(address => u64, size => usize, 0 => usize, of_host => u64, none => u64)),
        0,
        "and may be mapped"
    );
    let bind = |device: i32, at: usize| {
        c!(c, cuMulticastBindAddr_v2(
            object => u64, device => i32, at => usize, address => u64, size => usize, none => u64,
        ))
    };
    assert_eq!((bind(1, 0), bind(1, size), bind(7, 0)), (1, 0, 101));
}

#[test]
fn one_call_launches_on_several_devices() {
    support::run("child_launches_on_several", TWO);
}

/// `CUDA_LAUNCH_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
struct OnDevice(Pointer, [u32; 3], [u32; 3], u32, Pointer, *mut Pointer);

#[test]
#[ignore = "run as a child process"]
fn child_launches_on_several() {
    let Some(c) = ready() else { return };
    let mut nanoseconds = 3 * MILLISECOND;
    let mut arguments: [Pointer; 1] = [from_mut(&mut nanoseconds).cast()];
    let mut all = Vec::new();
    for device in [1, 0] {
        let mut context = null_mut();
        assert_eq!(c!(c, cuDevicePrimaryCtxRetain(&mut context => *mut Pointer, device => i32)), 0);
        assert_eq!(c!(c, cuCtxSetCurrent(context => Pointer)), 0);
        let (function, stream) = (c.function(c"spin"), c.stream(1));
        all.push((OnDevice(function, [1; 3], [1; 3], 0, stream, arguments.as_mut_ptr()), context));
    }
    let launch = |launches: &[OnDevice]| {
        let count = launches.len() as u32;
        c!(c, cuLaunchCooperativeKernelMultiDevice(
            launches.as_ptr() => *const OnDevice, count => u32, 0 => u32,
        ))
    };
    let ([there, here], contexts) = ([all[0].0, all[1].0], [all[0].1, all[1].1]);
    assert_eq!(launch(&[]), 1);
    assert_eq!(launch(&[here, here]), 101, "a device has one");
    assert_eq!(
        launch(&[OnDevice(here.0, [1; 3], [1; 3], 0, null_mut(), here.5)]),
        400,
        "in streams of their own"
    );
    for (launch, context) in [(there, contexts[0]), (here, contexts[1])] {
        assert_eq!(c!(c, cuCtxSetCurrent(context => Pointer)), 0);
        assert_eq!(c!(c, cuStreamQuery(launch.4 => Pointer)), 0, "nothing of this ran");
    }
    let before = c.recorded(here.4);
    assert_eq!(launch(&[there, here]), 0);
    let after = c.recorded(here.4);
    assert_eq!(c!(c, cuStreamSynchronize(here.4 => Pointer)), 0);
    assert!(c.elapsed(before, after) > 2.9e6);
}

#[test]
fn every_call_can_be_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    support::run("child_is_recorded", &[("CARVE_SIM_TRACE", trace.to_str().unwrap())]);
    let record = std::fs::read_to_string(trace).unwrap();
    assert_eq!(record, "cuInit -> 1\ncuInit -> 0\ncuStreamQuery -> 201\ncuStreamQuery_ptsz -> 201\n");
}

#[test]
#[ignore = "run as a child process"]
fn child_is_recorded() {
    let Some(c) = loaded() else { return };
    assert_eq!(c!(c, cuInit(1 => u32)), 1);
    assert_eq!(c!(c, cuInit(0 => u32)), 0);
    assert_eq!(c!(c, cuStreamQuery(null_mut() => Pointer)), 201);
    assert_eq!(c!(c, cuStreamQuery_ptsz(null_mut() => Pointer)), 201);
}
