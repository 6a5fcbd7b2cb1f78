//! Who used how much of a GPU, and how that is known: parts that sum up to the device.
#![warn(clippy::disallowed_methods)]

mod container;
mod meter;
mod split;

pub use container::{ContainerRef, container_of, pod_of};
pub use meter::{Meter, Metered};
pub use split::{Busy, Evidence, Part, Rest, Split, Strangers, TenantTick, Tick, split};
