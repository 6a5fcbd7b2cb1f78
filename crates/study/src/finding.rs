//! What a published talk found about sharing a GPU, and what a study says to each of it.
//!
//! The talk is "Which GPU Sharing Strategy Is Right for You? A Comprehensive Benchmark Study Using DRA" (KubeCon North
//! America 2024); it measured on a GeForce RTX 4090 with 24,564 MiB, and MIG on an A100 with 40 GB. Claims are in our own
//! words, with its figures. A claim that something is more, less, or slower holds where the difference is larger than both
//! spreads. "As fast as alone" holds up to 5 % or within the spreads, "slightly slower" up to 20 %, "fair" from 95 % on.

mod checks;

use crate::{Property, Study};
use serde::Serialize;
use std::fmt;

/// What a study says to a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// It is so here.
    Confirmed,
    /// A part of it is so here, and this part was not tested.
    Partly(String),
    /// There is no difference beyond the spread, where the claim has one.
    NoDifference(String),
    /// It is not so here, by these figures.
    NotConfirmed(String),
    /// The study has no figures for it, and why.
    CouldNotBeTested(String),
}

/// A claim of the talk, and what a study says to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// A short name that stays.
    pub id: &'static str,
    /// What the talk claims.
    pub claim: &'static str,
    /// Whether it is so here.
    pub result: Check,
    /// Our figures; empty where there are none.
    pub ours: String,
    /// Whether nothing was measured: figures come from a model, which can confirm nothing about a card.
    pub simulated: bool,
}

/// What came of a check: the result and our figures; or what is missing for it.
type Checked = Result<(Check, String), String>;

/// A claim, and how it is checked.
struct Claim {
    id: &'static str,
    claim: &'static str,
    check: fn(&Study) -> Checked,
}

const CLAIMS: &[Claim] = &[
    Claim {
        id: "light-time-slicing",
        claim: "Two lightly loaded inference servers that take turns use the GPU better (its usage tripled), and none \
                of them gets slower.",
        check: checks::light_time_slicing,
    },
    Claim {
        id: "light-mps",
        claim: "The same holds for two lightly loaded inference servers under MPS.",
        check: checks::light_mps,
    },
    Claim {
        id: "light-mps-overhead",
        claim: "For light inference, MPS costs less than time-slicing does.",
        check: checks::light_mps_overhead,
    },
    Claim {
        id: "mps-start-up",
        claim: "Servers start slower under MPS: 6 s, against 1 s with time-slicing.",
        check: checks::mps_start_up,
    },
    Claim {
        id: "heavy-time-slicing",
        claim: "Heavily loaded inference servers that take turns answer later and do less each.",
        check: checks::heavy_time_slicing,
    },
    Claim {
        id: "heavy-mps",
        claim: "Under MPS heavily loaded inference gets slower too, but less than with time-slicing.",
        check: checks::heavy_mps,
    },
    Claim {
        id: "heavy-limits",
        claim: "With limits, MPS slows heavily loaded inference only slightly.",
        check: checks::heavy_limits,
    },
    Claim {
        id: "limits-isolation",
        claim: "Limits keep inference under MPS better apart from its neighbours than MPS without them.",
        check: checks::limits_isolation,
    },
    Claim {
        id: "batch-time-slicing",
        claim: "Four small jobs that take turns use the GPU better than one (100 % busy, from 35 %), and each takes \
                longer.",
        check: checks::batch_time_slicing,
    },
    Claim {
        id: "batch-mps",
        claim: "Four small jobs under MPS are done as fast as one alone (27.2 s, from 26.75 s), and keep the GPU 91 % \
                busy, from 35 %.",
        check: checks::batch_mps,
    },
    Claim {
        id: "burn-memory",
        claim: "Nothing divides memory fairly between two jobs that want all of it: 21,702 and 2,182 MiB of 24,564 \
                with time-slicing, 21,534 and 2,270 MiB under MPS.",
        check: checks::burn_memory,
    },
    Claim {
        id: "burn-limits",
        claim: "MPS with limits (50 % of the threads and 5 GiB) divides it fairly: 4,606 MiB each.",
        check: checks::burn_limits,
    },
    Claim {
        id: "fault-mps",
        claim: "Under MPS a memory fault of one tenant reaches the others.",
        check: checks::fault_mps,
    },
    Claim {
        id: "fault-time-slicing",
        claim: "With time-slicing it does not.",
        check: checks::fault_time_slicing,
    },
    Claim {
        id: "mig-performance",
        claim: "Work on one MIG device does not slow down inference on another.",
        check: checks::mig_performance,
    },
    Claim {
        id: "mig-memory",
        claim: "Jobs on MIG devices have the memory of their device and no more (4,368 MiB of a 1g.5gb, 18,068 MiB of \
                a 3g.20gb).",
        check: checks::mig_memory,
    },
    Claim {
        id: "mig-faults",
        claim: "A job that runs out of memory on one MIG device leaves the others working.",
        check: checks::mig_faults,
    },
    Claim {
        id: "ranking-performance-isolation",
        claim: "Performance isolation: MIG, then MPS, then time-slicing.",
        check: |study| checks::order(study, Property::PerformanceIsolation),
    },
    Claim {
        id: "ranking-fault-isolation",
        claim: "Fault isolation: MIG, then time-slicing, then MPS.",
        check: |study| checks::order(study, Property::FaultIsolation),
    },
    Claim {
        id: "ranking-efficiency",
        claim: "Efficiency: MPS, then time-slicing.",
        check: |study| checks::order(study, Property::Efficiency),
    },
    Claim {
        id: "ranking-flexibility",
        claim: "Flexibility of parts: MPS, then MIG.",
        check: |study| checks::order(study, Property::Flexibility),
    },
    Claim {
        id: "ranking-ease",
        claim: "Ease of setting up: time-slicing, then MPS, then MIG.",
        check: |study| checks::order(study, Property::Ease),
    },
];

/// What a study says to each of the talk's findings, in the talk's order.
pub fn findings(study: &Study) -> Vec<Finding> {
    CLAIMS
        .iter()
        .map(|Claim { id, claim, check }| {
            let (result, ours) =
                check(study).unwrap_or_else(|why| (Check::CouldNotBeTested(why), String::new()));
            Finding { id, claim, result, ours, simulated: study.card.simulated }
        })
        .collect()
}

impl Check {
    /// In few words.
    pub const fn title(&self) -> &'static str {
        match self {
            Check::Confirmed => "confirmed",
            Check::Partly(_) => "confirmed as far as tested",
            Check::NoDifference(_) => "no difference beyond the spread",
            Check::NotConfirmed(_) => "not confirmed",
            Check::CouldNotBeTested(_) => "could not be tested",
        }
    }

    /// By which figure, or why not; none where there is nothing to add.
    pub fn why(&self) -> Option<&str> {
        match self {
            Check::Confirmed => None,
            Check::Partly(why)
            | Check::NoDifference(why)
            | Check::NotConfirmed(why)
            | Check::CouldNotBeTested(why) => Some(why),
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why() {
            Some(why) => write!(f, "{}: {why}", self.title()),
            None => f.write_str(self.title()),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.claim)?;
        write!(f, "  {}{}", if self.simulated { "in a model, not on a card: " } else { "" }, self.result)?;
        if !self.ours.is_empty() {
            write!(f, "\n  {}: {}", if self.simulated { "simulated" } else { "here" }, self.ours)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
