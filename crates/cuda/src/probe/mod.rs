//! The probes: what a client of a device sees, and whether the device calculates right; each in a child of its own.
//!
//! ```text
//!   parent  Probe ── spawn ──▶ carve cuda-probe VERB ── one line of JSON ──▶ Answer, or why not
//!             └── too late: kill ──▶ gone
//! ```

mod child;
mod choice;
mod cost;
mod parent;
mod task;

pub use child::probe_main;
pub use choice::DeviceChoice;
pub use cost::context_cost;
pub use parent::{Probe, RunError, STEERING, run_probe};
pub use task::{ProbeError, Seen, VectorAdd, look, vector_add};

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What a probe can be asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeVerb {
    /// [`look`].
    Look,
    /// [`vector_add`].
    VectorAdd,
}

impl ProbeVerb {
    const ALL: [ProbeVerb; 2] = [ProbeVerb::Look, ProbeVerb::VectorAdd];

    /// As it is written on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            ProbeVerb::Look => "look",
            ProbeVerb::VectorAdd => "vector-add",
        }
    }
}

impl fmt::Display for ProbeVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ProbeVerb {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = ProbeVerb::ALL.into_iter().find(|verb| verb.as_str() == text);
        known.ok_or_else(|| format!("'{text}' is nothing a probe does; expected look or vector-add"))
    }
}

/// What a probe found out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// To [`ProbeVerb::Look`].
    Look(Seen),
    /// To [`ProbeVerb::VectorAdd`].
    VectorAdd(VectorAdd),
}

/// The line that a child prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    /// It went well.
    Answer(Answer),
    /// It did not: a word for machines, and a sentence for people.
    Failed { reason: String, message: String },
}
