//! How each of the talk's findings is checked.

use super::{Check, Checked};
use crate::evidence::{Harm, least, most};
use crate::ratio::{list, ratio, times, with_unit, word};
use crate::spread::number;
use crate::{
    Cell, Figures, Mishap, Outcome, Property, Shared, Spread, Strategy, Study, Tenant, Workload, harm,
    ranking,
};

/// How many times as long something may take that is called as fast.
const AS_FAST: f64 = 1.05;

/// How many times as long something may take that is called slightly slower.
const SLIGHTLY: f64 = 1.2;

/// What the least has of what the most has where something is divided fairly.
const FAIR: f64 = 0.95;

/// What a cell that was asked for lacks.
fn missing(study: &Study, cell: &Cell) -> String {
    match study.outcome(cell) {
        None if needs_mig(cell) && study.card.mig == Some(false) => {
            format!("{cell} was not run: MIG is off on this card")
        }
        None if needs_mig(cell) && study.card.mig.is_none() => {
            format!("{cell} was not run: the card has no MIG")
        }
        None => format!("{cell} was not run"),
        Some(Outcome::Skipped(why)) => format!("{cell} was skipped: {why}"),
        Some(Outcome::Failed(why)) => format!("{cell} failed: {why}"),
        Some(Outcome::Measured(_)) => format!("{cell} has no such figure"),
    }
}

fn needs_mig(cell: &Cell) -> bool {
    cell.strategy().is_some_and(Strategy::is_mig)
}

fn shared(study: &Study, workload: Workload, strategy: Strategy, tenants: u8) -> Result<&Shared, String> {
    let cell = Cell::Share { workload, strategy, tenants };
    study.shared(workload, strategy, tenants).ok_or_else(|| missing(study, &cell))
}

/// The number of tenants that all strategies were measured with: the talk's, or another where only that is there.
fn count(study: &Study, workload: Workload, strategies: &[Strategy], talk: u8) -> u8 {
    let all = |tenants: u8| strategies.iter().all(|one| study.shared(workload, *one, tenants).is_some());
    [talk, 2, 4, 8].into_iter().find(|tenants| all(*tenants)).unwrap_or(talk)
}

/// What is compared with a tenant that has the card to itself.
struct Beside<'a> {
    dedicated: &'a Shared,
    shared: &'a Shared,
    tenants: u8,
    strategy: Strategy,
    cell: Cell,
}

impl<'a> Beside<'a> {
    fn of(study: &'a Study, workload: Workload, strategy: Strategy, tenants: u8) -> Result<Self, String> {
        Ok(Beside {
            dedicated: shared(study, workload, Strategy::Dedicated, 1)?,
            shared: shared(study, workload, strategy, tenants)?,
            tenants,
            strategy,
            cell: Cell::Share { workload, strategy, tenants },
        })
    }

    fn needs(&self, what: &str, figure: Option<Spread>) -> Result<Spread, String> {
        figure.ok_or_else(|| format!("{} has no {what}", self.cell))
    }

    /// How many times as long the slowest tenant takes.
    fn longer(&self, what: &str, of: fn(&Tenant) -> Option<Spread>) -> Result<Spread, String> {
        let longer = || ratio(&most(self.shared, of)?, &most(self.dedicated, of)?);
        self.needs(what, longer())
    }

    /// How many times of its own rate alone the tenant with the least does.
    fn rate(&self) -> Result<Spread, String> {
        let rate = |tenant: &Tenant| Some(tenant.rate);
        self.needs("rate", least(self.shared, rate).and_then(|rate| ratio(&rate, &self.dedicated.total)))
    }

    fn gain(&self) -> Result<Spread, String> {
        self.needs("total", ratio(&self.shared.total, &self.dedicated.total))
    }

    /// What the driver says of the board, alone and shared.
    fn busy(&self) -> Option<(f64, f64)> {
        Some((self.dedicated.board?.busy_percent?, self.shared.board?.busy_percent?))
    }

