//! A study of ways to share one GPU: what is measured ([`Cell`]), what came of it ([`Study`]), and what follows.
//!
//! ```text
//!   Scope ──▶ cells ──▶ bench runs them, or Model computes them ──▶ Study ──▶ tables, verdicts, findings, pages, Comparison
//! ```
//!
//! Nothing here runs anything: `bench` does, and writes a [`Study`] as JSON after every cell.
#![warn(clippy::disallowed_methods)]

mod cell;
mod compare;
mod evidence;
mod figures;
mod finding;
mod join;
mod model;
mod ranking;
mod ratio;
pub mod report;
mod scope;
mod spread;
mod strategy;
mod study;
mod verdict;
mod workload;

pub use cell::{Cell, Mishap, ParseCellError};
pub use compare::{Both, Change, Comparison, Figure, Line, compare};
pub use evidence::{Evidence, Harm, Slowness, Survival, evidence, harm, survivals};
pub use figures::{Beside, Board, Figures, Happened, Overhead, Shared, Tenant, Victim};
pub use finding::{Check, Finding, findings};
pub use model::{Model, simulate};
pub use ranking::{Property, Rank, Ranking, ranking};
pub use scope::{Scope, Timing};
pub use spread::{RESOLUTION, Spread};
pub use strategy::Strategy;
pub use study::{Card, Outcome, Record, Study, StudyError};
pub use verdict::{Choice, PATIENCE, UNHURT, Verdict, WORTHWHILE, verdicts};
pub use workload::{Class, Unit, Workload};
