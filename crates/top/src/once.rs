//! The same for pipes: lines of text, once.

use crate::rows::{Row, Sort, rows};
use carve_fleet_picture::Picture;

pub(crate) fn percent(part: Option<f64>) -> String {
    part.map_or_else(|| "-".to_owned(), |part| format!("{:.0}%", part * 100.0))
}

pub(crate) fn memory(mebibytes: u64) -> String {
    match mebibytes {
        0..1024 => format!("{mebibytes}Mi"),
        _ => format!("{:.1}Gi", mebibytes as f64 / 1024.0),
    }
}

/// The cells of a line: name, way or product, promised, used, memory, throttled, how it is known.
pub(crate) fn cells(row: &Row) -> [String; 7] {
    match row {
        Row::Gpu { name, product, state, busy, memory: (used, all), slices } => {
            let count = if *slices == 1 { "1 slice".to_owned() } else { format!("{slices} slices") };
            let what = if state.is_empty() { count } else { state.clone() };
            let short = product.trim_start_matches("NVIDIA ").to_owned();
            [
                name.clone(),
                short,
                what,
                percent(*busy),
                format!("{} of {}", memory(*used), memory(*all)),
                String::new(),
                String::new(),
            ]
        }
        Row::Slice { pod, container, way, promised, used, how, memory: (taken, limit), throttled } => {
            let of = limit.map_or_else(String::new, |limit| format!(" of {}", memory(limit)));
            let held = if *throttled > 0.0 { percent(Some(*throttled)) } else { String::new() };
            [
                format!("  {pod}/{container}"),
                way.clone(),
                percent(*promised),
                percent(*used),
                format!("{}{of}", memory(*taken)),
                held,
                (*how).to_owned(),
            ]
        }
    }
}

/// The heads of the columns.
pub(crate) const HEADS: [&str; 7] =
    ["GPU / SLICE", "PRODUCT / WAY", "PROMISED", "USED", "MEMORY", "HELD BACK", "KNOWN BY"];

/// A fleet in one line.
pub(crate) fn headline(picture: &Picture) -> String {
    let sum = picture.summary();
    let money = sum.money;
    let of = |part: f64| if money.per_hour > 0.0 { 100.0 * part / money.per_hour } else { 0.0 };
    let few = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    format!(
        "{}, {}, {}, {} waiting; ${:.2} an hour: {:.0}% used, {:.0}% held idle, {:.0}% idle, {:.0}% withheld",
        few(sum.nodes, "node"),
        few(sum.gpus, "GPU"),
        few(sum.slices, "slice"),
        sum.waiting,
        money.per_hour,
        of(money.used),
        of(money.held_idle),
        of(money.idle),
        of(money.withheld)
    )
}

/// Everything, once.
pub fn once(picture: &Picture, sort: Sort, filter: &str) -> String {
    let lines: Vec<[String; 7]> = std::iter::once(HEADS.map(str::to_owned))
        .chain(rows(picture, sort, filter).iter().map(cells))
        .collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
    let mut text = format!("{}\n\n", headline(picture));
    for line in &lines {
        let cells: Vec<String> =
            line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    let told: Vec<_> = picture.nodes.iter().filter(|(_, node)| !node.why.is_empty()).collect();
    if !told.is_empty() {
        text.push_str("\nNODES\n");
    }
    for (name, node) in told {
        let state = if node.ready { "" } else { "not ready: " };
        text.push_str(&format!("  {name}  {state}{}\n", node.why));
    }
    if !picture.waiting.is_empty() {
        text.push_str("\nWAITING\n");
    }
    for (pod, waiting) in &picture.waiting {
        text.push_str(&format!("  {pod}  {}: {}\n", waiting.asks, waiting.why));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::once;
    use crate::rows::{Sort, tests::picture};

    #[test]
    fn nodes_say_what_is_wrong_with_them() {
        let mut picture = picture();
        for node in picture.nodes.values_mut() {
            (node.ready, node.why) = (false, "its agent does not answer".to_owned());
        }
        let text = once(&picture, Sort::Name, "");
        assert!(
            text.contains("\nNODES\n  p4d-1  not ready: its agent does not answer\n\nWAITING\n"),
            "{text}"
        );
    }

    #[test]
    fn lines_align_and_say_everything() {
        let text = once(&picture(), Sort::Name, "");
        let expected = "\
1 node, 3 GPUs, 3 slices, 1 waiting; $30.00 an hour: 19% used, 23% held idle, 25% idle, 33% withheld

GPU / SLICE      PRODUCT / WAY   PROMISED  USED  MEMORY           HELD BACK  KNOWN BY
p4d-1:0          A100-SXM4-40GB  1 slice   30%   900Mi of 40.0Gi
  chat/a/main    MIG 3g.20gb     42%       30%   900Mi of 5.0Gi              measured
p4d-1:1          A10G            2 slices  26%   1.8Gi of 22.5Gi
  search/b/main  limiter         25%       25%   900Mi of 5.0Gi   20%        limiter
  search/c/main  limiter         50%       1%    900Mi of 5.0Gi              measured
p4d-1:2          A10G            lost      -     0Mi of 0Mi

WAITING
  lab/big  8 × gpu: no room
";
        assert_eq!(text, expected, "\n{text}");
    }
}