    fn busy_words(&self) -> String {
        self.busy().map_or_else(
            || "how busy the GPU was is not known".to_owned(),
            |(alone, shared)| format!("GPU {shared:.0} % busy, from {alone:.0} %"),
        )
    }
}

/// Whether a figure is no more than another one, by so many times or within the spreads.
fn as_fast(longer: &Spread) -> bool {
    longer.median <= AS_FAST || longer.median - longer.margin() <= 1.0
}

/// Whether something is above 1 by more than its spread.
fn more(ratio: &Spread) -> bool {
    ratio.median - ratio.margin() > 1.0
}

/// Whether something is below 1 by more than its spread.
fn less(ratio: &Spread) -> bool {
    ratio.median + ratio.margin() < 1.0
}

/// Whether it is so; if not, by which figure.
fn so(is: bool, figure: impl Into<String>) -> Check {
    if is { Check::Confirmed } else { Check::NotConfirmed(figure.into()) }
}

/// A figure that is claimed to be greater under the first strategy than under the second.
fn greater(first: &Spread, second: &Spread, figure: String) -> Check {
    if first.agrees(second) { Check::NoDifference(figure) } else { so(first.median > second.median, figure) }
}

fn light_undiminished(study: &Study, strategy: Strategy) -> Checked {
    let both = Beside::of(study, Workload::Light, strategy, count(study, Workload::Light, &[strategy], 2))?;
    let (gain, longer) = (both.gain()?, both.longer("p50", |tenant| tenant.p50_ms)?);
    let ours = format!(
        "{} tenants do {} times what one does alone, p50 of the slowest {} times as long, {}",
        word(both.tenants),
        times(&gain),
        times(&longer),
        both.busy_words()
    );
    let check = match (more(&gain), as_fast(&longer)) {
        (false, _) => Check::NotConfirmed(format!("together they do {} times what one does", times(&gain))),
        (true, fast) => so(fast, format!("p50 of the slowest is {} times as long", times(&longer))),
    };
    Ok((check, ours))
}

pub(super) fn light_time_slicing(study: &Study) -> Checked {
    light_undiminished(study, Strategy::TimeSlicing)
}

pub(super) fn light_mps(study: &Study) -> Checked {
    light_undiminished(study, Strategy::Mps)
}

/// Both strategies with the same number of tenants.
fn two(
    study: &Study,
    workload: Workload,
    strategies: [Strategy; 2],
    talk: u8,
) -> Result<(Beside<'_>, Beside<'_>), String> {
    let tenants = count(study, workload, &strategies, talk);
    let [first, second] = strategies;
    Ok((Beside::of(study, workload, first, tenants)?, Beside::of(study, workload, second, tenants)?))
}

/// What tenants do together under MPS and with time-slicing.
fn requests(mps: &Beside<'_>, turns: &Beside<'_>) -> String {
    let words = |both: &Beside<'_>| with_unit(&both.shared.total, "requests/s");
    format!("{} under MPS, {} with time-slicing", words(mps), words(turns))
}

pub(super) fn light_mps_overhead(study: &Study) -> Checked {
    let (mps, turns) = two(study, Workload::Light, [Strategy::Mps, Strategy::TimeSlicing], 2)?;
    let ours = format!(
        "{} tenants do {} times what one does alone under MPS, {} times with time-slicing",
        word(mps.tenants),
        times(&mps.gain()?),
        times(&turns.gain()?)
    );
    let figure = requests(&mps, &turns);
    Ok((greater(&mps.shared.total, &turns.shared.total, figure), ours))
}

