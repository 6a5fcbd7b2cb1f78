//! Runs a study of ways to share a GPU, cell by cell.
//!
//! ```text
//!   cell ──▶ can it be done here? ──no──▶ skipped, and why
//!              │ yes
//!              ▼
//!            Stage (MPS daemon, limits, MIG devices, length of turns) ──▶ Tenants start ──▶ warm-up ──▶ windows ──▶ figures
//!              └── dropped: tenants killed, daemon ended, setting as it was
//! ```
//!
//! Nothing of the card is changed unless [`Bench::change_settings`] says so, and then it is put back. Whatever ends a run, what was measured
//! is kept by whoever gave the [`Watch`].

mod bench;
mod beside;
mod board;
mod error;
mod left_behind;
mod mishap;
mod mps;
mod overhead;
mod run;
mod settings;
mod share;
mod stage;
mod tenants;

pub use bench::{Bench, Programs};
pub use error::CellError;
pub use left_behind::{LeftBehind, clear_left_behind};
pub use run::{Ended, Watch, run};
