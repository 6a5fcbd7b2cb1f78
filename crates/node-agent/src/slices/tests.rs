//! Tokens on a kubelet of the tests: pods that start at once, again, half, without a decision, and beyond what there is.

use super::serving::Serving;
use super::start::{NodeFacts, Pods, Starter};
use super::store::{NodeParts, Store};
use super::sweep::Sweep;
use super::{offer, token_holders};
use crate::dra::NodeNews;
use carve_bookings::{Compute, ContainerSlices, Gpu, InitState, Offer, Slice, Slices, Stage};
use carve_cluster_api::{PodView, names};
use carve_dra_driver::{ContextMemory, NodeFiles, Places};
use carve_gpu_host::{GpuHost, Machine, SimulatedHost};
use carve_gpu_model::{GpuUuid, Mebibytes};
use carve_kubelet_api::device_plugin::{
    AllocateRequest, ContainerAllocateRequest, DevicePluginClient, PreStartContainerRequest,
};
use carve_limiter_host::Share;
use carve_slicing::cdi::HookPath;
use carve_slicing::{MigMinors, NodeGpus, slice_file_name};
use carve_test_support::FakeKubelet;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tonic::transport::Channel;

/// An API server that has these pods, or is away.
#[derive(Clone, Default)]
struct FakePods(Arc<Mutex<Option<BTreeMap<String, PodView>>>>);

#[tonic::async_trait]
impl Pods for FakePods {
    async fn pod(&self, namespace: &str, name: &str) -> Result<Option<PodView>, String> {
        let pods = self.0.lock().expect("no test panics with it");
        let pods = pods.as_ref().ok_or("connection refused")?;
        Ok(pods.get(&format!("{namespace}/{name}")).cloned())
    }

    fn node(&self) -> &str {
        "node0"
    }
}

/// A part of a GPU by its number: memory in MiB, compute in thousandths.
type Part = (u32, u64, u32);

fn gpu(number: u32) -> GpuUuid {
    GpuUuid(format!("GPU-{number}"))
}

fn container(name: &str, parts: &[Part]) -> ContainerSlices {
    let slice = |&(number, memory, compute): &Part| Slice {
        gpu: gpu(number),
        memory: Mebibytes(memory),
        compute: Compute(compute),
        burst: false,
    };
    ContainerSlices { name: name.to_owned(), stage: Stage::Main, slices: parts.iter().map(slice).collect() }
}

impl FakePods {
    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, PodView>)) {
        change(self.0.lock().expect("no test panics with it").get_or_insert_default());
    }

    fn add(&self, name: &str, containers: Option<Vec<ContainerSlices>>) {
        let slices = containers.map(|containers| Slices { containers }.to_annotation());
        let view = PodView {
            namespace: "default".to_owned(),
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            workload: format!("Pod/{name}"),
            since: None,
            node: Some("node0".to_owned()),
            labels: BTreeMap::new(),
            annotations: slices.map(|text| (names::SLICES.to_owned(), text)).into_iter().collect(),
            programs: Vec::new(),
            containers: Default::default(),
            init: BTreeMap::new(),
            ending: false,
            ended: false,
        };
        self.change(|pods| drop(pods.insert(format!("default/{name}"), view)));
    }
}

struct Node {
    folder: tempfile::TempDir,
    kubelet: FakeKubelet,
    pods: FakePods,
    facts: watch::Sender<NodeFacts>,
    door: Option<Serving>,
}

