//! The two objects that a cluster's administrators see: `SlicePolicy`, which steers how GPUs are divided, and `SlicePlan`, which shows it.
//!
//! Types only. Manifests are made from them ([`definitions`]) and kept under `deploy/crds`; a test fails where the two differ.

mod limits;
mod plan;
mod policy;
mod provision;

pub use limits::{Conduct, Limits, WholeGpus};
pub use plan::{GpuLayout, Instance, LastRecut, Phase, SlicePlan, SlicePlanSpec, SlicePlanStatus};
pub use policy::{
    Budgets, Condition, Defragmentation, Mechanism, Mig, MigMode, NamespaceRules, Sharing, SlicePolicy,
    SlicePolicySpec, SlicePolicyStatus, limits_of,
};
pub use provision::{
    CapacityType, Cloud, FixedMig, NodeClass, Provision, ProvisionMode, Weights, in_words_of_policy,
};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

/// The group of our objects.
pub const GROUP: &str = "carve.dev";

/// What a cluster must know before it takes these objects, with the names of the files that they are kept in.
pub fn definitions() -> [(&'static str, CustomResourceDefinition); 2] {
    [("slicepolicies.yaml", SlicePolicy::crd()), ("sliceplans.yaml", SlicePlan::crd())]
}
