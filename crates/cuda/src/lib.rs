//! CUDA's driver interface by dlopen, as little of it as carve needs, and the programs that prove a GPU works.
//!
//! Three floors: `sys` loads the library and its symbols, so that carve starts on machines without one; `call` makes
//! each C function a function that answers a `Result`; [`Cuda`], [`Device`], [`Context`] and what they hand out own
//! what they made and give it back when dropped. On top stand the probes: [`look`] tells what a client of a device
//! sees, [`vector_add`] lets the device calculate and checks every element.
//!
//! A CUDA context holds memory of its GPU and a place in its MPS server for as long as its process lives. So a
//! long-lived process never opens one itself: it starts a child ([`Probe`]) that does ([`probe_main`]) and ends.

mod call;
mod context;
mod device;
mod error;
mod memory;
mod module;
mod open;
mod probe;
mod stream;
mod sys;
mod uuid;

pub use context::Context;
pub use device::{Attribute, Device};
pub use error::{CudaCode, CudaError};
pub use memory::{Buffer, MemoryInfo};
pub use module::{Function, Module};
pub use open::{Cuda, OpenError};
pub use probe::{
    Answer, DeviceChoice, Probe, ProbeError, ProbeVerb, RunError, STEERING, Seen, VectorAdd, context_cost,
    look, probe_main, run_probe, vector_add,
};
pub use stream::{HostBuffer, Stream};
pub use uuid::{DeviceUuid, ParseUuidError};
