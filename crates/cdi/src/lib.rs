//! Puts GPUs into containers without NVIDIA's toolkit: driver files, CDI specs, and the hook that runs at container start.
//!
//! [`find_driver_files`] and [`find_class_files`] look at the node, `carve_slicing` decides, [`write_all`] leaves the
//! files where the container runtime looks, and [`hook`] is what the runtime runs in every container with a GPU.
//! [`runtime_has_cdi`] tells beforehand whether the runtime looks at all.

mod beneath;
mod classes;
mod driver;
mod elf;
pub mod hook;
pub mod ld_cache;
mod libraries;
mod runtime;
mod spec_file;

pub use classes::find_class_files;
pub use driver::{FindError, Found, HostRoot, find_driver_files};
pub use runtime::{CdiSupport, imports, runtime_has_cdi};
pub use spec_file::{
    SPEC_DIR, WriteError, Written, remove_named, remove_ours, write_all, write_named, write_spec,
};
