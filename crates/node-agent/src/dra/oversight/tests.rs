//! The whole look, on a simulated machine, shares in a folder, and a folder that stands in for `/proc`.

use super::{Beginning, Oversight, shown_on};
use crate::dra::NodeNews;
use crate::dra::on_record::of_claims;
use crate::holders::ClaimHeld;
use crate::machine::{Machine, OpenHost};
use crate::metrics::Metrics;
use carve_dra_driver::{ClaimRecord, DeviceRecord, RecordStore, Stage, UsageRecord};
use carve_gpu_host::{GpuHost, ModeOutcome, SimulatedHost};
use carve_gpu_model::{Bytes, ComputeProfileIndex, GpuIndex};
use carve_limiter_host::{Limits, Owner, Share};
use carve_sim_store::SharedMachine;
use carve_slicing::{Holder, MigMinors, NodeGpus};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::watch;

const GPU: GpuIndex = GpuIndex(0);
const UID: &str = "11111111-2222-3333-4444-555555555555";
const POD: &str = "0c5f1f7e-8a6d-4a53-9d33-1f2b3c4d5e6f";
const MIB: u64 = 1 << 20;

/// A node with one GPU and one claim on it.
struct Node {
    folder: tempfile::TempDir,
    world: SharedMachine,
    machine: Machine,
    gpu: String,
    metrics: Arc<Metrics>,
    _held: watch::Sender<Vec<ClaimHeld>>,
    holders: watch::Receiver<Vec<ClaimHeld>>,
    _news: watch::Sender<NodeNews>,
    news: watch::Receiver<NodeNews>,
}

/// What a slot holds, at its place in the file.
#[derive(Debug, Clone, Copy)]
enum Field {
    Owner = 0,
    Namespace = 1,
    Held = 2,
    Denials = 4,
    Busy = 5,
    Throttled = 6,
    Launches = 7,
    Trouble = 10,
}

impl Node {
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("machine.json");
        let named = carve_gpu_host::Machine::named("h200-141gb:1").expect("a machine");
        let world = SharedMachine::open(&state, named).expect("a machine");
        let open: OpenHost = Arc::new(move || {
            SharedMachine::attach(&state)
                .map(|host| Box::new(host) as Box<dyn GpuHost>)
                .map_err(|error| error.to_string())
        });
        let machine = Machine::open(&open).await.expect("a machine");
        let node = NodeGpus::read(&world, &MigMinors::default()).expect("GPUs");
        let gpu = node.gpus[0].gpu.uuid.0.clone();
        let (news_in, news) = watch::channel(NodeNews { node, sick: BTreeMap::new(), runtime: None });
        let holder = Holder { namespace: "team".into(), pod: "web-0".into(), container: "main".into() };
        let held = ClaimHeld {
            holder,
            claim_namespace: "team".into(),
            claim: "web".into(),
            driver: "gpu.carve.dev".into(),
            device: "gpu-0-frac".into(),
            share: Some("s1".into()),
        };
        let (held_in, holders) = watch::channel(vec![held]);
        let node = Node {
            folder,
            world,
            machine,
            gpu,
            metrics: Arc::new(Metrics::new()),
            _held: held_in,
            holders,
            _news: news_in,
            news,
        };
        let limits =
            Limits { memory: 100 * MIB, compute: 2_500, context: 0, burst: false, pass: false, mps: false };
        Share::create(&node.path("limits").join(UID), &node.gpu, "s1", &limits).expect("a share");
        fs::create_dir_all(node.store().folder()).expect("a folder");
        node.store().put(&node.record()).expect("a record");
        node.process("self", 1, "1", "agent", None);
        node
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn store(&self) -> RecordStore {
        RecordStore::of_agent(self.folder.path())
    }

    fn record(&self) -> ClaimRecord {
        ClaimRecord {
            boot: "b".to_owned(),
            namespace: "team".to_owned(),
            name: "web".to_owned(),
            uid: UID.to_owned(),
            stage: Stage::Ready,
            devices: vec![DeviceRecord {
                request: "gpu".to_owned(),
                device: "gpu-0-frac".to_owned(),
                share: Some("s1".to_owned()),
                gpu: self.gpu.clone(),
                part: Some(self.gpu.clone()),
                guards: None,
                usage: UsageRecord::Fraction { memory: 100, compute: 25, burst: false, pass: false },
            }],
        }
    }

