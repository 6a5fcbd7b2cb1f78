//! Kubernetes' way of asking for objects, over `carve-object-store`: what kubectl and controllers speak, without an API server.
//!
//! ```text
//!   request ──▶ asked: which objects, which verb ──▶ answer ──▶ admission ──▶ write: metadata, check, patch ──▶ store
//!                                                      └──▶ read: lists, tables, watches
//! ```
//! It is there so that the same controller, the same verbs of the command line and kubectl itself work on one machine as they work on a cluster. Who
//! may ask is decided in front of it.

mod admission;
mod answer;
mod asked;
mod check;
mod collect;
mod discovery;
mod failure;
mod metadata;
mod patch;
mod read;
mod resources;
mod selectors;
mod table;
mod write;

pub use admission::Admission;
pub use answer::ObjectApi;
pub use failure::Failure;
pub use resources::{KINDS, Kind, kind_named};
pub use write::set_condition;
