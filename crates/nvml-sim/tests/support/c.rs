//! The library's C symbols, and processes of their own in which to call them.

use crate::built;
use libloading::Library;
use std::ffi::c_char;
use std::process::{Command, Output};
use std::ptr::null_mut;

/// What the library gives out for a device, an instance or a set of events.
pub(crate) type Handle = *mut u8;

/// The library, each call spelled out with the types of its arguments.
pub(crate) struct C(pub(crate) Library);

macro_rules! c {
    ($library:expr, $name:ident($($argument:expr => $type:ty),* $(,)?)) => {{
        let name = concat!(stringify!($name), "\0");
        #[allow(unsafe_code, reason = "calling C")]
        // SAFETY: the types are those of NVML's header.
        unsafe {
            let function = $library.0.get::<unsafe extern "C" fn($($type),*) -> u32>(name.as_bytes()).unwrap();
            function($($argument),*)
        }
    }};
}

/// The library, not yet started.
#[allow(dead_code, reason = "not every test that includes this file needs it")]
pub(crate) fn load() -> C {
    #[allow(unsafe_code, reason = "loading a library runs its initialisers")]
    // SAFETY: it is the library under test, which has none.
    C(unsafe { Library::new(built::library()) }.unwrap())
}

/// The library, started.
#[allow(dead_code, reason = "not every test that includes this file needs it")]
pub(crate) fn started() -> C {
    let library = load();
    assert_eq!(c!(library, nvmlInit_v2()), 0);
    library
}

/// The GPU at an index.
#[allow(dead_code, reason = "not every test that includes this file needs it")]
pub(crate) fn gpu(library: &C, index: u32) -> Handle {
    let mut device = null_mut();
    assert_eq!(c!(library, nvmlDeviceGetHandleByIndex_v2(index => u32, &mut device => *mut Handle)), 0);
    device
}

/// A text that the library writes.
#[allow(dead_code, reason = "not every test that includes this file needs it")]
pub(crate) fn text(fill: impl FnOnce(*mut c_char, u32) -> u32) -> String {
    let mut buffer = [0 as c_char; 96];
    assert_eq!(fill(buffer.as_mut_ptr(), 96), 0);
    buffer.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8 as char).collect()
}

/// A struct for C to fill.
#[allow(dead_code, reason = "not every test that includes this file needs it")]
pub(crate) fn zeroed<T>() -> T {
    #[allow(unsafe_code, reason = "C's structs hold numbers and pointers only")]
    // SAFETY: all zeroes is a value of each of them.
    unsafe {
        std::mem::zeroed()
    }
}

/// Runs a test of this executable as a process of its own.
#[allow(dead_code, reason = "not every test that includes this file needs it")]
pub(crate) fn child(test: &str, settings: &[(&str, &str)]) -> Output {
    built::library();
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(built::BUILT, "yes")
        .envs(settings.iter().copied())
        .output()
        .unwrap()
}

/// The same, for one that must pass.
#[allow(dead_code, reason = "not every test that includes this file needs it")]
pub(crate) fn passes(test: &str, settings: &[(&str, &str)]) {
    let output = child(test, settings);
    assert!(output.status.success(), "{test}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{test} is no test here");
}
