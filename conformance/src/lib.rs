//! Runs NVIDIA's own programs, unchanged, on a simulated machine, so that their answers can be compared with ours.
//!
//! [`Incumbents`] finds the programs; a [`Cage`] is a root directory with nothing in it but one program's needs: its
//! libraries, the simulated `libnvidia-ml.so.1`, and the files under `/proc` and `/sys` that it reads. The machine's
//! state file lies in the cage and can be opened from outside, by carve and by tests, under its real path.

#[path = "../../crates/nvml-sim/tests/support/built.rs"]
mod built;
mod cage;
mod caged_carve;
mod carve;
mod cut;
mod driver_files;
mod incumbents;
mod kernel_files;
mod outcome;
pub mod side_by_side;

pub use cage::{Cage, CageError};
pub use carve::Carve;
pub use cut::cut;
pub use incumbents::{Incumbents, Karpenter, Program, helm};
pub use outcome::{Outcome, Running};
