//! The time model: kernels take time, streams keep order, events tell when, and processes can share a device.

mod support;

use std::ffi::{CStr, c_char, c_void};
use std::io::{BufRead, BufReader, Write};
use std::process::Child;
use std::ptr::{from_mut, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use support::{C, PTX, Pointer, c, ready};

const MILLISECOND: u64 = 1_000_000;
const HOUR: u64 = 3_600_000 * MILLISECOND;
const NOT_READY: u32 = 600;

/// Single precision has seven digits.
const ALMOST: f64 = 0.9999;

fn synchronise(c: &C, stream: Pointer) {
    assert_eq!(c!(c, cuStreamSynchronize(stream => Pointer)), 0);
}

#[test]
fn kernels_take_their_time_one_after_another() {
    support::run("child_measures", &[]);
}

#[test]
#[ignore = "run as a child process"]
fn child_measures() {
    let Some(c) = ready() else { return };
    let (spin, first, second) = (c.function(c"spin"), c.stream(1), c.stream(1));

    let start = Instant::now();
    assert_eq!(c.spin(spin, first, 30 * MILLISECOND), 0);
    synchronise(&c, first);
    assert!(start.elapsed() >= Duration::from_millis(30));
    assert_eq!(c!(c, cuStreamQuery(first => Pointer)), 0);

    // Two streams: the device serves them in the order of the launches.
    let begun = c.recorded(first);
    assert_eq!(c.spin(spin, first, 20 * MILLISECOND), 0);
    let middle = c.recorded(first);
    assert_eq!(c.spin(spin, second, 10 * MILLISECOND), 0);
    let end = c.recorded(second);
    assert_eq!(c!(c, cuEventSynchronize(end => Pointer)), 0);
    assert_eq!(c!(c, cuEventQuery(middle => Pointer)), 0, "what was before it is over too");
    assert!(c.elapsed(begun, middle) >= ALMOST * 20e6);
    assert!(c.elapsed(middle, end) >= ALMOST * 10e6);
    let mut milliseconds = 0.0_f32;
    assert_eq!(
        c!(c, cuEventElapsedTime_v2(&mut milliseconds => *mut f32, end => Pointer, begun => Pointer)),
        0
    );
    assert!(f64::from(milliseconds) <= ALMOST * -30.0, "backwards is less than nothing");

    // An event that nothing was before is now; one that was never recorded marks nothing.
    assert_eq!(c!(c, cuEventQuery(c.recorded(first) => Pointer)), 0);
    let never = c.event();
    assert_eq!(c!(c, cuEventQuery(never => Pointer)), 0);
    assert_eq!(c!(c, cuStreamWaitEvent(first => Pointer, never => Pointer, 0 => u32)), 0);
    let elapsed = |start, end| {
        let mut milliseconds = 0.0_f32;
        c!(c, cuEventElapsedTime(&mut milliseconds => *mut f32, start => Pointer, end => Pointer))
    };
    assert_eq!(elapsed(never, end), 400);
    let mut untimed = null_mut();
    assert_eq!(c!(c, cuEventCreate(&mut untimed => *mut Pointer, 2 => u32)), 0);
    assert_eq!(c!(c, cuEventRecord(untimed => Pointer, first => Pointer)), 0);
    assert_eq!(elapsed(untimed, end), 400);
    assert_eq!(c!(c, cuEventDestroy_v2(untimed => Pointer)), 0);
    assert_eq!(c!(c, cuEventDestroy_v2(untimed => Pointer)), 400);

    // The whole context, and streams that are gone.
    let start = Instant::now();
    assert_eq!(c.spin(spin, second, 10 * MILLISECOND), 0);
    assert_eq!(c!(c, cuStreamDestroy_v2(first => Pointer)), 0);
    assert_eq!(c!(c, cuCtxSynchronize()), 0);
    assert!(start.elapsed() >= Duration::from_millis(10));
    assert_eq!(c!(c, cuStreamDestroy_v2(first => Pointer)), 400);
    assert_eq!(c.spin(spin, first, 1), 400);
}

#[test]
fn every_way_of_launching_launches() {
    support::run("child_launches", &[]);
}

#[test]
#[ignore = "run as a child process"]
fn child_launches() {
    let Some(c) = ready() else { return };
    let (spin, stream) = (c.function(c"spin"), c.stream(1));
    let mut nanoseconds = 10 * MILLISECOND;
    let mut arguments: [Pointer; 1] = [from_mut(&mut nanoseconds).cast()];
    let arguments = arguments.as_mut_ptr();
    // A launch configuration: grid, block, shared memory, padding; then stream, attributes and their count.
    let words: [u32; 8] = [1, 1, 1, 32, 1, 1, 0, 0];
    let mut config = [0_u8; 56];
    for (at, word) in words.iter().enumerate() {
        config[4 * at..4 * at + 4].copy_from_slice(&word.to_ne_bytes());
    }
    config[32..40].copy_from_slice(&(stream as usize).to_ne_bytes());
    let config = config.as_ptr();
    // All arguments in one buffer: a mark and the buffer, a mark and where its size stands, the end.
    let mut size = 8_usize;
    let mut extra: [Pointer; 5] = [
        1 as Pointer,
        from_mut(&mut nanoseconds).cast(),
        2 as Pointer,
        from_mut(&mut size).cast(),
        null_mut(),
    ];

    let events: Vec<Pointer> = (0..6)
        .map(|way| {
            let answer = match way {
                0 => 0,
                1 => c!(c, cuLaunchKernelEx(
                    config => *const u8, spin => Pointer, arguments => *mut Pointer, null_mut() => Pointer,
                )),
                2 => c!(c, cuLaunchKernelEx_ptsz(
                    config => *const u8, spin => Pointer, arguments => *mut Pointer, null_mut() => Pointer,
                )),
                3 => c!(c, cuLaunchCooperativeKernel(
                    spin => Pointer, 1 => u32, 1 => u32, 1 => u32, 32 => u32, 1 => u32, 1 => u32, 0 => u32,
                    stream => Pointer, arguments => *mut Pointer,
                )),
                4 => c!(c, cuLaunchKernel(
                    spin => Pointer, 1 => u32, 1 => u32, 1 => u32, 32 => u32, 1 => u32, 1 => u32, 0 => u32,
                    stream => Pointer, null_mut() => Pointer, extra.as_mut_ptr() => *mut Pointer,
                )),
                _ => c!(c, cuLaunchKernel_ptsz(
                    spin => Pointer, 1 => u32, 1 => u32, 1 => u32, 32 => u32, 1 => u32, 1 => u32, 0 => u32,
                    stream => Pointer, arguments => *mut Pointer, null_mut() => Pointer,
                )),
            };
            assert_eq!(answer, 0, "way {way}");
            c.recorded(stream)
        })
        .collect();
    synchronise(&c, stream);
    for (way, pair) in events.windows(2).enumerate() {
        assert!(c.elapsed(pair[0], pair[1]) >= ALMOST * 10e6, "way {}", way + 1);
    }
    size = 4;
    let short = c!(c, cuLaunchKernel(
        spin => Pointer, 1 => u32, 1 => u32, 1 => u32, 32 => u32, 1 => u32, 1 => u32, 0 => u32,
        stream => Pointer, null_mut() => Pointer, extra.as_mut_ptr() => *mut Pointer,
    ));
    assert_eq!((short, size), (1, 4), "the buffer is shorter than its argument");
}

#[test]
fn kernels_of_libraries_run_in_every_context() {
    support::run("child_uses_libraries", &[]);
}

#[test]
#[ignore = "run as a child process"]
fn child_uses_libraries() {
    let Some(c) = ready() else { return };
    let (mut library, mut kernel, mut function, mut module) =
        (null_mut(), null_mut(), null_mut(), null_mut());
    let none = null_mut::<c_void>();
    let loaded = c!(c, cuLibraryLoadData(
        &mut library => *mut Pointer, PTX.as_ptr() => *const c_char, none => Pointer, none => Pointer, 0 => u32,
        none => Pointer, none => Pointer, 0 => u32,
    ));
    assert_eq!(loaded, 0);
    let find = |kernel: &mut Pointer, name: &CStr| {
        c!(c, cuLibraryGetKernel(
            kernel => *mut Pointer, library => Pointer, name.as_ptr() => *const c_char,
        ))
    };
    assert_eq!((find(&mut kernel, c"dance"), find(&mut kernel, c"spin")), (500, 0));
    assert_eq!(c!(c, cuKernelGetFunction(&mut function => *mut Pointer, kernel => Pointer)), 0);
    assert_eq!(c!(c, cuLibraryGetModule(&mut module => *mut Pointer, library => Pointer)), 0);
    let mut of_function = null_mut();
    assert_eq!(c!(c, cuFuncGetModule(&mut of_function => *mut Pointer, function => Pointer)), 0);
    assert_eq!(of_function, module);
    for told in [
        |c: &C, name: &mut *const c_char, kernel| c!(c, cuKernelGetName(name => *mut *const c_char, kernel => Pointer)),
        |c: &C, name: &mut *const c_char, kernel| c!(c, cuFuncGetName(name => *mut *const c_char, kernel => Pointer)),
    ] {
        let mut name = std::ptr::null();
        assert_eq!(told(&c, &mut name, kernel), 0);
        #[allow(unsafe_code, reason = "reading what C tells")]
        // SAFETY: the library told a name.
        let name = unsafe { CStr::from_ptr(name) };
        assert_eq!(name, c"spin");
    }
    // Here, and in another context; a kernel is as good as its function.
    assert_eq!((c.spin(kernel, null_mut(), 1), c.spin(function, null_mut(), 1)), (0, 0));
    let of_context = c.function(c"spin");
    let mut context = null_mut();
    assert_eq!(c!(c, cuCtxCreate_v4(&mut context => *mut Pointer, none => Pointer, 0 => u32, 0 => i32)), 0);
    assert_eq!((c.spin(kernel, null_mut(), 1), c.spin(of_context, null_mut(), 1)), (0, 400));
    assert_eq!(c!(c, cuCtxSynchronize_v2(context => Pointer)), 0);
    let (mut device, stream) = (7, c.stream(0));
    assert_eq!(c!(c, cuStreamGetDevice(stream => Pointer, &mut device => *mut i32)), 0);
    assert_eq!(device, 0);
    assert_eq!(c!(c, cuLibraryUnload(library => Pointer)), 0);
    assert_eq!(c.spin(kernel, null_mut(), 1), 400);
}

#[test]
fn who_waits_for_whom() {
    support::run("child_looks_at_streams", &[]);
}

/// Kernels of an hour tell without a race who waits for them.
#[test]
#[ignore = "run as a child process"]
fn child_looks_at_streams() {
    let Some(c) = ready() else { return };
    let spin = c.function(c"spin");
    let (apart, blocking, legacy, own) = (c.stream(1), c.stream(0), 1 as Pointer, 2 as Pointer);
    let query = |stream: Pointer| c!(c, cuStreamQuery(stream => Pointer));
    let mut flags = 7_u32;
    assert_eq!(c!(c, cuStreamGetFlags(apart => Pointer, &mut flags => *mut u32)), 0);
    assert_eq!(flags, 1);

    assert_eq!(c.spin(spin, apart, HOUR), 0);
    assert_eq!(query(apart), NOT_READY);
    assert_eq!(
        [blocking, legacy, null_mut(), own].map(query),
        [0; 4],
        "nobody waits for a stream that stands apart"
    );
    let mark = c.recorded(apart);
    assert_eq!(c!(c, cuEventQuery(mark => Pointer)), NOT_READY);
    let mut milliseconds = 0.0_f32;
    let elapsed = c!(c, cuEventElapsedTime(&mut milliseconds => *mut f32, mark => Pointer, mark => Pointer));
    assert_eq!(elapsed, NOT_READY);

    // A stream that waits for the event is not done before it; the legacy stream waits for that one; the thread's own
    // stream waits for the legacy one as soon as it has something to do.
    assert_eq!(c!(c, cuStreamWaitEvent(blocking => Pointer, mark => Pointer, 0 => u32)), 0);
    assert_eq!([blocking, legacy, null_mut()].map(query), [NOT_READY; 3]);
    assert_eq!(query(own), 0);
    assert_eq!(c!(c, cuStreamQuery_ptsz(null_mut() => Pointer)), 0, "here 0 is the thread's own");
    let mut nanoseconds = 1_u64;
    let mut arguments: [Pointer; 1] = [from_mut(&mut nanoseconds).cast()];
    let launched = c!(c, cuLaunchKernel_ptsz(
        spin => Pointer, 1 => u32, 1 => u32, 1 => u32, 32 => u32, 1 => u32, 1 => u32, 0 => u32,
        null_mut() => Pointer, arguments.as_mut_ptr() => *mut Pointer, null_mut() => Pointer,
    ));
    assert_eq!((launched, nanoseconds), (0, 1));
    assert_eq!(query(own), NOT_READY, "the device is busy for an hour");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut context = null_mut();
            assert_eq!(c!(c, cuDevicePrimaryCtxRetain(&mut context => *mut Pointer, 0 => i32)), 0);
            assert_eq!(c!(c, cuCtxSetCurrent(context => Pointer)), 0);
            assert_eq!(
                c!(c, cuStreamQuery(2 as Pointer => Pointer)),
                0,
                "another thread's own is another one"
            );
        });
    });
    assert_eq!(query(0x1234 as Pointer), 400);
}

