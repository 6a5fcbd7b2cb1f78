//! Which way to share suits each kind of work, by what a study measured and by rules that anybody can repeat.
//!
//! **What comes into question.** A strategy with so many tenants does where all of this holds:
//! - Pods can have it. Streams and green contexts are inside one program, and are evidence only.
//! - Together, tenants do at least 1.05 times what one does on a card of its own ([`WORTHWHILE`]). For less, nobody
//!   should share.
//! - Nobody waits too long. Inference: the worst tenant's p99 is at most 1.5 times that of a card of its own
//!   ([`PATIENCE`]). Jobs: the slowest is done no later than if all ran one after the other, so at most as many times
//!   slower as there are tenants.
//!
//! **Where tenants trust each other**, the greatest gain counts. Each strategy comes with the number of tenants that
//! gives it most; among numbers whose gains agree within their spread, with the fewest.
//!
//! **Where neighbours must not hurt**, a strategy needs more: every mishap that was measured under it left the neighbour
//! working, at least one was measured, and beside the worst neighbour that was measured a tenant keeps at least 80 % of
//! its rate ([`UNHURT`]). Of those, the one counts whose tenants keep most. If there is none, the answer is a GPU of its
//! own.
//!
//! **Ties.** What differs by less than both spreads is the same, and the strategy that takes less effort to run wins:
//! time-slicing, then MPS, MPS with limits, the limiter, and MIG.

use crate::evidence::{Evidence, doing, evidence};
use crate::ratio::{list, word};
use crate::{Class, Spread, Strategy, Study};
use serde::Serialize;
use std::fmt;

/// What tenants must do together to be worth the trouble, as times of one alone.
pub const WORTHWHILE: f64 = 1.05;

/// How many times as long p99 may be.
pub const PATIENCE: f64 = 1.5;

/// What a tenant must keep of its rate beside its worst neighbour.
pub const UNHURT: f64 = 0.8;

/// What to do.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// Share.
    Share {
        /// How.
        strategy: Strategy,
        /// With how many tenants.
        tenants: u8,
        /// Strategies that are as good within the spreads, and take more effort.
        tied: Vec<Strategy>,
        /// By which figures.
        why: String,
    },
    /// Give each a GPU of its own.
    DoNotShare {
        /// By which figures.
        why: String,
    },
    /// The study does not say.
    NotKnown {
        /// What is missing.
        why: String,
    },
}

/// What follows for a kind of work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The kind.
    pub class: Class,
    /// Where tenants trust each other.
    pub trusting: Choice,
    /// Where neighbours must not hurt.
    pub isolated: Choice,
    /// All that was measured of it.
    pub evidence: Vec<Evidence>,
    /// Whether nothing was measured: figures come from a model.
    pub simulated: bool,
}

/// What follows from a study, for each kind of work that it has figures of.
pub fn verdicts(study: &Study) -> Vec<Verdict> {
    study.classes().into_iter().map(|class| verdict(study, class)).collect()
}

fn verdict(study: &Study, class: Class) -> Verdict {
    let evidence = evidence(study, class.workload());
    let worthwhile: Vec<&Evidence> = evidence.iter().filter(|one| one.is_candidate()).collect();
    Verdict {
        class,
        trusting: trusting(&evidence, &worthwhile),
        isolated: isolated(&evidence, &worthwhile),
        evidence,
        simulated: study.card.simulated,
    }
}

impl Evidence {
    /// How many times slower a tenant may be.
    fn patience(&self) -> f64 {
        match self.by {
            crate::Slowness::P99 => PATIENCE,
            crate::Slowness::Completion | crate::Slowness::Rate => f64::from(self.tenants),
        }
    }

    /// Whether it comes into question for pods.
    pub fn is_candidate(&self) -> bool {
        self.for_pods
            && self.tenants > 1
            && self.gain.median >= WORTHWHILE
            && self.slowdown.median <= self.patience()
    }
}

