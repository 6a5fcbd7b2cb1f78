//! Looks at the shares of one part again and again and says whose turn it is.

use crate::arbiter::{self, Tenant};
use crate::share::Share;
use carve_limiter_abi::Usage;
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::time::Duration;

/// Nanoseconds of the clock that limiter and host have in common.
pub fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The shares of a part, by name. There must be one keeper of a part at a time.
#[derive(Debug, Default)]
pub struct Keeper {
    shares: BTreeMap<String, (Share, Usage)>,
    period: u64,
}

impl Keeper {
    /// Takes care of a share, too.
    pub fn add(&mut self, name: &str, share: Share) {
        // What it used until now was before our time.
        let before = share.usage().unwrap_or_default();
        self.shares.insert(name.to_owned(), (share, before));
    }

    /// Whether it takes care of a share.
    pub fn has(&self, name: &str) -> bool {
        self.shares.contains_key(name)
    }

    /// Forgets all but some shares.
    pub fn keep(&mut self, stays: impl Fn(&str) -> bool) {
        self.shares.retain(|name, _| stays(name));
    }

    /// Reads what is used, and says whose turn it is. Answers how long to wait until the next look, which must not be much later: the
    /// limiter forgets what is not said again.
    pub fn look(&mut self) -> Duration {
        let tenants: Vec<Tenant> = self
            .shares
            .values_mut()
            .map(|(share, before)| {
                // A share whose counters can not be read is taken for an idle one; its limits hold it without turns, too.
                let now = share.usage().unwrap_or(*before);
                let limits = share.limits();
                // Whom MPS holds has no turns: it runs beside others.
                let compute = if limits.mps { 0 } else { limits.compute };
                let tenant = Tenant { compute, burst: limits.burst, before: *before, now };
                *before = now;
                tenant
            })
            .collect();
        let plan = arbiter::plan(&tenants, self.period, monotonic());
        self.period = plan.period;
        for ((share, _), turn) in self.shares.values().zip(&plan.turns) {
            share.say(turn);
        }
        plan.again
    }
}

#[cfg(test)]
mod tests {
    use super::{Keeper, monotonic};
    use crate::Share;
    use carve_limiter_abi::{Limits, Turn};

    const UUID: &str = "GPU-00112233-4455-6677-8899-aabbccddeeff";

    #[test]
    fn shares_are_told_their_turns_in_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let limits =
            |compute| Limits { memory: 1, compute, context: 0, burst: false, pass: false, mps: false };
        let mut keeper = Keeper::default();
        for (name, compute) in [("a", 3_000), ("b", 7_000)] {
            let share = Share::create(folder.path(), UUID, name, &limits(compute)).expect("a share");
            keeper.add(name, share);
        }
        let begun = monotonic();
        let again = keeper.look();
        assert!((again.as_nanos() as u64) < Turn::FRESH / 3);
        let said = |name| Share::open(folder.path(), UUID, name).expect("the share").said().expect("a turn");
        let (a, b) = (said("a"), said("b"));
        assert!(a.said >= begun && a.period == b.period && a.offset + a.length == b.offset, "{a:?} {b:?}");
        keeper.keep(|name| name == "a");
        keeper.look();
        assert_eq!((said("a").period, said("b").period, keeper.has("b")), (0, b.period, false));
    }
}