impl Node {
    /// With two GPUs of 16000 MiB.
    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let kubelet = FakeKubelet::start(folder.path()).await;
        let one = |number| Gpu {
            uuid: gpu(number),
            product: "T4".to_owned(),
            memory: Mebibytes(16_000),
            withheld: None,
        };
        let files = NodeFiles { hook: HookPath::new("/carve"), ..NodeFiles::default() };
        let minors = BTreeMap::from([(gpu(0), 4), (gpu(1), 5)]);
        let parts = NodeParts { files, minors };
        let (facts, _) = watch::channel(NodeFacts { offer: Offer { gpus: vec![one(0), one(1)] }, parts });
        Node { folder, kubelet, pods: FakePods::default(), facts, door: None }
    }

    fn store(&self) -> Store {
        let at = |name: &str| self.folder.path().join(name);
        let places = Places {
            mps_root: "/mps".to_owned(),
            limits: at("limits"),
            limiter: Some(PathBuf::from("/lib/limiter.so")),
        };
        Store { folder: at("state/slices"), cdi_folder: at("cdi"), places, context: ContextMemory::Told(0) }
    }

    /// A new agent, whatever became of the one before.
    async fn open(&mut self) -> DevicePluginClient<Channel> {
        drop(self.door.take());
        let starter = Starter {
            pod_resources: self.kubelet.pod_resources(),
            pods: Box::new(self.pods.clone()),
            facts: self.facts.subscribe(),
            store: self.store(),
            turn: Default::default(),
        };
        let mut door = Serving::new(self.kubelet.socket(), Arc::new(starter));
        door.look_after().await;
        self.door = Some(door);
        self.kubelet.plugin(names::SLICE).await
    }

    /// The device nodes and limits that a token leads to.
    fn given(&self, token: &str) -> Option<(Vec<String>, u64, u32)> {
        let text = std::fs::read(self.store().cdi_folder.join(slice_file_name(token))).ok()?;
        let spec: Value = serde_json::from_slice(&text).expect("a CDI file is there whole");
        let edits = &spec["devices"][0]["containerEdits"];
        let all = |list: &str, field: &str| -> Vec<String> {
            let one = |entry: &Value| entry[field].as_str().expect("text").to_owned();
            edits[list].as_array().expect("a list").iter().map(one).collect()
        };
        let nodes = all("deviceNodes", "path");
        let limits = all("mounts", "hostPath").into_iter().map(PathBuf::from);
        let limits = { limits }.find(|path: &PathBuf| path.to_string_lossy().contains("/limits/GPU-"));
        let limits = limits.expect("limits are mounted");
        let name =
            |path: &std::path::Path| path.file_name().expect("a name").to_str().expect("text").to_owned();
        let part = limits.parent().expect("a folder");
        let root = part.parent().and_then(std::path::Path::parent).expect("a folder");
        let share = Share::open(root, &name(part), &name(&limits)).expect("limits");
        Some((nodes, share.limits().memory >> 20, share.limits().compute))
    }

    async fn sweep(&self, sweep: &mut Sweep) -> Vec<String> {
        let holders = token_holders(&self.kubelet.pod_resources()).await.expect("a list");
        sweep.look(&holders, Instant::now()).expect("a look")
    }
}

async fn start(plugin: &DevicePluginClient<Channel>, tokens: &[&str]) -> Result<(), String> {
    let devices_ids = tokens.iter().map(|&token| token.to_owned()).collect();
    let answer = plugin.clone().pre_start_container(PreStartContainerRequest { devices_ids }).await;
    answer.map(drop).map_err(|status| status.message().to_owned())
}

fn on(minor: u32, memory: u64, compute: u32) -> Option<(Vec<String>, u64, u32)> {
    Some((vec![format!("/dev/nvidia{minor}")], memory, compute))
}

#[tokio::test]
async fn kubelet_is_told_of_tokens_and_of_nothing_else() {
    let mut node = Node::new().await;
    let mut plugin = node.open().await;
    assert_eq!(node.kubelet.registered().into_keys().collect::<Vec<_>>(), [names::SLICE]);
    let options = node.kubelet.registered()[names::SLICE].options.expect("options");
    assert!(options.pre_start_required);
    let devices = node.kubelet.devices(names::SLICE).await;
    assert_eq!(devices.len(), 32);
    assert_eq!((devices[0].id.as_str(), devices[0].health.as_str()), ("slice-000", "Healthy"));
    let request = ContainerAllocateRequest { devices_ids: vec!["slice-003".to_owned()] };
    let answer = plugin.allocate(AllocateRequest { container_requests: vec![request] }).await;
    let answer = answer.expect("an answer").into_inner().container_responses.remove(0);
    assert_eq!(answer.cdi_devices[0].name, "carve.dev/slice=slice-003");
    assert!(answer.envs.is_empty() && answer.mounts.is_empty() && answer.devices.is_empty());
}

