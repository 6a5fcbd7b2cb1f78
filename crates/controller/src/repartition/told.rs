//! What the agent of a node is told of its policy: how GPUs are shared and cut, in the formats that it reads anyway.

use carve_cluster_api::names;
use carve_slice_policy::SlicePolicySpec;
use std::collections::BTreeMap;

/// What stands in a node's annotations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToldNode {
    /// A configuration of the device plugin.
    pub(super) sharing: Option<String>,
    /// A file of mig-parted with one config.
    pub(super) mig: Option<String>,
}

impl ToldNode {
    /// What a policy says to its nodes. The layout is called as the label says that its nodes are selected by, so that the label finds it.
    pub(super) fn by(policy: &str, spec: &SlicePolicySpec) -> Self {
        let name = spec.node_selector.get(names::MIG_CONFIG).map_or(policy, String::as_str);
        ToldNode {
            sharing: spec.sharing.as_ref().map(carve_slice_policy::Sharing::to_config),
            mig: spec.mig.as_ref().and_then(|mig| mig.to_config(name)),
        }
    }

    /// What a node has been told.
    pub(super) fn of(annotations: &BTreeMap<String, String>) -> Self {
        ToldNode {
            sharing: annotations.get(names::POLICY_CONFIG).cloned(),
            mig: annotations.get(names::POLICY_MIG).cloned(),
        }
    }

    /// The same as annotations.
    pub(super) fn annotations(&self) -> BTreeMap<&'static str, &str> {
        let both = [(names::POLICY_CONFIG, &self.sharing), (names::POLICY_MIG, &self.mig)];
        both.into_iter().filter_map(|(name, text)| Some((name, text.as_deref()?))).collect()
    }
}
