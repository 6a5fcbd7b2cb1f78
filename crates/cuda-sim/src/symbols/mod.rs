//! Every symbol that the library exports, with what it does; the types are those of NVIDIA's header.
//!
//! Names carry the version where the header renames the function: `cuMemAlloc` in a program is `cuMemAlloc_v2` here.
//! Before each name stands the CUDA version from which on it is the one that `cuGetProcAddress` gives out. Functions
//! that may mean a stream without being told which come in pairs: the second name means the thread's own.

/// Exports functions under their C names.
macro_rules! export {
    ($( $version:literal fn $name:ident($($argument:ident: $type:ty),* $(,)?) { $body:expr } )*) => {
        $(
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name($($argument: $type),*) -> std::ffi::c_uint {
                crate::session::guard(stringify!($name), || $body)
            }
        )*

        /// What is exported above.
        pub(super) const PLAIN: &[crate::procedure::Procedure] = &[$(
            crate::procedure::Procedure::new(stringify!($name), $version, false, $name as *const ()),
        )*];
    };
}

/// Exports each function under two names: in the first, stream 0 is the legacy stream, in the second the thread's own.
macro_rules! export_pairs {
    ($(
        $version:literal fn $name:ident / $own:ident($zero:ident; $($argument:ident: $type:ty),* $(,)?) { $body:expr }
    )*) => {
        $(
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name($($argument: $type),*) -> std::ffi::c_uint {
                let $zero = crate::stream::Zero::Legacy;
                crate::session::guard(stringify!($name), || $body)
            }

            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $own($($argument: $type),*) -> std::ffi::c_uint {
                let $zero = crate::stream::Zero::PerThread;
                crate::session::guard(stringify!($own), || $body)
            }
        )*

        /// What is exported above.
        pub(super) const PAIRS: &[crate::procedure::Procedure] = &[$(
            crate::procedure::Procedure::new(stringify!($name), $version, false, $name as *const ()),
            crate::procedure::Procedure::new(stringify!($own), $version, true, $own as *const ()),
        )*];
    };
}

mod arrays;
mod contexts;
mod copies;
mod devices;
mod events;
mod graph_nodes;
mod graphics;
mod graphs;
mod green;
mod libraries;
mod memory;
mod multicast;
mod old;
mod pools;
mod programs;
mod start;
mod streams;
mod virtual_memory;

use crate::procedure::Procedure;

/// Everything that is exported.
pub(crate) const ALL: &[&[Procedure]] = &[
    arrays::PLAIN,
    arrays::PAIRS,
    contexts::PLAIN,
    copies::PAIRS,
    devices::PLAIN,
    events::PLAIN,
    events::PAIRS,
    graph_nodes::PLAIN,
    graphics::PLAIN,
    graphics::PAIRS,
    graphs::PLAIN,
    graphs::PAIRS,
    green::PLAIN,
    libraries::PLAIN,
    memory::PLAIN,
    multicast::PLAIN,
    old::PLAIN,
    pools::PLAIN,
    pools::PAIRS,
    programs::PLAIN,
    programs::PAIRS,
    start::PLAIN,
    streams::PLAIN,
    streams::PAIRS,
    virtual_memory::PLAIN,
];
