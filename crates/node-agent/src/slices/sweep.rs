//! Removes what pods have left that kubelet no longer has.

use super::store::Store;
use super::token_holders;
use carve_bookings::{Started, TokenHolder};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often to look.
const ROUND: Duration = Duration::from_secs(15);
/// How long a pod must be gone: a kubelet that has just started lists its pods only after a while.
pub(crate) const GONE: Duration = Duration::from_secs(60);

/// Looks again and again.
pub(crate) async fn run(store: Store, pod_resources: PathBuf) {
    let mut sweep = Sweep::new(store, GONE);
    loop {
        match token_holders(&pod_resources).await {
            Ok(holders) => {
                let looked = tokio::task::spawn_blocking(move || {
                    let removed = sweep.look(&holders, Instant::now());
                    (sweep, removed)
                });
                let Ok((back, removed)) = looked.await else { return };
                sweep = back;
                match removed {
                    Ok(pods) if pods.is_empty() => {}
                    Ok(pods) => tracing::info!(pods = pods.join(", "), "what ended pods had is removed"),
                    Err(why) => tracing::warn!(why, "what ended pods had can not be removed; trying again"),
                }
            }
            Err(why) => tracing::debug!(why, "kubelet does not say who holds tokens; nothing is removed"),
        }
        tokio::time::sleep(ROUND).await;
    }
}

/// What was seen so far.
pub(crate) struct Sweep {
    store: Store,
    gone: Duration,
    /// Since when kubelet does not have a pod, by uid.
    missing: BTreeMap<String, Instant>,
}

impl Sweep {
    pub(crate) fn new(store: Store, gone: Duration) -> Self {
        Sweep { store, gone, missing: BTreeMap::new() }
    }

    /// Removes what belongs to pods that were missing at the look before this one already, and for long enough: one that starts between
    /// kubelet's answer and this look is not yet in the answer. Tells which.
    pub(crate) fn look(&mut self, holders: &[TokenHolder], now: Instant) -> Result<Vec<String>, String> {
        let _lock = self.store.lock()?;
        let mut records = self.store.records()?;
        self.missing.retain(|uid, _| records.get(uid).is_some_and(|record| !record.is_held(holders)));
        let mut ended = Vec::new();
        for record in records.values().filter(|record| !record.is_held(holders)) {
            match self.missing.get(&record.uid) {
                Some(since) if now.duration_since(*since) >= self.gone => ended.push(record.clone()),
                Some(_) => {}
                None => drop(self.missing.insert(record.uid.clone(), now)),
            }
        }
        for record in &ended {
            records.remove(&record.uid);
        }
        let named: BTreeSet<String> = records.values().flat_map(Started::all_tokens).collect();
        let mut removed = Vec::new();
        for record in ended {
            self.store.forget(&record, &named)?;
            self.missing.remove(&record.uid);
            removed.push(record.pod);
        }
        // Nobody starts while the lock is held, so a file without a record belongs to nobody.
        for token in self.store.tokens_with_files().difference(&named) {
            self.store.remove_file_of(token)?;
        }
        Ok(removed)
    }
}
