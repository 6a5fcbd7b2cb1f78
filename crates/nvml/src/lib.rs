//! A machine's GPUs through the NVIDIA management library (NVML), in three floors.
//!
//! `sys` loads the library at run time, so that carve starts on machines without one; `call` makes each C function a
//! function that answers a `Result`, and holds all that is unsafe; [`Nvml`] is the host that the rest of carve sees.
//! What the driver reports is taken as it is: profile tables, memory and names come from it and from nowhere else.

mod busy;
mod call;
mod events;
mod facts;
mod host;
mod instances;
mod open;
mod processes;
mod readings;
mod recovery;
mod reset;
mod sys;
mod topology;

pub use host::Nvml;
pub use open::{NvmlPaths, OpenError};
