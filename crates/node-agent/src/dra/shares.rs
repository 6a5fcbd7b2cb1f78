//! Says to containers with parts of one GPU whose turn it is, and lends them what others do not use.

use carve_dra_driver::{Preparer, UsageRecord};
use carve_limiter_host::{Keeper, Share};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Shares by the GPU or MIG device of which they are: the folder of each below that of all limits, and its name there.
pub(crate) type Found = BTreeMap<String, BTreeSet<(String, String)>>;
/// Tells which there are, or that it can not be told now.
pub(crate) type Find = Box<dyn Fn() -> Option<Found> + Send>;

/// How often to look which fractions there are.
const ROUND: Duration = Duration::from_millis(500);

/// Looks again and again. Says when this agent is the one that does.
pub(crate) async fn run(find: Find, root: PathBuf, in_charge: Arc<AtomicBool>) {
    let mut shares = Shares { find, root, keepers: BTreeMap::new(), lock: None, round: None, in_charge };
    loop {
        let looked = tokio::task::spawn_blocking(move || {
            let wait = shares.look();
            (shares, wait)
        });
        let Ok((back, wait)) = looked.await else { return };
        shares = back;
        tokio::time::sleep(wait).await;
    }
}

/// Fractions of claims.
pub(crate) fn of_claims(preparer: Arc<Preparer>) -> Find {
    Box::new(move || {
        let records = preparer.records().ok()?;
        let mut there = Found::new();
        for record in records.claims.values() {
            for device in &record.devices {
                let UsageRecord::Fraction { .. } = device.usage else { continue };
                let Some(part) = device.part.clone() else { continue };
                let share = (record.uid.clone(), device.share_name().to_owned());
                there.entry(part).or_default().insert(share);
            }
        }
        Some(there)
    })
}

struct Shares {
    find: Find,
    root: PathBuf,
    keepers: BTreeMap<String, Keeper>,
    /// Held by the agent that gives turns: there may be two in a rolling update.
    lock: Option<File>,
    round: Option<Instant>,
    in_charge: Arc<AtomicBool>,
}

impl Shares {
    fn look(&mut self) -> Duration {
        if self.lock.is_none() {
            self.lock = lock(&self.root.join("turns.lock"));
        }
        if self.lock.is_none() {
            return ROUND;
        }
        self.in_charge.store(true, Ordering::Relaxed);
        if self.round.is_none_or(|round| round.elapsed() >= ROUND) {
            self.round = Some(Instant::now());
            self.gather();
        }
        self.keepers.values_mut().map(Keeper::look).min().unwrap_or(ROUND).min(ROUND)
    }

    fn gather(&mut self) {
        // Records that can not be read now can be at the next round; until then the shares are those that were known.
        let Some(there) = (self.find)() else { return };
        self.keepers.retain(|part, _| there.contains_key(part));
        for (part, shares) in &there {
            let keeper = self.keepers.entry(part.clone()).or_default();
            let name = |(uid, share): &(String, String)| format!("{uid}/{share}");
            keeper.keep(|kept| shares.iter().any(|one| name(one) == kept));
            for one in shares {
                let (uid, share) = one;
                if !keeper.has(&name(one))
                    && let Ok(opened) = Share::open(&self.root.join(uid), part, share)
                {
                    keeper.add(&name(one), opened);
                }
            }
        }
    }
}

fn lock(path: &Path) -> Option<File> {
    let file = File::options().create(true).truncate(false).write(true).open(path).ok()?;
    file.try_lock().is_ok().then_some(file)
}