#[tokio::test]
async fn pods_that_start_at_once_get_each_its_own() {
    let mut node = Node::new().await;
    let plugin = node.open().await;
    // Tokens were given in one order, decisions made in another, and containers start in a third.
    for (token, pod) in [("slice-000", "b"), ("slice-001", "a"), ("slice-002", "c"), ("slice-003", "c")] {
        node.kubelet.hold(names::SLICE, token, pod);
    }
    node.pods.add("a", Some(vec![container("main", &[(0, 4_000, 250)])]));
    node.pods.add("b", Some(vec![container("main", &[(1, 8_000, 500)])]));
    node.pods.add("c", Some(vec![container("main", &[(1, 1_000, 100), (0, 2_000, 200)])]));
    let (c, a, b) = tokio::join!(
        start(&plugin, &["slice-003", "slice-002"]),
        start(&plugin, &["slice-001"]),
        start(&plugin, &["slice-000"]),
    );
    assert_eq!((a, b, c), (Ok(()), Ok(()), Ok(())));
    assert_eq!(node.given("slice-001"), on(4, 4_000, 2_500));
    assert_eq!(node.given("slice-000"), on(5, 8_000, 5_000));
    assert_eq!(node.given("slice-002"), on(5, 1_000, 1_000));
    assert_eq!(node.given("slice-003"), on(4, 2_000, 2_000));
    // Whoever gives turns finds them by GPU.
    let shares = node.store().shares().expect("records");
    let named = |uid: &str, share: &str| (uid.to_owned(), share.to_owned());
    let first = BTreeSet::from([named("uid-a", "main.slice-001"), named("uid-c", "main.slice-003")]);
    assert_eq!(shares["GPU-0"], first);
    let second = BTreeSet::from([named("uid-b", "main.slice-000"), named("uid-c", "main.slice-002")]);
    assert_eq!(shares["GPU-1"], second);
}

#[tokio::test]
async fn a_container_that_restarts_gets_the_same_again() {
    let mut node = Node::new().await;
    let plugin = node.open().await;
    node.kubelet.hold(names::SLICE, "slice-000", "a");
    // All of a GPU: there is room for it once only.
    node.pods.add("a", Some(vec![container("main", &[(0, 16_000, 1_000)])]));
    assert_eq!(start(&plugin, &["slice-000"]).await, Ok(()));
    let before = node.given("slice-000");
    assert_eq!(start(&plugin, &["slice-000"]).await, Ok(()));
    let plugin = node.open().await;
    assert_eq!(start(&plugin, &["slice-000"]).await, Ok(()));
    assert_eq!(node.given("slice-000"), before);
    assert_eq!(before, on(4, 16_000, 10_000));
}

#[tokio::test]
async fn what_was_begun_by_one_agent_is_ended_by_the_next() {
    let mut node = Node::new().await;
    node.kubelet.hold(names::SLICE, "slice-000", "a");
    node.kubelet.hold(names::SLICE, "slice-001", "b");
    node.pods.add("a", Some(vec![container("main", &[(0, 10_000, 500)])]));
    node.pods.add("b", Some(vec![container("main", &[(0, 10_000, 500)])]));
    // A file where a folder should be: it gets as far as the record and the limits.
    let cdi = node.store().cdi_folder;
    std::fs::write(&cdi, "").expect("a file");
    let plugin = node.open().await;
    assert!(start(&plugin, &["slice-000"]).await.is_err());
    assert!(node.store().records().expect("records").contains_key("uid-a"));
    assert_eq!(node.given("slice-000"), None);
    std::fs::remove_file(&cdi).expect("a file");
    let plugin = node.open().await;
    // What was begun is booked, so nobody else gets its room.
    let refused = start(&plugin, &["slice-001"]).await.expect_err("no room");
    assert!(refused.contains("beside default/a"), "{refused}");
    assert_eq!(start(&plugin, &["slice-000"]).await, Ok(()));
    assert_eq!(node.given("slice-000"), on(4, 10_000, 5_000));
}

