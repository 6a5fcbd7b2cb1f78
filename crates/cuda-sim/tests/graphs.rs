//! Graphs: made by hand and by capture, run, and the memory they take.

mod support;

use std::ffi::c_void;
use std::ptr::{from_mut, null_mut};
use support::{C, Pointer, c, ready};

const MILLISECOND: u64 = 1_000_000;
const ALMOST: f64 = 0.9999;
const STEP: usize = 32 << 20;

fn graph(c: &C) -> Pointer {
    let mut graph = null_mut();
    assert_eq!(c!(c, cuGraphCreate(&mut graph => *mut Pointer, 0 => u32)), 0);
    graph
}

fn instantiate(c: &C, graph: Pointer, flags: u64) -> Pointer {
    let mut executable = null_mut();
    let answer = c!(c, cuGraphInstantiateWithFlags(
        &mut executable => *mut Pointer, graph => Pointer, flags => u64,
    ));
    assert_eq!(answer, 0);
    executable
}

fn launch(c: &C, executable: Pointer, stream: Pointer) -> u32 {
    c!(c, cuGraphLaunch(executable => Pointer, stream => Pointer))
}

fn begin(c: &C, stream: Pointer, mode: u32) {
    assert_eq!(c!(c, cuStreamBeginCapture_v2(stream => Pointer, mode => u32)), 0);
}

fn end(c: &C, stream: Pointer) -> Result<Pointer, u32> {
    let mut graph = 1 as Pointer;
    match c!(c, cuStreamEndCapture(stream => Pointer, &mut graph => *mut Pointer)) {
        0 => Ok(graph),
        code => {
            assert!(graph.is_null());
            Err(code)
        }
    }
}

fn status(c: &C, stream: Pointer) -> u32 {
    let mut status = 77;
    assert_eq!(c!(c, cuStreamIsCapturing(stream => Pointer, &mut status => *mut u32)), 0);
    status
}

/// The types of a graph's nodes, in order.
fn types(c: &C, graph: Pointer) -> Vec<u32> {
    let mut count = 0_usize;
    assert_eq!(
        c!(c, cuGraphGetNodes(graph => Pointer, null_mut() => *mut Pointer, &mut count => *mut usize)),
        0
    );
    let mut nodes = vec![null_mut(); count];
    assert_eq!(
        c!(c, cuGraphGetNodes(graph => Pointer, nodes.as_mut_ptr() => *mut Pointer, &mut count => *mut usize)),
        0
    );
    let kind = |node: Pointer| {
        let mut kind = 77;
        assert_eq!(c!(c, cuGraphNodeGetType(node => Pointer, &mut kind => *mut u32)), 0);
        kind
    };
    nodes.into_iter().map(kind).collect()
}

/// How long a graph takes.
fn duration(c: &C, executable: Pointer, stream: Pointer) -> f64 {
    let start = c.recorded(stream);
    assert_eq!(launch(c, executable, stream), 0);
    let end = c.recorded(stream);
    assert_eq!(c!(c, cuStreamSynchronize(stream => Pointer)), 0);
    c.elapsed(start, end)
}

#[test]
fn graphs_made_by_hand_run_as_often_as_wanted() {
    support::run("child_makes_graphs", &[]);
}

/// A kernel node as C writes it.
#[repr(C)]
struct KernelNode {
    function: Pointer,
    shape: [u32; 7],
    arguments: *mut Pointer,
    extra: Pointer,
    kernel: Pointer,
    context: Pointer,
}

impl KernelNode {
    fn new(function: Pointer, kernel: Pointer, arguments: &mut [Pointer; 1]) -> Self {
        let (shape, arguments) = ([1, 1, 1, 32, 1, 1, 0], arguments.as_mut_ptr());
        KernelNode { function, shape, arguments, extra: null_mut(), kernel, context: null_mut() }
    }
}

