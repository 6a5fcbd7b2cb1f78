//! The cluster half of carve. What there is of it: the extender, which places pods with parts of GPUs.
//!
//! ```text
//!   watches ──▶ Cluster: the book, made of what the API server has ◀── what was bound a moment ago
//!                  ▲                                                        │
//!   kube-scheduler ──▶ routes ──▶ Extender: filter, prioritize, preempt, bind ──▶ Store: one Binding
//! ```
//! The API server is behind [`Store`], so that the same controller can run over something else that keeps objects.

mod cluster;
pub mod election;
mod extender;
mod kubernetes;
mod lease;
mod routes;
mod store;

pub use cluster::Cluster;
pub use extender::Extender;
pub use kubernetes::Kubernetes;
pub use lease::Candidate;
pub use routes::routes;
pub use store::{Store, StoreError};