pub(super) fn mps_start_up(study: &Study) -> Checked {
    let (mps, turns) = two(study, Workload::Light, [Strategy::Mps, Strategy::TimeSlicing], 2)?;
    let start = |both: &Beside<'_>| {
        let tenant = most(both.shared, |tenant| Some(tenant.start_up_s));
        // Somebody has to start the daemon, too, and the tenants wait for it.
        let all = tenant.map(|tenant| both.shared.daemon_s.map_or(tenant, |daemon| tenant.after(&daemon)));
        both.needs("start-up", all)
    };
    let (slow, quick) = (start(&mps)?, start(&turns)?);
    let figure = format!("{} under MPS, {} with time-slicing", with_unit(&slow, "s"), with_unit(&quick, "s"));
    let daemon = if mps.shared.daemon_s.is_some() { ", the daemon's start included" } else { "" };
    let ours = format!("the slowest of {} tenants is ready after {figure}{daemon}", word(mps.tenants));
    Ok((greater(&slow, &quick, figure), ours))
}

pub(super) fn heavy_time_slicing(study: &Study) -> Checked {
    let tenants = count(study, Workload::Heavy, &[Strategy::TimeSlicing], 2);
    let both = Beside::of(study, Workload::Heavy, Strategy::TimeSlicing, tenants)?;
    let (longer, rate) = (both.longer("p99", |tenant| tenant.p99_ms)?, both.rate()?);
    let ours = format!(
        "p99 of the slowest of {} tenants {} times as long, its rate {} times that of one alone",
        word(tenants),
        times(&longer),
        times(&rate)
    );
    let check = match (more(&longer), less(&rate)) {
        (true, true) => Check::Confirmed,
        (false, _) => Check::NotConfirmed(format!("p99 is {} times as long", times(&longer))),
        (_, false) => Check::NotConfirmed(format!("the rate is {} times that of one alone", times(&rate))),
    };
    Ok((check, ours))
}

pub(super) fn heavy_mps(study: &Study) -> Checked {
    let (mps, turns) = two(study, Workload::Heavy, [Strategy::Mps, Strategy::TimeSlicing], 2)?;
    let p99 = |tenant: &Tenant| tenant.p99_ms;
    let (under_mps, in_turns) = (mps.longer("p99", p99)?, turns.longer("p99", p99)?);
    let ours = format!(
        "p99 of the slowest of {} tenants {} times as long under MPS, {} times with time-slicing; together {} and {} \
         times what one does alone",
        word(mps.tenants),
        times(&under_mps),
        times(&in_turns),
        times(&mps.gain()?),
        times(&turns.gain()?)
    );
    if !more(&under_mps) {
        let figure = format!("p99 under MPS is {} times as long, so not slower", times(&under_mps));
        return Ok((Check::NotConfirmed(figure), ours));
    }
    let figure = requests(&mps, &turns);
    Ok((greater(&mps.shared.total, &turns.shared.total, figure), ours))
}

pub(super) fn heavy_limits(study: &Study) -> Checked {
    let (limits, mps) = two(study, Workload::Heavy, [Strategy::MpsLimits, Strategy::Mps], 2)?;
    let p99 = |tenant: &Tenant| tenant.p99_ms;
    let (limited, free) = (limits.longer("p99", p99)?, mps.longer("p99", p99)?);
    let ours = format!(
        "p99 of the slowest of {} tenants {} times as long with limits, {} times without",
        word(limits.tenants),
        times(&limited),
        times(&free)
    );
    Ok((
        so(limited.median <= SLIGHTLY, format!("p99 is {} times as long with limits", times(&limited))),
        ours,
    ))
}

pub(super) fn limits_isolation(study: &Study) -> Checked {
    let of = |victim, strategy| harm(study, victim, strategy);
    let both = |victim| Some((victim, of(victim, Strategy::MpsLimits)?, of(victim, Strategy::Mps)?));
    let (victim, limits, mps) = both(Workload::Heavy).or_else(|| both(Workload::Light)).ok_or_else(|| {
        "no inference was measured beside a neighbour both under MPS and under MPS with limits".to_owned()
    })?;
    let words =
        |harm: &Harm| format!("{:.0} % (neighbour: {})", harm.kept.median * 100.0, harm.aggressor.title());
    let figure = format!("{} with limits, {} without", words(&limits), words(&mps));
    let ours = format!("with its worst neighbour, {} keeps of its rate {figure}", victim.title());
    Ok((greater(&limits.kept, &mps.kept, figure), ours))
}