static CALLS: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_host(place: Pointer) {
    // Each one finds the number that tells that all before it have run.
    let _ = CALLS.compare_exchange(
        place as usize as u32,
        place as usize as u32 + 1,
        Ordering::SeqCst,
        Ordering::SeqCst,
    );
}

extern "C" fn on_stream(stream: Pointer, status: u32, data: Pointer) {
    if stream == data && status == 0 {
        CALLS.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn functions_of_the_host_run_in_order_and_are_waited_for() {
    support::run("child_calls_back", &[]);
}

#[test]
#[ignore = "run as a child process"]
fn child_calls_back() {
    let Some(c) = ready() else { return };
    let (spin, stream) = (c.function(c"spin"), c.stream(0));
    let call = |stream: Pointer, place: usize| {
        c!(c, cuLaunchHostFunc(
            stream => Pointer, on_host => extern "C" fn(Pointer), place as Pointer => Pointer,
        ))
    };
    let start = Instant::now();
    for place in 0..10 {
        assert_eq!(c.spin(spin, stream, MILLISECOND), 0);
        assert_eq!(call(stream, place), 0);
    }
    synchronise(&c, stream);
    assert_eq!(CALLS.load(Ordering::SeqCst), 10);
    assert!(start.elapsed() >= Duration::from_millis(10));
    assert_eq!(call(stream, 10), 0);
    assert_eq!(c!(c, cuCtxSynchronize()), 0);
    assert_eq!(CALLS.load(Ordering::SeqCst), 11);
    // The older kind is told its stream.
    let added = c!(c, cuStreamAddCallback(
        stream => Pointer, on_stream => extern "C" fn(Pointer, u32, Pointer), stream => Pointer, 0 => u32,
    ));
    assert_eq!(added, 0);
    synchronise(&c, stream);
    assert_eq!(CALLS.load(Ordering::SeqCst), 12);
}

/// Starts a child that does something and holds it until its input ends.
fn holding(test: &str, clock: &str) -> Child {
    let mut child = support::start(test, &[("CARVE_SIM_CUDA_CLOCK", clock)]);
    let mut told = BufReader::new(child.stdout.as_mut().unwrap()).lines().map(Result::unwrap);
    assert!(told.any(|line| line.contains("holding")), "the child died");
    child
}

fn hold() {
    let mut out = std::io::stdout();
    writeln!(out, "holding").unwrap();
    out.flush().unwrap();
    std::io::stdin().lines().for_each(drop);
}

#[test]
fn processes_with_one_clock_share_the_device() {
    let folder = tempfile::tempdir().unwrap();
    let (clock, other) = (folder.path().join("clock"), folder.path().join("other"));
    let (clock, other) = (clock.to_str().unwrap(), other.to_str().unwrap());
    let mut busy = holding("child_holds_the_device", clock);
    support::run("child_finds_it_taken", &[("CARVE_SIM_CUDA_CLOCK", clock)]);
    support::run("child_finds_it_free", &[("CARVE_SIM_CUDA_CLOCK", other)]);
    support::run("child_finds_it_free", &[]);
    busy.kill().unwrap();
    busy.wait().unwrap();
    support::run("child_finds_memory_free", &[("CARVE_SIM_CUDA_CLOCK", clock)]);
}

const MUCH: usize = 100 << 30;

#[test]
#[ignore = "run as a child process"]
fn child_holds_the_device() {
    let Some(c) = ready() else { return };
    assert_eq!(c.spin(c.function(c"spin"), null_mut(), HOUR), 0);
    c.allocate(MUCH).unwrap();
    hold();
}

#[test]
#[ignore = "run as a child process"]
fn child_finds_it_taken() {
    let Some(c) = ready() else { return };
    assert_eq!(c.spin(c.function(c"spin"), null_mut(), 1), 0);
    assert_eq!(c!(c, cuStreamQuery(null_mut() => Pointer)), NOT_READY);
    assert!(c.free() < MUCH);
    assert_eq!(c.allocate(MUCH), Err(2));
}

#[test]
#[ignore = "run as a child process"]
fn child_finds_it_free() {
    let Some(c) = ready() else { return };
    assert_eq!(c.spin(c.function(c"spin"), null_mut(), 1), 0);
    synchronise(&c, null_mut());
    assert!(c.allocate(MUCH).is_ok());
}

#[test]
#[ignore = "run as a child process"]
fn child_finds_memory_free() {
    let Some(c) = ready() else { return };
    assert!(c.free() > MUCH);
    assert!(c.allocate(MUCH).is_ok());
}
