//! What is said to the API server.
//!
//! [`names`] holds every label, annotation, condition and field manager in one place. [`NodeApi`] is the part of the API
//! that an agent on one node uses: it watches its Node, labels it, sets conditions, tells events, asks for its pods.
//! [`SliceOwner`] makes the ResourceSlices of a node out of what `carve-dra` lays out.
//! Everything it writes is applied under a field manager of its own, so that only our keys are ever touched.

pub mod names;
mod node;
mod resource_slices;
mod watch;

pub use node::{ApiError, NodeApi, NodeView, PodView, Tone};
pub use resource_slices::SliceOwner;
