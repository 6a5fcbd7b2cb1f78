//! Figures of two passes over the same cell, made one.

use crate::{Beside, Board, Figures, Overhead, Shared, Spread, Tenant, Victim};

impl Figures {
    /// With those of another pass. What is no figure, such as what a mishap did, is the later one's.
    #[must_use]
    pub fn join(self, later: Figures) -> Figures {
        match (self, later) {
            (Figures::Overhead(one), Figures::Overhead(other)) => Figures::Overhead(Overhead {
                round_ns: one.round_ns.join(&other.round_ns),
                launch_us: one.launch_us.join(&other.launch_us),
            }),
            (Figures::Shared(one), Figures::Shared(other)) => Figures::Shared(shared(&one, other)),
            (Figures::Beside(one), Figures::Beside(other)) => Figures::Beside(Beside {
                alone: victim(&one.alone, &other.alone),
                beside: victim(&one.beside, &other.beside),
            }),
            (_, later) => later,
        }
    }
}

fn maybe(one: Option<Spread>, other: Option<Spread>) -> Option<Spread> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.join(&other)),
        (one, other) => one.or(other),
    }
}

fn shared(one: &Shared, other: Shared) -> Shared {
    let tenants = one.tenants.iter().zip(&other.tenants).map(|(one, other)| tenant(one, other)).collect();
    let board = match (one.board, other.board) {
        (Some(one), Some(other)) => Some(board(&one, &other)),
        (one, other) => one.or(other),
    };
    Shared {
        tenants,
        total: one.total.join(&other.total),
        daemon_s: maybe(one.daemon_s, other.daemon_s),
        board,
    }
}

fn tenant(one: &Tenant, other: &Tenant) -> Tenant {
    Tenant {
        rate: one.rate.join(&other.rate),
        p50_ms: maybe(one.p50_ms, other.p50_ms),
        p95_ms: maybe(one.p95_ms, other.p95_ms),
        p99_ms: maybe(one.p99_ms, other.p99_ms),
        completion_s: maybe(one.completion_s, other.completion_s),
        job: other.job,
        arrivals: other.arrivals,
        start_up_s: one.start_up_s.join(&other.start_up_s),
        memory_mib: other.memory_mib,
    }
}

fn board(one: &Board, other: &Board) -> Board {
    let mean = |one: Option<f64>, other: Option<f64>| match (one, other) {
        (Some(one), Some(other)) => Some(f64::midpoint(one, other)),
        (one, other) => one.or(other),
    };
    Board {
        busy_percent: mean(one.busy_percent, other.busy_percent),
        watts: mean(one.watts, other.watts),
        memory_mib: one.memory_mib.max(other.memory_mib),
    }
}

fn victim(one: &Victim, other: &Victim) -> Victim {
    Victim { rate: one.rate.join(&other.rate), p99_ms: maybe(one.p99_ms, other.p99_ms) }
}

#[cfg(test)]
mod tests {
    use crate::model::h200;
    use crate::{Cell, Figures, Outcome, Scope, Study, simulate};

    fn study(seed: u64) -> Study {
        simulate(h200(), Scope::Default, seed, "2026-11-17T10:00:00Z".to_owned(), "0.1.0")
    }

    #[test]
    fn two_passes_have_the_spread_of_both() {
        let (mut one, other) = (study(1), study(2));
        for record in &other.cells {
            let (before, passes) = (one.figures(&record.cell).cloned(), one.passes(&record.cell));
            one.add(record.cell, record.outcome.clone());
            let (Some(Figures::Shared(before)), Some(Figures::Shared(after))) =
                (before, one.figures(&record.cell))
            else {
                continue;
            };
            let Outcome::Measured(Figures::Shared(later)) = &record.outcome else {
                panic!("{}", record.cell)
            };
            assert_eq!(after.total.low, before.total.low.min(later.total.low));
            assert_eq!(after.total.high, before.total.high.max(later.total.high));
            assert_eq!((after.total.times, one.passes(&record.cell)), (before.total.times * 2, passes + 1));
            assert_eq!(after.tenants.len(), before.tenants.len());
        }
    }

    #[test]
    fn what_fails_once_has_failed() {
        let mut study = study(1);
        let cell: Cell = "light/mps/2".parse().unwrap();
        study.add(cell, Outcome::Failed("it died".to_owned()));
        assert_eq!(study.outcome(&cell), Some(&Outcome::Failed("it died".to_owned())));
    }
}
