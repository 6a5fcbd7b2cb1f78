//! A study as it could be measured, for tests: with cells that were skipped, that failed and that were not run.

use super::{Column, Document, Section, Table};
use crate::{
    Beside, Board, Card, Cell, Figures, Happened, Mishap, Outcome, Overhead, Scope, Shared, Spread, Strategy,
    Study, Tenant, Victim, Workload,
};

fn spread(median: f64, percent: f64) -> Spread {
    let part = percent / 100.0;
    Spread { median, low: median * (1.0 - part), high: median * (1.0 + part), times: 4 }
}

/// A study of the default scope in which nothing was measured.
pub(super) fn empty() -> Study {
    empty_of(Scope::Default)
}

fn empty_of(scope: Scope) -> Study {
    let card = Card {
        name: "NVIDIA H200".to_owned(),
        memory_mib: 143_771,
        multiprocessors: 132,
        driver: "580.159.04".to_owned(),
        cuda: "13.0".to_owned(),
        mig: Some(false),
        processors: 16,
        simulated: false,
    };
    Study::new("0.1.0", "2026-11-17T12:00:00Z".to_owned(), card, scope, scope.timing())
}

/// What a tenant does alone, how long half of its requests take, and how many tenants fill the card.
fn alone(workload: Workload) -> (f64, f64, f64) {
    match workload {
        Workload::Light | Workload::LightOpen | Workload::TorchLight => (281.0, 3.44, 2.7),
        Workload::Heavy | Workload::HeavyOpen | Workload::TorchHeavy => (299.0, 3.15, 1.3),
        Workload::Batch | Workload::TorchBatch | Workload::CupyBatch => (19_700.0, 0.0, 4.2),
        _ => (657.0, 0.0, 1.0),
    }
}

/// What is lost by a strategy, and how much longer the slowest of a hundred requests take.
fn costs(strategy: Strategy) -> (f64, f64) {
    match strategy {
        Strategy::TimeSlicing => (0.28, 2.1),
        Strategy::Mps => (0.02, 1.3),
        Strategy::MpsLimits => (0.10, 1.15),
        Strategy::Limiter => (0.16, 1.6),
        Strategy::Streams => (0.0, 1.25),
        Strategy::GreenContexts => (0.12, 1.1),
        _ => (0.0, 1.08),
    }
}

fn shared(workload: Workload, strategy: Strategy, count: u8) -> Shared {
    let (rate, latency, room) = alone(workload);
    let (lost, tail) = costs(strategy);
    let gain = if count == 1 { 1.0 } else { f64::from(count).min(room) * (1.0 - lost) };
    let gain = if workload.closed().is_some() { f64::from(count) * 0.4 } else { gain };
    let total = rate * gain;
    let slower = if workload.closed().is_some() { 1.2 } else { f64::from(count) / gain };
    let tenant = |at: u8| {
        // The later a tenant starts, the less it has.
        let part = 1.0 - 0.02 * f64::from(at);
        let own = total / f64::from(count) * part;
        let waits = |tail: f64| workload.is_inference().then(|| spread(latency * slower / part * tail, 3.0));
        Tenant {
            rate: spread(own, 2.0),
            p50_ms: waits(1.0),
            p95_ms: waits(1.0 + (tail - 1.0) * 0.6),
            p99_ms: waits(tail),
            completion_s: workload.is_job().then(|| spread(20_000.0 / own, 1.5)),
            job: workload.is_job().then_some(20_000),
            arrivals: workload.closed().map(|_| rate * 0.4),
            start_up_s: spread(0.30 + 0.03 * f64::from(at), 8.0),
            memory_mib: if workload == Workload::Burn { 60_000 / (1 + u64::from(at)) } else { 1_024 },
        }
    };
    Shared {
        tenants: (0..count).map(tenant).collect(),
        total: spread(total, 2.5),
        daemon_s: None,
        board: Some(Board {
            busy_percent: Some((37.0 * gain).min(100.0)),
            watts: Some(120.0 + 140.0 * gain),
            memory_mib: Some(1_500 * u64::from(count)),
        }),
    }
}

fn beside(aggressor: Workload, strategy: Strategy) -> Beside {
    let (kept, p99) = match (strategy, aggressor) {
        (Strategy::TimeSlicing, Workload::Burn) => (0.42, 3.0),
        (Strategy::TimeSlicing, _) => (0.55, 2.2),
        (Strategy::Mps, Workload::Burn) => (0.61, 2.4),
        (Strategy::Mps, _) => (0.84, 1.3),
        (Strategy::MpsLimits, _) => (0.93, 1.1),
        _ => (0.12, 7.5),
    };
    let victim = |kept: f64, p99: f64| Victim {
        rate: spread(281.0 * kept, 1.0),
        p99_ms: Some(spread(3.7 * p99, 4.0)),
    };
    Beside { alone: victim(1.0, 1.0), beside: victim(kept, p99) }
}

