//! A report: rows by namespace, workload, pod, machine or way of sharing, and a total that is what the machines cost.

use super::window::moment;
use crate::ledger::{API_VERSION, Bill, By, DocumentError, Ledger, LedgerDocument, Millis};
use serde::Serialize;
use std::collections::BTreeMap;

/// What a report is about, as far as time and machines go.
#[derive(Debug, Clone, Default)]
pub struct Covered {
    /// Everything together.
    pub ledger: Ledger,
    /// From the first to the last moment, in seconds since 1970; none without any ledger.
    pub span: Option<(i64, i64)>,
    /// What machines cost now.
    pub nodes: BTreeMap<String, NodePrice>,
    /// Time on machines whose price nobody knew.
    pub unpriced: Millis,
    /// Agents that did not tell, and why; their machines are not covered.
    pub missing: Vec<String>,
}

/// What a machine costs now.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePrice {
    /// Its type; empty where unknown.
    pub instance_type: String,
    /// Absent where nobody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dollars_per_hour: Option<f64>,
    /// Who says so.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
}

impl Covered {
    /// Takes in one machine's ledger; the newest of a machine tells its price.
    pub fn take(&mut self, document: &LedgerDocument) -> Result<(), DocumentError> {
        self.ledger.merge(&document.ledger()?);
        let (from, until) = self.span.unwrap_or((document.from, document.until));
        let newest = document.until >= until || !self.nodes.contains_key(&document.node);
        self.span = Some((from.min(document.from), until.max(document.until)));
        self.unpriced.0 = self.unpriced.0.saturating_add(document.unpriced_millis);
        if newest {
            let price = document.price.as_ref();
            let price = price.map_or_else(NodePrice::default, |price| NodePrice {
                instance_type: price.instance_type.clone(),
                dollars_per_hour: price.micros_per_hour.map(|micros| micros as f64 / 1e6),
                source: price.source.clone(),
            });
            self.nodes.insert(document.node.clone(), price);
        }
        Ok(())
    }

    /// Takes in what somebody answered: one ledger or a list of them, or why there is none.
    pub fn take_answer(&mut self, from: &str, answer: Result<String, String>) {
        let documents =
            answer.and_then(|text| LedgerDocument::read_all(&text).map_err(|error| error.to_string()));
        let taken = documents.and_then(|documents| {
            documents.iter().try_for_each(|document| self.take(document)).map_err(|error| error.to_string())
        });
        if let Err(why) = taken {
            self.missing.push(format!("{from}: {why}"));
        }
    }
}

/// Everything that is told.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CostReport {
    /// `carve.dev/v1alpha1`.
    pub api_version: &'static str,
    /// `CostReport`.
    pub kind: &'static str,
    /// What rows are about.
    pub by: &'static str,
    /// From when on; empty where nothing was told.
    pub from: String,
    /// Up to when.
    pub until: String,
    /// Rows, the most expensive first.
    pub rows: Vec<CostRow>,
    /// All of them.
    pub total: CostRow,
    /// Machines and their prices.
    pub nodes: BTreeMap<String, NodePrice>,
    /// Hours on machines whose price nobody knew; they cost nothing here.
    pub unpriced_hours: f64,
    /// Agents that did not tell, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// One row, in dollars.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CostRow {
    /// Absent where it is nobody's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Hours of whole GPUs that were given out.
    pub gpu_hours: f64,
    /// Given out.
    pub allocated: f64,
    /// Of that, used.
    pub used: f64,
    /// Of that, held without being used.
    pub idle_held: f64,
    /// Of that, what nobody can tell about.
    pub unmeasured: f64,
    /// Given to nobody.
    pub idle: f64,
    /// Given to nobody, because it is no slice by itself.
    pub fragmentation: f64,
    /// Not to be had.
    pub overhead: f64,
    /// All of it.
    pub total: f64,
    /// The same, exactly.
    #[serde(skip)]
    pub bill: Bill,
}

impl CostRow {
    fn of(name: Option<String>, bill: Bill, gpu_time: Millis) -> Self {
        CostRow {
            name,
            gpu_hours: gpu_time.0 as f64 / 3_600_000.0,
            allocated: bill.allocated().dollars(),
            used: bill.used.dollars(),
            idle_held: bill.idle_held.dollars(),
            unmeasured: bill.unmeasured.dollars(),
            idle: bill.idle.dollars(),
            fragmentation: bill.fragmentation.dollars(),
            overhead: bill.overhead.dollars(),
            total: bill.total().dollars(),
            bill,
        }
    }
}

impl CostReport {
    /// Sums up.
    pub fn of(covered: &Covered, by: By) -> Self {
        let ledger = &covered.ledger;
        let times = ledger.gpu_time_by(by);
        let time = |name: &Option<String>| times.get(name).copied().unwrap_or_default();
        let mut rows: Vec<CostRow> = ledger
            .by(by)
            .into_iter()
            .map(|(name, bill)| CostRow::of(name.clone(), bill, time(&name)))
            .collect();
        // Nobody's row is the last, and equals are in the order of their names.
        rows.sort_by(|one, other| {
            let key = |row: &CostRow| (row.name.is_none(), std::cmp::Reverse(row.bill.total()));
            key(one).cmp(&key(other)).then_with(|| one.name.cmp(&other.name))
        });
        let all = Millis(times.values().map(|time| time.0).sum());
        CostReport {
            api_version: API_VERSION,
            kind: "CostReport",
            by: by.word(),
            from: covered.span.map_or_else(String::new, |(from, _)| moment(from)),
            until: covered.span.map_or_else(String::new, |(_, until)| moment(until)),
            rows,
            total: CostRow::of(None, ledger.total(), all),
            nodes: covered.nodes.clone(),
            unpriced_hours: covered.unpriced.0 as f64 / 3_600_000.0,
            missing: covered.missing.clone(),
        }
    }
}
