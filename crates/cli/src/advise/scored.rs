//! A score for people: what was predicted, and what came of it.

use crate::table::Table;
use carve_advisor::{Ratio, Score};
use carve_economics::Money;
use std::fmt::Write as _;

/// The whole score as text.
pub(crate) fn table(score: &Score) -> String {
    let mut table =
        Table::new(["WORKLOAD", "ADVISED", "ASKS NOW", "P95 THEN", "P95 NOW", "MEMORY", "PEAK NOW", "HOLDS"])
            .right([3, 4, 5, 6]);
    let ratio = |ratio: Option<Ratio>| ratio.map_or_else(|| "-".to_owned(), |ratio| ratio.to_string());
    let memory =
        |mebibytes: Option<u64>| mebibytes.map_or_else(|| "-".to_owned(), |number| format!("{number} MiB"));
    for one in &score.workloads {
        table.row([
            one.workload.clone(),
            one.advised.clone(),
            one.asks_now.clone().unwrap_or_else(|| "gone".to_owned()),
            ratio(one.p95_then),
            ratio(one.p95_now),
            memory(one.memory_advised_mib),
            memory(one.memory_peak_now_mib),
            one.holds.map_or("-", |holds| if holds { "yes" } else { "no" }).to_owned(),
        ]);
    }
    let mut text = table.render();
    let dollars = |cents: i64| Money::from_cents(i128::from(cents)).to_string();
    let mut sums = Table::new(["", "THEN", "PREDICTED", "NOW"]).right([1, 2, 3]);
    sums.row([
        "machines".to_owned(),
        score.machines_before.to_string(),
        score.machines_predicted.to_string(),
        score.machines_now.to_string(),
    ]);
    sums.row([
        format!("saved in {} hours", score.hours),
        String::new(),
        dollars(score.predicted_saving_cents),
        dollars(score.realised_saving_cents),
    ]);
    sums.row([
        "use of all GPUs".to_owned(),
        score.use_before.to_string(),
        score.use_predicted.to_string(),
        score.use_now.to_string(),
    ]);
    let _ = write!(text, "\n{}", sums.render());
    text
}
