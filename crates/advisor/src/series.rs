//! From series of Prometheus to what was seen of each pod.
//!
//! carve's own series count a container's time and memory and are preferred. DCGM's are of a GPU, and say which pod has it. Of several
//! figures for use the one that counts time is taken: what is busy is never less than what is needed.

use crate::input::{Evidence, Sample, Situation};
use crate::observed::Ratio;
use carve_formats::prometheus::Series;
use carve_gpu_model::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Series that tell use, the best first.
pub const BUSY_SERIES: [&str; 4] = [
    "carve_container_gpu_seconds_total",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_PROF_SM_ACTIVE",
];
/// Series that tell memory, the best first.
pub const MEMORY_SERIES: [&str; 2] = ["carve_container_memory_used_bytes", "DCGM_FI_DEV_FB_USED"];

/// What could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unmatched {
    /// Series of use or memory in all.
    pub series: usize,
    /// Those of pods that are not in the cluster, or of no pod.
    pub nobody: usize,
    /// A pod that such a series names.
    pub example: Option<String>,
}

/// Which workload and which of its pods.
type Whose = (usize, usize);
/// Points of one pod, by time and GPU.
type Points = BTreeMap<Option<i64>, BTreeMap<String, f64>>;

#[derive(Default)]
struct Seen {
    points: Points,
    untimed: Vec<f64>,
    ways: BTreeSet<String>,
    gpus: BTreeSet<String>,
    alone: bool,
}

/// Puts series to the pods they are about.
pub fn observe(situation: &mut Situation, series: &[Series]) -> Unmatched {
    let mut unmatched = Unmatched::default();
    let index = Index::new(situation);
    let mut busy: BTreeMap<(Whose, usize), Seen> = BTreeMap::new();
    let mut memory: BTreeMap<(Whose, usize), Seen> = BTreeMap::new();
    for one in series {
        let rank = |names: &[&str]| names.iter().position(|name| *name == one.name);
        let (rank, all) = match (rank(&BUSY_SERIES), rank(&MEMORY_SERIES)) {
            (Some(rank), _) => (rank, &mut busy),
            (None, Some(rank)) => (rank, &mut memory),
            (None, None) => continue,
        };
        unmatched.series += 1;
        let Some((whose, alone)) = index.whose(one) else {
            unmatched.nobody += 1;
            let pod = label(one, &["exported_pod", "pod", "pod_name"]).map(str::to_owned);
            unmatched.example = unmatched.example.or(pod);
            continue;
        };
        let seen = all.entry((whose, rank)).or_default();
        seen.alone |= alone;
        seen.add(one);
    }
    for ((workload, replica), rank, seen) in best(busy) {
        let evidence = match (rank, seen.alone) {
            (0, _) => Evidence::Own(seen.ways.iter().cloned().collect::<Vec<_>>().join(", ")),
            (rank, false) => Evidence::Device(BUSY_SERIES[rank].to_owned()),
            (rank, true) => Evidence::OnlyOneThere(BUSY_SERIES[rank].to_owned()),
        };
        // DCGM tells percents of time in one series and parts of one in the others.
        let unit = if BUSY_SERIES[rank] == "DCGM_FI_DEV_GPU_UTIL" { 100.0 } else { 1.0 };
        let replica = &mut situation.workloads[workload].replicas[replica];
        replica.busy = seen.samples(f64::max, |value| Ratio::from_fraction(value / unit));
        replica.gpus = seen.gpus.into_iter().collect();
        replica.evidence = Some(evidence);
    }
    for ((workload, replica), rank, seen) in best(memory) {
        let unit = if rank == 0 { 1.0 } else { 1024.0 * 1024.0 };
        let replica = &mut situation.workloads[workload].replicas[replica];
        replica.memory = seen.samples(f64::max, |value| Bytes((value * unit).ceil() as u64));
    }
    unmatched
}

/// Of each pod the best series.
fn best(all: BTreeMap<(Whose, usize), Seen>) -> Vec<(Whose, usize, Seen)> {
    let mut found: Vec<(Whose, usize, Seen)> = Vec::new();
    for ((whose, rank), seen) in all {
        if found.last().is_none_or(|(known, ..)| *known != whose) && !seen.is_empty() {
            found.push((whose, rank, seen));
        }
    }
    found
}