pub(super) fn batch_time_slicing(study: &Study) -> Checked {
    batch(study, Strategy::TimeSlicing, |longer| {
        let figure = format!("jobs take {} times as long", times(longer));
        if more(longer) {
            Check::Confirmed
        } else if less(longer) {
            Check::NotConfirmed(figure)
        } else {
            Check::NoDifference(figure)
        }
    })
}

pub(super) fn batch_mps(study: &Study) -> Checked {
    batch(study, Strategy::Mps, |longer| {
        so(as_fast(longer), format!("jobs take {} times as long", times(longer)))
    })
}

fn batch(study: &Study, strategy: Strategy, check: fn(&Spread) -> Check) -> Checked {
    let tenants = count(study, Workload::Batch, &[strategy], 4);
    let both = Beside::of(study, Workload::Batch, strategy, tenants)?;
    let completion = |tenant: &Tenant| tenant.completion_s;
    let longer = both.longer("completion", completion)?;
    let seconds =
        |shared: &Shared| most(shared, completion).map_or_else(String::new, |one| with_unit(&one, "s"));
    let ours = format!(
        "{} jobs under {} take {}, one alone {}: {} times as long; {}",
        word(tenants),
        both.strategy.title(),
        seconds(both.shared),
        seconds(both.dedicated),
        times(&longer),
        both.busy_words()
    );
    let check = match (check(&longer), both.busy()) {
        (Check::Confirmed, Some((alone, shared))) if shared <= alone => {
            Check::NotConfirmed(format!("the GPU is {shared:.0} % busy, from {alone:.0} %"))
        }
        (Check::Confirmed, None) => Check::Partly("how busy the GPU was is not known".to_owned()),
        (check, _) => check,
    };
    Ok((check, ours))
}

/// Mebibytes of each tenant that burns, and what the least has of what the most has.
fn memory(study: &Study, strategy: Strategy) -> Result<(String, f64), String> {
    let shared = shared(study, Workload::Burn, strategy, count(study, Workload::Burn, &[strategy], 2))?;
    let each: Vec<u64> = shared.tenants.iter().map(|tenant| tenant.memory_mib).collect();
    let (least, most) = (each.iter().min().copied().unwrap_or(0), each.iter().max().copied().unwrap_or(0));
    let words: Vec<String> = each.iter().map(|mib| number(*mib as f64)).collect();
    let fairness = if most == 0 { 1.0 } else { least as f64 / most as f64 };
    Ok((format!("{} MiB under {}", list(&words), strategy.title()), fairness))
}

pub(super) fn burn_memory(study: &Study) -> Checked {
    let (turns, turns_fairness) = memory(study, Strategy::TimeSlicing)?;
    let (mps, mps_fairness) = memory(study, Strategy::Mps)?;
    let fair: Vec<String> = [(&turns, turns_fairness), (&mps, mps_fairness)]
        .into_iter()
        .filter(|(_, fairness)| *fairness >= FAIR)
        .map(|(words, _)| words.clone())
        .collect();
    let ours = format!("{turns}, {mps}, of {} MiB", number(study.card.memory_mib as f64));
    Ok((so(fair.is_empty(), format!("{}, which is fair", list(&fair))), ours))
}

pub(super) fn burn_limits(study: &Study) -> Checked {
    let (limits, fairness) = memory(study, Strategy::MpsLimits)?;
    let figure = format!("{limits}: the least has {:.0} % of the most", fairness * 100.0);
    Ok((so(fairness >= FAIR, figure), limits))
}

