//! What a node offers of its GPUs under a configuration.
//!
//! [`NodeGpus`] is what is there, [`Settings`] what the operator wants, [`Offer`] what kubelet is told: resources made of
//! devices. [`answer()`] says what a container gets with the devices it was given. Pure: the agent brings facts and
//! carries answers, and tests hold every decision against recorded ones.
#![warn(clippy::disallowed_methods)]

mod answer;
pub mod cdi;
mod classes;
mod device;
mod flat;
pub mod health;
mod held;
mod labels;
mod minors;
pub mod mps;
mod node;
mod offer;
mod selection;
mod settings;
mod slice_device;

pub use answer::{Answer, AnswerContext, AnswerError, DeviceNode, Mount, answer};
pub use classes::{Absent, CdiClass, ClassFiles, ClassSpecs, class_specs};
pub use device::{Device, DeviceId, Mechanism, PartId, Share};
pub use flat::{FlatEdits, flat_edits};
pub use held::{Held, Holder, withheld};
pub use labels::{
    LabelFacts, LabelOptions, NODE_FEATURE_NODE_LABEL, ParsePciClassError, PciClass, ShortConfigError, Vgpu,
    VgpuHost, feature_file, labels, node_feature_name,
};
pub use minors::MigMinors;
pub use node::{NodeGpu, NodeGpus, NodeMig};
pub use offer::{MOST_REPLICAS, Offer, OfferError, Resource, offer};
pub use settings::{AllocationPolicy, DeviceIds, DeviceList, MigStrategy, Settings, SettingsError};
pub use slice_device::{slice_device_name, slice_file_name, slice_spec, token_of_file};
