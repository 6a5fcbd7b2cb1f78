//! The sockets between kubelet and its plugins: what is said on them, and how to serve them so that kubelet can dial.
//!
//! ```text
//!   kubelet ──dial──▶ plugins_registry/<driver>-reg.sock   registration  "who are you, where do you serve?"
//!   kubelet ──dial──▶ plugins/<driver>/dra.sock            dra           "prepare these claims"
//!                          │
//!                          └─ serve: every accepted stream goes through `authority`
//! ```
//! Bind the socket of the service before the one of registration: kubelet dials it as soon as it knows of it.

pub mod authority;
pub mod dra;
pub mod registration;
pub mod serve;
