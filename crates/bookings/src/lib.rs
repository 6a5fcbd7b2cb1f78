//! Which part of which GPU every pod of a cluster holds, and where the next one fits.
//!
//! ```text
//!   Node's annotation ─▶ Offer ─┐
//!                               ├─▶ Book ─▶ fits, points, slices, victims
//!   pods' annotations ─▶ Slices ┘     ▲
//!                                     └── what was bound a moment ago
//! ```
//!
//! A [`Book`] is made of what the API server has and can be made anew from it at any time. Asking it changes nothing.
#![warn(clippy::disallowed_methods)]

mod book;
mod choose;
mod judge;
mod offer;
mod points;
mod preempt;
mod room;
mod slices;
mod start;
mod want;
mod whose;

pub use book::{Book, Booking, PodUid};
pub use carve_formats::workloads::Names;
pub use choose::{Misfit, choose};
pub use judge::Judge;
pub use offer::{Gpu, Offer, OfferError};
pub use points::{MOST_POINTS, points};
pub use preempt::victims;
pub use room::{Held, Room};
pub use slices::{ContainerSlices, Slice, Slices, SlicesError};
pub use start::{StartRefusal, Started, TOKENS_FOR_EACH_GPU, TokenHolder, may_start, pods_with, tokens};
pub use want::{Compute, ContainerWant, Memory, Part, Stage, Want};
pub use whose::{InitState, Starting, Whose};
