//! An advice for people: what was seen, what should be, why, what it saves.

use crate::table::Table;
use carve_advisor::{Advice, Basis, Fleet, Observed, WorkloadAdvice};
use carve_economics::Money;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Rows of a table beyond which only the first ones are shown.
const MOST_ROWS: usize = 40;

/// The whole advice as text.
pub(crate) fn table(advice: &Advice, written: bool) -> String {
    let mut text = workloads(&advice.workloads);
    text.push_str(&reasons(&advice.workloads));
    let refused = |one: &WorkloadAdvice| -> Vec<String> {
        // That a GPU has no MIG is no news; what a rule forbids is.
        let told = one.refused.iter().filter(|reason| reason.rule != "mechanism");
        told.map(|reason| format!("{} [{}]", reason.words, reason.rule)).collect()
    };
    text.push_str(&grouped(&advice.workloads, "Not", refused));
    text.push_str(&grouped(&advice.workloads, "Risk", |one| one.risks.clone()));
    let remedies = |one: &WorkloadAdvice| -> Vec<String> {
        one.remedies.iter().map(|remedy| format!("{}: {}", remedy.name, remedy.words)).collect()
    };
    text.push_str(&grouped(&advice.workloads, "Remedy", remedies));
    text.push('\n');
    text.push_str(&nodes(&advice.fleet));
    text.push_str(&money(&advice.fleet));
    for note in &advice.notes {
        let _ = writeln!(text, "\nNote: {note}.");
    }
    if !advice.diffs.is_empty() && !written {
        let _ = writeln!(text, "\n--patch DIR writes what to apply: {} files.", advice.diffs.len());
    }
    text
}

fn title(one: &WorkloadAdvice) -> String {
    format!("{}/{}/{}", one.namespace, one.kind, one.name)
}

fn workloads(all: &[WorkloadAdvice]) -> String {
    if all.is_empty() {
        return "No pods with GPUs.\n".to_owned();
    }
    let mut table =
        Table::new(["WORKLOAD", "PODS", "TODAY", "P50", "P95", "MAX", "MEMORY", "WATCHED", "ADVISED"])
            .right([1, 3, 4, 5, 6]);
    for one in all.iter().take(MOST_ROWS) {
        let seen = |tell: fn(&Observed) -> String| one.observed.as_ref().map_or_else(|| "-".to_owned(), tell);
        let advised = match (one.basis, one.advised.change) {
            (_, true) => one.advised.words.clone(),
            (Basis::ClassDefault, _) => "measure it first".to_owned(),
            (Basis::Nothing, _) => "too little known".to_owned(),
            (Basis::Observed, false) => "as it is".to_owned(),
        };
        table.row([
            title(one),
            one.pods.to_string(),
            one.today.clone(),
            seen(|seen| seen.p50.to_string()),
            seen(|seen| seen.p95.to_string()),
            seen(|seen| seen.max.to_string()),
            seen(|seen| seen.peak_memory.map_or_else(|| "-".to_owned(), |peak| peak.to_string())),
            seen(watched),
            advised,
        ]);
    }
    let mut text = table.render();
    if all.len() > MOST_ROWS {
        let _ = writeln!(text, "… and {} more workloads", all.len() - MOST_ROWS);
    }
    text
}

/// `24 h, 25 samples`
fn watched(seen: &Observed) -> String {
    let time = match seen.window_seconds {
        0 => "once".to_owned(),
        seconds if seconds < 3600 => format!("{} min", seconds / 60),
        seconds if seconds < 3 * 86_400 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    };
    format!("{time}, {} samples", seen.samples)
}

/// Why, once for all workloads with the same reason.
fn reasons(all: &[WorkloadAdvice]) -> String {
    let words = |one: &WorkloadAdvice| {
        let mut words: Vec<String> = Vec::new();
        for reason in &one.reasons {
            words.push(format!("{} [{}]", reason.words, reason.rule));
        }
        vec![words.join("; ")]
    };
    let mut text = String::new();
    for changed in [true, false] {
        let some: Vec<WorkloadAdvice> =
            all.iter().filter(|one| one.advised.change == changed).cloned().collect();
        let about = if changed { "Less" } else { "As it is" };
        text.push_str(&grouped(&some, about, words));
    }
    text
}