#[test]
#[ignore = "run as a child process"]
fn child_makes_graphs() {
    let Some(c) = ready() else { return };
    let (spin, stream, graph) = (c.function(c"spin"), c.stream(1), graph(&c));
    let mut nanoseconds = 10 * MILLISECOND;
    let mut arguments: [Pointer; 1] = [from_mut(&mut nanoseconds).cast::<c_void>()];
    let node = KernelNode::new(spin, null_mut(), &mut arguments);
    let mut first = null_mut();
    let added = c!(c, cuGraphAddKernelNode_v2(
        &mut first => *mut Pointer, graph => Pointer, null_mut() => *mut Pointer, 0 => usize,
        &node => *const KernelNode,
    ));
    assert_eq!(added, 0);
    let mut second = null_mut();
    let added = c!(c, cuGraphAddKernelNode(
        &mut second => *mut Pointer, graph => Pointer, &mut first => *mut Pointer, 1 => usize,
        &node => *const KernelNode,
    ));
    assert_eq!((added, nanoseconds), (0, 10 * MILLISECOND));
    let mut refused = null_mut();
    let elsewhere = c!(c, cuGraphAddEmptyNode(
        &mut refused => *mut Pointer, self::graph(&c) => Pointer, &mut first => *mut Pointer, 1 => usize,
    ));
    assert_eq!(elsewhere, 1, "a node of another graph");

    let executable = instantiate(&c, graph, 0);
    // The arguments were read when the nodes were made.
    nanoseconds = 1;
    assert_eq!(nanoseconds, 1);
    for _ in 0..2 {
        assert!(duration(&c, executable, stream) >= ALMOST * 20e6);
    }
    // A graph in a graph.
    let outer = self::graph(&c);
    let mut child = null_mut();
    let added = c!(c, cuGraphAddChildGraphNode(
        &mut child => *mut Pointer, outer => Pointer, null_mut() => *mut Pointer, 0 => usize, graph => Pointer,
    ));
    assert_eq!(added, 0);
    assert_eq!(types(&c, outer), [4]);
    let mut outer_executable = null_mut();
    let made = c!(c, cuGraphInstantiate_v2(
        &mut outer_executable => *mut Pointer, outer => Pointer, null_mut() => *mut Pointer, null_mut() => *mut u8,
        0 => usize,
    ));
    assert_eq!(made, 0);
    let mut copy = null_mut();
    assert_eq!(c!(c, cuGraphClone(&mut copy => *mut Pointer, graph => Pointer)), 0);
    assert_eq!(types(&c, copy), [0, 0]);

    // What was made ready outlives its graph.
    assert_eq!(c!(c, cuGraphDestroy(graph => Pointer)), 0);
    assert_eq!(c!(c, cuGraphDestroy(graph => Pointer)), 1);
    assert!(duration(&c, outer_executable, stream) >= ALMOST * 20e6);
    assert_eq!(c!(c, cuGraphLaunch_ptsz(executable => Pointer, stream => Pointer)), 0);
    assert_eq!(c!(c, cuGraphExecDestroy(executable => Pointer)), 0);
    assert_eq!(launch(&c, executable, stream), 1);
    // Parameters: flags, a stream, then what is answered.
    let (mut parameters, mut executable) = ([1_u64, 0, 7, 7], null_mut());
    let made = c!(c, cuGraphInstantiateWithParams(
        &mut executable => *mut Pointer, outer => Pointer, parameters.as_mut_ptr() => *mut u64,
    ));
    assert_eq!((made, parameters[2], parameters[3] as u32), (0, 0, 0));
    assert_eq!(launch(&c, executable, stream), 0);
}

#[test]
fn nodes_of_any_kind_and_updates() {
    support::run("child_adds_any_nodes", &[]);
}

/// A node of any kind, as C writes it.
#[repr(C)]
struct AnyNode<T> {
    kind: u32,
    reserved: [i32; 3],
    of_kind: T,
    room: [u64; 29],
}

impl<T> AnyNode<T> {
    fn new(kind: u32, of_kind: T) -> Self {
        AnyNode { kind, reserved: [0; 3], of_kind, room: [0; 29] }
    }
}

