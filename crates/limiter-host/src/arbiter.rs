//! Whose turn it is on a part that several shares have, and who is lent what nobody uses; pure.
//!
//! Turns lie end to end in one period, each as long as its share of it. A tenant with burst is lent the time of those who did not want
//! to start work of late. They have no turns then, so whoever comes back starts at once at its own rate, and the next look takes
//! back what was lent.

use carve_limiter_abi::{Turn, Usage};
use std::time::Duration;

/// All of a part's time, in hundredths of a percent.
const ALL: u64 = 10_000;
/// How long turns may take to come round. Most of them fit into a tenth of a second, so that every such time holds the same.
const PERIODS: [u64; 7] =
    [20_000_000, 50_000_000, 100_000_000, 200_000_000, 500_000_000, 1_000_000_000, LONGEST];
const SHORTEST: u64 = 20_000_000;
const LONGEST: u64 = 2_000_000_000;
/// A period has room for so many pieces of work, so that what reaches over the end of a turn is little of it.
const PIECES: u64 = 30;
/// Whoever did not want to start work for so long lends its time.
const QUIET: u64 = 50_000_000;
/// Until the next look where something is lent, and where nothing is. The latter is well below [`Turn::FRESH`].
const SOON: Duration = Duration::from_millis(5);
const LATER: Duration = Duration::from_millis(200);

/// A share of the part, and what was seen of its processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tenant {
    /// Hundredths of a percent of the part's time; zero where it is not limited.
    pub compute: u32,
    /// Whether it is lent what others do not use.
    pub burst: bool,
    /// What its processes used until the look before.
    pub before: Usage,
    /// What they used until now.
    pub now: Usage,
}

impl Tenant {
    /// Whether it wants the part's time. Somebody whose work takes long comes back late and is not idle meanwhile.
    fn wants(&self, now: u64) -> bool {
        let quiet = QUIET.max(self.now.longest.saturating_mul(2)).min(LONGEST);
        self.now.busy != self.before.busy
            || (self.now.wanted != 0 && now.saturating_sub(self.now.wanted) < quiet)
    }
}

/// What to say to every tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// In the order of the tenants.
    pub turns: Vec<Turn>,
    /// How long turns take to come round, where there are any; the next plan wants to know.
    pub period: u64,
    /// How long until somebody should look again.
    pub again: Duration,
}

/// Decides. `period` is that of the plan before, zero for the first; `now` is nanoseconds of the monotonic clock.
pub fn plan(tenants: &[Tenant], period: u64, now: u64) -> Plan {
    let period = period_for(tenants, period);
    let limited = tenants.iter().filter(|tenant| tenant.compute > 0).count();
    let wanted: u64 = active(tenants, now).map(|tenant| u64::from(tenant.compute)).sum();
    let borrowers: u64 =
        active(tenants, now).filter(|tenant| tenant.burst).map(|tenant| u64::from(tenant.compute)).sum();
    let spare = ALL.saturating_sub(wanted);
    let lending = borrowers > 0 && spare > 0;
    // Whoever is not lent anything keeps its turn whether it wants it or not.
    let in_turn = |tenant: &Tenant| tenant.compute > 0 && (!lending || tenant.wants(now));
    let lent = |tenant: &Tenant| -> u64 {
        let borrows = lending && tenant.burst && in_turn(tenant);
        if borrows { spare * u64::from(tenant.compute) / borrowers } else { 0 }
    };
    let parts = |tenant: &Tenant| u64::from(tenant.compute) + lent(tenant);
    let together: u64 = tenants.iter().filter(|tenant| in_turn(tenant)).map(parts).sum();
    let has_turns = limited > 1 && tenants.iter().filter(|tenant| in_turn(tenant)).count() > 1;
    let mut offset = 0;
    let turns = tenants
        .iter()
        .map(|tenant| {
            let said = Turn { lent: lent(tenant) as u32, said: now, ..Turn::default() };
            if !has_turns || !in_turn(tenant) {
                return said;
            }
            let length = period * parts(tenant) / together.max(ALL);
            let turn = Turn { period, offset, length, ..said };
            offset += length;
            turn
        })
        .collect();
    let again = if lending && limited > 1 { SOON } else { LATER };
    Plan { turns, period, again }
}

