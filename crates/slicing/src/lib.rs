//! What a node offers of its GPUs under a configuration.
//!
//! [`NodeGpus`] is what is there, [`Settings`] what the operator wants, [`Offer`] what kubelet is told: resources made of
//! devices. [`answer()`] says what a container gets with the devices it was given. Pure: the agent brings facts and
//! carries answers, and tests hold every decision against recorded ones.
#![warn(clippy::disallowed_methods)]

mod answer;
mod device;
mod minors;
mod node;
mod offer;
mod selection;
mod settings;

pub use answer::{Answer, AnswerContext, AnswerError, DeviceNode, Mount, answer};
pub use device::{Device, DeviceId, Mechanism, PartId, Share};
pub use minors::MigMinors;
pub use node::{NodeGpu, NodeGpus, NodeMig};
pub use offer::{Offer, OfferError, Resource, offer};
pub use settings::{AllocationPolicy, DeviceIds, DeviceList, MigStrategy, Settings, SettingsError};