#[test]
#[ignore = "run as a child process"]
fn child_adds_any_nodes() {
    let Some(c) = ready() else { return };
    let (spin, stream, graph) = (c.function(c"spin"), c.stream(1), graph(&c));
    let mut node = null_mut();
    let mut allocation = AnyNode::new(10, AllocationNode::new(1 << 20));
    let added = c!(c, cuGraphAddNode(
        &mut node => *mut Pointer, graph => Pointer, null_mut() => *mut Pointer, 0 => usize,
        &mut allocation => *mut AnyNode<AllocationNode>,
    ));
    assert_eq!(added, 0);
    let mut free = AnyNode::new(11, allocation.of_kind.address);
    let added = c!(c, cuGraphAddNode_v2(
        &mut node => *mut Pointer, graph => Pointer, &mut node.clone() => *mut Pointer, null_mut() => Pointer,
        1 => usize, &mut free => *mut AnyNode<u64>,
    ));
    assert_eq!(added, 0);
    let mut nanoseconds = 10 * MILLISECOND;
    let mut arguments: [Pointer; 1] = [from_mut(&mut nanoseconds).cast::<c_void>()];
    // Without a function, the kernel counts.
    let mut kernel = AnyNode::new(0, KernelNode::new(null_mut(), spin, &mut arguments));
    let added = c!(c, cuGraphAddNode(
        &mut node => *mut Pointer, graph => Pointer, &mut node.clone() => *mut Pointer, 1 => usize,
        &mut kernel => *mut AnyNode<KernelNode>,
    ));
    assert_eq!((added, nanoseconds), (0, 10 * MILLISECOND));
    assert_eq!(types(&c, graph), [10, 11, 0]);
    let executable = instantiate(&c, graph, 0);
    assert!(duration(&c, executable, stream) >= ALMOST * 10e6);

    // Another graph of the same kinds can take its place, one of other kinds can not.
    begin(&c, stream, 0);
    assert_eq!(c.spin(spin, stream, 30 * MILLISECOND), 0);
    let longer = end(&c, stream).unwrap();
    let update = |graph: Pointer| {
        let mut told = [7_u64; 3];
        let answer = c!(c, cuGraphExecUpdate_v2(
            executable => Pointer, graph => Pointer, told.as_mut_ptr() => *mut u64,
        ));
        (answer, told[0] as u32)
    };
    assert_eq!(update(longer), (910, 2));
    assert_eq!(update(graph), (0, 0));
    begin(&c, stream, 0);
    assert_eq!(c.spin(spin, stream, 1), 0);
    let short = instantiate(&c, end(&c, stream).unwrap(), 0);
    let answer = c!(c, cuGraphExecUpdate_v2(short => Pointer, longer => Pointer, null_mut() => Pointer));
    assert_eq!(answer, 0);
    assert!(duration(&c, short, stream) >= ALMOST * 30e6);
}

/// A node that allocates, as C writes it.
#[repr(C)]
struct AllocationNode {
    allocation_type: i32,
    handle_types: i32,
    location: [i32; 2],
    rest_of_pool: [u64; 9],
    access: Pointer,
    access_count: usize,
    bytes: usize,
    address: u64,
}

impl AllocationNode {
    /// Pinned memory of device 0.
    fn new(bytes: usize) -> Self {
        AllocationNode {
            allocation_type: 1,
            handle_types: 0,
            location: [1, 0],
            rest_of_pool: [0; 9],
            access: null_mut(),
            access_count: 0,
            bytes,
            address: 0,
        }
    }
}

fn memory_of_graphs(c: &C) -> [u64; 4] {
    [0, 1, 2, 3].map(|attribute| {
        let mut value = 77_u64;
        let answer = c!(c, cuDeviceGetGraphMemAttribute(
            0 => i32, attribute => i32, &mut value => *mut u64,
        ));
        assert_eq!(answer, 0);
        value
    })
}

#[test]
fn graphs_allocate_when_they_run_and_keep_until_they_are_trimmed() {
    support::run("child_allocates_in_graphs", &[]);
}

