//! How claims use the GPUs now, from the records that an agent keeps of them.

use carve_dra::DeviceName;
use carve_dra_driver::{ClaimRecord, DeviceRecord, RecordError, RecordStore, Stage, UsageRecord};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Who uses which GPU.
#[derive(Debug, Default)]
pub(crate) struct Used {
    by_gpu: BTreeMap<String, Vec<Use>>,
    /// What could not be read, in words.
    pub(crate) troubles: Vec<String>,
}

/// A device of a claim.
#[derive(Debug, Clone)]
pub(crate) struct Use {
    namespace: String,
    name: String,
    uid: String,
    stage: Stage,
    device: DeviceRecord,
}

/// A device of a claim, as JSON and YAML print it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UseView {
    namespace: String,
    name: String,
    uid: String,
    stage: Stage,
    request: String,
    device: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<String>,
    /// The GPU or MIG device that containers get; none until it is made.
    uuid: Option<String>,
    usage: &'static str,
    #[serde(rename = "memoryMiB", skip_serializing_if = "Option::is_none")]
    memory: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compute_percent: Option<u32>,
}

impl Used {
    /// What the records say. Those of an earlier boot are passed over: nothing of them is left.
    pub(crate) fn read(store: &RecordStore) -> Self {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        match store.look() {
            Ok(records) => {
                let here = records.claims.into_values().filter(|record| record.boot == boot.trim());
                Used { by_gpu: by_gpu(here), troubles: records.troubles }
            }
            Err(error) => {
                let why = match error {
                    RecordError::Io { path, source, .. } => format!("{}: {source}", path.display()),
                    other => other.to_string(),
                };
                Used { troubles: vec![format!("who uses the GPUs is not shown: {why}")], ..Used::default() }
            }
        }
    }

    /// Whether a claim uses one of these GPUs.
    pub(crate) fn any<'a>(&self, mut gpus: impl Iterator<Item = &'a str>) -> bool {
        gpus.any(|gpu| self.by_gpu.contains_key(gpu))
    }

    /// How a GPU is used, in a few words.
    pub(crate) fn words(&self, gpu: &str) -> String {
        let uses = self.of(gpu);
        let (watching, using): (Vec<&Use>, Vec<&Use>) =
            uses.iter().partition(|one| matches!(one.device.usage, UsageRecord::Watch));
        let (migs, whole): (Vec<&Use>, Vec<&Use>) = using.into_iter().partition(|one| one.is_mig());
        let mut words = Vec::new();
        if !migs.is_empty() {
            words.push(format!("MIG, {}", count(distinct(&migs), "claim")));
        }
        // One GPU is used in one way; the driver refuses anything else. Should records say otherwise, all of it is shown.
        for kind in ["alone", "turns", "mps", "fraction"] {
            let same: Vec<&Use> =
                whole.iter().filter(|one| one.device.usage.word() == kind).copied().collect();
            words.extend((!same.is_empty()).then(|| whole_words(kind, &same)));
        }
        let stages = [(Stage::Started, "being made ready"), (Stage::Ending, "being taken back")];
        let all = distinct(&uses.iter().collect::<Vec<_>>());
        for (stage, text) in stages {
            match distinct(&uses.iter().filter(|one| one.stage == stage).collect::<Vec<_>>()) {
                0 => {}
                there if there == all => words.push(text.to_owned()),
                there => words.push(format!("{there} of them {text}")),
            }
        }
        words.extend((!watching.is_empty()).then(|| format!("{} watching", distinct(&watching))));
        if words.is_empty() { "-".to_owned() } else { words.join(", ") }
    }

    /// Every claim on a GPU with what it has; `place` names MIG devices.
    pub(crate) fn claims(&self, gpu: &str, place: impl Fn(&str) -> Option<String>) -> String {
        let one = |one: &Use| {
            let title = one.title();
            let detail = match &one.device.usage {
                UsageRecord::Fraction { memory, compute: 0, .. } => format!(" {memory} MiB"),
                UsageRecord::Fraction { memory, compute, .. } => format!(" {compute} %, {memory} MiB"),
                UsageRecord::Mps { memory: Some(memory), .. } => format!(" {memory} MiB"),
                UsageRecord::Watch => " watching".to_owned(),
                _ => String::new(),
            };
            if one.is_mig() {
                let part = one.device.part.as_deref();
                let at = part.and_then(&place).unwrap_or_else(|| one.device.device.clone());
                format!("{at}: {title}{detail}")
            } else {
                format!("{title}{detail}")
            }
        };
        let all: Vec<String> = self.of(gpu).iter().map(one).collect();
        if all.is_empty() { "-".to_owned() } else { all.join("; ") }
    }

    /// The claims that have a MIG device.
    pub(crate) fn of_part(&self, gpu: &str, part: &str) -> Vec<String> {
        let here = self.of(gpu).iter().filter(|one| one.device.part.as_deref() == Some(part));
        here.map(Use::title).collect()
    }

    /// Every claim on a GPU.
    pub(crate) fn views(&self, gpu: &str) -> Vec<UseView> {
        self.of(gpu).iter().map(Use::view).collect()
    }

    fn of(&self, gpu: &str) -> &[Use] {
        self.by_gpu.get(gpu).map_or(&[], Vec::as_slice)
    }
}

