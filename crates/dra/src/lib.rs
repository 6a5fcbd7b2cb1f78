//! What a node offers through dynamic resource allocation.
//!
//! ```text
//!   GPU facts ──layout──▶ devices: one for each way a GPU can be used, all taking from the counters of their GPU
//!                            │
//!                            └─slices─▶ ResourceSlices within the limits of the API server, in the order of preference
//!                                          │
//!                                          └─publication─▶ what to write, given what the API server keeps already
//! ```
//! The scheduler takes the first device that fits, so the order of devices decides which large MIG profiles stay possible. As soon as
//! a claim holds a device, the counters keep every other way of using that GPU away; nobody has to switch a GPU by hand.
#![warn(clippy::disallowed_methods)]

mod claim;
mod classes;
mod counters;
mod device;
mod grant;
mod layout;
mod mode;
mod name;
mod order;
mod publication;
mod quantity;
mod server_version;
mod slices;

pub use claim::{Allocated, Allocation, Claim, ClaimConfig, ConfigSource};
pub use classes::{DeviceClass, DriverNameError, classes};
pub use device::{Attribute, Consumption, CounterSet, Device, Taint, TaintEffect};
pub use grant::{Grant, GrantError, GrantTrouble, Place, Usage, excludes, grants};
pub use layout::{GpuFacts, Layout, Ways, layout};
pub use mode::{Choice, Mode, ModeError, ModeNameError, ways_for};
pub use name::{DeviceName, DeviceNameError, MigPlace, Sharing};
pub use order::placements_in_order;
pub use publication::{Existing, Publication, publication};
pub use quantity::{Capacity, Quantity, RequestPolicy};
pub use server_version::{ServerVersion, ServerVersionError};
pub use slices::{Slice, SliceContent, slices};