#[test]
#[ignore = "run as a child process"]
fn child_allocates_in_graphs() {
    let Some(c) = ready() else { return };
    let (stream, graph, free) = (c.stream(1), graph(&c), c.free());
    let mut parameters = AllocationNode::new(40 << 20);
    let mut allocation = null_mut();
    let added = c!(c, cuGraphAddMemAllocNode(
        &mut allocation => *mut Pointer, graph => Pointer, null_mut() => *mut Pointer, 0 => usize,
        &mut parameters => *mut AllocationNode,
    ));
    assert_eq!(added, 0);
    let address = parameters.address;
    assert_ne!(address, 0);
    let (keeping, clearing) = (instantiate(&c, graph, 0), instantiate(&c, graph, 1));
    assert_eq!(c.free(), free, "nothing is taken before it runs");
    assert_eq!(launch(&c, keeping, stream), 0);
    assert_eq!(c.free(), free - 2 * STEP);
    let used = 40 << 20;
    assert_eq!(memory_of_graphs(&c), [used, used, 2 * STEP as u64, 2 * STEP as u64]);
    assert_eq!(c!(c, cuMemsetD8_v2(address => u64, 7 => u8, 40 << 20 => usize)), 0);
    assert_eq!(launch(&c, keeping, stream), 1, "the first run's memory is still there");
    assert_eq!(launch(&c, clearing, stream), 0, "this one frees it before");
    assert_eq!(c!(c, cuMemFreeAsync(address => u64, stream => Pointer)), 0);
    assert_eq!(memory_of_graphs(&c)[..2], [0, used]);
    assert_eq!(c.free(), free - 2 * STEP);
    assert_eq!(c!(c, cuDeviceGraphMemTrim(0 => i32)), 0);
    assert_eq!(c.free(), free);
    let mut zero = 0_u64;
    assert_eq!(c!(c, cuDeviceSetGraphMemAttribute(0 => i32, 1 => i32, &mut zero => *mut u64)), 0);
    assert_eq!(memory_of_graphs(&c), [0, 0, 0, 2 * STEP as u64]);

    // Nodes tell what they do, also in a graph in a graph.
    let mut said = AllocationNode::new(0);
    let told = c!(c, cuGraphMemAllocNodeGetParams(allocation => Pointer, &mut said => *mut AllocationNode));
    assert_eq!((told, said.bytes, said.address, said.location), (0, 40 << 20, address, [1, 0]));
    let (outer, mut child, mut inside) = (self::graph(&c), null_mut(), null_mut());
    let added = c!(c, cuGraphAddChildGraphNode(
        &mut child => *mut Pointer, outer => Pointer, null_mut() => *mut Pointer, 0 => usize, graph => Pointer,
    ));
    assert_eq!(added, 0);
    assert_eq!(c!(c, cuGraphChildGraphNodeGetGraph(child => Pointer, &mut inside => *mut Pointer)), 0);
    assert_eq!((types(&c, outer), types(&c, inside)), (vec![4], vec![10]));
    let wrong = c!(c, cuGraphChildGraphNodeGetGraph(allocation => Pointer, &mut inside => *mut Pointer));
    assert_eq!(wrong, 1);
    // Some have their memory as soon as they are ready, and an update does not change what it is.
    let uploaded = instantiate(&c, outer, 2);
    assert_eq!(memory_of_graphs(&c)[2], 2 * STEP as u64);
    assert_eq!(c!(c, cuDeviceGraphMemTrim(0 => i32)), 0);
    let mut larger = AllocationNode::new(80 << 20);
    let (other, mut node) = (self::graph(&c), null_mut());
    let added = c!(c, cuGraphAddMemAllocNode(
        &mut node => *mut Pointer, other => Pointer, null_mut() => *mut Pointer, 0 => usize,
        &mut larger => *mut AllocationNode,
    ));
    assert_eq!(added, 0);
    let updated = c!(c, cuGraphExecUpdate_v2(keeping => Pointer, other => Pointer, null_mut() => Pointer));
    assert_eq!(updated, 910);
    assert_eq!(c!(c, cuGraphExecDestroy(uploaded => Pointer)), 0);

    // With a node that frees, it can run again and again.
    let mut free_node = null_mut();
    let added = c!(c, cuGraphAddMemFreeNode(
        &mut free_node => *mut Pointer, graph => Pointer, &mut allocation => *mut Pointer, 1 => usize,
        address => u64,
    ));
    assert_eq!(added, 0);
    assert_eq!(types(&c, graph), [10, 11]);
    let mut told = 0;
    assert_eq!(c!(c, cuGraphMemFreeNodeGetParams(free_node => Pointer, &mut told => *mut u64)), 0);
    assert_eq!(told, address);
    let executable = instantiate(&c, graph, 0);
    for _ in 0..3 {
        assert_eq!(launch(&c, executable, stream), 0);
    }
    assert_eq!(memory_of_graphs(&c)[0], 0);

    // The same by capture, and one that is too large fails when it runs.
    begin(&c, stream, 0);
    let mut captured = 0;
    assert_eq!(c!(c, cuMemAllocAsync(&mut captured => *mut u64, 1 << 20 => usize, stream => Pointer)), 0);
    assert_eq!(c!(c, cuMemFreeAsync(captured => u64, stream => Pointer)), 0);
    let graph = end(&c, stream).unwrap();
    assert_eq!(types(&c, graph), [10, 11]);
    assert_eq!(launch(&c, instantiate(&c, graph, 0), stream), 0);
    begin(&c, stream, 0);
    assert_eq!(c!(c, cuMemAllocAsync(&mut captured => *mut u64, 1 << 50 => usize, stream => Pointer)), 0);
    let graph = end(&c, stream).unwrap();
    assert_eq!(launch(&c, instantiate(&c, graph, 0), stream), 2);
}

