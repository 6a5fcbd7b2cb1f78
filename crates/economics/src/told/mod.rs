//! Ledgers as people and programs ask for them: over a window, by what, as a report or in the words of OpenCost.

mod opencost;
mod question;
mod report;
mod window;

pub use opencost::{Aggregate, AggregateError, opencost};
pub use question::{Question, Step, WrongQuestion};
pub use report::{CostReport, CostRow, Covered, NodePrice};
pub use window::{Window, WindowError, moment};