#[tokio::test]
async fn whatever_is_missing_is_said() {
    let mut node = Node::new().await;
    let plugin = node.open().await;
    let said = |outcome: Result<(), String>, words: &str| {
        let why = outcome.expect_err("it must not start");
        assert!(why.contains(words), "{why}");
    };
    said(start(&plugin, &["slice-000"]).await, "kubelet does not say which pod has slice-000");
    node.kubelet.hold(names::SLICE, "slice-000", "a");
    said(start(&plugin, &["slice-000"]).await, "can not be read from the API server");
    node.pods.change(|_| ());
    said(start(&plugin, &["slice-000"]).await, "the API server has no such pod");
    node.pods.add("a", None);
    said(start(&plugin, &["slice-000"]).await, "has no annotation carve.dev/slices");
    node.pods.change(|pods| {
        let view = pods.get_mut("default/a").expect("a pod");
        view.annotations.insert(names::SLICES.to_owned(), "{}".to_owned());
    });
    said(start(&plugin, &["slice-000"]).await, "do not read");
    node.pods.add("a", Some(vec![container("main", &[(0, 1, 1), (1, 1, 1)])]));
    said(start(&plugin, &["slice-000"]).await, "gives it 2 part(s)");
    node.pods.add("a", Some(vec![container("main", &[(7, 1, 1)])]));
    said(start(&plugin, &["slice-000"]).await, "no such GPU");
    node.pods.add("a", Some(vec![container("main", &[(0, 1, 1)])]));
    node.facts.send_modify(|facts| facts.offer.gpus[0].withheld = Some("XID 79".to_owned()));
    said(start(&plugin, &["slice-000"]).await, "withheld: XID 79");
    node.pods.change(|pods| pods.get_mut("default/a").expect("a pod").node = Some("node1".to_owned()));
    said(start(&plugin, &["slice-000"]).await, "belongs to node node1");
    assert_eq!(node.given("slice-000"), None);
    assert!(node.store().records().expect("records").is_empty());
}

#[tokio::test]
async fn too_much_is_refused_until_the_other_has_ended() {
    let mut node = Node::new().await;
    let plugin = node.open().await;
    for (token, pod) in [("slice-000", "a"), ("slice-001", "b")] {
        node.kubelet.hold(names::SLICE, token, pod);
        node.pods.add(pod, Some(vec![container("main", &[(0, 9_000, 500)])]));
    }
    assert_eq!(start(&plugin, &["slice-000"]).await, Ok(()));
    let refused = start(&plugin, &["slice-001"]).await.expect_err("no room");
    assert!(refused.contains("7000 MiB and 50.0 % are left beside default/a"), "{refused}");
    assert_eq!(node.given("slice-001"), None);
    // Kubelet goes on listing a pod that has ended, until the pod is deleted.
    node.pods.change(|pods| pods.get_mut("default/a").expect("a pod").ended = true);
    assert_eq!(start(&plugin, &["slice-001"]).await, Ok(()));
    // And gives its token to another one meanwhile.
    node.kubelet.hold(names::SLICE, "slice-000", "c");
    node.pods.add("c", Some(vec![container("main", &[(1, 3_000, 300)])]));
    assert_eq!(start(&plugin, &["slice-000"]).await, Ok(()));
    assert_eq!(node.given("slice-000"), on(5, 3_000, 3_000));
    let records: BTreeSet<String> = node.store().records().expect("records").into_keys().collect();
    assert_eq!(records, BTreeSet::from(["uid-b".to_owned(), "uid-c".to_owned()]));
    assert!(!node.store().places.shares_of("uid-a").exists());
}

