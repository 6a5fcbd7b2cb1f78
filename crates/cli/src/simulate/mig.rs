//! What a run through time says about MIG: a table of its own, a part of the JSON, columns of the CSV.

use crate::simulate::through_time::{Run, count, mean, time};
use crate::table::Table;
use carve_gpu_model::Geometry;
use carve_placement::Policy;
use carve_simulator::events::{MigFigures, Waits};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A table of what was changed on GPUs; empty where nobody asked for MIG.
pub(super) struct Changes {
    table: Table,
    any: bool,
}

impl Changes {
    pub(super) fn new() -> Self {
        let columns = [
            "POLICY",
            "MIG CHANGES",
            "MODE SWITCHES",
            "MADE",
            "DESTROYED",
            "REUSED",
            "TIME SPENT",
            "PODS THAT WAITED FOR IT",
            "MEAN",
            "WORST",
        ];
        Changes { table: Table::new(columns).right([1, 2, 3, 4, 5, 6, 7, 8, 9]), any: false }
    }

    pub(super) fn row(&mut self, policy: Policy, runs: &[&Run]) {
        if !runs.iter().any(|run| run.figures.mig.is_some()) {
            return;
        }
        self.any = true;
        let of =
            |figure: fn(&MigFigures) -> f64| mean(runs, |figures| figures.mig.as_ref().map_or(0.0, figure));
        self.table.row([
            policy.to_string(),
            count(of(|mig| mig.reconfigurations as f64)),
            count(of(|mig| mig.switched as f64)),
            count(of(|mig| mig.made as f64)),
            count(of(|mig| mig.destroyed as f64)),
            count(of(|mig| mig.reused as f64)),
            time(of(|mig| mig.spent_ms as f64 / 1000.0)),
            count(of(|mig| mig.preparing.count as f64)),
            time(of(|mig| mig.preparing.mean)),
            time(of(|mig| mig.preparing.worst)),
        ]);
    }

    pub(super) fn render(&self) -> String {
        if self.any { format!("\n{}", self.table.render()) } else { String::new() }
    }
}

/// How long those waited who asked for the same MIG devices, run by run.
pub(super) fn by_devices(runs: &[&Run]) -> BTreeMap<String, Vec<Waits>> {
    let mut all: BTreeMap<&Geometry, Vec<Waits>> = BTreeMap::new();
    for (devices, waits) in runs.iter().filter_map(|run| run.figures.mig.as_ref()).flat_map(|mig| &mig.waits)
    {
        all.entry(devices).or_default().push(*waits);
    }
    all.into_iter().map(|(devices, waits)| (devices.to_string(), waits)).collect()
}

pub(super) fn json(mig: &MigFigures, waits: impl Fn(&Waits) -> Value) -> Value {
    let by_devices: Vec<Value> = mig
        .waits
        .iter()
        .map(|(devices, of)| {
            let mut value = waits(of);
            value["devices"] = json!(devices);
            value
        })
        .collect();
    json!({
        "changes": mig.reconfigurations,
        "modeSwitches": mig.switched,
        "made": mig.made,
        "destroyed": mig.destroyed,
        "reused": mig.reused,
        "spentSeconds": mig.spent_ms as f64 / 1000.0,
        "waitForChangesSeconds": waits(&mig.preparing),
        "waitSecondsByDevices": by_devices,
    })
}

/// Names of what [`cells`] gives.
pub(super) const COLUMNS: &str = "mig_changes,mig_mode_switches,mig_made,mig_destroyed,mig_reused,mig_seconds,mig_waited,mig_wait_mean,mig_wait_worst";

/// The figures as cells of a line; nothing in them where nobody asked for MIG.
pub(super) fn cells(mig: Option<&MigFigures>) -> String {
    let Some(mig) = mig else { return ",".repeat(COLUMNS.matches(',').count()) };
    format!(
        "{},{},{},{},{},{},{},{:.3},{}",
        mig.reconfigurations,
        mig.switched,
        mig.made,
        mig.destroyed,
        mig.reused,
        mig.spent_ms as f64 / 1000.0,
        mig.preparing.count,
        mig.preparing.mean,
        mig.preparing.worst,
    )
}
