//! What has become of each part.

use crate::Users;
use carve_slicing::mps::MpsLimits;
use std::fmt;
use std::time::Duration;

/// Why a part has no daemon that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// One word for metrics and events.
    pub reason: &'static str,
    /// The whole story.
    pub message: String,
    /// How often in a row.
    pub times: u32,
    /// When it is tried again.
    pub retry_in: Duration,
}

/// Where a part stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartState {
    /// A daemon is being started or taken over.
    Starting,
    /// Limits are set and read back; what a client sees is being looked at.
    Limited,
    /// Containers may be sent.
    Ready,
    /// A daemon with other limits runs and its clients are left in peace; it is replaced when they are gone.
    WrongLimits {
        /// How many clients there are.
        clients: usize,
    },
    /// The part is wanted no longer; its daemon ends when its clients are gone.
    Leaving {
        /// How many clients there are.
        clients: usize,
    },
    /// There is no daemon that can be used; another attempt follows.
    Failed(Failure),
}

impl fmt::Display for PartState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartState::Starting => f.write_str("its MPS daemon is being started"),
            PartState::Limited => f.write_str("its MPS limits are set and being checked"),
            PartState::Ready => f.write_str("ready"),
            PartState::WrongLimits { clients } => {
                write!(
                    f,
                    "its MPS daemon has other limits and {clients} client(s); it is replaced when they have left"
                )
            }
            PartState::Leaving { clients } => {
                write!(f, "shared no longer; its MPS daemon ends when {clients} client(s) have left")
            }
            PartState::Failed(failure) => {
                write!(f, "{} (attempt {}, next in {:?})", failure.message, failure.times, failure.retry_in)
            }
        }
    }
}

/// Everything that is known of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartStatus {
    /// Where it stands.
    pub state: PartState,
    /// What each client may use once it is ready; none for a part that is wanted no longer.
    pub limits: Option<MpsLimits>,
    /// Whether the daemon was started by an earlier process.
    pub adopted: bool,
    /// How many clients were connected at the last look.
    pub clients: usize,
    /// Whose clients are served and whose wait.
    pub users: Users,
    /// What an operator should know and nothing failed over.
    pub remarks: Vec<String>,
}

impl PartStatus {
    /// Whether containers may be sent.
    pub fn is_ready(&self) -> bool {
        self.state == PartState::Ready
    }
}