fn happened(study: &Study, mishap: Mishap, strategy: Strategy) -> Result<(bool, String), String> {
    let cell = Cell::Mishap { mishap, strategy };
    let Some(Figures::Happened(happened)) = study.figures(&cell) else { return Err(missing(study, &cell)) };
    let fate = if happened.survived {
        format!(
            "the neighbour worked on, {} requests/s before and {} after",
            number(happened.before),
            number(happened.after)
        )
    } else {
        let error = happened.error.as_deref().unwrap_or("without an error that was seen");
        format!("the neighbour ended: {error}")
    };
    Ok((happened.survived, format!("{} under {}: {fate}", mishap.title(), strategy.title())))
}

pub(super) fn fault_mps(study: &Study) -> Checked {
    let (survived, words) = happened(study, Mishap::Fault, Strategy::Mps)?;
    Ok((so(!survived, words.clone()), words))
}

pub(super) fn fault_time_slicing(study: &Study) -> Checked {
    let (survived, words) = happened(study, Mishap::Fault, Strategy::TimeSlicing)?;
    Ok((so(survived, words.clone()), words))
}

pub(super) fn mig_performance(study: &Study) -> Checked {
    // The talk looks at inference; work that is held back by the board's power has that in common on any device.
    let worst = [Workload::Light, Workload::Heavy]
        .into_iter()
        .filter_map(|victim| Some((victim, harm(study, victim, Strategy::Mig)?)))
        .min_by(|one, other| one.1.kept.median.total_cmp(&other.1.kept.median));
    let Some((victim, worst)) = worst else {
        let (victim, aggressor) = (Workload::Light, Workload::Burn);
        return Err(missing(study, &Cell::Beside { victim, aggressor, strategy: Strategy::Mig }));
    };
    let words = format!(
        "at worst, {} keeps {:.0} % of its rate (neighbour: {})",
        victim.title(),
        worst.kept.median * 100.0,
        worst.aggressor.title()
    );
    let unhurt = worst.kept.median >= FAIR || worst.kept.median + worst.kept.margin() >= 1.0;
    Ok((so(unhurt, words.clone()), words))
}

pub(super) fn mig_memory(study: &Study) -> Checked {
    let (words, fairness) = memory(study, Strategy::Mig)?;
    Ok((so(fairness >= FAIR, words.clone()), words))
}

pub(super) fn mig_faults(study: &Study) -> Checked {
    let (survived, mut words) = happened(study, Mishap::OutOfMemory, Strategy::Mig)?;
    if let Ok((_, fault)) = happened(study, Mishap::Fault, Strategy::Mig) {
        words = format!("{words}; {fault}");
    }
    Ok((so(survived, words.clone()), words))
}

/// Whether strategies come in the talk's order.
pub(super) fn order(study: &Study, property: Property) -> Checked {
    if let Some(why) = property.unmeasurable() {
        return Err(why.to_owned());
    }
    let rankings = ranking(study);
    let ranking = rankings.iter().find(|one| one.property == property).ok_or("it is not ranked")?;
    let (mut equal, mut reversed, mut untested, mut tested) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for pair in property.talk().windows(2) {
        let [better, worse] = pair else { continue };
        let titles = (better.title(), worse.title());
        let (Some((first, score)), Some((second, other))) = (ranking.place(*better), ranking.place(*worse))
        else {
            untested.push(format!("{} against {}", titles.0, titles.1));
            continue;
        };
        tested += 1;
        let words =
            format!("{} {}, {} {}", titles.0, property.figure(&score), titles.1, property.figure(&other));
        match first.cmp(&second) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => equal.push(words),
            std::cmp::Ordering::Greater => reversed.push(words),
        }
    }
    let check = if tested == 0 {
        return Err(format!("{} lack figures that could be compared", list(&untested)));
    } else if !reversed.is_empty() {
        Check::NotConfirmed(list(&reversed))
    } else if !equal.is_empty() {
        Check::NoDifference(list(&equal))
    } else if !untested.is_empty() {
        Check::Partly(format!("not tested: {}", list(&untested)))
    } else {
        Check::Confirmed
    };
    Ok((check, ranking.sentence()))
}
