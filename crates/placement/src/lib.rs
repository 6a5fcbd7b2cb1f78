//! Which slice serves which claim: choosing devices inside a node, and saying why.
//!
//! [`preferred`] answers kubelet's question which of a resource's free devices a container should get.
#![warn(clippy::disallowed_methods)]

pub mod preferred;
