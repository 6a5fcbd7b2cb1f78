//! What a process of tenants is told, and what it says.

use carve_study::Workload;
use serde::{Deserialize, Serialize};

/// How tenants of one process are kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inside {
    /// By streams.
    Streams,
    /// By multiprocessors of their own.
    GreenContexts,
}

/// What a process of tenants is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// What each does.
    pub workload: Workload,
    /// How many they are.
    pub tenants: u32,
    /// How they are kept apart, where they are several.
    pub inside: Inside,
    /// Bytes of device memory that all of them together may think of as theirs; none where they take what they find.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Whether each request also takes memory and gives it back, as servers with changing sizes do.
    #[serde(default)]
    pub takes_memory: bool,
    /// What random numbers begin with.
    pub seed: u64,
}

/// A mishap on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offence {
    /// A kernel writes where nothing is.
    Fault,
    /// Takes memory until there is none, and keeps it for some seconds while asking for more.
    OutOfMemory,
}

/// What all tenants of a process are told to do next.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Work for so many seconds.
    Window(f64),
    /// Do so many pieces of work.
    Job(u64),
    /// Answer requests that come at random, so many a second, for so many seconds.
    Open {
        /// Requests a second.
        rate: f64,
        /// Seconds in which they come.
        seconds: f64,
    },
    /// The first tenant works for so many seconds; the second does wrong after some of them.
    Together {
        /// What.
        offence: Offence,
        /// Seconds after which.
        after: f64,
        /// Seconds in which the first works.
        seconds: f64,
    },
    /// Do wrong.
    Offend {
        /// What.
        offence: Offence,
        /// For so many seconds, where it lasts.
        seconds: f64,
    },
}

/// What one tenant did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Pieces of work.
    pub pieces: u64,
    /// What they are in the workload's unit.
    pub amount: f64,
    /// Seconds it took.
    pub seconds: f64,
    /// Milliseconds that half of the pieces took at most.
    pub p50_ms: f64,
    /// Likewise 95 of 100.
    pub p95_ms: f64,
    /// Likewise 99 of 100.
    pub p99_ms: f64,
    /// When pieces were done, in tenths of a second from the beginning on: how many in each.
    pub tenths: Vec<u32>,
    /// The longest time in which none was done, in milliseconds.
    pub longest_gap_ms: f64,
    /// What ended it before its time, where something did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A line that a process of tenants prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// All tenants can begin.
    Ready {
        /// Mebibytes of device memory that each has allocated.
        memory_mib: Vec<u64>,
    },
    /// What each tenant did.
    Done(Vec<Done>),
    /// What an offender met.
    Offended(String),
    /// What the first tenant did, and what the second met.
    Both {
        /// Of the first.
        done: Done,
        /// Of the second.
        offended: String,
    },
    /// It can not go on.
    Failed(String),
}