/// Sorted by the names people know, so that a listing does not jump about when a claim comes.
fn by_gpu(records: impl Iterator<Item = ClaimRecord>) -> BTreeMap<String, Vec<Use>> {
    let mut by_gpu: BTreeMap<String, Vec<Use>> = BTreeMap::new();
    for ClaimRecord { namespace, name, uid, stage, devices, .. } in records {
        for device in devices {
            let (namespace, name, uid) = (namespace.clone(), name.clone(), uid.clone());
            let gpu = device.gpu.clone();
            by_gpu.entry(gpu).or_default().push(Use { namespace, name, uid, stage, device });
        }
    }
    for uses in by_gpu.values_mut() {
        uses.sort_by(|one, other| {
            let key = |one: &Use| (one.namespace.clone(), one.name.clone(), one.device.device.clone());
            key(one).cmp(&key(other)).then_with(|| one.device.share.cmp(&other.device.share))
        });
    }
    by_gpu
}

impl Use {
    fn title(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    fn is_mig(&self) -> bool {
        self.device.device.parse::<DeviceName>().is_ok_and(|name| name.mig.is_some())
    }

    fn view(&self) -> UseView {
        let device = &self.device;
        let (memory, compute) = match &device.usage {
            UsageRecord::Fraction { memory, compute, .. } => (Some(*memory), Some(u32::from(*compute))),
            UsageRecord::Mps { daemon_memory, daemon_threads, memory, threads, .. } => {
                (memory.or(*daemon_memory), Some(threads.unwrap_or(*daemon_threads)))
            }
            UsageRecord::Alone | UsageRecord::Turns { .. } | UsageRecord::Watch => (None, None),
        };
        UseView {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            stage: self.stage,
            request: device.request.clone(),
            device: device.device.clone(),
            share: device.share.clone(),
            uuid: device.part.clone(),
            usage: device.usage.word(),
            memory,
            compute_percent: compute,
        }
    }
}

fn whole_words(kind: &str, uses: &[&Use]) -> String {
    match kind {
        "alone" => {
            let titles: BTreeSet<String> = uses.iter().map(|one| one.title()).collect();
            format!("alone: {}", titles.into_iter().collect::<Vec<_>>().join(", "))
        }
        "turns" => format!("by turns, {}", count(distinct(uses), "claim")),
        "mps" => format!("MPS, {}", count(distinct(uses), "claim")),
        _ => {
            let compute = |one: &&Use| match one.device.usage {
                UsageRecord::Fraction { compute, .. } => u32::from(compute),
                _ => 0,
            };
            let percent: u32 = uses.iter().map(compute).sum();
            let free = uses.iter().filter(|one| compute(one) == 0).count();
            let limits = match free {
                0 => format!("{percent} %"),
                all if all == uses.len() => "compute not limited".to_owned(),
                some => format!("{percent} %, {some} not limited"),
            };
            format!("{} ({limits})", count(uses.len(), "fraction"))
        }
    }
}

/// How many claims these are: one can have several devices of a GPU.
fn distinct(uses: &[&Use]) -> usize {
    uses.iter().map(|one| &one.uid).collect::<BTreeSet<_>>().len()
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::{Used, by_gpu};
    use carve_dra_driver::{ClaimRecord, DeviceRecord, Stage, UsageRecord};

    const FRACTION: UsageRecord =
        UsageRecord::Fraction { memory: 1024, compute: 25, burst: false, pass: false };
    const FREE: UsageRecord = UsageRecord::Fraction { memory: 1024, compute: 0, burst: false, pass: false };
    const MPS: UsageRecord = UsageRecord::Mps {
        daemon_memory: None,
        daemon_threads: 100,
        memory: Some(2048),
        threads: None,
        counted: None,
    };

    fn claim(name: &str, stage: Stage, devices: &[(&str, UsageRecord)]) -> ClaimRecord {
        let device = |(number, (device, usage)): (usize, &(&str, UsageRecord))| DeviceRecord {
            request: "r".to_owned(),
            device: (*device).to_owned(),
            share: Some(format!("s{number}")),
            gpu: "GPU-0".to_owned(),
            part: Some("MIG-1".to_owned()),
            guards: None,
            usage: usage.clone(),
        };
        ClaimRecord {
            boot: "b".to_owned(),
            namespace: "team".to_owned(),
            name: name.to_owned(),
            uid: name.to_owned(),
            stage,
            devices: devices.iter().enumerate().map(device).collect(),
        }
    }

    fn words(claims: &[ClaimRecord]) -> String {
        Used { by_gpu: by_gpu(claims.iter().cloned()), troubles: Vec::new() }.words("GPU-0")
    }

    #[test]
    fn every_way_to_use_a_gpu_has_its_words() {
        let ready = |name: &str, device: &str, usage| claim(name, Stage::Ready, &[(device, usage)]);
        let turns = UsageRecord::Turns { interval: 1 };
        assert_eq!(words(&[]), "-");
        assert_eq!(words(&[ready("train", "gpu-0", UsageRecord::Alone)]), "alone: team/train");
        assert_eq!(words(&[ready("a", "gpu-0-frac", FRACTION)]), "1 fraction (25 %)");
        let two = claim("b", Stage::Ready, &[("gpu-0-frac", FRACTION), ("gpu-0-frac", FRACTION)]);
        assert_eq!(words(&[ready("a", "gpu-0-frac", FRACTION), two]), "3 fractions (75 %)");
        let free = ready("c", "gpu-0-frac", FREE);
        assert_eq!(words(std::slice::from_ref(&free)), "1 fraction (compute not limited)");
        assert_eq!(words(&[free, ready("a", "gpu-0-frac", FRACTION)]), "2 fractions (25 %, 1 not limited)");
        let double = claim("m", Stage::Ready, &[("gpu-0-mps", MPS), ("gpu-0-mps", MPS)]);
        assert_eq!(words(std::slice::from_ref(&double)), "MPS, 1 claim", "one claim with two shares");
        assert_eq!(words(&[double, ready("n", "gpu-0-mps", MPS)]), "MPS, 2 claims");
        assert_eq!(words(&[ready("t", "gpu-0-ts", turns)]), "by turns, 1 claim");
        let migs = [
            ready("a", "gpu-0-mig-1g18gb-19-6", UsageRecord::Alone),
            ready("b", "gpu-0-mig-1g18gb-19-5-frac", FRACTION),
        ];
        assert_eq!(words(&migs), "MIG, 2 claims");
    }

    #[test]
    fn claims_on_their_way_and_those_that_only_watch_are_told_apart() {
        let coming = claim("a", Stage::Started, &[("gpu-0-frac", FRACTION)]);
        let going = claim("b", Stage::Ending, &[("gpu-0-frac", FRACTION)]);
        let watching = claim("w", Stage::Ready, &[("gpu-0", UsageRecord::Watch)]);
        let text = words(&[coming, going, watching.clone()]);
        assert_eq!(
            text,
            "2 fractions (50 %), 1 of them being made ready, 1 of them being taken back, 1 watching"
        );
        let alone = claim("b", Stage::Started, &[("gpu-0", UsageRecord::Alone)]);
        assert_eq!(words(&[alone]), "alone: team/b, being made ready");
        assert_eq!(words(&[watching]), "1 watching", "who watches does not use");
    }

    #[test]
    fn claims_are_named_with_what_they_have() {
        let claims = [
            claim("z", Stage::Ready, &[("gpu-0-frac", FRACTION)]),
            claim("a", Stage::Ready, &[("gpu-0-mig-1g18gb-19-6", UsageRecord::Alone)]),
        ];
        let used = Used { by_gpu: by_gpu(claims.into_iter()), troubles: Vec::new() };
        let place = |part: &str| (part == "MIG-1").then(|| "1g.18gb at 6".to_owned());
        assert_eq!(used.claims("GPU-0", place), "1g.18gb at 6: team/a; team/z 25 %, 1024 MiB");
        assert_eq!(used.claims("GPU-0", |_| None), "gpu-0-mig-1g18gb-19-6: team/a; team/z 25 %, 1024 MiB");
        assert_eq!(used.of_part("GPU-0", "MIG-1"), ["team/a", "team/z"]);
    }
}
