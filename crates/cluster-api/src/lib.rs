//! What is said to the API server.
//!
//! [`names`] holds every label, annotation, condition and field manager in one place. [`NodeApi`] is the part of the API
//! that an agent on one node uses: it watches its Node, labels it, sets conditions, tells events, asks for its pods.
//! Everything it writes is applied under a field manager of its own, so that only our keys are ever touched.

pub mod names;
mod node;
mod watch;

pub use node::{ApiError, NodeApi, NodeView, PodView, Tone};
