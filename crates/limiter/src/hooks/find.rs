//! Functions with which programs ask the driver for its functions.

use crate::door::replace;
use crate::driver::{CUDA, hooks};
use core::ffi::c_char;

hooks! {
    HOOKS in CUDA;

    cuGetProcAddress(symbol: *const c_char, function: *mut usize, version: i32, flags: u64) => {
        // SAFETY: the program's own arguments.
        unsafe {
            let answer = cuGetProcAddress::call(symbol, function, version, flags);
            replace(answer, function);
            answer
        }
    };

    cuGetProcAddress_v2(symbol: *const c_char, function: *mut usize, version: i32, flags: u64, status: *mut i32) => {
        // SAFETY: the program's own arguments.
        unsafe {
            let answer = cuGetProcAddress_v2::call(symbol, function, version, flags, status);
            replace(answer, function);
            answer
        }
    };
}
