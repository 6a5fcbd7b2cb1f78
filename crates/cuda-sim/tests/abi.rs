//! Which symbols there are, and what a program is told that makes mistakes.

mod support;

use std::ffi::{c_char, c_void};
use std::process::Command;
use std::ptr::{from_mut, null, null_mut};
use support::{C, PTX, c, library, loaded};

#[test]
fn exactly_these_symbols_are_exported() {
    let listed = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output();
    let listed = match listed {
        Ok(output) => String::from_utf8(output.stdout).unwrap(),
        Err(error) => {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "nm: {error}, and CI must not skip");
            eprintln!("SKIPPED: nm: {error}");
            return;
        }
    };
    let mut names: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().last()).collect();
    names.sort_unstable();
    // A name more or less is a decision, so the list is written down. Every name is one of NVIDIA's library.
    let expected: Vec<&str> = include_str!("symbols.txt").lines().collect();
    assert_eq!(names, expected);
}

#[test]
fn a_program_that_makes_mistakes_is_told_and_not_followed() {
    support::run("child_makes_mistakes", &[]);
}

/// Starts the kernel with so many blocks of 256.
fn launch(c: &C, function: *mut c_void, blocks: u32, mut addresses: [u64; 3], mut elements: u32) -> u32 {
    let [a, b, sum] = &mut addresses;
    let mut arguments: [*mut c_void; 4] =
        [from_mut(a).cast(), from_mut(b).cast(), from_mut(sum).cast(), from_mut(&mut elements).cast()];
    c!(c, cuLaunchKernel(
        function => *mut c_void, blocks => u32, 1 => u32, 1 => u32, 256 => u32, 1 => u32, 1 => u32, 0 => u32,
        null_mut() => *mut c_void, arguments.as_mut_ptr() => *mut *mut c_void, null_mut() => *mut c_void,
    ))
}

