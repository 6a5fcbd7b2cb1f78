//! The sockets between kubelet and its plugins: what is said on them, and how to serve them so that kubelet can dial.
//!
//! ```text
//!   plugin  ──dial──▶ device-plugins/kubelet.sock          device_plugin "I offer this resource, on that socket"
//!   kubelet ──dial──▶ device-plugins/<resource>.sock       device_plugin "which devices, and what with them?"
//!   agent   ──dial──▶ pod-resources/kubelet.sock           pod_resources "which pod holds which device?"
//!   kubelet ──dial──▶ plugins_registry/<driver>-reg.sock   registration  "who are you, where do you serve?"
//!   kubelet ──dial──▶ plugins/<driver>/dra.sock            dra           "prepare these claims"
//!                                                          dra_health    "how are your devices?"
//!                          │
//!                          └─ serve: every accepted stream goes through `gather` and `authority`
//! ```
//! Bind the socket of the service before the one of registration: kubelet dials it as soon as it knows of it.

pub mod authority;
pub mod device_plugin;
pub mod dial;
pub mod dra;
pub mod dra_health;
mod gather;
pub mod pod_resources;
pub mod registration;
pub mod serve;