/// What it takes to run a strategy, from the least to the most.
pub(crate) const fn effort(strategy: Strategy) -> u8 {
    match strategy {
        Strategy::Dedicated => 0,
        Strategy::TimeSlicing => 1,
        Strategy::TimeSlicingShort | Strategy::TimeSlicingLong => 2,
        Strategy::Mps => 3,
        Strategy::MpsLimits => 4,
        Strategy::Limiter => 5,
        Strategy::Mig => 6,
        Strategy::MigTimeSlicing => 7,
        Strategy::MigMps => 8,
        Strategy::Streams | Strategy::GreenContexts => 9,
    }
}

/// The one with the most of a figure; among those that agree with it, the one that ranks first by `simpler`. The others
/// of these come along.
fn lead<'a>(
    all: &[&'a Evidence],
    figure: impl Fn(&Evidence) -> Option<Spread>,
    simpler: impl Fn(&Evidence) -> (u8, u8),
) -> Option<(&'a Evidence, Vec<&'a Evidence>)> {
    let known: Vec<(&Evidence, Spread)> = all.iter().filter_map(|one| Some((*one, figure(one)?))).collect();
    let (_, most) = known.iter().max_by(|one, other| one.1.median.total_cmp(&other.1.median))?;
    let mut equal: Vec<&Evidence> =
        known.iter().filter(|(_, figure)| figure.agrees(most)).map(|(one, _)| *one).collect();
    equal.sort_by_key(|one| simpler(one));
    let (first, others) = equal.split_first()?;
    Some((first, others.to_vec()))
}

/// Each strategy with the number of tenants that gives it most.
fn best_of_each<'a>(all: &[&'a Evidence]) -> Vec<&'a Evidence> {
    let of = |strategy| {
        let own: Vec<&Evidence> = all.iter().filter(|one| one.strategy == strategy).copied().collect();
        lead(&own, |one| Some(one.gain), |one| (one.tenants, 0)).map(|(best, _)| best)
    };
    Strategy::ALL.into_iter().filter_map(of).collect()
}

/// What a choice was made by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// What tenants do together.
    Gain,
    /// What a tenant keeps beside its worst neighbour.
    Kept,
}

fn share(best: &Evidence, others: &[&Evidence], by: By) -> Choice {
    let tied: Vec<Strategy> = others.iter().map(|one| one.strategy).collect();
    let mut why = best.to_string();
    if let (By::Kept, Some(neighbours)) = (by, best.neighbours()) {
        why.push_str(&format!("; {neighbours}"));
    }
    if !tied.is_empty() {
        let names: Vec<String> = tied.iter().map(|one| one.title().to_owned()).collect();
        let figure = match by {
            By::Gain => "gain",
            By::Kept => "rate kept",
        };
        let verb = if names.len() == 1 { "is" } else { "are" };
        why.push_str(&format!(
            "; {} {verb} as good in {figure}, within the spread, and more effort",
            list(&names)
        ));
    }
    Choice::Share { strategy: best.strategy, tenants: best.tenants, tied, why }
}

fn simpler(one: &Evidence) -> (u8, u8) {
    (effort(one.strategy), one.tenants)
}

fn trusting(evidence: &[Evidence], worthwhile: &[&Evidence]) -> Choice {
    if let Some((best, others)) = lead(&best_of_each(worthwhile), |one| Some(one.gain), simpler) {
        return share(best, &others, By::Gain);
    }
    let for_pods: Vec<&Evidence> = evidence.iter().filter(|one| one.for_pods && one.tenants > 1).collect();
    let Some((most, _)) = lead(&for_pods, |one| Some(one.gain), simpler) else {
        return Choice::NotKnown { why: "no way to share was measured that pods can have".to_owned() };
    };
    if most.gain.median < WORTHWHILE {
        let why = format!("the best gains less than {:.0} %: {most}", (WORTHWHILE - 1.0) * 100.0);
        return Choice::DoNotShare { why };
    }
    let quickest = for_pods.iter().filter(|one| one.gain.median >= WORTHWHILE).min_by(|one, other| {
        (one.slowdown.median / one.patience()).total_cmp(&(other.slowdown.median / other.patience()))
    });
    let why = quickest.map_or_else(String::new, |quickest| {
        format!(
            "everybody waits too long: at best {} ({}, {} tenants), and {} is accepted; where nobody waits for \
             answers, {most}",
            quickest.by.sentence(&quickest.slowdown),
            quickest.strategy.title(),
            word(quickest.tenants),
            number_of_times(quickest.patience()),
        )
    });
    Choice::DoNotShare { why }
}

