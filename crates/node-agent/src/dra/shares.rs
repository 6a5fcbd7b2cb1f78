//! Says to containers with fractions of one GPU whose turn it is, and lends them what others do not use.

use carve_dra_driver::{Preparer, UsageRecord};
use carve_limiter_host::{Keeper, Share};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often to look which fractions there are.
const ROUND: Duration = Duration::from_millis(500);

/// Looks again and again. Says when this agent is the one that does.
pub(crate) async fn run(preparer: Arc<Preparer>, root: PathBuf, in_charge: Arc<AtomicBool>) {
    let mut shares = Shares { root, keepers: BTreeMap::new(), lock: None, round: None, in_charge };
    loop {
        let preparer = Arc::clone(&preparer);
        let looked = tokio::task::spawn_blocking(move || {
            let wait = shares.look(&preparer);
            (shares, wait)
        });
        let Ok((back, wait)) = looked.await else { return };
        shares = back;
        tokio::time::sleep(wait).await;
    }
}

struct Shares {
    root: PathBuf,
    keepers: BTreeMap<String, Keeper>,
    /// Held by the agent that gives turns: there may be two in a rolling update.
    lock: Option<File>,
    round: Option<Instant>,
    in_charge: Arc<AtomicBool>,
}

impl Shares {
    fn look(&mut self, preparer: &Preparer) -> Duration {
        if self.lock.is_none() {
            self.lock = lock(&self.root.join("turns.lock"));
        }
        if self.lock.is_none() {
            return ROUND;
        }
        self.in_charge.store(true, Ordering::Relaxed);
        if self.round.is_none_or(|round| round.elapsed() >= ROUND) {
            self.round = Some(Instant::now());
            self.gather(preparer);
        }
        self.keepers.values_mut().map(Keeper::look).min().unwrap_or(ROUND).min(ROUND)
    }

    fn gather(&mut self, preparer: &Preparer) {
        // Records that can not be read now can be at the next round; until then the shares are those that were known.
        let Ok(records) = preparer.records() else { return };
        let mut there: BTreeMap<String, BTreeSet<(String, String)>> = BTreeMap::new();
        for record in records.claims.values() {
            for device in &record.devices {
                let UsageRecord::Fraction { .. } = device.usage else { continue };
                let Some(part) = device.part.clone() else { continue };
                let share = (record.uid.clone(), device.share_name().to_owned());
                there.entry(part).or_default().insert(share);
            }
        }
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