    /// An agent that begins to look.
    fn oversight(&self) -> Oversight {
        Oversight::new(Beginning {
            machine: self.machine.clone(),
            metrics: Arc::clone(&self.metrics),
            known: Arc::default(),
            on_record: of_claims(self.store(), "b".to_owned(), self.holders.clone()),
            driver: "gpu.carve.dev".to_owned(),
            root: self.path("limits"),
            proc: self.path("proc"),
            own_pod: None,
            charges: true,
            news: self.news.clone(),
        })
    }

    /// A process with its number on the host, its start, and its numbers in namespaces; one with two is in a container.
    fn process(&self, pid: &str, start: u64, numbers: &str, name: &str, pod: Option<&str>) {
        let folder = self.path("proc").join(pid);
        fs::create_dir_all(folder.join("ns")).expect("a folder");
        let kind = if numbers.contains(' ') { "of the container" } else { "of the host" };
        let namespace = self.path("proc").join(kind);
        if !namespace.exists() {
            fs::write(&namespace, "").expect("a namespace");
        }
        fs::hard_link(&namespace, folder.join("ns/pid")).expect("a namespace");
        let stat = format!("{pid} ({name}) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0 0");
        let cgroup =
            pod.map_or_else(|| "0::/system.slice\n".to_owned(), |uid| format!("0::/kubepods/pod{uid}/c\n"));
        let status = format!("Name:\t{name}\nNSpid:\t{}\n", numbers.replace(' ', "\t"));
        for (file, text) in
            [("stat", stat), ("status", status), ("comm", format!("{name}\n")), ("cgroup", cgroup)]
        {
            fs::write(folder.join(file), text).expect("a file");
        }
    }

    fn container_namespace(&self) -> u64 {
        fs::metadata(self.path("proc").join("of the container")).expect("a namespace").ino()
    }

    fn on_gpu(&mut self, pid: u32, bytes: u64) {
        let started = self.world.change_world(|host| host.start_process(GPU, None, pid, Bytes(bytes), 0));
        started.expect("the file").expect("started");
    }

    fn usage_file(&self) -> File {
        let path = self.path("limits").join(UID).join("usage").join(&self.gpu).join("s1");
        File::options().write(true).open(path).expect("the file")
    }

    /// Writes into the first slot, as the limiter does in the container.
    fn write(&self, fields: &[(Field, u64)]) {
        let file = self.usage_file();
        file.write_all_at(&1u32.to_le_bytes(), 12).expect("how many slots were reached");
        for (field, value) in fields {
            file.write_all_at(&value.to_le_bytes(), 64 + 8 * *field as u64).expect("a field");
        }
    }

    /// The value of the only series of a name.
    fn value(&self, name: &str) -> Option<f64> {
        let text = self.metrics.text();
        let start = format!("carve_agent_{name}{{");
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(&start)).collect();
        assert!(lines.len() < 2, "{lines:?}");
        lines
            .first()
            .map(|line| line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number"))
    }
}

