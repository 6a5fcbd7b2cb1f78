//! Modules and launches.

use crate::abi::{Arguments, HostCall, HostMemory, In, Out, Pointers, Text};
use crate::error::Code;
use crate::handle::Handle;
use crate::session::with;
use crate::structs::{LaunchConfig, LaunchOnDevice};
use crate::work::Work;
use std::collections::BTreeSet;
use std::ffi::{c_uint, c_void};

export! {
    2000 fn cuModuleLoadData(module: Out<Handle>, image: Text) {
        with(|session| {
            let module = module.required()?;
            module.set(session.load(image.get()?)?)
        })
    }

    2010 fn cuModuleLoadDataEx(
        module: Out<Handle>,
        image: Text,
        _count: c_uint,
        _options: HostMemory,
        _values: HostMemory,
    ) {
        with(|session| {
            let module = module.required()?;
            module.set(session.load(image.get()?)?)
        })
    }

    2000 fn cuModuleUnload(module: Handle) { with(|session| session.unload(module)) }

    2000 fn cuModuleGetFunction(function: Out<Handle>, module: Handle, name: Text) {
        with(|session| {
            session.here()?;
            function.set(session.function(module, &name.get()?)?)
        })
    }

    9000 fn cuLaunchCooperativeKernelMultiDevice(launches: In<LaunchOnDevice>, count: c_uint, _flags: c_uint) {
        with(|session| {
            let launches = launches.list(count as usize)?;
            if launches.is_empty() {
                return Err(Code::INVALID_VALUE);
            }
            let mut calls = Vec::new();
            let mut devices = BTreeSet::new();
            for launch in launches {
                let stream = session.created_stream(launch.stream)?;
                let context = session.streams.get(stream)?.context;
                let shape = (launch.blocks, launch.threads);
                let arguments = Arguments::new(launch.arguments, Pointers::NONE);
                calls.push((stream, session.call_in(context, launch.function, shape, arguments)?));
                if !devices.insert(session.contexts.get_mut(context)?.device) {
                    return Err(Code::INVALID_DEVICE);
                }
            }
            calls.into_iter().try_for_each(|(stream, call)| session.submit(stream, Work::Kernel(call)))
        })
    }
}

export_pairs! {
    4000 fn cuLaunchKernel / cuLaunchKernel_ptsz(
        zero;
        function: Handle,
        blocks_x: c_uint,
        blocks_y: c_uint,
        blocks_z: c_uint,
        threads_x: c_uint,
        threads_y: c_uint,
        threads_z: c_uint,
        _shared_memory: c_uint,
        stream: Handle,
        arguments: Pointers,
        extra: Pointers,
    ) {
        with(|session| {
            let stream = session.stream(stream, zero)?;
            let shape = ([blocks_x, blocks_y, blocks_z], [threads_x, threads_y, threads_z]);
            session.launch(stream, function, shape, Arguments::new(arguments, extra))
        })
    }

    11060 fn cuLaunchKernelEx / cuLaunchKernelEx_ptsz(
        zero;
        config: In<LaunchConfig>,
        function: Handle,
        arguments: Pointers,
        extra: Pointers,
    ) {
        with(|session| {
            let config = config.get()?;
            let stream = session.stream(config.stream, zero)?;
            let shape = (config.blocks, config.threads);
            session.launch(stream, function, shape, Arguments::new(arguments, extra))
        })
    }

    9000 fn cuLaunchCooperativeKernel / cuLaunchCooperativeKernel_ptsz(
        zero;
        function: Handle,
        blocks_x: c_uint,
        blocks_y: c_uint,
        blocks_z: c_uint,
        threads_x: c_uint,
        threads_y: c_uint,
        threads_z: c_uint,
        _shared_memory: c_uint,
        stream: Handle,
        arguments: Pointers,
    ) {
        with(|session| {
            let stream = session.stream(stream, zero)?;
            let shape = ([blocks_x, blocks_y, blocks_z], [threads_x, threads_y, threads_z]);
            session.launch(stream, function, shape, Arguments::new(arguments, Pointers::NONE))
        })
    }

    5000 fn cuStreamAddCallback / cuStreamAddCallback_ptsz(
        zero;
        stream: Handle,
        function: Option<extern "C" fn(Handle, c_uint, *mut c_void)>,
        data: *mut c_void,
        flags: c_uint,
    ) {
        with(|session| {
            let number = session.stream(stream, zero)?;
            if flags != 0 {
                return Err(Code::INVALID_VALUE);
            }
            if session.capture_for(number)?.is_some() {
                session.invalidate_capture_of(number);
                return Err(Code::CAPTURE_UNSUPPORTED);
            }
            session.submit(number, Work::Host(HostCall::of_stream(function, stream, data)?))
        })
    }

    10000 fn cuLaunchHostFunc / cuLaunchHostFunc_ptsz(
        zero;
        stream: Handle,
        function: Option<extern "C" fn(*mut c_void)>,
        data: *mut c_void,
    ) {
        with(|session| {
            let stream = session.stream(stream, zero)?;
            session.submit(stream, Work::Host(HostCall::new(function, data)?))
        })
    }
}
