//! The start, versions, errors, and functions by name.

use crate::abi::{Out, Text};
use crate::error::{Code, words};
use crate::procedure::find;
use crate::session::{driver_version, start};
use std::ffi::{c_char, c_int, c_uint};

export! {
    2000 fn cuInit(flags: c_uint) { start(flags) }

    2020 fn cuDriverGetVersion(version: Out<c_int>) {
        version.required().and_then(|version| version.set(driver_version()?))
    }

    6000 fn cuGetErrorName(code: c_uint, name: Out<*const c_char>) {
        match words(code) {
            Ok((words, _)) => name.set(words.as_ptr()),
            Err(unknown) => name.set(std::ptr::null()).and(Err(unknown)),
        }
    }

    6000 fn cuGetErrorString(code: c_uint, text: Out<*const c_char>) {
        match words(code) {
            Ok((_, words)) => text.set(words.as_ptr()),
            Err(unknown) => text.set(std::ptr::null()).and(Err(unknown)),
        }
    }

    11030 fn cuGetProcAddress(name: Text, function: Out<*const ()>, version: c_int, flags: u64) {
        function.required().and_then(|function| {
            let (address, _) = find(&name.get()?, version, flags)?.told();
            function.set(address)?;
            if address.is_null() { Err(Code::NOT_FOUND) } else { Ok(()) }
        })
    }

    12000 fn cuGetProcAddress_v2(
        name: Text,
        function: Out<*const ()>,
        version: c_int,
        flags: u64,
        status: Out<c_uint>,
    ) {
        function.required().and_then(|function| {
            let (address, found) = find(&name.get()?, version, flags)?.told();
            status.offer(found);
            function.set(address)
        })
    }
}