#[test]
#[ignore = "run as a child process"]
fn child_makes_mistakes() {
    let Some(c) = loaded() else { return };
    let (mut number, mut pointer): (i32, *mut c_void) = (0, null_mut());
    let mut address = 0_u64;
    assert_eq!(c!(c, cuDeviceGetCount(&mut number => *mut i32)), 3, "before the start");
    assert_eq!(c!(c, cuInit(1 => u32)), 1);
    assert_eq!(c!(c, cuInit(0 => u32)), 0);
    assert_eq!(c!(c, cuInit(0 => u32)), 0, "twice does no harm");
    assert_eq!(c!(c, cuDeviceGetCount(null_mut() => *mut i32)), 1);
    assert_eq!(c!(c, cuDeviceGet(&mut number => *mut i32, -1 => i32)), 101);
    assert_eq!(c!(c, cuDeviceGetAttribute(&mut number => *mut i32, 9999 => i32, 0 => i32)), 1);
    let mut short = [7 as c_char; 6];
    assert_eq!(c!(c, cuDeviceGetName(short.as_mut_ptr() => *mut c_char, 5 => i32, 0 => i32)), 0);
    assert_eq!(short.map(|byte| byte as u8), *b"NVID\0\x07", "cut to what fits");
    let mut text: *const c_char = null();
    assert_eq!(c!(c, cuGetErrorName(123_456 => u32, &mut text => *mut *const c_char)), 1);
    assert!(text.is_null());

    // Without a context, with one that was never made, with one that has ended.
    assert_eq!(c!(c, cuMemAlloc_v2(&mut address => *mut u64, 1 => usize)), 201);
    assert_eq!(c!(c, cuCtxSetCurrent(0x1234 as *mut c_void => *mut c_void)), 201);
    assert_eq!(c!(c, cuDevicePrimaryCtxRelease_v2(0 => i32)), 201);
    assert_eq!(c!(c, cuDevicePrimaryCtxRetain(&mut pointer => *mut *mut c_void, 0 => i32)), 0);
    assert_eq!(c!(c, cuCtxSetCurrent(pointer => *mut c_void)), 0);
    assert_eq!(c!(c, cuDevicePrimaryCtxRelease_v2(0 => i32)), 0);
    assert_eq!(c!(c, cuMemAlloc_v2(&mut address => *mut u64, 1 => usize)), 709);
    assert_eq!(c!(c, cuDevicePrimaryCtxRetain(&mut pointer => *mut *mut c_void, 0 => i32)), 0);
    assert_eq!(c!(c, cuCtxSetCurrent(pointer => *mut c_void)), 0);

    // Memory that is nobody's, or not long enough, or given back twice.
    let mut bytes = [0_u8; 16];
    assert_eq!(c!(c, cuMemAlloc_v2(&mut address => *mut u64, 0 => usize)), 1);
    assert_eq!(c!(c, cuMemAlloc_v2(&mut address => *mut u64, usize::MAX => usize)), 2);
    assert_eq!(c!(c, cuMemAlloc_v2(&mut address => *mut u64, 8 => usize)), 0);
    let copy = |from: u64, length: usize, to: *mut u8| c!(c, cuMemcpyDtoH_v2(to => *mut u8, from => u64, length => usize));
    assert_eq!(copy(address, 8, bytes.as_mut_ptr()), 0);
    assert_eq!(copy(address + 4, 4, bytes.as_mut_ptr()), 0);
    assert_eq!(copy(address, 9, bytes.as_mut_ptr()), 1);
    assert_eq!(copy(address - 1, 1, bytes.as_mut_ptr()), 1);
    assert_eq!(copy(address, 8, null_mut()), 1);
    assert_eq!(c!(c, cuMemFree_v2(address + 4 => u64)), 1);
    assert_eq!(c!(c, cuMemFree_v2(address => u64)), 0);
    assert_eq!(c!(c, cuMemFree_v2(address => u64)), 1);
    assert_eq!(c!(c, cuMemFree_v2(0 => u64)), 0);

    // A grid that is too small leaves the rest undone, and an address that is not there kills the context.
    let (mut module, mut function): (*mut c_void, *mut c_void) = (null_mut(), null_mut());
    assert_eq!(c!(c, cuModuleLoadData(&mut module => *mut *mut c_void, PTX.as_ptr() => *const c_char)), 0);
    let name = c"vector_add".as_ptr();
    assert_eq!(
        c!(c, cuModuleGetFunction(&mut function => *mut *mut c_void, module => *mut c_void, name => *const c_char)),
        0
    );
    let ones: Vec<u8> = (0..512).flat_map(|_| 1.0_f32.to_ne_bytes()).collect();
    assert_eq!(c!(c, cuMemAlloc_v2(&mut address => *mut u64, 2048 => usize)), 0);
    assert_eq!(c!(c, cuMemcpyHtoD_v2(address => u64, ones.as_ptr() => *const u8, 2048 => usize)), 0);
    assert_eq!(launch(&c, module, 1, [address; 3], 512), 400, "a module is no kernel");
    assert_eq!(launch(&c, function, 0, [address; 3], 512), 1);
    assert_eq!(launch(&c, function, 1, [address; 3], 512), 0);
    let mut sums = vec![0_u8; 2048];
    assert_eq!(copy(address, 2048, sums.as_mut_ptr()), 0);
    let sums: Vec<f32> = sums.as_chunks::<4>().0.iter().map(|sum| f32::from_ne_bytes(*sum)).collect();
    assert!(sums[..256].iter().all(|sum| *sum == 2.0) && sums[256..].iter().all(|sum| *sum == 1.0));
    assert_eq!(launch(&c, function, 3, [address; 3], 513), 0, "the launch itself goes well");
    assert_eq!(c!(c, cuCtxSynchronize()), 700);
    assert_eq!(c!(c, cuMemFree_v2(address => u64)), 700, "and nothing works from then on");
    // The next primary context is a new one, and knows nothing of the old one's modules.
    assert_eq!(c!(c, cuDevicePrimaryCtxRelease_v2(0 => i32)), 0);
    assert_eq!(c!(c, cuDevicePrimaryCtxRetain(&mut pointer => *mut *mut c_void, 0 => i32)), 0);
    assert_eq!(c!(c, cuCtxSynchronize()), 0);
    assert_eq!(launch(&c, function, 1, [address; 3], 1), 400);
}
