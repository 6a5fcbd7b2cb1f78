//! What is told of containers and devices sums up, whatever is known of them, and who is gone is not told of.

use super::ask::{GpuSaid, Said};
use super::divide::Divider;
use super::known::{Facts, Known};
use super::tenant::{Counted, Mechanism, Tenant};
use super::who::Whose;
use crate::metrics::{Metrics, NodeLabels};
use carve_gpu_host::{BusyPart, GpuProcess, Machine, MemoryUse, ProcessKind, SimulatedHost};
use carve_gpu_model::{Bytes, GpuIndex};
use carve_slicing::{Holder, MigMinors, NodeGpus, Offer};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const GIB: u64 = 1 << 30;

/// A node with one GPU, and everything that is said of it.
struct Bench {
    known: Known,
    uuid: String,
    divider: Divider,
    held: Vec<Tenant>,
    processes: Vec<(u32, Whose, u64)>,
    start: Instant,
    now: Duration,
}

fn holder(pod: &str) -> Holder {
    Holder { namespace: "team".to_owned(), pod: pod.to_owned(), container: "main".to_owned() }
}

impl Bench {
    fn new() -> Self {
        let host = SimulatedHost::new(Machine::named("h200-141gb:1").unwrap());
        let node = NodeGpus::read(&host, &MigMinors::default()).unwrap();
        let known = Known::default();
        known.learn(&node, &Offer::default(), Default::default());
        Bench {
            uuid: node.gpus[0].gpu.uuid.0.clone(),
            known,
            divider: Divider::default(),
            held: Vec::new(),
            processes: Vec::new(),
            start: Instant::now(),
            now: Duration::ZERO,
        }
    }

    fn tenant(&self, pod: &str, mechanism: Mechanism, promised: Option<u32>) -> Tenant {
        Tenant { part: self.uuid.clone(), mechanism, promised, ..Tenant::of(holder(pod)) }
    }

    fn facts(&self) -> Facts {
        self.known.now()
    }

    /// So much time passes, in which the GPU was so busy in percent.
    fn pass(&mut self, milliseconds: u64, percent: f64, facts: &Facts) {
        self.now += Duration::from_millis(milliseconds);
        let processes = self.processes.iter().map(|(pid, _, bytes)| GpuProcess {
            pid: *pid,
            kind: ProcessKind::Compute,
            memory: Some(Bytes(*bytes)),
            gpu_instance: None,
            compute_instance: None,
        });
        let used = self.processes.iter().map(|(_, _, bytes)| bytes).sum::<u64>() + GIB / 2;
        let gpu = GpuSaid {
            memory: Some(MemoryUse { total: Bytes(141 * GIB), reserved: Bytes(0), used: Bytes(used) }),
            readings: None,
            utilisation: None,
            processes: processes.collect(),
        };
        let busy = (Some(BusyPart::from_percent(percent)), Some(self.start + self.now));
        let said = Said {
            gpus: BTreeMap::from([(GpuIndex(0), gpu)]),
            busy: BTreeMap::from([((GpuIndex(0), None), busy)]),
        };
        let whose = self.processes.iter().map(|(pid, whose, _)| (*pid, whose.clone())).collect();
        self.divider.divide(facts, &self.held, &said, &whose);
    }

    /// Everything that is told, by the first word of its line.
    fn told(&self) -> Told {
        let metrics = Metrics::new();
        metrics.node(NodeLabels { node: "node-a".to_owned(), driver: "580".to_owned() });
        metrics.usage(self.divider.rows(self.facts().node.as_ref().unwrap()));
        Told(metrics.text())
    }

    fn is_due(&mut self, facts: &Facts) -> bool {
        let now = self.start + self.now;
        !self.divider.due(facts, facts.node.as_ref().unwrap(), now).is_empty()
    }
}

struct Told(String);

