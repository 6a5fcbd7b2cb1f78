//! How far a MIG config is, in the words of the node's labels.

use carve_cluster_api::names;
use std::collections::BTreeMap;
use std::fmt;

/// NVIDIA's words for the label `nvidia.com/mig.config.state`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MigState {
    Pending,
    Rebooting,
    Success,
    Failed,
}

impl fmt::Display for MigState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MigState::Pending => "pending",
            MigState::Rebooting => "rebooting",
            MigState::Success => "success",
            MigState::Failed => "failed",
        })
    }
}

/// What the cluster is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MigReport {
    /// Name of the config.
    pub(crate) config: String,
    /// Number of the order, where the controller and no person wants it.
    pub(crate) order: Option<u64>,
    /// How far it is.
    pub(crate) state: MigState,
    /// Why it is not further; what was done where it is.
    pub(crate) message: String,
}

impl MigReport {
    /// Labels of the Node.
    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(names::MIG_CONFIG_STATE.to_owned(), self.state.to_string())])
    }

    /// Annotations of the Node: whose state it is, and why it is not further.
    pub(crate) fn annotations(&self) -> BTreeMap<String, String> {
        let why = if self.state == MigState::Success { String::new() } else { self.message.clone() };
        BTreeMap::from([
            (names::MIG_CONFIG_STATE_OF.to_owned(), self.config.clone()),
            (names::MIG_CONFIG_REASON.to_owned(), why),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::{MigReport, MigState};

    #[test]
    fn a_state_says_whose_it_is_and_why_it_is_not_further() {
        let message = "pod a/b holds it".to_owned();
        let report = |state| MigReport {
            config: "all-1g.5gb".to_owned(),
            order: None,
            state,
            message: message.clone(),
        };
        for (state, word, why) in [
            (MigState::Pending, "pending", message.as_str()),
            (MigState::Rebooting, "rebooting", message.as_str()),
            (MigState::Failed, "failed", message.as_str()),
            (MigState::Success, "success", ""),
        ] {
            let (labels, annotations) = (report(state).labels(), report(state).annotations());
            assert_eq!(labels["nvidia.com/mig.config.state"], word);
            assert_eq!(annotations["carve.dev/mig.config.state-of"], "all-1g.5gb");
            assert_eq!(annotations["carve.dev/mig.config.reason"], why);
        }
    }
}
