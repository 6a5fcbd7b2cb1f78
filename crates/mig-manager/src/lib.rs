//! Changes the MIG layout of a machine's GPUs, or leaves it as it was.
//!
//! ```text
//!  config file ─▶ target ─▶ plan ─▶ journal ─▶ change ─▶ verify ─▶ journal gone
//!                   │         │                   │         │
//!                refused   refused            rolled back  rolled back
//! ```
//! Everything that can be known beforehand is checked before a GPU is touched. From then on the journal holds the old
//! and the new layout, so that a run that was killed is finished, or undone, by the next one.
//!
//! [`apply()`] treats the machine as one. An agent that serves a cluster plans with [`plan_drained`], learns from
//! [`Touched`] what to withdraw and whom to wait for, carries out that plan with [`apply_plan`] GPU by GPU, and keeps
//! a [`Record`] so that a layout lost in a reboot is made again before anything is offered.

mod apply;
mod change;
mod checkpoint;
mod hooks;
mod inventory;
mod journal;
mod layout;
mod named;
mod partial;
mod plan;
mod progress;
mod record;
mod single;
mod target;
mod touched;

pub use apply::{Applied, ApplyError, ApplyOptions, Recovered, apply, recover, restore};
pub use change::ChangeError;
pub use checkpoint::{CheckpointError, checkpoint};
pub use hooks::{HookError, HookRunner};
pub use inventory::{GpuState, inventory};
pub use journal::{JournalError, StateDir, write_whole};
pub use layout::{InstanceLayout, Layout, export};
pub use named::{UnknownConfig, builtin_config, builtin_configs, builtin_names};
pub use partial::{Outcome, PartlyApplied, apply_partial, apply_plan};
pub use plan::{GpuPlan, ModeChange, Plan, PlanError, plan, plan_layouts};
pub use progress::{Progress, Silent, Step};
pub use record::{BootId, ConfigHash, Record, RecordError, RecordRead, lost_since, reapply_needed};
pub use single::{InstanceError, instances_on, make_instance, remove_instance, uncut};
pub use target::{GpuList, GpuTarget, Place, Refusal, Target, resolve};
pub use touched::{Holder, Touched, TouchedDevice, plan_drained};