#[test]
fn what_is_captured_runs_later() {
    support::run("child_captures", &[]);
}

#[test]
#[ignore = "run as a child process"]
fn child_captures() {
    let Some(c) = ready() else { return };
    let (spin, stream, other) = (c.function(c"spin"), c.stream(0), c.stream(1));
    assert_eq!(
        c!(c, cuStreamBeginCapture_v2(1 as Pointer => Pointer, 0 => u32)),
        900,
        "not the legacy stream"
    );
    assert_eq!(end(&c, stream), Err(401), "nothing was begun");
    let memory = c.allocate(16).unwrap();

    begin(&c, stream, 0);
    assert_eq!(c!(c, cuStreamBeginCapture_v2(stream => Pointer, 0 => u32)), 401, "twice");
    assert_eq!((status(&c, stream), status(&c, other)), (1, 0));
    assert_eq!(c.spin(spin, stream, 10 * MILLISECOND), 0);
    assert_eq!(c!(c, cuMemsetD8Async(memory => u64, 7 => u8, 16 => usize, stream => Pointer)), 0);
    // Another stream joins by waiting for an event of the first one, and the first one waits for it in turn.
    let fork = c.recorded(stream);
    assert_eq!(c!(c, cuStreamWaitEvent(other => Pointer, fork => Pointer, 0 => u32)), 0);
    assert_eq!(status(&c, other), 1);
    assert_eq!(c.spin(spin, other, 10 * MILLISECOND), 0);
    let join = c.recorded(other);
    assert_eq!(c!(c, cuStreamWaitEvent(stream => Pointer, join => Pointer, 0 => u32)), 0);
    let (mut state, mut id, mut graph, mut nodes, mut count) =
        (7_u32, 0_u64, null_mut(), null_mut(), 0_usize);
    let told = c!(c, cuStreamGetCaptureInfo_v2(
        stream => Pointer, &mut state => *mut u32, &mut id => *mut u64, &mut graph => *mut Pointer,
        &mut nodes => *mut *mut Pointer, &mut count => *mut usize,
    ));
    assert_eq!(
        (told, state, count),
        (0, 1, 2),
        "what comes next comes after the fill and the other stream's kernel"
    );
    assert_ne!(id, 0);
    let mut edges = 1 as Pointer;
    let told = c!(c, cuStreamGetCaptureInfo_v3(
        stream => Pointer, &mut state => *mut u32, null_mut() => *mut u64, null_mut() => *mut Pointer,
        null_mut() => *mut *mut Pointer, &mut edges => *mut Pointer, null_mut() => *mut usize,
    ));
    assert_eq!((told, state, edges.is_null()), (0, 1, true));
    assert_eq!(end(&c, stream), Ok(graph));
    assert_eq!((status(&c, stream), status(&c, other)), (0, 0));
    assert_eq!(types(&c, graph), [0, 2, 0]);
    assert_eq!(c!(c, cuEventQuery(join => Pointer)), 907);

    let mut bytes = [0_u8; 16];
    let read =
        |bytes: &mut [u8; 16]| c!(c, cuMemcpyDtoH_v2(bytes => *mut [u8; 16], memory => u64, 16 => usize));
    assert_eq!((read(&mut bytes), bytes), (0, [0; 16]), "nothing has run");
    assert!(duration(&c, instantiate(&c, graph, 0), stream) >= ALMOST * 20e6);
    assert_eq!((read(&mut bytes), bytes), (0, [7; 16]));

    // A stream that joined and is not waited for spoils the end.
    begin(&c, stream, 0);
    let fork = c.recorded(stream);
    assert_eq!(c!(c, cuStreamWaitEvent(other => Pointer, fork => Pointer, 0 => u32)), 0);
    assert_eq!(c.spin(spin, other, 1), 0);
    assert_eq!(end(&c, stream), Err(904));
    // One that did not begin it can not end it.
    begin(&c, stream, 0);
    let fork = c.recorded(stream);
    assert_eq!(c!(c, cuStreamWaitEvent(other => Pointer, fork => Pointer, 0 => u32)), 0);
    assert_eq!(end(&c, other), Err(903));
    assert_eq!(end(&c, stream), Err(901));
    // Work into a graph that is there.
    let graph = self::graph(&c);
    let begun = c!(c, cuStreamBeginCaptureToGraph(
        stream => Pointer, graph => Pointer, null_mut() => *mut Pointer, null_mut() => Pointer, 0 => usize,
        0 => u32,
    ));
    assert_eq!(begun, 0);
    assert_eq!(c.spin(spin, stream, 1), 0);
    assert_eq!(end(&c, stream), Ok(graph));
    assert_eq!(types(&c, graph), [0]);
}

