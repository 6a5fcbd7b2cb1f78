//! The two objects that a cluster's administrators see: `SlicePolicy`, which steers how GPUs are divided, and `SlicePlan`, which shows it.
//!
//! Types only. Manifests are made from them ([`definitions`]) and kept under `deploy/crds`; a test fails where the two differ.

pub mod convert;
mod integers;
mod limits;
mod mig;
mod plan;
mod policy;
mod provision;
mod sharing;

pub use limits::{Conduct, Limits, WholeGpus};
pub use mig::{LayoutEntry, Mig, MigMode};
pub use plan::{GpuLayout, Instance, LastRecut, Phase, SlicePlan, SlicePlanSpec, SlicePlanStatus};
pub use policy::{
    Budgets, Condition, Defragmentation, NamespaceRules, SlicePolicy, SlicePolicySpec, SlicePolicyStatus,
    limits_of,
};
pub use provision::{
    CapacityType, Cloud, FixedMig, NodeClass, Provision, ProvisionMode, Weights, in_words_of_policy,
};

pub use sharing::{Mechanism, SharedResource, Sharing};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

/// The group of our objects.
pub const GROUP: &str = "carve.dev";

/// The version in which policies were written before; both have the same fields, so that nothing is lost between them.
pub const OLDER: &str = "v1alpha1";

/// What a cluster must know before it takes these objects, with the names of the files that they are kept in.
pub fn definitions() -> [(&'static str, CustomResourceDefinition); 2] {
    let mut policies = SlicePolicy::crd();
    let versions = &mut policies.spec.versions;
    // Stored in the newest one, and still read and written in the one before, with a word about it.
    if let Some(newest) = versions.first() {
        let mut older = newest.clone();
        older.name = OLDER.to_owned();
        older.storage = false;
        older.deprecated = Some(true);
        older.deprecation_warning = Some(format!(
            "carve.dev/{OLDER} SlicePolicy is an older writing of the same; write carve.dev/{}",
            newest.name
        ));
        versions.push(older);
    }
    [("slicepolicies.yaml", policies), ("sliceplans.yaml", SlicePlan::crd())].map(|(file, mut definition)| {
        definition.spec.versions.iter_mut().for_each(integers::as_kubernetes_knows_them);
        (file, definition)
    })
}
