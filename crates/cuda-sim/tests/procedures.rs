//! Functions by name: `cuGetProcAddress` in both versions.

mod support;

use std::ffi::{CString, c_char};
use std::process::Command;
use std::ptr::null_mut;
use support::{C, Pointer, c, loaded};

const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;

#[test]
fn names_versions_and_flags_lead_to_the_right_function() {
    support::run("child_asks_for_functions", &[]);
}

/// Answer, address and status of the second version.
fn ask(c: &C, name: &str, version: i32, flags: u64) -> (u32, Pointer, u32) {
    let name = CString::new(name).unwrap();
    let (mut address, mut status) = (1 as Pointer, 77_u32);
    let answer = c!(c, cuGetProcAddress_v2(
        name.as_ptr() => *const c_char, &mut address => *mut Pointer, version => i32, flags => u64,
        &mut status => *mut u32,
    ));
    (answer, address, status)
}

fn ask_first(c: &C, name: &str, version: i32, flags: u64) -> (u32, Pointer) {
    let name = CString::new(name).unwrap();
    let mut address = 1 as Pointer;
    let answer = c!(c, cuGetProcAddress(
        name.as_ptr() => *const c_char, &mut address => *mut Pointer, version => i32, flags => u64,
    ));
    (answer, address)
}

#[test]
#[ignore = "run as a child process"]
fn child_asks_for_functions() {
    let Some(c) = loaded() else { return };
    let mut newest = 0;
    // The runtime asks for all this before it starts CUDA.
    assert_eq!(c!(c, cuDriverGetVersion(&mut newest => *mut i32)), 0);
    assert!(newest >= 12000, "{newest}");
    for (name, version, flags, symbol) in [
        ("cuInit", 12000, 0, "cuInit"),
        ("cuMemAlloc", 12000, 0, "cuMemAlloc_v2"),
        ("cuMemAlloc", 3020, PER_THREAD, "cuMemAlloc_v2"),
        ("cuMemcpyHtoD", 12000, LEGACY, "cuMemcpyHtoD_v2"),
        ("cuMemcpyHtoD", 12000, PER_THREAD, "cuMemcpyHtoD_v2_ptds"),
        ("cuLaunchKernel", 12000, 0, "cuLaunchKernel"),
        ("cuLaunchKernel", 12000, LEGACY, "cuLaunchKernel"),
        ("cuLaunchKernel", 12000, PER_THREAD, "cuLaunchKernel_ptsz"),
        ("cuLaunchKernel", 6050, PER_THREAD, "cuLaunchKernel"),
        ("cuStreamDestroy", 12000, 0, "cuStreamDestroy_v2"),
        ("cuStreamGetCaptureInfo", 11020, 0, "cuStreamGetCaptureInfo"),
        ("cuStreamGetCaptureInfo", 11030, PER_THREAD, "cuStreamGetCaptureInfo_v2_ptsz"),
        ("cuGraphAddKernelNode", 11080, 0, "cuGraphAddKernelNode"),
        ("cuGraphAddKernelNode", 12000, 0, "cuGraphAddKernelNode_v2"),
        ("cuStreamBeginCapture", 10000, 0, "cuStreamBeginCapture"),
        ("cuStreamBeginCapture", 10010, PER_THREAD, "cuStreamBeginCapture_v2_ptsz"),
        ("cuDevicePrimaryCtxRelease", 10020, 0, "cuDevicePrimaryCtxRelease"),
        ("cuDevicePrimaryCtxRelease", 11000, 0, "cuDevicePrimaryCtxRelease_v2"),
        ("cuStreamDestroy", 3020, 0, "cuStreamDestroy"),
        ("cuGraphInstantiate", 10020, 0, "cuGraphInstantiate"),
        ("cuGetProcAddress", 11080, 0, "cuGetProcAddress"),
        ("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"),
    ] {
        let expected = c.symbol(symbol).unwrap();
        assert_eq!(ask(&c, name, version, flags), (0, expected, 0), "{name} {version} {flags}");
        assert_eq!(ask_first(&c, name, version, flags), (0, expected), "{name} {version} {flags}");
    }
    for unknown in ["cuNothing", "cuMemAlloc_v2", "cuLaunchKernel_ptsz", ""] {
        assert_eq!(ask(&c, unknown, newest, 0), (0, null_mut(), 1), "{unknown}");
        assert_eq!(ask_first(&c, unknown, newest, 0), (500, null_mut()), "{unknown}");
    }
    assert_eq!(
        ask(&c, "cuMemAlloc", 3010, 0).1,
        c.symbol("cuMemAlloc").unwrap(),
        "there was another one then"
    );
    assert_eq!(ask(&c, "cuMemAllocAsync", 11010, 0), (0, null_mut(), 2), "it came later");
    assert_eq!(ask_first(&c, "cuMemAllocAsync", 11010, 0), (500, null_mut()));
    assert_eq!(ask(&c, "cuInit", newest + 10, 0).0, 1, "newer than the driver");
    assert_eq!(ask(&c, "cuInit", newest, 4).0, 1);
    // The status may be left out, the place for the address may not.
    let (name, mut address) = (c"cuNothing".as_ptr(), 1 as Pointer);
    assert_eq!(
        c!(c, cuGetProcAddress_v2(
            name => *const c_char, &mut address => *mut Pointer, newest => i32, 0 => u64, null_mut() => *mut u32,
        )),
        0
    );
    assert!(address.is_null());
    assert_eq!(
        c!(c, cuGetProcAddress_v2(
            name => *const c_char, null_mut() => *mut Pointer, newest => i32, 0 => u64, null_mut() => *mut u32,
        )),
        1
    );
}

/// A limiter has the library's names and is loaded before it. It must get the library's functions, not its own.
#[test]
fn functions_of_a_preloaded_library_are_not_given_out() {
    let folder = tempfile::tempdir().unwrap();
    let (source, preloaded) = (folder.path().join("preloaded.c"), folder.path().join("preloaded.so"));
    std::fs::write(&source, "unsigned cuInit(unsigned flags) { return 77 + flags; }\n").unwrap();
    let compiled = Command::new("gcc").args(["-shared", "-fPIC", "-o"]).args([&preloaded, &source]).status();
    assert!(compiled.unwrap().success());
    support::run("child_is_preloaded", &[("LD_PRELOAD", preloaded.to_str().unwrap())]);
}

#[test]
#[ignore = "run as a child process"]
fn child_is_preloaded() {
    let Some(c) = loaded() else { return };
    #[allow(unsafe_code, reason = "asking for what is in the process")]
    // SAFETY: nothing new is loaded, and the types are those of the source above.
    let in_front = unsafe {
        let process = libloading::os::unix::Library::this();
        process.get::<unsafe extern "C" fn(u32) -> u32>(b"cuInit\0").unwrap()(0)
    };
    assert_eq!(in_front, 77, "the preloaded one is in front");
    assert_eq!(ask(&c, "cuInit", 12000, 0), (0, c.symbol("cuInit").unwrap(), 0));
    assert_eq!(c!(c, cuInit(0 => u32)), 0);
}
