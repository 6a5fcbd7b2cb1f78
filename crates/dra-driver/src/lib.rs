//! Makes the devices of claims ready on a node, and takes them back.
//!
//! ```text
//!   kubelet ──▶ registration socket ─┐
//!   kubelet ──▶ service socket ──────┤ server: both sockets, bound again when they vanish
//!                                    └─▶ calls: one piece of work for each claim, however often kubelet asks ──▶ Driver
//!
//!   claim ─▶ grants ─▶ record: started ─▶ GPU whole or instance made ─▶ (MPS daemon) ─▶ limits, CDI file ─▶ record: ready
//!   end   ─▶ record: ending ─▶ CDI file and limits gone ─▶ (daemon gone) ─▶ instance destroyed ─▶ no record
//! ```
//! Whoever is killed between two arrows finds the record and goes on, forwards or backwards. [`Preparer`] does everything that has to do
//! with files and GPUs, one call at a time; daemons are somebody else's, who asks [`Preparer::daemons`] which there should be.

mod calls;
mod claim_spec;
mod health;
mod kept;
mod limits;
mod places;
mod prepare_error;
mod preparer;
mod record;
mod server;
mod services;
mod stale;
mod sweep;
mod turns;
mod vanished;

pub use claim_spec::{CdiNames, NodeFiles, Places};
pub use limits::{ContextMemory, leave_preload};
pub use places::{PlacesError, SocketPlaces};
pub use prepare_error::PrepareError;
pub use preparer::{PreparedDevice, Preparer, PreparerSettings, Steps};
pub use record::{ClaimRecord, DeviceRecord, RecordError, RecordStore, Records, Stage, UsageRecord};
pub use server::{Driver, Pace, Registered, ServeError, serve, serve_at};
pub use sweep::Swept;
pub use turns::{SetTurns, SmiTurns};
pub use vanished::Vanished;
