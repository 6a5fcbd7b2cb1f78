//! What a node offers through dynamic resource allocation.
//!
//! ```text
//!   GPU facts ──layout──▶ devices: one for each way a GPU can be used, all taking from the counters of their GPU
//!                            │
//!                            └─slices─▶ ResourceSlices within the limits of the API server, in the order of preference
//! ```
//! The scheduler takes the first device that fits, so the order of devices decides which large MIG profiles stay possible. As soon as
//! a claim holds a device, the counters keep every other way of using that GPU away; nobody has to switch a GPU by hand.
#![warn(clippy::disallowed_methods)]

mod claim;
mod counters;
mod device;
mod grant;
mod layout;
mod name;
mod order;
mod quantity;
mod slices;

pub use claim::{Allocated, Allocation, Claim, ClaimConfig, ConfigSource};
pub use device::{Attribute, Consumption, CounterSet, Device};
pub use grant::{Grant, GrantError, GrantTrouble, Place, Usage, excludes, grants};
pub use layout::{GpuFacts, Layout, Ways, layout};
pub use name::{DeviceName, DeviceNameError, MigPlace, Sharing};
pub use order::placements_in_order;
pub use quantity::{Capacity, Quantity, RequestPolicy};
pub use slices::{Slice, SliceContent, slices};