fn active(tenants: &[Tenant], now: u64) -> impl Iterator<Item = &Tenant> {
    tenants.iter().filter(move |tenant| tenant.compute > 0 && tenant.wants(now))
}

/// Long enough for the longest piece of work. It grows when it must and shrinks late, for every change breaks turns off.
fn period_for(tenants: &[Tenant], before: u64) -> u64 {
    let longest = tenants.iter().filter(|tenant| tenant.compute > 0).map(|tenant| tenant.now.longest).max();
    let needed = longest.unwrap_or(0).saturating_mul(PIECES).clamp(SHORTEST, LONGEST);
    if needed <= before && before / 2 < needed && (SHORTEST..=LONGEST).contains(&before) {
        return before;
    }
    PERIODS.into_iter().find(|period| *period >= needed).unwrap_or(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::{ALL, LATER, LONGEST, Plan, QUIET, SHORTEST, SOON, Tenant, plan};
    use carve_limiter_abi::{Turn, Usage};
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    const NOW: u64 = 1_000_000 * MS;

    /// One that wanted to start work so long ago.
    fn tenant(compute: u32, burst: bool, ago: u64) -> Tenant {
        let usage = Usage { wanted: NOW - ago, longest: MS / 10, ..Usage::default() };
        Tenant { compute, burst, before: usage, now: usage }
    }

    fn spans(plan: &Plan) -> Vec<(u64, u64)> {
        let turns = plan.turns.iter().filter(|turn| turn.period != 0);
        turns.map(|turn| (turn.offset, turn.offset + turn.length)).collect()
    }

    #[test]
    fn turns_lie_end_to_end() {
        let found = plan(&[tenant(3_000, false, 0), tenant(0, false, 0), tenant(7_000, false, 0)], 0, NOW);
        assert_eq!(spans(&found), [(0, 6 * MS), (6 * MS, 20 * MS)]);
        assert_eq!((found.turns[1].period, found.period, found.again), (0, SHORTEST, LATER));
        // What is more than everything is scaled down.
        let found = plan(&[tenant(10_000, false, 0), tenant(10_000, false, 0)], 0, NOW);
        assert_eq!(spans(&found), [(0, 10 * MS), (10 * MS, 20 * MS)]);
    }

    #[test]
    fn one_alone_has_no_turns_and_burst_lifts_its_limit() {
        let found = plan(&[tenant(3_000, false, 0)], 0, NOW);
        assert_eq!(found.turns, [Turn { said: NOW, ..Turn::default() }]);
        let found = plan(&[tenant(3_000, true, 0)], 0, NOW);
        assert_eq!((found.turns[0].lent, found.again), (7_000, LATER));
    }

    #[test]
    fn what_others_do_not_use_is_lent_until_they_come_back() {
        let (busy, idle) = (tenant(2_500, true, 0), tenant(7_500, false, QUIET));
        let found = plan(&[busy, idle], 0, NOW);
        let lifted = Turn { lent: 7_500, said: NOW, ..Turn::default() };
        assert_eq!(found.turns, [lifted, Turn { said: NOW, ..Turn::default() }]);
        assert_eq!(found.again, SOON);
        let found = plan(&[busy, tenant(7_500, false, 0)], 0, NOW);
        assert_eq!(spans(&found), [(0, 5 * MS), (5 * MS, 20 * MS)]);
        assert!(found.turns.iter().all(|turn| turn.lent == 0));
        // Some are idle: those who are not share the period.
        let found = plan(&[busy, tenant(2_500, false, 0), tenant(5_000, false, QUIET)], 0, NOW);
        assert_eq!(spans(&found), [(0, 15 * MS), (15 * MS, 20 * MS)]);
        assert_eq!(found.turns[2].period, 0);
    }

    #[test]
    fn long_work_is_not_taken_for_none() {
        let mut long = tenant(7_500, false, 150 * MS);
        long.now.longest = 100 * MS;
        let found = plan(&[tenant(2_500, true, 0), long], 0, NOW);
        assert!(found.turns.iter().all(|turn| turn.lent == 0 && turn.period == LONGEST));
    }

    #[test]
    fn the_period_changes_rarely() {
        let with = |longest: u64| {
            let mut one = tenant(5_000, false, 0);
            one.now.longest = longest;
            [one, tenant(5_000, false, 0)]
        };
        let mut period = 0;
        for (longest, expected) in
            [(MS / 10, 20), (MS, 50), (MS + 50, 50), (MS * 7 / 10, 50), (MS / 10, 20), (9 * MS, 500)]
        {
            period = plan(&with(longest), period, NOW).period;
            assert_eq!(period, expected * MS, "{longest}");
        }
        assert_eq!(plan(&with(u64::MAX), 0, NOW).period, LONGEST);
    }

    fn any_tenant() -> impl Strategy<Value = Tenant> {
        (0u32..=10_000, any::<bool>(), 0u64..200 * MS, 0u64..30 * MS, 0u64..2).prop_map(
            |(compute, burst, ago, longest, busy)| {
                let before = Usage { wanted: NOW - ago, longest, ..Usage::default() };
                Tenant { compute, burst, before, now: Usage { busy, ..before } }
            },
        )
    }

    proptest! {
        #[test]
        fn turns_never_meet_and_fit_into_the_period(tenants in prop::collection::vec(any_tenant(), 0..9), period in 0u64..3 * LONGEST) {
            let found = plan(&tenants, period, NOW);
            prop_assert_eq!(found.turns.len(), tenants.len());
            prop_assert!((SHORTEST..=LONGEST).contains(&found.period));
            let mut end = 0;
            for (from, to) in spans(&found) {
                prop_assert!(from >= end && to >= from && to <= found.period);
                end = to;
            }
            let opened = (0..100).map(|part| NOW + found.period * part / 100);
            for moment in opened {
                let open = found.turns.iter().filter(|turn| turn.period != 0 && turn.next(moment).0 == moment);
                prop_assert!(open.count() <= 1);
            }
        }

        #[test]
        fn what_is_wanted_is_never_lent(tenants in prop::collection::vec(any_tenant(), 0..9)) {
            let found = plan(&tenants, 0, NOW);
            let wanted: u64 = tenants.iter().filter(|one| one.wants(NOW)).map(|one| u64::from(one.compute)).sum();
            let lent: u64 = found.turns.iter().map(|turn| u64::from(turn.lent)).sum();
            prop_assert!(lent + wanted <= ALL.max(wanted), "{lent} lent, {wanted} wanted");
            let sum: u64 = tenants.iter().map(|one| u64::from(one.compute)).sum();
            for (one, turn) in tenants.iter().zip(&found.turns) {
                prop_assert!(turn.lent == 0 || (one.burst && one.wants(NOW)));
                // Its own share of the period, or no turns at all that would keep it from it.
                let own = found.period * u64::from(one.compute) / sum.max(ALL);
                prop_assert!(turn.period == 0 || turn.length >= own);
                prop_assert_eq!(turn.said, NOW);
            }
        }

        #[test]
        fn lent_time_is_back_at_the_next_look(tenants in prop::collection::vec(any_tenant(), 2..9)) {
            let first = plan(&tenants, 0, NOW);
            let later = NOW + 5 * MS;
            let back: Vec<Tenant> = tenants
                .iter()
                .map(|one| Tenant { before: one.now, now: Usage { wanted: later, ..one.now }, ..*one })
                .collect();
            let second = plan(&back, first.period, later);
            let sum: u64 = back.iter().map(|one| u64::from(one.compute)).sum();
            let lent: u64 = second.turns.iter().map(|turn| u64::from(turn.lent)).sum();
            prop_assert!(lent <= ALL.saturating_sub(sum));
            if first.turns.iter().any(|turn| turn.lent > 0) && tenants.iter().filter(|one| one.compute > 0).count() > 1 {
                prop_assert_eq!(first.again, SOON);
            }
        }
    }
}
