//! How cost looks: columns of cents that add up, or rows of dollars for programs.

use crate::table::Table;
use carve_economics::{Cost, CostReport, CostRow, Money, in_cents};
use std::fmt::Write;

fn title(row: &CostRow) -> &str {
    row.name.as_deref().unwrap_or("nobody")
}

/// For people.
pub(super) fn table(report: &CostReport) -> String {
    if report.rows.is_empty() {
        return "Nothing was written down in this time.\n".to_owned();
    }
    let head = report.by.to_uppercase();
    let mut table = Table::new([&head, "GPU HOURS"]);
    let all: Vec<&CostRow> = report.rows.iter().chain([&report.total]).collect();
    for (at, row) in all.iter().enumerate() {
        let name = if at < report.rows.len() { title(row) } else { "total" };
        table.row([name.to_owned(), format!("{:.2}", row.gpu_hours)]);
    }
    let totals = report.total.bill.kinds().into_iter().chain([("total", report.total.bill.total())]);
    let mut place = 2;
    for (at, (name, total)) in totals.enumerate() {
        // Columns in which there is nothing only take place.
        if name != "total" && total == Cost::ZERO {
            continue;
        }
        let of = |row: &CostRow| row.bill.kinds().get(at).map_or_else(|| row.bill.total(), |(_, cost)| *cost);
        let costs: Vec<Cost> = report.rows.iter().map(of).collect();
        let cell = |money: Money| if money == Money::ZERO { "-".to_owned() } else { money.to_string() };
        let cells = in_cents(&costs).into_iter().map(cell);
        let total = total.money().rounded().to_string();
        table.column(place, &name.replace('-', " ").to_uppercase(), cells.chain([total]));
        place += 1;
    }
    let table = table.right([1, 2, 3, 4, 5, 6, 7, 8]);
    let mut text = format!("{} to {}\n\n{}", report.from, report.until, table.render());
    let mut prices = Table::new(["NODE", "TYPE", "PER HOUR", "SOURCE"]).right([2]);
    for (node, price) in &report.nodes {
        let kind = if price.instance_type.is_empty() { "-" } else { &price.instance_type };
        let (dollars, source) = match price.dollars_per_hour {
            Some(dollars) => (format!("${dollars:.4}"), price.source.clone()),
            None => ("unknown".to_owned(), "give the agent --prices with a line for this type".to_owned()),
        };
        prices.row([node.clone(), kind.to_owned(), dollars, source]);
    }
    let _ = write!(text, "\n{}", prices.render());
    if report.unpriced_hours > 0.0 {
        let _ = writeln!(
            text,
            "\nFor {:.2} hours nobody knew the price; they are not in these sums.",
            report.unpriced_hours
        );
    }
    text
}

/// For spreadsheets.
pub(super) fn csv(report: &CostReport) -> String {
    let mut text = format!(
        "{},gpu_hours,allocated,used,idle_held,unmeasured,idle,fragmentation,overhead,total\n",
        report.by
    );
    for row in &report.rows {
        let amounts = [
            row.gpu_hours,
            row.allocated,
            row.used,
            row.idle_held,
            row.unmeasured,
            row.idle,
            row.fragmentation,
            row.overhead,
            row.total,
        ];
        let amounts: Vec<String> = amounts.iter().map(|amount| format!("{amount:.6}")).collect();
        // Nobody's row has an empty name; no name of Kubernetes has a comma.
        let _ = writeln!(text, "{},{}", row.name.as_deref().unwrap_or_default(), amounts.join(","));
    }
    text
}
