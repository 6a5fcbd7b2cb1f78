//! What is said to the API server.
//!
//! [`names`] holds every label, annotation, condition and field manager in one place. [`NodeApi`] is the part of the API
//! that an agent on one node uses: it watches its Node, labels it, sets conditions, tells events, asks for its pods.
//! [`SlicePublisher`] keeps the ResourceSlices of a node as `carve-dra` lays them out; claims are read and told about through [`NodeApi`].
//! Everything it writes is applied under a field manager of its own, so that only our keys are ever touched, and all of them can be taken back.

mod claims;
mod dropped;
#[cfg(test)]
mod fake_server;
mod kept;
mod leaving;
pub mod names;
mod node;
mod publisher;
mod resource_slices;
mod watch;

pub use claims::ClaimDeviceStatus;
pub use dropped::{Dropped, DroppedField};
pub use leaving::{take_back_slices, take_back_words};
pub use node::{ApiError, NodeApi, NodeView, PodView, Tone, connect, workload};
pub use publisher::{PublishReport, SlicePublisher};
pub use resource_slices::SliceOwner;
