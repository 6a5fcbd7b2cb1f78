//! What a study says of one workload under one strategy: what sharing gains, what it costs, who hurts whom.

use crate::ratio::{either, ratio, times, word};
use crate::{Beside, Cell, Figures, Mishap, Shared, Spread, Strategy, Study, Tenant, Workload};
use serde::Serialize;
use std::fmt;

/// What slowness is measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Slowness {
    /// The 99th percentile of the tenant that has the longest.
    P99,
    /// The time until the last job is done.
    Completion,
    /// How many times less the slowest tenant does a second.
    Rate,
}

/// The neighbour that a tenant suffers most from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Harm {
    /// What the neighbour does.
    pub aggressor: Workload,
    /// What the tenant keeps of its rate beside it: 1 is all.
    pub kept: Spread,
}

/// Whether a neighbour works on after a mishap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Survival {
    /// What went wrong.
    pub mishap: Mishap,
    /// Whether the neighbour worked on.
    pub survived: bool,
}

/// What a study says of so many tenants with the same workload under one strategy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evidence {
    /// How they share.
    pub strategy: Strategy,
    /// How many they are.
    pub tenants: u8,
    /// How many times of one tenant's work on a card of its own they do together.
    pub gain: Spread,
    /// How many times slower the slowest of them is than a tenant with a card of its own.
    pub slowdown: Spread,
    /// What that is measured by.
    pub by: Slowness,
    /// What the tenant with the least does of what the one with the most does.
    pub fairness: f64,
    /// The worst neighbour; none where no neighbour was measured for this workload.
    pub harm: Option<Harm>,
    /// What became of neighbours of mishaps; empty where none was measured. Light inference stands for all workloads.
    pub survivals: Vec<Survival>,
    /// Whether pods can have it; if not, only one program's own code can.
    pub for_pods: bool,
}

/// What a study says of a workload, for each strategy and number of tenants that was measured.
pub fn evidence(study: &Study, workload: Workload) -> Vec<Evidence> {
    let Some(dedicated) = study.dedicated(workload) else { return Vec::new() };
    let shared = Strategy::ALL.into_iter().filter(|strategy| *strategy != Strategy::Dedicated);
    shared
        .flat_map(|strategy| {
            study.counts(workload, strategy).into_iter().map(move |tenants| (strategy, tenants))
        })
        .filter_map(|(strategy, tenants)| {
            let shared = study.shared(workload, strategy, tenants)?;
            let (slowdown, by) = slowdown(shared, dedicated)?;
            Some(Evidence {
                strategy,
                tenants,
                gain: ratio(&shared.total, &dedicated.total)?,
                slowdown,
                by,
                fairness: fairness(shared)?,
                harm: harm(study, workload, strategy),
                survivals: survivals(study, strategy),
                for_pods: strategy.mechanism().is_some(),
            })
        })
        .collect()
}

/// The tenant with the most of something.
pub(crate) fn most(shared: &Shared, of: impl Fn(&Tenant) -> Option<Spread>) -> Option<Spread> {
    shared.tenants.iter().filter_map(of).max_by(|one, other| one.median.total_cmp(&other.median))
}

/// The tenant with the least of something.
pub(crate) fn least(shared: &Shared, of: impl Fn(&Tenant) -> Option<Spread>) -> Option<Spread> {
    shared.tenants.iter().filter_map(of).min_by(|one, other| one.median.total_cmp(&other.median))
}

fn slowdown(shared: &Shared, dedicated: &Shared) -> Option<(Spread, Slowness)> {
    let by = |of: fn(&Tenant) -> Option<Spread>| ratio(&most(shared, of)?, &most(dedicated, of)?);
    if let Some(longer) = by(|tenant| tenant.p99_ms) {
        return Some((longer, Slowness::P99));
    }
    if let Some(longer) = by(|tenant| tenant.completion_s) {
        return Some((longer, Slowness::Completion));
    }
    let rate = |tenant: &Tenant| Some(tenant.rate);
    Some((ratio(&least(dedicated, rate)?, &least(shared, rate)?)?, Slowness::Rate))
}

fn fairness(shared: &Shared) -> Option<f64> {
    let rate = |tenant: &Tenant| Some(tenant.rate);
    let fairness = least(shared, rate)?.median / most(shared, rate)?.median;
    fairness.is_finite().then_some(fairness)
}

/// What a tenant keeps of its rate beside a neighbour.
pub(crate) fn kept(beside: &Beside) -> Option<Spread> {
    ratio(&beside.beside.rate, &beside.alone.rate)
}

/// The neighbour that a workload suffers most from under a strategy; none where no neighbour was measured.
pub fn harm(study: &Study, victim: Workload, strategy: Strategy) -> Option<Harm> {
    let neighbours = Workload::ALL.into_iter().filter_map(|aggressor| {
        match study.figures(&Cell::Beside { victim, aggressor, strategy })? {
            Figures::Beside(beside) => Some(Harm { aggressor, kept: kept(beside)? }),
            _ => None,
        }
    });
    neighbours.min_by(|one, other| one.kept.median.total_cmp(&other.kept.median))
}

/// What became of neighbours of mishaps under a strategy, of those that were measured.
pub fn survivals(study: &Study, strategy: Strategy) -> Vec<Survival> {
    let happened = |mishap| match study.figures(&Cell::Mishap { mishap, strategy })? {
        Figures::Happened(happened) => Some(Survival { mishap, survived: happened.survived }),
        _ => None,
    };
    Mishap::ALL.into_iter().filter_map(happened).collect()
}

