//! The dashboard in front of a cluster: what its objects say, what its agents measure, and one picture made of both.
//!
//! ```text
//!   watches: nodes, agents' pods, pods that wait, events of carve ──▶ objects ──┐
//!   agents ──/api/v1/picture, through the API server──▶ gather ──▶ answers ─────┼─▶ compose ──▶ Picture ──▶ carve_dashboard
//!   the book: who was bound where ──────────────────────────────────────────────┘
//! ```
//! Agents are asked every few seconds while somebody looks, and seldom otherwise: what nobody looks at costs a cluster next to nothing.

mod answers;
mod compose;
mod gather;
mod happenings;
mod node;
mod objects;
mod serve;
mod waits;

pub use serve::DashboardOptions;
pub(crate) use serve::{Board, open};
