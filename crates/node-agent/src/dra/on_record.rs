//! What containers have of GPUs, by whichever door they got it: records in the words of claims, and who holds what.
//!
//! Those who watch over shares and measure contexts ask here, so that they need not know whether a share came by a claim or by tokens.

use crate::holders::ClaimHeld;
use carve_dra_driver::{ClaimRecord, RecordStore};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;

/// What there is.
#[derive(Debug, Clone, Default)]
pub(crate) struct OnRecord {
    /// By uid.
    pub(crate) claims: BTreeMap<String, ClaimRecord>,
    pub(crate) held: Vec<ClaimHeld>,
}

/// Reads it, or says why it can not be read now.
pub(crate) type LookUp = Arc<dyn Fn() -> Result<OnRecord, String> + Send + Sync>;

/// Claims that were made ready since the machine was started.
pub(crate) fn of_claims(store: RecordStore, boot: String, held: watch::Receiver<Vec<ClaimHeld>>) -> LookUp {
    Arc::new(move || {
        let mut claims = store.look().map_err(|error| error.to_string())?.claims;
        claims.retain(|_, record| record.boot == boot);
        Ok(OnRecord { claims, held: held.borrow().clone() })
    })
}