#[tokio::test]
async fn what_ended_pods_had_is_removed_and_nothing_else() {
    let mut node = Node::new().await;
    let plugin = node.open().await;
    for (token, pod) in [("slice-000", "a"), ("slice-001", "b")] {
        node.kubelet.hold(names::SLICE, token, pod);
        node.pods.add(pod, Some(vec![container("main", &[(0, 2_000, 100)])]));
        assert_eq!(start(&plugin, &[token]).await, Ok(()));
    }
    let cdi = node.store().cdi_folder;
    std::fs::write(cdi.join(slice_file_name("slice-009")), "{}").expect("a file without a record");
    std::fs::write(cdi.join("nvidia.yaml"), "{}").expect("a file of somebody else");
    let mut sweep = Sweep::new(node.store(), Duration::ZERO);
    assert!(node.sweep(&mut sweep).await.is_empty());
    assert!(!cdi.join(slice_file_name("slice-009")).exists());
    node.kubelet.release("a");
    // Once may be a kubelet that has just started.
    assert!(node.sweep(&mut sweep).await.is_empty());
    assert!(node.given("slice-000").is_some());
    assert_eq!(node.sweep(&mut sweep).await, ["default/a"]);
    assert_eq!(node.given("slice-000"), None);
    assert!(!node.store().places.shares_of("uid-a").exists());
    assert_eq!(node.given("slice-001"), on(4, 2_000, 1_000));
    assert!(cdi.join("nvidia.yaml").exists());
}

#[tokio::test]
async fn a_pod_that_is_listed_again_in_time_keeps_everything() {
    let mut node = Node::new().await;
    let plugin = node.open().await;
    node.kubelet.hold(names::SLICE, "slice-000", "a");
    node.pods.add("a", Some(vec![container("main", &[(0, 2_000, 100)])]));
    assert_eq!(start(&plugin, &["slice-000"]).await, Ok(()));
    let mut sweep = Sweep::new(node.store(), Duration::ZERO);
    for _ in 0..3 {
        node.kubelet.release("a");
        assert!(node.sweep(&mut sweep).await.is_empty());
        node.kubelet.hold(names::SLICE, "slice-000", "a");
        assert!(node.sweep(&mut sweep).await.is_empty());
    }
    assert_eq!(node.given("slice-000"), on(4, 2_000, 1_000));
}

#[test]
fn the_offer_names_every_gpu_that_mig_does_not_divide() {
    let host = SimulatedHost::new(Machine::named("p4de.24xlarge").expect("a machine"));
    let mut node = NodeGpus::read(&host, &MigMinors::default()).expect("a reading");
    node.gpus.truncate(3);
    node.gpus[0].mig_enabled = true;
    let sick = node.gpus[2].part();
    let memory = host.memory(node.gpus[1].gpu.index).expect("memory");
    let news = NodeNews { node, sick: BTreeMap::from([(sick, "XID 79".to_owned())]), runtime: None };
    let offered = offer::offer(&news);
    assert_eq!(offered.gpus.len(), 2);
    assert_eq!(offered.gpus[0].withheld, None);
    assert_eq!(offered.gpus[0].memory.0, (memory.total.0 - memory.reserved.0) >> 20);
    assert_eq!(offered.gpus[1].withheld.as_deref(), Some("XID 79"));
    let sums = offer::sums(&offered);
    assert_eq!(sums[names::COMPUTE], "200");
    assert_eq!(sums[names::MEMORY], (2 * offered.gpus[0].memory.0).to_string());
}

#[tokio::test]
async fn an_init_container_and_the_one_after_it_get_each_its_own_with_one_token() {
    let mut node = Node::new().await;
    let plugin = node.open().await;
    node.kubelet.hold(names::SLICE, "slice-000", "a");
    let load = ContainerSlices { stage: Stage::Init, ..container("load", &[(0, 9_000, 500)]) };
    node.pods.add("a", Some(vec![load, container("main", &[(1, 4_000, 250)])]));
    let heard = |pods: &FakePods, state: InitState| {
        pods.change(|pods| {
            let init = &mut pods.get_mut("default/a").expect("the pod").init;
            init.insert("load".to_owned(), state);
        });
    };
    start(&plugin, &["slice-000"]).await.expect("it starts");
    assert_eq!(node.given("slice-000"), on(4, 9_000, 5_000));
    // The API server hears that it has ended while kubelet starts the next.
    heard(&node.pods, InitState::Running);
    let pods = node.pods.clone();
    let hears = async move {
        tokio::time::sleep(Duration::from_millis(400)).await;
        heard(&pods, InitState::Done);
    };
    let (started, ()) = tokio::join!(start(&plugin, &["slice-000"]), hears);
    started.expect("it starts");
    assert_eq!(node.given("slice-000"), on(5, 4_000, 2_500));
}
