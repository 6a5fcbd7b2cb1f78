//! From records, holders and what was read of shares to the series that are told; pure.

use super::meter::Totals;
use crate::holders::ClaimHeld;
use crate::metrics::{ShareLabels, ShareSeries};
use carve_dra_driver::{ClaimRecord, DeviceRecord, Stage, UsageRecord};
use carve_limiter_host::Limits;
use std::collections::BTreeMap;

/// A share on record: its claim and its device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recorded<'a> {
    pub(super) claim: &'a ClaimRecord,
    pub(super) device: &'a DeviceRecord,
    /// UUID of the GPU or MIG device that it is of.
    pub(super) part: &'a str,
}

impl Recorded<'_> {
    /// What tells it from all others of the node.
    pub(super) fn name(&self) -> String {
        format!("{}/{}/{}", self.claim.uid, self.part, self.device.share_name())
    }

    /// Whether the limiter alone holds it. Where MPS does, it holds every process that comes by its daemon, counted or not.
    pub(super) fn needs_limiter(&self) -> bool {
        matches!(self.device.usage, UsageRecord::Fraction { .. })
    }
}

/// What was read of a share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) limits: Limits,
    pub(super) told: Totals,
    /// Bytes and processes now.
    pub(super) now: Option<(u64, u32)>,
    pub(super) beside: Option<u64>,
    pub(super) overhead: Option<u64>,
}

/// Every share that has been made, of claims of this boot.
pub(super) fn shares(records: &BTreeMap<String, ClaimRecord>) -> Vec<Recorded<'_>> {
    let devices = records.values().flat_map(|claim| claim.devices.iter().map(move |device| (claim, device)));
    let made = devices.filter(|(_, device)| device.usage.has_share());
    made.filter_map(|(claim, device)| Some(Recorded { claim, device, part: device.part.as_deref()? }))
        .collect()
}

