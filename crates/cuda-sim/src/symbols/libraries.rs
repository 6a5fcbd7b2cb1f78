//! Libraries, which are modules for all contexts, their kernels, and what is told about kernels.

use crate::abi::{HostMemory, Out, Text};
use crate::handle::Handle;
use crate::session::with;
use std::ffi::{c_char, c_uint};

export! {
    12000 fn cuLibraryLoadData(
        library: Out<Handle>,
        image: Text,
        _options: HostMemory,
        _values: HostMemory,
        _count: c_uint,
        _library_options: HostMemory,
        _library_values: HostMemory,
        _library_count: c_uint,
    ) {
        with(|session| {
            let library = library.required()?;
            library.set(session.load_library(image.get()?)?)
        })
    }

    12000 fn cuLibraryUnload(library: Handle) { with(|session| session.unload_library(library)) }

    12000 fn cuLibraryGetKernel(kernel: Out<Handle>, library: Handle, name: Text) {
        with(|session| kernel.set(session.function(library, &name.get()?)?))
    }

    12000 fn cuLibraryGetModule(module: Out<Handle>, library: Handle) {
        with(|session| {
            session.here()?;
            module.set(session.library_as_module(library)?)
        })
    }

    // A kernel is a function in every context.
    12000 fn cuKernelGetFunction(function: Out<Handle>, kernel: Handle) {
        with(|session| {
            session.here()?;
            session.function_name(kernel)?;
            function.set(kernel)
        })
    }

    12030 fn cuKernelGetName(name: Out<*const c_char>, kernel: Handle) {
        with(|session| name.set(session.function_name(kernel)?.as_ptr()))
    }

    12030 fn cuFuncGetName(name: Out<*const c_char>, function: Handle) {
        with(|session| name.set(session.function_name(function)?.as_ptr()))
    }

    11000 fn cuFuncGetModule(module: Out<Handle>, function: Handle) {
        with(|session| module.set(session.function_module(function)?))
    }
}
