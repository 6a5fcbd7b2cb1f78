//! What was measured in a cell.

use crate::Spread;
use serde::{Deserialize, Serialize};

/// What was measured in a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figures {
    /// Of [`crate::Cell::Overhead`].
    Overhead(Overhead),
    /// Of [`crate::Cell::Share`].
    Shared(Shared),
    /// Of [`crate::Cell::Beside`].
    Beside(Beside),
    /// Of [`crate::Cell::Mishap`].
    Happened(Happened),
}

/// What the harness itself costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// Nanoseconds for one round of a loop that does nothing but look at the clock and write down how long it took.
    pub round_ns: Spread,
    /// Microseconds from the launch of a kernel that does nothing until it is known to be done.
    pub launch_us: Spread,
}

/// Tenants that do the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shared {
    /// Each of them.
    pub tenants: Vec<Tenant>,
    /// What they do together, a second, in the workload's unit.
    pub total: Spread,
    /// Seconds until the MPS daemon listened that they are clients of, before any of them was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon_s: Option<Spread>,
    /// What the driver says of the board meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub board: Option<Board>,
}

/// One tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tenant {
    /// What it does a second, in the workload's unit.
    pub rate: Spread,
    /// Milliseconds that half of the requests take at most; only inference has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<Spread>,
    /// Likewise 95 of 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<Spread>,
    /// Likewise 99 of 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<Spread>,
    /// Seconds until a job of [`Tenant::job`] products was done; only jobs have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_s: Option<Spread>,
    /// How many products such a job has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
    /// Requests a second that came; only where they come when they like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<f64>,
    /// Seconds from the start of its process until it was ready to work.
    pub start_up_s: Spread,
    /// Mebibytes of device memory that it has allocated itself.
    pub memory_mib: u64,
}

/// What the driver says of the whole board while tenants work.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Board {
    /// Percent of the time in which a kernel ran, as `nvidia-smi` shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy_percent: Option<f64>,
    /// Watts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watts: Option<f64>,
    /// Mebibytes of memory in use, the driver's own part included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u64>,
}

/// A tenant and its neighbour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// The tenant without a neighbour, under the same strategy and limits.
    pub alone: Victim,
    /// The tenant with one.
    pub beside: Victim,
}

/// What became of the tenant that is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Victim {
    /// What it does a second.
    pub rate: Spread,
    /// Milliseconds that 99 of 100 requests take at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<Spread>,
}

/// What a neighbour had of a mishap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Happened {
    /// What the offender met, in the driver's words or the harness's.
    pub offender: String,
    /// Whether the neighbour worked on without an error.
    pub survived: bool,
    /// What it met, where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Requests a second before the mishap.
    pub before: f64,
    /// Requests a second after it; 0 where it did not survive.
    pub after: f64,
    /// The longest time between two answers around the mishap, in milliseconds.
    pub longest_gap_ms: f64,
    /// Whether a new tenant could start afterwards and work.
    pub next_works: bool,
}