impl Told {
    /// Values of all series of a name whose labels contain these words.
    fn values(&self, name: &str, words: &[&str]) -> Vec<f64> {
        let lines = self.0.lines().filter(|line| line.starts_with(&format!("{name}{{")));
        let lines = lines.filter(|line| words.iter().all(|word| line.contains(word)));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
    }

    fn sum(&self, name: &str) -> f64 {
        self.values(name, &[]).iter().sum()
    }
}

#[track_caller]
fn near(one: f64, other: f64) {
    assert!((one - other).abs() < 1e-6, "{one} is not {other}");
}

const SECONDS: &str = "carve_container_gpu_seconds_total";

#[test]
fn who_is_alone_has_what_the_device_did() {
    let mut bench = Bench::new();
    bench.held = vec![bench.tenant("a", Mechanism::Whole, None)];
    bench.processes = vec![(7, Whose::Container(holder("a")), 3 * GIB)];
    let facts = bench.facts();
    bench.pass(0, 0.0, &facts);
    bench.pass(1000, 80.0, &facts);
    bench.pass(1000, 40.0, &facts);
    let told = bench.told();
    let words = [r#"pod="a""#, r#"attribution="measured""#, r#"mechanism="whole""#];
    near(told.values(SECONDS, &words)[0], 1.2);
    near(
        told.values("DCGM_FI_DEV_GPU_UTIL", &[r#"pod="a""#, r#"Hostname="node-a",hostname="node-a""#])[0],
        40.0,
    );
    near(told.values("DCGM_FI_DEV_FB_USED", &[r#"pod="a""#])[0], 3.5 * 1024.0);
    near(told.values("carve_container_memory_used_bytes", &[r#"pod="a""#])[0], (3 * GIB) as f64);
    assert_eq!(told.values("DCGM_FI_DEV_FB_FREE", &[r#"pod="a""#]).len(), 1, "nobody else has the GPU");
}

#[test]
fn parts_of_those_who_take_turns_sum_up_to_the_device_and_the_gone_are_not_told() {
    let mut bench = Bench::new();
    bench.held = ["a", "b", "c"].map(|pod| bench.tenant(pod, Mechanism::TimeSlicing, None)).to_vec();
    bench.processes = vec![
        (7, Whose::Container(holder("a")), GIB),
        (8, Whose::Container(holder("b")), 2 * GIB),
        (9, Whose::Container(holder("c")), 3 * GIB),
    ];
    let facts = bench.facts();
    bench.pass(0, 0.0, &facts);
    bench.pass(1000, 60.0, &facts);
    let told = bench.told();
    assert_eq!(told.values(SECONDS, &[r#"attribution="equal""#]).len(), 3);
    near(told.sum(SECONDS), 0.6);
    near(told.sum("DCGM_FI_DEV_GPU_UTIL"), 60.0);
    near(told.sum("DCGM_FI_PROF_GR_ENGINE_ACTIVE"), 0.6);
    near(told.sum("DCGM_FI_DEV_FB_USED"), 6.5 * 1024.0);
    assert_eq!(told.values("DCGM_FI_DEV_FB_FREE", &[r#"pod=""#]).len(), 0, "it is nobody's alone");
    bench.held.pop();
    bench.processes.pop();
    bench.pass(1000, 60.0, &facts);
    let told = bench.told();
    assert!(!told.0.contains(r#"pod="c""#), "{}", told.0);
    near(told.sum(SECONDS) + told.sum("carve_gpu_former_seconds_total"), 1.2);
    near(told.sum("carve_gpu_busy_seconds_total"), 1.2);
}

#[test]
fn servers_of_mps_are_no_strangers_and_promises_divide_what_they_did() {
    let mut bench = Bench::new();
    bench.held =
        vec![bench.tenant("a", Mechanism::Mps, Some(250)), bench.tenant("b", Mechanism::Mps, Some(500))];
    bench.processes = vec![
        (5, Whose::Ours, GIB / 4),
        (7, Whose::Container(holder("a")), GIB),
        (8, Whose::Container(holder("b")), GIB),
    ];
    let facts = bench.facts();
    bench.pass(0, 0.0, &facts);
    bench.pass(1000, 90.0, &facts);
    let told = bench.told();
    near(told.values(SECONDS, &[r#"pod="a""#, r#"attribution="quota""#])[0], 0.3);
    near(told.values(SECONDS, &[r#"pod="b""#, r#"attribution="quota""#])[0], 0.6);
    near(told.sum("carve_gpu_unattributed_seconds_total"), 0.0);
    near(told.sum("carve_gpu_memory_unattributed_bytes"), (GIB / 4 + GIB / 2) as f64);
    // Somebody who has no part of it may have done any of it.
    bench.processes.push((9, Whose::Stranger, GIB));
    bench.pass(1000, 90.0, &facts);
    near(bench.told().sum("carve_gpu_unattributed_seconds_total"), 0.3);
}

#[test]
fn what_shares_count_is_compared_with_the_device_when_it_was_read() {
    let mut bench = Bench::new();
    let share = |bench: &Bench, pod: &str, busy: u64| Tenant {
        counted: vec![Counted { share: pod.to_owned(), busy }],
        memory_limit: Some(GIB),
        throttled: Some(1.5),
        denied: Some(2),
        ..bench.tenant(pod, Mechanism::Fraction, Some(250))
    };
    bench.processes = vec![(7, Whose::Container(holder("a")), GIB), (8, Whose::Container(holder("b")), GIB)];
    let mut facts = bench.facts();
    let shares = |bench: &Bench, looks: u64, a: u64, b: u64| {
        BTreeMap::from([("door".to_owned(), (looks, vec![share(bench, "a", a), share(bench, "b", b)]))])
    };
    // What was counted before anybody looked is of a time that is not divided.
    facts.shares = shares(&bench, 1, 5_000_000_000, 0);
    bench.pass(0, 0.0, &facts);
    bench.now += Duration::from_secs(1);
    assert!(!bench.is_due(&facts), "nobody has read what they counted since");
    facts.shares = shares(&bench, 2, 5_400_000_000, 200_000_000);
    assert!(bench.is_due(&facts));
    bench.pass(1000, 35.0, &facts);
    let told = bench.told();
    near(told.values(SECONDS, &[r#"pod="a""#, r#"attribution="limiter""#])[0], 0.4);
    near(told.values(SECONDS, &[r#"pod="b""#, r#"attribution="limiter""#])[0], 0.2);
    near(told.sum("carve_gpu_unattributed_seconds_total"), 0.1);
    near(told.values("carve_container_throttled_seconds_total", &[r#"pod="a""#])[0], 1.5);
    near(told.values("carve_container_denied_allocations_total", &[r#"pod="b""#])[0], 2.0);
    near(told.values("carve_container_memory_limit_bytes", &[r#"pod="b""#])[0], GIB as f64);
    near(told.values("carve_container_gpu_promised_ratio", &[r#"pod="b""#])[0], 0.25);
    // If nobody reads them any more, the device is told all the same.
    bench.now += Duration::from_secs(6);
    assert!(bench.is_due(&facts));
}

#[test]
fn five_hundred_containers_are_told_of_in_one_piece() {
    let mut bench = Bench::new();
    let pods: Vec<String> = (0..500).map(|number| format!("pod-{number}")).collect();
    bench.held = pods.iter().map(|pod| bench.tenant(pod, Mechanism::TimeSlicing, None)).collect();
    bench.processes =
        (1000..).zip(&pods).map(|(pid, pod)| (pid, Whose::Container(holder(pod)), GIB / 8)).collect();
    let facts = bench.facts();
    bench.pass(0, 0.0, &facts);
    bench.pass(1000, 100.0, &facts);
    let told = bench.told();
    assert_eq!(told.values(SECONDS, &[]).len(), 500);
    near(told.sum(SECONDS), 1.0);
    assert!((told.sum("DCGM_FI_DEV_GPU_UTIL") - 100.0).abs() < 1e-3);
}
