//! Changes the MIG layout of a machine's GPUs, or leaves it as it was.
//!
//! ```text
//!  config file ─▶ target ─▶ plan ─▶ journal ─▶ change ─▶ verify ─▶ journal gone
//!                   │         │                   │         │
//!                refused   refused            rolled back  rolled back
//! ```
//! Everything that can be known beforehand is checked before a GPU is touched. From then on the journal holds the old
//! and the new layout, so that a run that was killed is finished, or undone, by the next one.

mod apply;
mod change;
mod checkpoint;
mod hooks;
mod inventory;
mod journal;
mod layout;
mod plan;
mod progress;
mod target;

pub use apply::{Applied, ApplyError, ApplyOptions, Recovered, apply, recover, restore};
pub use change::ChangeError;
pub use checkpoint::{CheckpointError, checkpoint};
pub use hooks::{HookError, HookRunner};
pub use inventory::{GpuState, inventory};
pub use journal::{JournalError, StateDir, write_whole};
pub use layout::{InstanceLayout, Layout, export};
pub use plan::{GpuPlan, ModeChange, Plan, PlanError, plan, plan_layouts};
pub use progress::{Progress, Silent, Step};
pub use target::{GpuList, GpuTarget, Place, Refusal, Target, resolve};
