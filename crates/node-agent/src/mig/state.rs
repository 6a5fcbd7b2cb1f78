//! How far a MIG config is, in the words of the node's labels.

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
    /// How far it is.
    pub(crate) state: MigState,
    /// Why it is not further; what was done where it is.
    pub(crate) message: String,
}
