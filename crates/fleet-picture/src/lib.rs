//! What people see of a fleet: every GPU as its slices, who uses them, what is wasted, what waits and why; and what changes from one look to the
//! next.
//!
//! ```text
//!   a cluster, or one machine ──▶ Picture ──▶ Change: from one look to the next ──▶ pages, terminals
//!                                    └──────▶ History: the last hours, look by look
//! ```
//! Pure, and the same for a simulated fleet, one machine and a cluster; the page, `carve top` and `carve get gpus` draw nothing else.
#![warn(clippy::disallowed_methods)]

mod change;
mod history;
mod picture;
mod summary;

pub use change::{Change, Changes, Used};
pub use history::{Frame, History};
pub use picture::{
    Evidence, GpuPicture, GpuState, Happening, Instance, Mechanism, NodePicture, Picture, Slice, Tone,
    Waiting,
};
pub use summary::{Money, Summary};