#[test]
fn what_is_unsafe_spoils_a_capture() {
    support::run("child_spoils_captures", &[]);
}

#[test]
#[ignore = "run as a child process"]
fn child_spoils_captures() {
    let Some(c) = ready() else { return };
    let (spin, stream, apart) = (c.function(c"spin"), c.stream(0), c.stream(1));
    let (event, memory) = (c.recorded(apart), c.allocate(16).unwrap());
    let exchange = |mode: u32| {
        let mut mode = mode;
        assert_eq!(c!(c, cuThreadExchangeStreamCaptureMode(&mut mode => *mut u32)), 0);
        mode
    };
    let mistakes: [(&str, u32, &dyn Fn() -> u32); 8] = [
        ("allocating", 900, &|| c.allocate(16).map_or_else(|code| code, |_| 0)),
        ("freeing", 900, &|| c.release(memory)),
        ("asking for an event", 900, &|| c!(c, cuEventQuery(event => Pointer))),
        ("waiting for an event", 900, &|| c!(c, cuEventSynchronize(event => Pointer))),
        ("waiting for a stream", 900, &|| c!(c, cuStreamSynchronize(apart => Pointer))),
        ("waiting for what is captured", 900, &|| c!(c, cuStreamSynchronize(stream => Pointer))),
        ("waiting for everything", 900, &|| c!(c, cuCtxSynchronize())),
        ("the legacy stream", 906, &|| c.spin(spin, null_mut(), 1)),
    ];
    for (what, code, mistake) in mistakes {
        begin(&c, stream, 0);
        assert_eq!(mistake(), code, "{what}");
        assert_eq!(status(&c, stream), 2, "{what}");
        assert_eq!(c.spin(spin, stream, 1), 901, "{what}");
        assert_eq!(end(&c, stream), Err(901), "{what}");
    }
    begin(&c, stream, 0);
    assert_eq!(
        c!(c, cuStreamWaitEvent(stream => Pointer, event => Pointer, 0 => u32)),
        905,
        "work from outside"
    );
    assert_eq!(end(&c, stream), Err(901));

    // A thread that says it knows what it does may, and so it may during a relaxed capture.
    begin(&c, stream, 0);
    assert_eq!(exchange(2), 0);
    assert!(c.allocate(16).is_ok());
    assert_eq!(exchange(0), 2);
    assert_eq!(status(&c, stream), 1);
    let mut told = 7;
    let legacy = c!(c, cuStreamIsCapturing(null_mut() => Pointer, &mut told => *mut u32));
    assert_eq!((legacy, status(&c, stream)), (906, 1), "can not be told, but asking is harmless");
    // What only asks, and work in streams that stand apart, harm nothing.
    assert!(c.free() > 0);
    assert_eq!(c.spin(spin, apart, 1), 0);
    assert_eq!(c!(c, cuEventRecord(event => Pointer, apart => Pointer)), 0);
    let graph = end(&c, stream).unwrap();
    assert!(types(&c, graph).is_empty());
    begin(&c, stream, 2);
    assert!(c.allocate(16).is_ok());
    assert!(end(&c, stream).is_ok());

    // Another thread is refused by a global capture alone, and can not end it.
    let elsewhere = |act: &(dyn Fn() -> u32 + Sync)| {
        std::thread::scope(|scope| {
            let answer = scope.spawn(|| {
                let mut context = null_mut();
                assert_eq!(c!(c, cuDevicePrimaryCtxRetain(&mut context => *mut Pointer, 0 => i32)), 0);
                assert_eq!(c!(c, cuCtxSetCurrent(context => Pointer)), 0);
                act()
            });
            answer.join().unwrap()
        })
    };
    let address = stream as usize;
    for (mode, code, ended) in [(0, 900, Err(901)), (1, 0, Ok(())), (2, 0, Ok(()))] {
        begin(&c, stream, mode);
        assert_eq!(elsewhere(&|| c.allocate(16).map_or_else(|code| code, |_| 0)), code, "mode {mode}");
        if mode == 1 {
            let ended = elsewhere(&|| end(&c, address as Pointer).map_or_else(|code| code, |_| 0));
            assert_eq!(ended, 908);
        }
        assert_eq!(end(&c, stream).map(drop), ended, "mode {mode}");
    }
}