/// What a neighbour does, in words.
pub(crate) const fn doing(mishap: Mishap) -> &'static str {
    match mishap {
        Mishap::Fault => "touches wrong memory",
        Mishap::OutOfMemory => "runs out of memory",
        Mishap::Kill => "is killed",
    }
}

impl Slowness {
    /// How many times slower, in words.
    pub fn sentence(self, slowdown: &Spread) -> String {
        match self {
            Slowness::P99 => format!("p99 {} times as long", times(slowdown)),
            Slowness::Completion => format!("the slowest job takes {} times as long", times(slowdown)),
            Slowness::Rate => format!("the slowest {} times slower", times(slowdown)),
        }
    }
}

impl Evidence {
    /// Whether something was measured to go wrong with a neighbour, and every neighbour worked on.
    pub fn survives(&self) -> bool {
        !self.survivals.is_empty() && self.survivals.iter().all(|one| one.survived)
    }

    /// What neighbours do to it, in words; none where nothing of that was measured.
    pub fn neighbours(&self) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(harm) = &self.harm {
            parts.push(format!(
                "keeps {:.0} % of its rate with its worst neighbour ({})",
                harm.kept.median * 100.0,
                harm.aggressor.title()
            ));
        }
        let titles = |survived: bool| -> Vec<String> {
            let some = self.survivals.iter().filter(|one| one.survived == survived);
            some.map(|one| doing(one.mishap).to_owned()).collect()
        };
        let (lived, ended) = (titles(true), titles(false));
        if !lived.is_empty() {
            parts.push(format!("works on beside a neighbour that {}", either(&lived)));
        }
        if !ended.is_empty() {
            parts.push(format!("is ended by a neighbour that {}", either(&ended)));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// One sentence, without what neighbours do.
impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} tenants do {} times what one does alone (±{:.0} %), {}",
            self.strategy.title(),
            word(self.tenants),
            times(&self.gain),
            self.gain.margin_percent().ceil(),
            self.by.sentence(&self.slowdown),
        )?;
        if self.fairness < 0.9 {
            write!(f, ", the least of them {:.0} % of the most", self.fairness * 100.0)?;
        }
        if !self.for_pods {
            write!(f, "; inside one process, so not for pods")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Slowness, evidence, harm, survivals};
    use crate::model::h200;
    use crate::{Figures, Mishap, Scope, Strategy, Study, Workload, simulate};

    fn study() -> Study {
        simulate(h200(), Scope::Full, 3, String::new(), "0.1.0")
    }

    #[test]
    fn every_figure_is_the_studys() {
        let study = study();
        let all = evidence(&study, Workload::Light);
        let one = all.iter().find(|one| one.strategy == Strategy::TimeSlicing && one.tenants == 4).unwrap();
        let (shared, dedicated) = (
            study.shared(Workload::Light, Strategy::TimeSlicing, 4).unwrap(),
            study.dedicated(Workload::Light).unwrap(),
        );
        assert_eq!(one.gain.median, shared.total.median / dedicated.total.median);
        let longest = shared.tenants.iter().map(|tenant| tenant.p99_ms.unwrap().median).fold(0.0, f64::max);
        assert_eq!(one.slowdown.median, longest / dedicated.tenants[0].p99_ms.unwrap().median);
        assert_eq!(one.by, Slowness::P99);
        assert!(one.fairness > 0.97 && one.fairness <= 1.0);
        assert!(one.for_pods && !one.survives(), "a neighbour that takes all memory ends it");
        assert_eq!(one.harm, harm(&study, Workload::Light, Strategy::TimeSlicing));
        let text = one.to_string();
        assert!(text.starts_with("time-slicing: four tenants do "), "{text}");
        assert!(
            one.neighbours().unwrap().contains("works on beside a neighbour that touches wrong memory"),
            "{one:?}"
        );
    }

    #[test]
    fn what_slowness_is_depends_on_the_workload() {
        let study = study();
        let by = |workload| evidence(&study, workload)[0].by;
        assert_eq!(by(Workload::Heavy), Slowness::P99);
        assert_eq!(by(Workload::Batch), Slowness::Completion);
        assert_eq!(by(Workload::Burn), Slowness::Rate);
        let streams =
            evidence(&study, Workload::Batch).into_iter().find(|one| one.strategy == Strategy::Streams);
        assert!(streams.unwrap().to_string().contains("not for pods"));
    }

    #[test]
    fn harm_is_the_worst_neighbours_and_what_was_not_measured_is_not_there() {
        let full = study();
        let kept = |name: &str| match full.figures(&name.parse().unwrap()) {
            Some(Figures::Beside(beside)) => beside.beside.rate.median / beside.alone.rate.median,
            other => panic!("{name}: {other:?}"),
        };
        let worst = ["light+burn/mps", "light+heavy/mps", "light+bandwidth/mps"].map(kept);
        let worst = worst.into_iter().fold(f64::INFINITY, f64::min);
        assert_eq!(harm(&full, Workload::Light, Strategy::Mps).unwrap().kept.median, worst);
        let quick = simulate(h200(), Scope::Quick, 3, String::new(), "0.1.0");
        assert_eq!(harm(&quick, Workload::Light, Strategy::Mps), None);
        assert!(survivals(&quick, Strategy::Limiter).is_empty());
        let fault = survivals(&quick, Strategy::Mps);
        assert_eq!((fault.len(), fault[0].mishap, fault[0].survived), (1, Mishap::Fault, false));
        assert!(evidence(&quick, Workload::Burn).is_empty());
    }
}
