//! Ways to share a GPU, as the study tells them apart.

use carve_gpu_model::Mechanism;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A way to share a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// One tenant has the GPU; what all others are compared with.
    Dedicated,
    /// Processes take turns, for as long as the driver likes.
    TimeSlicing,
    /// Turns of the shortest length that the driver offers.
    TimeSlicingShort,
    /// Turns of the longest.
    TimeSlicingLong,
    /// Processes run at once through CUDA's multi-process service.
    Mps,
    /// The same, each with its part of multiprocessors and memory.
    MpsLimits,
    /// carve's library in each process holds it to its part.
    Limiter,
    /// Streams inside one process.
    Streams,
    /// Multiprocessors divided inside one process.
    GreenContexts,
    /// MIG devices, one for each tenant.
    Mig,
    /// Tenants take turns on a MIG device.
    MigTimeSlicing,
    /// Tenants run at once on a MIG device.
    MigMps,
}

impl Strategy {
    /// All of them, in the order of tables.
    pub const ALL: [Strategy; 12] = [
        Strategy::Dedicated,
        Strategy::TimeSlicing,
        Strategy::TimeSlicingShort,
        Strategy::TimeSlicingLong,
        Strategy::Mps,
        Strategy::MpsLimits,
        Strategy::Limiter,
        Strategy::Streams,
        Strategy::GreenContexts,
        Strategy::Mig,
        Strategy::MigTimeSlicing,
        Strategy::MigMps,
    ];

    /// In file names, on the command line and in JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Strategy::Dedicated => "dedicated",
            Strategy::TimeSlicing => "time-slicing",
            Strategy::TimeSlicingShort => "time-slicing-short",
            Strategy::TimeSlicingLong => "time-slicing-long",
            Strategy::Mps => "mps",
            Strategy::MpsLimits => "mps-limits",
            Strategy::Limiter => "limiter",
            Strategy::Streams => "streams",
            Strategy::GreenContexts => "green-contexts",
            Strategy::Mig => "mig",
            Strategy::MigTimeSlicing => "mig-time-slicing",
            Strategy::MigMps => "mig-mps",
        }
    }

    /// For people.
    pub const fn title(self) -> &'static str {
        match self {
            Strategy::Dedicated => "dedicated",
            Strategy::TimeSlicing => "time-slicing",
            Strategy::TimeSlicingShort => "time-slicing, short turns",
            Strategy::TimeSlicingLong => "time-slicing, long turns",
            Strategy::Mps => "MPS",
            Strategy::MpsLimits => "MPS with limits",
            Strategy::Limiter => "limiter",
            Strategy::Streams => "streams in one process",
            Strategy::GreenContexts => "green contexts",
            Strategy::Mig => "MIG",
            Strategy::MigTimeSlicing => "MIG, time-slicing on it",
            Strategy::MigMps => "MIG, MPS on it",
        }
    }

    /// The mechanism that carve offers pods it by; none where only one program's own code can do it.
    pub const fn mechanism(self) -> Option<Mechanism> {
        match self {
            Strategy::Dedicated => Some(Mechanism::Exclusive),
            Strategy::TimeSlicing | Strategy::TimeSlicingShort | Strategy::TimeSlicingLong => {
                Some(Mechanism::TimeSlicing)
            }
            Strategy::Mps | Strategy::MpsLimits => Some(Mechanism::Mps),
            Strategy::Limiter => Some(Mechanism::Limiter),
            Strategy::Mig | Strategy::MigTimeSlicing | Strategy::MigMps => Some(Mechanism::Mig),
            Strategy::Streams | Strategy::GreenContexts => None,
        }
    }

    /// Whether all tenants are one process: then they have one memory, one fate and one owner.
    pub const fn is_one_process(self) -> bool {
        matches!(self, Strategy::Streams | Strategy::GreenContexts)
    }

    /// Whether it needs MIG devices.
    pub const fn is_mig(self) -> bool {
        matches!(self, Strategy::Mig | Strategy::MigTimeSlicing | Strategy::MigMps)
    }

    /// Whether it takes a setting of the card other than the one it has: turns of another length.
    pub const fn sets_turns(self) -> bool {
        matches!(self, Strategy::TimeSlicingShort | Strategy::TimeSlicingLong)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for Strategy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Strategy::ALL.into_iter().find(|one| one.word() == text);
        known.ok_or_else(|| {
            let words: Vec<&str> = Strategy::ALL.iter().map(|one| one.word()).collect();
            format!("'{text}' is no way to share; expected one of {}", words.join(", "))
        })
    }
}