fn number_of_times(times: f64) -> String {
    if times.fract() == 0.0 { format!("{times:.0} times") } else { format!("{times} times") }
}

fn isolated(evidence: &[Evidence], worthwhile: &[&Evidence]) -> Choice {
    if !evidence.iter().any(|one| one.for_pods && !one.survivals.is_empty()) {
        let why = "what becomes of neighbours when something goes wrong was not measured".to_owned();
        return Choice::NotKnown { why };
    }
    let surviving: Vec<&Evidence> = worthwhile.iter().filter(|one| one.survives()).copied().collect();
    let unhurt: Vec<&Evidence> = surviving
        .iter()
        .filter(|one| one.harm.is_none_or(|harm| harm.kept.median >= UNHURT))
        .copied()
        .collect();
    let each = best_of_each(&unhurt);
    if let Some((best, others)) = lead(&each, |one| one.harm.map(|harm| harm.kept), simpler) {
        return share(best, &others, By::Kept);
    }
    if let Some((best, others)) = lead(&each, |one| Some(one.gain), simpler) {
        return match share(best, &others, By::Gain) {
            Choice::Share { strategy, tenants, tied, why } => {
                let why = format!("{why}; what neighbours' load does to it was not measured");
                Choice::Share { strategy, tenants, tied, why }
            }
            other => other,
        };
    }
    let mig = evidence.iter().any(|one| one.strategy.is_mig());
    let missing = if mig { "" } else { "; MIG, which keeps neighbours apart in hardware, was not measured" };
    let why = if worthwhile.is_empty() {
        "no way to share comes into question, for the same reason as where tenants trust each other"
            .to_owned()
    } else if let Some((best, _)) =
        lead(&best_of_each(&surviving), |one| one.harm.map(|harm| harm.kept), simpler)
    {
        let kept = best.harm.map_or(0.0, |harm| harm.kept.median * 100.0);
        format!(
            "of what survives its neighbours' mishaps, {} is best and keeps {kept:.0} % of its rate, less than the \
             {:.0} % that are asked",
            best.strategy.title(),
            UNHURT * 100.0
        )
    } else {
        let ended: Vec<String> = best_of_each(worthwhile)
            .iter()
            .map(|one| match one.survivals.iter().find(|one| !one.survived) {
                Some(ended) => {
                    format!("{} (ended by a neighbour that {})", one.strategy.title(), doing(ended.mishap))
                }
                None => format!("{} (mishaps not measured)", one.strategy.title()),
            })
            .collect();
        format!("what is worth sharing was not seen to survive its neighbours: {}", list(&ended))
    };
    Choice::DoNotShare { why: why + missing }
}

impl Choice {
    /// What to do, in few words.
    pub fn title(&self) -> String {
        match self {
            Choice::Share { strategy, tenants, .. } => {
                format!("{}, {} tenants", strategy.title(), word(*tenants))
            }
            Choice::DoNotShare { .. } => "do not share".to_owned(),
            Choice::NotKnown { .. } => "not known".to_owned(),
        }
    }

    /// By which figures.
    pub fn why(&self) -> &str {
        match self {
            Choice::Share { why, .. } | Choice::DoNotShare { why } | Choice::NotKnown { why } => why,
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.title(), self.why())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let simulated = if self.simulated { " (simulated, nothing was measured)" } else { "" };
        writeln!(f, "{}{simulated}", self.class.title())?;
        writeln!(f, "  where tenants trust each other: {}", self.trusting)?;
        writeln!(f, "  where neighbours must not hurt: {}", self.isolated)
    }
}

#[cfg(test)]
mod tests;
