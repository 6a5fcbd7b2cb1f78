//! How far a node is on its way from whole GPUs to slices, where stand-ins brought it; it stands in the value of its taint.

use crate::NOT_READY;
use serde_json::{Value, json};

/// How far a node is. Whoever looks at it later goes on from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It has whole GPUs, or none yet; stand-ins may come.
    Whole,
    /// No more stand-ins may come, and those that are there go.
    Emptying,
    /// Its agent is told to cut.
    Cutting,
}

impl Stage {
    const ALL: [Stage; 3] = [Stage::Whole, Stage::Emptying, Stage::Cutting];

    /// As the taint says it. Stand-ins bear the first one only.
    pub const fn word(self) -> &'static str {
        match self {
            Stage::Whole => "whole",
            Stage::Emptying => "emptying",
            Stage::Cutting => "cutting",
        }
    }

    /// The taint.
    pub fn taint(self) -> Value {
        json!({"key": NOT_READY, "value": self.word(), "effect": "NoSchedule"})
    }

    /// What taints say, as the API server has them. Nodes that are cut from the start have the same taint without a value.
    pub fn of(taints: &[Value]) -> Option<Stage> {
        let taint = taints.iter().find(|taint| taint["key"] == NOT_READY)?;
        Stage::ALL.into_iter().find(|stage| taint["value"] == stage.word())
    }

    /// Whether a node with a taint of this key and value is still to have whole GPUs.
    pub fn keeps_whole(key: &str, value: &str) -> bool {
        key == NOT_READY && [Stage::Whole, Stage::Emptying].iter().any(|stage| stage.word() == value)
    }

    /// What comes next, if it is time: `settled` says that its autoscaler counts on its whole GPUs no longer.
    pub fn next(self, settled: bool, stand_ins: usize) -> Option<Stage> {
        match self {
            Stage::Whole => settled.then_some(Stage::Emptying),
            Stage::Emptying => (stand_ins == 0).then_some(Stage::Cutting),
            Stage::Cutting => None,
        }
    }
}