/// Sentences about workloads, each said once with those it is about.
fn grouped(
    all: &[WorkloadAdvice],
    about: &str,
    sentences: impl Fn(&WorkloadAdvice) -> Vec<String>,
) -> String {
    let mut order: Vec<String> = Vec::new();
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in all {
        for sentence in sentences(one) {
            if !names.contains_key(&sentence) {
                order.push(sentence.clone());
            }
            names.entry(sentence).or_default().push(title(one));
        }
    }
    let mut text = String::new();
    for sentence in order {
        let who = &names[&sentence];
        let mut shown = who.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
        if who.len() > 3 {
            let _ = write!(shown, " and {} more", who.len() - 3);
        }
        let _ = writeln!(text, "\n{about} for {shown}: {sentence}.");
    }
    text
}

fn nodes(fleet: &Fleet) -> String {
    let mut table = Table::new(["NODE", "MACHINE", "GPUS THEN"]);
    for node in fleet.kept.iter().take(MOST_ROWS) {
        let mut layouts: Vec<(String, u32)> = Vec::new();
        for gpu in &node.gpus {
            let who: BTreeSet<&str> = gpu.parts.iter().map(|part| part.workload.as_str()).collect();
            let is = match (gpu.parts.len(), who.len()) {
                (0, _) => "free".to_owned(),
                (1, _) => format!("{}, 1 pod", gpu.mechanism),
                (pods, 1) => format!("{}, {pods} pods", gpu.mechanism),
                (pods, workloads) => format!("{}, {pods} pods of {workloads} workloads", gpu.mechanism),
            };
            match layouts.iter_mut().find(|(known, _)| *known == is) {
                Some((_, count)) => *count += 1,
                None => layouts.push((is, 1)),
            }
        }
        let shown: Vec<String> = layouts
            .into_iter()
            .map(|(is, count)| if count > 1 { format!("{count} × [{is}]") } else { format!("[{is}]") })
            .collect();
        let shown = if shown.is_empty() { "as they are".to_owned() } else { shown.join(" ") };
        table.row([node.name.clone(), node.machine.clone(), shown]);
    }
    let mut text = table.render();
    if fleet.kept.len() > MOST_ROWS {
        let _ = writeln!(text, "… and {} more nodes", fleet.kept.len() - MOST_ROWS);
    }
    if !fleet.freed.is_empty() {
        let _ = writeln!(text, "Not needed: {}.", fleet.freed.join(", "));
    }
    text
}

fn dollars(cents: i64) -> String {
    Money::from_cents(i128::from(cents)).to_string()
}

fn money(fleet: &Fleet) -> String {
    let mut table = Table::new(["MACHINE", "PRICE/HOUR", "NOW", "THEN"]).right([1, 2, 3]);
    for row in &fleet.machines {
        let price = row.price_per_hour.clone().unwrap_or_else(|| "unknown".to_owned());
        table.row([row.machine.clone(), price, row.now.to_string(), row.then.to_string()]);
    }
    let money = &fleet.money;
    table.row([
        format!("{} hours", money.hours),
        String::new(),
        dollars(money.now_cents),
        dollars(money.then_cents),
    ]);
    let mut text = format!("\n{}", table.render());
    for line in &money.arithmetic {
        let _ = writeln!(text, "  {line}");
    }
    if money.saved_cents > 0 {
        let _ = writeln!(text, "Saved: {} in {} hours.", dollars(money.saved_cents), money.hours);
    } else {
        let _ = writeln!(text, "Nothing is saved: all machines are needed, as far as is known.");
    }
    for cheaper in &fleet.cheaper {
        let _ = writeln!(
            text,
            "Beyond that: {} instead of {} for {}: {}.",
            cheaper.to,
            cheaper.from,
            cheaper.nodes.join(", "),
            cheaper.words
        );
    }
    let lists: BTreeSet<&str> = fleet.machines.iter().filter_map(|row| row.price_source.as_deref()).collect();
    if !lists.is_empty() {
        let _ = writeln!(text, "Prices: {}.", lists.into_iter().collect::<Vec<_>>().join("; "));
    }
    if !money.without_price.is_empty() {
        let _ = writeln!(
            text,
            "Without a price, and not in the sums: {}; --prices FILE names it.",
            money.without_price.join(", ")
        );
    }
    text
}
