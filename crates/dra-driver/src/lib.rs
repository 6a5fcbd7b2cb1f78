//! Makes the devices of claims ready on a node, and takes them back.
//!
//! ```text
//!   claim ─▶ grants ─▶ record: started ─▶ GPU whole or instance made ─▶ (MPS daemon) ─▶ limits, CDI file ─▶ record: ready
//!   end   ─▶ record: ending ─▶ CDI file and limits gone ─▶ (daemon gone) ─▶ instance destroyed ─▶ no record
//! ```
//! Whoever is killed between two arrows finds the record and goes on, forwards or backwards. [`Preparer`] does everything that has to do
//! with files and GPUs, one call at a time; daemons are somebody else's, who asks [`Preparer::daemons`] which there should be.

mod claim_spec;
mod preparer;
mod record;
mod sweep;
mod turns;

pub use claim_spec::{CdiNames, NodeFiles, Places};
pub use preparer::{PrepareError, PreparedDevice, Preparer, PreparerSettings, Steps};
pub use record::{ClaimRecord, DeviceRecord, RecordError, RecordStore, Records, Stage, UsageRecord};
pub use sweep::Swept;
pub use turns::{SetTurns, SmiTurns};