/// The series of shares that were read, one set for each.
pub(super) fn series(
    shares: &[Recorded<'_>],
    readings: &BTreeMap<String, Reading>,
    held: &[ClaimHeld],
    driver: &str,
) -> Vec<ShareSeries> {
    let told = shares.iter().filter_map(|share| {
        let reading = readings.get(&share.name())?;
        let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
        let compute = reading.limits.compute;
        Some(ShareSeries {
            labels: labels(share, shares, held, driver),
            gpu_seconds: seconds(reading.told.busy),
            throttled_seconds: seconds(reading.told.throttled),
            denials: reading.told.denials,
            launches: reading.told.launches,
            memory_limit: reading.limits.memory,
            compute_limit: (compute > 0).then(|| f64::from(compute) / 10_000.0),
            mechanism: if reading.limits.mps { "mps" } else { "limiter" },
            now: reading.now,
            beside: reading.beside,
            overhead: reading.overhead,
        })
    });
    told.collect()
}

/// Container, pod and namespace are told as far as all who have the share agree, so that no use is told twice. Kubelet knows a claim by its
/// name alone: of two with one name the one that is ready counts.
fn labels(share: &Recorded<'_>, all: &[Recorded<'_>], held: &[ClaimHeld], driver: &str) -> ShareLabels {
    let Recorded { claim, device, part } = share;
    let same_name = |other: &ClaimRecord| other.namespace == claim.namespace && other.name == claim.name;
    let newer = |other: &&Recorded<'_>| {
        other.claim.uid != claim.uid && same_name(other.claim) && other.claim.stage == Stage::Ready
    };
    let is_left = claim.stage != Stage::Ready && all.iter().any(|other| newer(&other));
    let holders: Vec<_> = held
        .iter()
        .filter(|held| {
            !is_left
                && held.driver == driver
                && held.claim_namespace == claim.namespace
                && held.claim == claim.name
                && held.device == device.device
                && held.share == device.share
        })
        .map(|held| &held.holder)
        .collect();
    let agreed = |word: fn(&carve_slicing::Holder) -> &String| -> String {
        let first = holders.first().map(|holder| word(holder));
        let same = first.filter(|first| holders.iter().all(|holder| word(holder) == *first));
        same.cloned().unwrap_or_default()
    };
    let namespace = agreed(|holder| &holder.namespace);
    let pod = if namespace.is_empty() { String::new() } else { agreed(|holder| &holder.pod) };
    let container = if pod.is_empty() { String::new() } else { agreed(|holder| &holder.container) };
    ShareLabels {
        namespace,
        pod,
        container,
        claim: claim.name.clone(),
        claim_namespace: claim.namespace.clone(),
        device: device.device.clone(),
        share: device.share.clone().unwrap_or_default(),
        uuid: (*part).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Reading, series, shares};
    use crate::dra::oversight::meter::Totals;
    use crate::holders::ClaimHeld;
    use carve_dra_driver::{ClaimRecord, DeviceRecord, Stage, UsageRecord};
    use carve_limiter_host::Limits;
    use carve_slicing::Holder;
    use std::collections::BTreeMap;

    const FRACTION: UsageRecord = UsageRecord::Fraction { memory: 1, compute: 1, burst: false, pass: false };

    fn over_mps(counted: Option<u64>) -> UsageRecord {
        UsageRecord::Mps { daemon_memory: None, daemon_threads: 100, memory: None, threads: None, counted }
    }

    fn record(uid: &str, stage: Stage, part: Option<&str>, usage: UsageRecord) -> (String, ClaimRecord) {
        let device = DeviceRecord {
            request: "gpu".to_owned(),
            device: "gpu-0-frac".to_owned(),
            share: Some("s".to_owned()),
            gpu: "GPU-0".to_owned(),
            part: part.map(str::to_owned),
            guards: None,
            usage,
        };
        let claim = ClaimRecord {
            boot: "b".to_owned(),
            namespace: "team".to_owned(),
            name: "c".to_owned(),
            uid: uid.to_owned(),
            stage,
            devices: vec![device],
        };
        (uid.to_owned(), claim)
    }

    fn held(pod: &str, container: &str, driver: &str) -> ClaimHeld {
        let holder = Holder { namespace: "team".into(), pod: pod.into(), container: container.into() };
        ClaimHeld {
            holder,
            claim_namespace: "team".to_owned(),
            claim: "c".to_owned(),
            driver: driver.to_owned(),
            device: "gpu-0-frac".to_owned(),
            share: Some("s".to_owned()),
        }
    }

    fn reading(compute: u32, mps: bool) -> Reading {
        Reading {
            limits: Limits { memory: 5, compute, context: 0, burst: false, pass: false, mps },
            told: Totals { busy: 1_500_000_000, ..Totals::default() },
            now: None,
            beside: None,
            overhead: None,
        }
    }

    /// Pod and container of the only share, as these hold it.
    fn told(holders: &[ClaimHeld]) -> (String, String) {
        let records = BTreeMap::from([record("u", Stage::Ready, Some("GPU-0"), FRACTION)]);
        let shares = shares(&records);
        let readings = BTreeMap::from([("u/GPU-0/s".to_owned(), reading(0, false))]);
        let found = series(&shares, &readings, holders, "ours");
        assert_eq!(found.len(), 1, "one set for a share, however many have it");
        (found[0].labels.pod.clone(), found[0].labels.container.clone())
    }

    #[test]
    fn containers_are_named_as_far_as_they_agree() {
        let pair = |pod: &str, container: &str| (pod.to_owned(), container.to_owned());
        assert_eq!(told(&[]), pair("", ""), "nobody is known yet");
        assert_eq!(told(&[held("a", "main", "ours")]), pair("a", "main"));
        assert_eq!(told(&[held("a", "main", "ours"), held("b", "main", "theirs")]), pair("a", "main"));
        assert_eq!(told(&[held("a", "main", "ours"), held("a", "side", "ours")]), pair("a", ""));
        assert_eq!(told(&[held("a", "main", "ours"), held("b", "main", "ours")]), pair("", ""));
    }

    #[test]
    fn only_shares_that_were_made_and_read_are_told() {
        let records = BTreeMap::from([
            record("made", Stage::Ready, Some("GPU-0"), FRACTION),
            record("left", Stage::Ending, Some("GPU-1"), FRACTION),
            record("unread", Stage::Ready, Some("GPU-2"), FRACTION),
            record("unmade", Stage::Ready, None, FRACTION),
            record("alone", Stage::Ready, Some("GPU-3"), UsageRecord::Alone),
            record("mps", Stage::Ready, Some("GPU-4"), over_mps(Some(5))),
            record("mps-bare", Stage::Ready, Some("GPU-5"), over_mps(None)),
        ]);
        let shares = shares(&records);
        let needs: Vec<_> = shares.iter().map(|share| (share.part, share.needs_limiter())).collect();
        assert_eq!(needs, [("GPU-1", true), ("GPU-0", true), ("GPU-4", false), ("GPU-2", true)]);
        let readings = BTreeMap::from([
            ("made/GPU-0/s".to_owned(), reading(2_500, false)),
            ("left/GPU-1/s".to_owned(), reading(0, false)),
            ("mps/GPU-4/s".to_owned(), reading(4_000, true)),
        ]);
        let found = series(&shares, &readings, &[held("a", "main", "ours")], "ours");
        let told: Vec<_> = found
            .iter()
            .map(|one| (one.labels.uuid.as_str(), one.labels.pod.as_str(), one.mechanism, one.compute_limit))
            .collect();
        // Of two claims with one name kubelet speaks of the one that is ready.
        let (left, made) = (("GPU-1", "", "limiter", None), ("GPU-0", "a", "limiter", Some(0.25)));
        assert_eq!(told, [left, made, ("GPU-4", "a", "mps", Some(0.4))]);
        assert!(found.iter().all(|one| one.gpu_seconds == 1.5));
    }
}
