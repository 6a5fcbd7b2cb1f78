//! What was predicted against what came of it.

use crate::advice::Advice;
use crate::input::{Settings, Situation};
use crate::money;
use crate::observed::{Ratio, observed};
use carve_economics::Hours;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A past advice against the cluster as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Score {
    /// `carve.dev/v1alpha1`.
    pub api_version: String,
    /// `AdviceScore`.
    pub kind: String,
    /// Every workload of the advice.
    pub workloads: Vec<ScoredWorkload>,
    /// Machines when the advice was given.
    pub machines_before: u32,
    /// Machines that were predicted.
    pub machines_predicted: u32,
    /// Machines that there are.
    pub machines_now: u32,
    /// For how many hours money is told.
    pub hours: u32,
    /// What was to be saved.
    pub predicted_saving_cents: i64,
    /// What is saved against the time of the advice; below nothing if it became dearer.
    pub realised_saving_cents: i64,
    /// Mean use of all GPUs when the advice was given, by the medians of pods; in millionths.
    pub use_before: Ratio,
    /// The same that was predicted: the same work on the machines that were to stay.
    pub use_predicted: Ratio,
    /// The same now.
    pub use_now: Ratio,
}

/// One workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScoredWorkload {
    /// `NAMESPACE/KIND/NAME`.
    pub workload: String,
    /// What was advised.
    pub advised: String,
    /// What it asks for now; none where it is gone.
    pub asks_now: Option<String>,
    /// Whether it asks for something else than when the advice was given.
    pub changed: bool,
    /// The use that was reckoned with.
    pub p95_then: Option<Ratio>,
    /// The use now.
    pub p95_now: Option<Ratio>,
    /// Memory that was advised, in MiB.
    pub memory_advised_mib: Option<u64>,
    /// The peak since, in MiB.
    pub memory_peak_now_mib: Option<u64>,
    /// Whether what was advised would hold, or holds, what is seen now.
    pub holds: Option<bool>,
}

/// Scores an advice by a later situation. Money is told for the hours of the advice.
pub fn score(advice: &Advice, later: &Situation) -> Score {
    let settings = Settings { hours: Hours(advice.fleet.money.hours), ..Settings::default() };
    let (_, now) = money::money(&later.nodes, &vec![true; later.nodes.len()], &settings);
    let gpus: u64 = later.nodes.iter().map(|node| u64::from(node.gpus)).sum();
    let by_title: BTreeMap<String, usize> =
        later.workloads.iter().enumerate().map(|(index, workload)| (workload.title(), index)).collect();
    let mut used_then: u64 = 0;
    let mut used_now: u64 = 0;
    let mut workloads = Vec::new();
    for then in &advice.workloads {
        let title = format!("{}/{}/{}", then.namespace, then.kind, then.name);
        let found = by_title.get(&title).map(|index| &later.workloads[*index]);
        let seen = found.and_then(|workload| observed(workload, None));
        let work = |median: Ratio, pods: u32| u64::from(median.0) * u64::from(pods);
        used_then += then.observed.as_ref().map_or(0, |observed| work(observed.p50, then.pods));
        used_now +=
            seen.as_ref().zip(found).map_or(0, |(seen, found)| work(seen.p50, found.replicas.len() as u32));
        let p95_then = then.observed.as_ref().map(|observed| observed.p95);
        let p95_now = seen.as_ref().map(|seen| seen.p95);
        let peak = seen.as_ref().and_then(|seen| seen.peak_memory).map(|peak| peak.0);
        let share = then.advised.compute_percent.map(|percent| Ratio(u32::from(percent) * 10_000));
        let holds = match (then.advised.memory_mib, peak) {
            (Some(advised), Some(peak)) => {
                Some(peak <= advised && share.zip(p95_now).is_none_or(|(share, now)| now <= share))
            }
            _ => None,
        };
        workloads.push(ScoredWorkload {
            workload: title,
            advised: then.advised.words.clone(),
            asks_now: found.map(|workload| workload.today.clone()),
            changed: found.is_some_and(|workload| workload.today != then.today),
            p95_then,
            p95_now,
            memory_advised_mib: then.advised.memory_mib,
            memory_peak_now_mib: peak,
            holds,
        });
    }
    let sum = |column: fn(&crate::MachineRow) -> u32| advice.fleet.machines.iter().map(column).sum::<u32>();
    let gpus_then = gpus_of(advice);
    let part = |used: u64, gpus: u64| Ratio(u32::try_from(used / gpus.max(1)).unwrap_or(u32::MAX));
    Score {
        api_version: "carve.dev/v1alpha1".to_owned(),
        kind: "AdviceScore".to_owned(),
        workloads,
        machines_before: sum(|row| row.now),
        machines_predicted: sum(|row| row.then),
        machines_now: later.nodes.len() as u32,
        hours: settings.hours.0,
        predicted_saving_cents: advice.fleet.money.saved_cents,
        realised_saving_cents: advice.fleet.money.now_cents - now.now_cents,
        use_before: part(used_then, gpus_then.0),
        use_predicted: part(used_then, gpus_then.1),
        use_now: part(used_now, gpus),
    }
}

/// GPUs before and as predicted.
fn gpus_of(advice: &Advice) -> (u64, u64) {
    advice.fleet.machines.iter().fold((0, 0), |(now, then), row| {
        let gpus = u64::from(row.gpus);
        (now + gpus * u64::from(row.now), then + gpus * u64::from(row.then))
    })
}
