//! Series about money: `carve_cost_dollars_total`, `carve_node_cost_dollars_total`, and what the machine costs.

use super::table::{Family, Kind, Labels};
use crate::ledger::CostRows;
use carve_economics::Account;
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

/// Kinds of somebody's; the others are nobody's.
const SOMEBODYS: usize = 3;

fn account_labels(node: &str, account: &Account, kind: &str) -> Labels {
    vec![
        ("node", node.to_owned()),
        ("namespace", account.namespace.clone()),
        ("workload", account.workload.clone()),
        ("pod", account.pod.clone()),
        ("mechanism", account.way()),
        ("kind", kind.to_owned()),
    ]
}

/// Writes all of them.
pub(super) fn encode(rows: &CostRows, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    // Nothing was looked at yet.
    if rows.node.is_empty() {
        return Ok(());
    }
    let machine = || vec![("node", rows.node.clone()), ("instance_type", rows.priced.instance_type.clone())];
    let known =
        Family::new("carve_node_price_known", "Whether it is known what the machine costs", Kind::Gauge);
    let known = known.with(machine(), f64::from(u8::from(rows.priced.price.is_some())));
    known.encode(encoder)?;
    let Some(price) = &rows.priced.price else { return Ok(()) };
    let mut labels = machine();
    labels.push(("source", price.source.clone()));
    let dollars = price.per_hour.micros() as f64 / 1e6;
    Family::new("carve_node_price_dollars_per_hour", "What the machine costs, and who says so", Kind::Gauge)
        .with(labels, dollars)
        .encode(encoder)?;
    let mut total = Family::new(
        "carve_node_cost_dollars",
        "What the machine has cost since the agent began, by what became of it; the sum of all kinds is price times time",
        Kind::Counter,
    );
    for (kind, cost) in rows.total.kinds() {
        let labels = vec![("node", rows.node.clone()), ("kind", kind.to_owned())];
        total.add(labels, cost.dollars());
    }
    total.encode(encoder)?;
    let mut cost = Family::new(
        "carve_cost_dollars",
        "What pods that are there have cost since the agent began",
        Kind::Counter,
    );
    for (account, bill) in &rows.present {
        for (kind, amount) in &bill.kinds()[..SOMEBODYS] {
            cost.add(account_labels(&rows.node, account, kind), amount.dollars());
        }
    }
    cost.encode(encoder)
}
