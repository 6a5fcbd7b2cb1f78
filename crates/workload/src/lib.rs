//! What tenants of the study do on a GPU, each in a process of its own that is told when to work and says how it went.
//!
//! ```text
//!   bench ── spawn ──▶ carve bench-tenant SPEC ── {"ready"} ──▶
//!         ── {"window"} | {"job"} | {"open"} | {"offend"} ──▶   works   ── {"done"} | {"failed"} ──▶
//!         ── end of input ──▶ gone
//! ```
//!
//! A process has several tenants where the study looks at streams or green contexts: each is a thread with a stream of its own. Nothing
//! needs to be installed but the driver: kernels are PTX inside of this crate (`kernels/`). Where Python has PyTorch or CuPy,
//! [`PYTHON`] is a program that speaks the same lines.

mod bandwidth;
mod batch;
mod burn;
mod inference;
mod kernels;
mod offend;
mod pace;
mod percentiles;
mod spec;
mod tenant;
mod work;

pub use spec::{Command, Done, Inside, Offence, Reply, Spec};
pub use tenant::tenant_main;

/// The same for PyTorch and CuPy, as text for `python3 -c`; it takes the spec as its argument.
pub const PYTHON: &str = include_str!("../python/tenant.py");