impl Seen {
    fn is_empty(&self) -> bool {
        self.points.is_empty() && self.untimed.is_empty()
    }

    fn add(&mut self, series: &Series) {
        let gpu = label(series, &["uuid", "UUID", "gpu"]).unwrap_or_default().to_owned();
        self.gpus.insert(gpu.clone());
        if series.name == BUSY_SERIES[0] {
            self.ways.insert(label(series, &["attribution"]).unwrap_or("unsaid").to_owned());
            // Times that were counted in different ways are all of them the container's.
            for (at, rate) in rates(series) {
                *self.points.entry(Some(at)).or_default().entry(gpu.clone()).or_insert(0.0) += rate;
            }
            return;
        }
        for point in series.points.iter().filter(|point| point.value >= 0.0) {
            match point.millis {
                Some(millis) => {
                    let at = self.points.entry(Some(millis.div_euclid(1000))).or_default();
                    let known = at.entry(gpu.clone()).or_insert(point.value);
                    *known = known.max(point.value);
                }
                None => self.untimed.push(point.value),
            }
        }
    }

    /// Samples in the order of time; of several GPUs of a pod the one with the most counts.
    fn samples<T>(&self, more: fn(f64, f64) -> f64, value: impl Fn(f64) -> T) -> Vec<Sample<T>> {
        let timed = self.points.iter().map(|(at, gpus)| (*at, gpus.values().copied().fold(0.0, more)));
        let untimed = self.untimed.iter().map(|value| (None, *value));
        timed.chain(untimed).map(|(at, found)| Sample { at, value: value(found) }).collect()
    }
}

/// Seconds for each second between two points of a counter; a counter that went back started anew.
fn rates(series: &Series) -> Vec<(i64, f64)> {
    let mut points: Vec<(i64, f64)> =
        series.points.iter().filter_map(|point| Some((point.millis?, point.value))).collect();
    points.sort_by_key(|(millis, _)| *millis);
    points.dedup_by_key(|(millis, _)| *millis);
    let rate = |pair: &[(i64, f64)]| {
        let [(from, before), (to, after)] = pair else { return None };
        let grown = if after >= before { after - before } else { *after };
        Some((to.div_euclid(1000), grown * 1000.0 / (to - from) as f64))
    };
    points.windows(2).filter_map(rate).collect()
}

/// The first of these labels that a series has.
fn label<'a>(series: &'a Series, names: &[&str]) -> Option<&'a str> {
    names
        .iter()
        .find_map(|name| series.labels.get(*name))
        .map(String::as_str)
        .filter(|value| !value.is_empty())
}

struct Index {
    pods: BTreeMap<(String, String), Whose>,
    /// Nodes on which one pod has GPUs.
    alone: BTreeMap<String, Whose>,
}

impl Index {
    fn new(situation: &Situation) -> Self {
        let mut pods = BTreeMap::new();
        let mut nodes: BTreeMap<String, Vec<Whose>> = BTreeMap::new();
        for (workload, one) in situation.workloads.iter().enumerate() {
            for (index, replica) in one.replicas.iter().enumerate() {
                pods.insert((one.namespace.clone(), replica.pod.clone()), (workload, index));
                nodes.entry(replica.node.clone()).or_default().push((workload, index));
            }
        }
        let alone = |(node, pods): (String, Vec<Whose>)| match pods[..] {
            [one] => Some((node, one)),
            _ => None,
        };
        Index { pods, alone: nodes.into_iter().filter_map(alone).collect() }
    }

    /// Whose a series is, and whether that is only known because nobody else is on the machine.
    fn whose(&self, series: &Series) -> Option<(Whose, bool)> {
        // Prometheus calls a label so that an exporter and its own pod both have.
        let pod = label(series, &["exported_pod", "pod", "pod_name"]);
        let namespace = label(series, &["exported_namespace", "namespace", "pod_namespace"]);
        if let (Some(pod), Some(namespace)) = (pod, namespace)
            && let Some(whose) = self.pods.get(&(namespace.to_owned(), pod.to_owned()))
        {
            return Some((*whose, false));
        }
        if series.labels.contains_key("exported_pod") {
            return None;
        }
        let host = label(series, &["Hostname", "hostname", "node", "kubernetes_node"])?;
        self.alone.get(host).map(|whose| (*whose, true))
    }
}
