//! A cluster in one process: machines that are simulated or here, workloads that live on them, a scheduler, the controller, and the books.
//!
//! ```text
//!   carve apply, kubectl ──▶ object API ──admission: the controller's own──▶ store ──changes──┐
//!        ┌────────────────────────────────────────────────────────────────────────────────────┘
//!        ▼
//!   engine: workloads make pods ─▶ placing binds them ─▶ machines run them, cut MIG, tell what is used
//!        │                                                  │
//!        └──▶ Picture, once a second and after every change └──▶ books: who pays
//! ```
//! Everything but kubelet and the container runtime is what a cluster runs: admission, MIG on demand, placement, prices and legality are the same
//! code. One task owns all of it, so nothing is given away twice.

mod behaviour;
mod books;
mod engine;
mod fleet;
mod happening;
mod here;
mod life;
mod machine;
mod nodes;
mod objects;
mod placing;
mod programs;
mod run;
mod serve;
mod tenant;
mod workloads;

pub use books::Books;
pub use engine::Machines;
pub use fleet::{Fleet, FleetError, MachineSpec};
pub use here::{Here, Runner};
pub use nodes::PROCESSES;
pub use programs::{RUN_BY, this_process};
pub use run::{LocalCluster, Seen, StartError};