fn happened(mishap: Mishap, strategy: Strategy) -> Happened {
    let dies = matches!((mishap, strategy), (Mishap::Fault, Strategy::Mps | Strategy::Streams));
    let one_process = strategy.is_one_process();
    Happened {
        offender: match mishap {
            Mishap::Fault => "CUDA_ERROR_ILLEGAL_ADDRESS (700)",
            Mishap::OutOfMemory => "CUDA_ERROR_OUT_OF_MEMORY (2)",
            Mishap::Kill => "killed by signal 9",
        }
        .to_owned(),
        survived: !dies,
        error: dies.then(|| {
            if one_process { "<context lost>" } else { "CUDA_ERROR_MPS_CLIENT_TERMINATED (810)" }.to_owned()
        }),
        before: 268.0,
        after: if dies { 0.0 } else { 279.0 },
        longest_gap_ms: if dies { 2_000.0 } else { 21.5 },
        next_works: !(dies && one_process),
    }
}

/// A study of the default scope, not all of which was run.
pub(super) fn example() -> Study {
    example_of(Scope::Default)
}

/// The same of any scope.
pub(super) fn example_of(scope: Scope) -> Study {
    let mut study = empty_of(scope);
    study.seconds = 412.0;
    for cell in study.scope.cells() {
        let outcome = match cell {
            Cell::Overhead => Outcome::Measured(Figures::Overhead(Overhead {
                round_ns: spread(45.0, 4.0),
                launch_us: spread(6.2, 6.0),
            })),
            Cell::Share { strategy, .. } if strategy.is_mig() => {
                Outcome::Skipped("MIG is off on this card, and turning it on needs a reset".to_owned())
            }
            Cell::Share { strategy, .. } if strategy.sets_turns() => {
                Outcome::Skipped("nvidia-smi compute-policy says: <not permitted> | ask root".to_owned())
            }
            Cell::Share { workload: Workload::Burn, strategy: Strategy::GreenContexts, tenants: 4 } => {
                Outcome::Failed(
                    "<script>alert(1)</script> | tenant_3 ended & said:\nout of *memory*".to_owned(),
                )
            }
            Cell::Share { workload: Workload::Light, strategy: Strategy::Streams, tenants: 4 }
            | Cell::Beside { aggressor: Workload::Bandwidth, strategy: Strategy::Limiter, .. }
            | Cell::Mishap { mishap: Mishap::OutOfMemory | Mishap::Kill, strategy: Strategy::Streams } => {
                continue;
            }
            Cell::Share { workload, strategy, tenants } => {
                Outcome::Measured(Figures::Shared(shared(workload, strategy, tenants)))
            }
            Cell::Beside { aggressor, strategy, .. } => {
                Outcome::Measured(Figures::Beside(beside(aggressor, strategy)))
            }
            Cell::Mishap { mishap, strategy } => {
                Outcome::Measured(Figures::Happened(happened(mishap, strategy)))
            }
        };
        study.put(cell, outcome);
    }
    study
}

/// A section whose texts would do harm where they were taken for marks.
pub(super) fn nasty() -> Section {
    let mut table = Table::new(vec![Column::words("<th>"), Column::numbers("a|b")]);
    table.row(vec!["<script>x</script>".to_owned(), "\\| ` * _".to_owned()]);
    Section::new("<b>\"Answer\"</b>")
        .paragraph("- <script> & [a](b) ![c](d)")
        .table(table)
        .list(vec!["1. <script>".to_owned(), "# ~~no~~".to_owned()])
        .part(Section::new("?").paragraph("+ $x$"))
}

/// All sections of a document, with those in them.
pub(super) fn all_sections(document: &Document) -> Vec<&Section> {
    fn collect<'a>(sections: &'a [Section], found: &mut Vec<&'a Section>) {
        for section in sections {
            found.push(section);
            collect(&section.parts, found);
        }
    }
    let mut found = Vec::new();
    collect(&document.sections, &mut found);
    found
}

/// Whether every element that begins ends, in the right order.
pub(super) fn balanced(text: &str) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('<') {
        let (tag, next) = after.split_once('>').ok_or("a tag does not end")?;
        rest = next;
        let name = tag.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap_or_default();
        let void = matches!(name, "meta" | "br" | "img");
        if tag.contains('<') || name.is_empty() {
            return Err(format!("<{tag}> is no tag"));
        } else if tag.starts_with('/') {
            match open.pop() {
                Some(last) if last == name => {}
                last => return Err(format!("</{name}> ends {last:?}")),
            }
        } else if !void && !tag.ends_with('/') {
            open.push(name);
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("never end: {open:?}")) }
}