fn said(warnings: &[(&'static str, String)], reason: &str) -> Vec<String> {
    warnings.iter().filter(|(one, _)| *one == reason).map(|(_, message)| message.clone()).collect()
}

#[tokio::test]
async fn what_a_share_uses_is_told_and_who_escapes_is_found() {
    let mut node = Node::new().await;
    node.process("100", 77, "100 5", "python3", Some(POD));
    node.process("200", 88, "200 6", "static", Some(POD));
    node.process("300", 99, "300", "nvidia-cuda-mps", None);
    node.process("310", 99, "310 7", "nvidia-cuda-mps", Some(POD));
    node.write(&[
        (Field::Owner, Owner::new(5, 77).to_bits()),
        (Field::Namespace, node.container_namespace()),
        (Field::Held, 30 * MIB),
        (Field::Denials, 2),
        (Field::Busy, 1_000),
        (Field::Throttled, 2_000_000_000),
        (Field::Launches, 9),
    ]);
    for (pid, bytes) in [(100, 80 * MIB), (200, 40 * MIB), (300, 10 * MIB), (310, MIB), (400, MIB)] {
        node.on_gpu(pid, bytes);
    }
    let mut agent = node.oversight();
    assert_eq!(agent.look().await, [], "who came just now may be counted in a moment");
    assert_eq!(node.value("escaped_processes"), Some(0.0));
    let second = agent.look().await;
    let escaped = said(&second, "LimiterEscaped");
    assert_eq!(escaped.len(), 2, "{second:?}");
    for word in ["process 200 (static)", POD, &node.gpu, "40 MiB"] {
        assert!(escaped[0].contains(word), "{word}: {}", escaped[0]);
    }
    assert!(escaped[1].contains("process 310"), "a server in a pod is none: {}", escaped[1]);
    let blind = said(&second, "LimiterNotWatched");
    assert!(blind.len() == 1 && blind[0].contains("process 400"), "{second:?}");
    assert_eq!(agent.look().await, [], "everything was said");
    for (name, wanted) in [
        ("escaped_processes", 2.0),
        ("share_gpu_seconds_total", 1e-6),
        ("share_throttled_seconds_total", 2.0),
        ("share_memory_bytes", (30 * MIB) as f64),
        ("share_memory_limit_bytes", (100 * MIB) as f64),
        ("share_compute_limit_ratio", 0.25),
        ("share_memory_denials_total", 2.0),
        ("share_launches_total", 9.0),
        ("share_processes", 1.0),
        ("share_beside_bytes", (50 * MIB) as f64),
        ("share_mechanism", 1.0),
    ] {
        assert_eq!(node.value(name), Some(wanted), "{name}\n{}", node.metrics.text());
    }
    let labels = format!(
        "carve_agent_share_mechanism{{namespace=\"team\",pod=\"web-0\",container=\"main\",claim=\"web\",claim_namespace=\"team\",\
         device=\"gpu-0-frac\",share=\"s1\",uuid=\"{}\",mechanism=\"limiter\"}} 1",
        node.gpu
    );
    assert!(node.metrics.text().lines().any(|line| line == labels), "{}", node.metrics.text());

    // The process dies without a word: what it held is free, what it used stays.
    for pid in ["100", "200", "310"] {
        fs::remove_dir_all(node.path("proc").join(pid)).expect("all of the container end");
    }
    node.world.change_world(|host| host.end_process(100)).expect("it ends");
    agent.look().await;
    let now = ["share_memory_bytes", "share_processes", "share_launches_total"].map(|name| node.value(name));
    assert_eq!(now, [Some(0.0), Some(0.0), Some(9.0)]);

    node.store().remove(UID).expect("the claim goes");
    agent.look().await;
    assert!(!node.metrics.text().contains("carve_agent_share_"), "{}", node.metrics.text());
    assert_eq!(node.value("escaped_processes"), None);
}

#[tokio::test]
async fn what_processes_have_beyond_what_they_count_is_charged_to_their_share() {
    let mut node = Node::new().await;
    let share = Share::open(&node.path("limits").join(UID), &node.gpu, "s1").expect("the share");
    node.process("100", 77, "100 5", "python3", Some(POD));
    node.write(&[
        (Field::Owner, Owner::new(5, 77).to_bits()),
        (Field::Namespace, node.container_namespace()),
        (Field::Held, 30 * MIB),
    ]);
    node.on_gpu(100, 80 * MIB);
    let mut agent = node.oversight();
    for _ in 0..4 {
        agent.look().await;
        assert_eq!(share.overhead(), 0, "one look may be between an allocation and its count");
    }
    agent.look().await;
    assert_eq!(share.overhead(), 50 * MIB);
    agent.look().await;
    assert_eq!(node.value("share_overhead_bytes"), Some((50 * MIB) as f64));

    // What it frees it no longer counts, whatever the driver still shows.
    node.write(&[(Field::Held, 10 * MIB)]);
    agent.look().await;
    assert_eq!(share.overhead(), 50 * MIB);

    // The next agent leaves it as it is until it knows better; and then the process is gone.
    let mut next = node.oversight();
    next.look().await;
    assert_eq!(share.overhead(), 50 * MIB);
    fs::remove_dir_all(node.path("proc/100")).expect("it ends");
    node.world.change_world(|host| host.end_process(100)).expect("it ends");
    agent.look().await;
    assert_eq!(share.overhead(), 0);
}

#[tokio::test]
async fn contexts_that_are_to_be_beside_shares_are_not_charged() {
    let mut node = Node::new().await;
    let share = Share::open(&node.path("limits").join(UID), &node.gpu, "s1").expect("the share");
    node.process("100", 77, "100 5", "python3", Some(POD));
    node.write(&[
        (Field::Owner, Owner::new(5, 77).to_bits()),
        (Field::Namespace, node.container_namespace()),
        (Field::Held, 30 * MIB),
    ]);
    node.on_gpu(100, 80 * MIB);
    let mut agent = node.oversight();
    agent.accounts.as_mut().expect("accounts").charges = false;
    for _ in 0..6 {
        agent.look().await;
    }
    assert_eq!((share.overhead(), node.value("share_beside_bytes")), (0, Some((50 * MIB) as f64)));
}

/// The same claim over MPS.
#[tokio::test]
async fn what_clients_of_mps_use_is_told_and_nobody_escapes_who_is_not_counted() {
    let mut node = Node::new().await;
    let mut record = node.record();
    record.devices[0].usage = UsageRecord::Mps {
        daemon_memory: Some(90),
        daemon_threads: 100,
        memory: Some(100),
        threads: Some(40),
        counted: Some(100),
    };
    node.store().put(&record).expect("a record");
    let limits =
        Limits { memory: 100 * MIB, compute: 4_000, context: 0, burst: false, pass: true, mps: true };
    Share::create(&node.path("limits").join(UID), &node.gpu, "s1", &limits).expect("a share");
    node.process("100", 77, "100 5", "python3", Some(POD));
    node.process("200", 88, "200 6", "static", Some(POD));
    node.write(&[
        (Field::Owner, Owner::new(5, 77).to_bits()),
        (Field::Namespace, node.container_namespace()),
        (Field::Held, 30 * MIB),
        (Field::Busy, 1_000),
        (Field::Launches, 9),
    ]);
    for (pid, bytes) in [(100, 80 * MIB), (200, 40 * MIB), (400, MIB)] {
        node.on_gpu(pid, bytes);
    }
    let mut agent = node.oversight();
    for _ in 0..3 {
        assert_eq!(agent.look().await, [], "the daemon holds whoever is not counted, too");
    }
    for (name, wanted) in [
        ("escaped_processes", None),
        ("share_gpu_seconds_total", Some(1e-6)),
        ("share_memory_bytes", Some((30 * MIB) as f64)),
        ("share_memory_limit_bytes", Some((100 * MIB) as f64)),
        ("share_compute_limit_ratio", Some(0.4)),
        ("share_launches_total", Some(9.0)),
        ("share_beside_bytes", Some((50 * MIB) as f64)),
        ("share_overhead_bytes", Some(0.0)),
    ] {
        assert_eq!(node.value(name), wanted, "{name}\n{}", node.metrics.text());
    }
    assert!(node.metrics.text().contains("mechanism=\"mps\"} 1"), "{}", node.metrics.text());
    let kept = fs::read_to_string(node.path("limits/metered.json")).expect("how far counters are");
    assert!(kept.contains(&format!("{UID}/{}/s1", node.gpu)), "{kept}");

    // One that was made ready without a limiter has no series.
    record.devices[0].usage = UsageRecord::Mps {
        daemon_memory: Some(90),
        daemon_threads: 100,
        memory: Some(100),
        threads: Some(40),
        counted: None,
    };
    node.store().put(&record).expect("a record");
    assert_eq!(agent.look().await, []);
    assert!(!node.metrics.text().contains("carve_agent_share_"), "{}", node.metrics.text());
}

#[tokio::test]
async fn counters_do_not_fall_whatever_a_container_writes_and_whoever_reads() {
    let node = Node::new().await;
    node.write(&[(Field::Busy, 5_000), (Field::Launches, 9)]);
    let mut agent = node.oversight();
    for _ in 0..2 {
        agent.look().await;
    }
    assert_eq!(node.value("share_gpu_seconds_total"), Some(5e-6));
    node.write(&[(Field::Busy, u64::MAX), (Field::Launches, 3)]);
    let mut agent = node.oversight();
    agent.look().await;
    let (gpu, launches) = (node.value("share_gpu_seconds_total"), node.value("share_launches_total"));
    assert_eq!(launches, Some(9.0), "an agent that was started again knows what was told");
    assert!(gpu >= Some(5e-6) && gpu < Some(60.0), "{gpu:?}");

    // A process makes the file shorter.
    node.usage_file().set_len(7).expect("shorter");
    assert_eq!(agent.look().await, []);
    let warned = agent.look().await;
    let words = said(&warned, "LimiterTrouble");
    assert!(
        words.len() == 1 && words[0].contains("team/web") && words[0].contains("no file that counts use"),
        "{warned:?}"
    );
    assert_eq!(agent.look().await, []);
    assert_eq!((node.value("share_launches_total"), node.value("share_memory_bytes")), (Some(9.0), None));
}

#[tokio::test]
async fn troubles_are_told_once_of_each_kind() {
    let node = Node::new().await;
    node.process("100", 77, "100 5", "python3", Some(POD));
    let owner = [(Field::Owner, Owner::new(5, 77).to_bits()), (Field::Namespace, node.container_namespace())];
    let mut agent = node.oversight();
    let mut told = Vec::new();
    for code in [0, 3, 3, 2, 77, 78, 3] {
        node.write(&[&owner[..], &[(Field::Trouble, code)]].concat());
        told.extend(said(&agent.look().await, "LimiterTrouble"));
    }
    assert_eq!(told.len(), 3, "{told:#?}");
    for (message, word) in told.iter().zip(["events", "allocations", "trouble 77"]) {
        assert!(message.starts_with("team/web on GPU-") && message.contains(word), "{message}");
        assert!(message.contains("To do: "), "{message}");
    }
}

#[tokio::test]
async fn many_at_once_are_summed_up() {
    let mut node = Node::new().await;
    for pid in 100..150 {
        node.process(&pid.to_string(), 77, &format!("{pid} 5"), "fork", Some(POD));
        node.on_gpu(pid, MIB);
    }
    let mut agent = node.oversight();
    agent.look().await;
    let warned = agent.look().await;
    assert!(warned.len() == 11 && warned[10].1.starts_with("40 more processes"), "{warned:#?}");
    assert_eq!(node.value("escaped_processes"), Some(50.0));
    assert_eq!(agent.look().await, []);
}

#[tokio::test]
async fn an_agent_that_sees_nobody_says_so_and_calls_nobody_an_escape() {
    let mut node = Node::new().await;
    node.process("100", 77, "100 5", "python3", Some(POD));
    node.on_gpu(100, MIB);
    let mut agent = node.oversight();
    agent.accounts.as_mut().expect("accounts").alone = true;
    let first = agent.look().await;
    assert!(
        first.len() == 1 && first[0].0 == "LimiterNotWatched" && first[0].1.contains("hostPID"),
        "{first:?}"
    );
    for _ in 0..2 {
        assert_eq!(agent.look().await, []);
    }
    assert_eq!((node.value("escaped_processes"), node.value("share_launches_total")), (None, Some(0.0)));
}

#[tokio::test]
async fn without_the_driver_use_is_told_all_the_same() {
    let mut node = Node::new().await;
    node.write(&[(Field::Launches, 4)]);
    node.world.change_world(|host| host.lose(GPU)).expect("the GPU is lost");
    node.oversight().look().await;
    assert_eq!((node.value("share_launches_total"), node.value("share_beside_bytes")), (Some(4.0), None));
    assert_eq!(node.value("escaped_processes"), None, "nobody looked");
}

/// A GPU that is cut in two; a process in each half.
#[test]
fn on_mig_devices_only_their_own_processes_count() {
    let named = carve_gpu_host::Machine::named("h200-141gb:1").expect("a machine");
    let mut host = SimulatedHost::new(named);
    if host.set_mig_mode(GPU, true).expect("MIG") == ModeOutcome::NeedsReset {
        host.reset(&[GPU]).expect("a reset");
    }
    let name = "3g.71gb".parse().expect("a profile");
    let table = host.profile_table(GPU).expect("a table");
    let (_, profile) = table.by_name(&name).expect("the profile");
    let mut placed = BTreeMap::new();
    for pid in [7, 8] {
        let instance = host.create_gpu_instance(GPU, profile.id, None).expect("an instance").id;
        let whole = ComputeProfileIndex::of_slices(profile.slices).expect("all of it");
        let compute = host.create_compute_instance(GPU, instance, whole).expect("a compute instance").id;
        host.start_process(GPU, Some((instance, compute)), pid, Bytes(1), 0).expect("started");
        placed.insert(instance, pid);
    }
    let devices = host.mig_devices(GPU).expect("devices");
    let parts = devices.iter().map(|device| device.uuid.0.clone());
    let shown = shown_on(&host, GPU, &parts.chain(["MIG-gone".to_owned()]).collect()).expect("shown");
    for device in &devices {
        let pids: Vec<u32> = shown[&device.uuid.0].iter().map(|process| process.pid).collect();
        assert_eq!(pids, [placed[&device.gpu_instance]]);
    }
    assert!(!shown.contains_key("MIG-gone"));
    let whole = host.gpus().expect("GPUs")[0].uuid.0.clone();
    assert_eq!(shown_on(&host, GPU, &BTreeSet::from([whole.clone()])).expect("shown")[&whole], []);
}
