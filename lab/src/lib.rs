//! A real Kubernetes for the tests: etcd, the four components, kubelet, containerd and CNI, in namespaces of its own.
//!
//! ```text
//!  build ──▶ cache (outside the repository, keyed by versions)
//!  up    ──▶ one process in new mount, network and pid namespaces starts everything and is its init
//!  down  ──▶ that process is killed; the kernel takes everything else with it; sysctls and cgroups are put back
//! ```
//! Nothing is installed over the system: Kubernetes is built from its Go module, the rest comes from Debian packages
//! that are unpacked into the cache.

mod audit;
mod components;
mod config;
mod debian;
mod fleet;
mod footprint;
mod gpus;
mod image;
mod inside;
mod kubernetes;
mod lab;
mod pki;
mod places;
mod programs;
mod release;
mod services;

pub use carve_oci_image::Image;
pub use debian::{Packaged, debian_package, debian_package_for};
pub use fleet::{FLEET, fleet};
pub use gpus::SimulatedGpus;
pub use image::Programs;
pub use inside::{inside, inside_node};
pub use lab::{Lab, Status, Wanted};
pub use pki::base64;
pub use places::{NAMED, Places};
pub use release::Release;
pub use services::services;
