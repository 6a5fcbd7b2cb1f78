//! Which workloads need less of a GPU than they have, by what was seen of them; what follows for the machines; what that saves.
//!
//! [`read_cluster`] and [`observe`] make a [`Situation`] of what `kubectl` and Prometheus tell. [`advise`] answers with an [`Advice`]: for each workload what was
//! seen, the least that meets it and by which rule, the machines that are left after packing anew, the money with its arithmetic, and the files to
//! apply. Nothing is advised that was not seen. [`score`] holds an advice against what came of it.
#![warn(clippy::disallowed_methods)]

mod advice;
mod advise;
mod class;
mod cluster;
mod diffs;
mod input;
mod money;
mod observed;
mod packing;
mod remedies;
mod rules;
mod score;
mod series;
mod studied;

pub use advice::{
    Advice, Advised, Basis, Cheaper, Diff, Fleet, FleetMoney, GpuThen, MachineRow, NodeThen, PartThen,
    Reason, Remedy, WorkloadAdvice,
};
pub use advise::advise;
pub use carve_economics::{Price, PriceError, Prices};
pub use class::Class;
pub use cluster::{ClusterError, read_cluster};
pub use input::{
    Beside, Domains, Dtype, Evidence, ModelFacts, Node, Replica, Sample, Settings, Situation, Workload,
};
pub use observed::{Observed, Ratio};
pub use score::{Score, ScoredWorkload, score};
pub use series::{BUSY_SERIES, MEMORY_SERIES, Unmatched, observe};
