//! What people do with a cluster in one process, by the same objects as on a real one.

use carve_economics::Window;
use carve_fleet_picture::{Mechanism, Picture};
use carve_local_cluster::{Books, Fleet, LocalCluster, Machines, Seen};
use carve_object_api::{ObjectApi, kind_named};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

struct Lives {
    api: ObjectApi,
    books: Books,
    seen: Seen,
    stop: oneshot::Sender<()>,
    runs: JoinHandle<()>,
}

impl Lives {
    fn start(folder: Option<&Path>, fleet: Option<&str>) -> Self {
        let fleet = fleet.map(|text| Fleet::parse(text).expect("a fleet"));
        let machines = fleet.as_ref().map_or(Machines::Kept, Machines::Fleet);
        let cluster = LocalCluster::open(folder, machines).expect("a cluster");
        let (api, books, seen) = (cluster.api().clone(), cluster.books().clone(), cluster.seen());
        let (stop, stopped) = oneshot::channel();
        let runs = tokio::spawn(cluster.run(async { drop(stopped.await) }));
        Lives { api, books, seen, stop, runs }
    }

    async fn stop(self) {
        self.stop.send(()).expect("it runs");
        self.runs.await.expect("it ends");
    }

    fn picture(&self) -> Arc<Picture> {
        Arc::clone(&self.seen.borrow())
    }

    async fn until(&self, what: &str, holds: impl Fn(&Picture) -> bool) {
        let start = Instant::now();
        while !holds(&self.picture()) {
            assert!(start.elapsed() < Duration::from_secs(60), "{what}: {:#?}", self.picture().waiting);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn make(&self, plural: &str, object: Value) -> Result<(), String> {
        let kind = kind_named(plural).expect("a kind");
        let made = self.api.create(kind, "default", object).await;
        made.map(drop).map_err(|failure| failure.message)
    }

    async fn label(&self, node: &str, labels: Value) {
        let nodes: Api<Node> = Api::all(self.api.client());
        let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
        nodes.patch(node, &PatchParams::default(), &patch).await.expect("it is labelled");
    }

    async fn scale(&self, name: &str, replicas: i64) {
        let client = self.api.client();
        let deployments: Api<k8s_openapi::api::apps::v1::Deployment> = Api::default_namespaced(client);
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        deployments.patch_scale(name, &PatchParams::default(), &patch).await.expect("it is scaled");
    }

    fn node(&self, name: &str) -> Arc<Value> {
        self.api.get(kind_named("nodes").expect("a kind"), "", name).expect("a node")
    }
}

fn slices(picture: &Picture) -> Vec<&carve_fleet_picture::Slice> {
    picture.nodes.values().flat_map(|node| &node.gpus).flat_map(|gpu| &gpu.slices).collect()
}

fn pod_spec(limits: Value) -> Value {
    json!({"containers": [{"name": "main", "image": "cuda", "resources": {"limits": limits}}]})
}

fn deployment(name: &str, replicas: usize, limits: Value) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}}, "spec": pod_spec(limits),
        }},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_cuts_eight_gpus_into_fifty_six_and_a_hundred_pods_want_them() {
    let lives = Lives::start(None, Some("p4d.24xlarge=1"));
    lives.until("the machine is there", |picture| picture.nodes.len() == 1).await;
    assert_eq!(lives.node("p4d-1")["status"]["allocatable"]["nvidia.com/gpu"], "8");
    lives.label("p4d-1", json!({"nvidia.com/mig.config": "all-1g.5gb"})).await;
    lives
        .until("it is cut", |picture| picture.nodes["p4d-1"].gpus.iter().all(|gpu| gpu.instances.len() == 7))
        .await;
    lives
        .make("deployments", deployment("mig1-5", 1, json!({"nvidia.com/mig-1g.5gb": 1})))
        .await
        .expect("made");
    lives.until("one pod runs", |picture| slices(picture).iter().any(|slice| slice.how.is_some())).await;
    let node = lives.node("p4d-1");
    assert_eq!(node["status"]["allocatable"]["nvidia.com/gpu"], "0");
    assert_eq!(node["status"]["allocatable"]["nvidia.com/mig-1g.5gb"], "56");
    assert_eq!(node["metadata"]["labels"]["nvidia.com/mig.config.state"], "success");
    lives.scale("mig1-5", 100).await;
    lives
        .until("all devices are taken", |picture| slices(picture).len() == 56 && picture.waiting.len() == 44)
        .await;
    let picture = lives.picture();
    assert!(
        picture
            .waiting
            .values()
            .all(|waiting| waiting.workload == "Deployment/mig1-5" && waiting.asks == "1 × 1g.5gb")
    );
    lives
        .until("they say why they wait", |picture| {
            picture.waiting.values().all(|one| one.why.contains("Insufficient nvidia.com/mig-1g.5gb"))
        })
        .await;
    assert!(
        slices(&picture).iter().all(|slice| slice.mechanism == Mechanism::Mig && slice.instance.is_some())
    );
    // No device is given to two.
    let mut devices: Vec<_> = slices(&picture).iter().filter_map(|slice| slice.instance.clone()).collect();
    devices.sort();
    devices.dedup();
    assert_eq!(devices.len(), 56);
    lives.scale("mig1-5", 3).await;
    lives.until("most are gone", |picture| slices(picture).len() == 3 && picture.waiting.is_empty()).await;
    lives.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_in_anybodys_words_are_placed_and_whole_gpus_are_not_divided() {
    let lives = Lives::start(None, Some("g5.2xlarge=2"));
    lives.until("the machines are there", |picture| picture.nodes.len() == 2).await;
    let hami = json!({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "6000", "nvidia.com/gpucores": "25"});
    lives.make("deployments", deployment("hami", 4, hami)).await.expect("made");
    lives.until("four parts share one GPU", |picture| slices(picture).len() == 3 + 1).await;
    let picture = lives.picture();
    let per_gpu: Vec<usize> = picture.nodes.values().map(|node| node.gpus[0].slices.len()).collect();
    assert_eq!(per_gpu.iter().sum::<usize>(), 4);
    assert!(per_gpu.contains(&3) || per_gpu.contains(&4), "they are packed: {per_gpu:?}");
    for slice in slices(&picture) {
        assert_eq!(
            (slice.mechanism, slice.memory, slice.compute),
            (Mechanism::Limiter, Some(6_000), Some(0.25))
        );
    }
    // Two whole GPUs are not there any more.
    lives.make("deployments", deployment("whole", 2, json!({"nvidia.com/gpu": 1}))).await.expect("made");
    lives
        .until("the whole ones wait or run", |picture| picture.waiting.len() + slices(picture).len() == 6)
        .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let picture = lives.picture();
    for gpu in picture.nodes.values().flat_map(|node| &node.gpus) {
        let whole = gpu.slices.iter().filter(|slice| slice.mechanism == Mechanism::Exclusive).count();
        assert!(whole == 0 || gpu.slices.len() == 1, "{gpu:#?}");
    }
    let wrong = json!({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "lots"});
    let refused = lives
        .make("pods", json!({"metadata": {"name": "wrong"}, "spec": pod_spec(wrong)}))
        .await
        .expect_err("refused");
    assert!(refused.contains("gpumem"), "{refused}");
    lives.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_share_gpus_and_cut_them_on_demand() {
    let lives = Lives::start(None, Some("p4d.24xlarge=1,g5.2xlarge=1"));
    lives.until("the machines are there", |picture| picture.nodes.len() == 2).await;
    let policy = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    let selector = json!({"node.kubernetes.io/instance-type": "g5.2xlarge"});
    let sharing = json!({"nodeSelector": selector, "sharing": {"mechanism": "TimeSlicing", "replicas": 4}});
    lives.make("slicepolicies", policy("turns", sharing)).await.expect("made");
    let offered = || lives.node("g5-1")["status"]["allocatable"]["nvidia.com/gpu"].clone();
    lives.until("four shares are offered", |_| offered() == "4").await;
    let selector = json!({"node.kubernetes.io/instance-type": "p4d.24xlarge"});
    let cutting = json!({"nodeSelector": selector, "mig": {"mode": "Automatic", "switchModeOn": true}});
    lives.make("slicepolicies", policy("cut", cutting)).await.expect("made");
    let mut turns = deployment("turns", 4, json!({"nvidia.com/gpu": 1}));
    turns["spec"]["template"]["spec"]["nodeSelector"] =
        json!({"node.kubernetes.io/instance-type": "g5.2xlarge"});
    lives.make("deployments", turns).await.expect("made");
    lives.until("four take turns", |picture| picture.nodes["g5-1"].gpus[0].slices.len() == 4).await;
    assert!(
        lives.picture().nodes["g5-1"].gpus[0]
            .slices
            .iter()
            .all(|slice| slice.mechanism == Mechanism::TimeSlicing)
    );
    lives
        .make("deployments", deployment("large", 3, json!({"nvidia.com/mig-3g.20gb": 1})))
        .await
        .expect("made");
    let mig =
        |picture: &Picture| picture.nodes["p4d-1"].gpus.iter().map(|gpu| gpu.slices.len()).sum::<usize>();
    lives.until("MIG devices were made for those who waited", |picture| mig(picture) == 3).await;
    lives.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_there_again_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let lives = Lives::start(Some(folder.path()), Some("p4d.24xlarge=1"));
    lives.until("the machine is there", |picture| picture.nodes.len() == 1).await;
    lives.label("p4d-1", json!({"nvidia.com/mig.config": "all-2g.10gb"})).await;
    lives
        .make("deployments", deployment("two", 5, json!({"nvidia.com/mig-2g.10gb": 1})))
        .await
        .expect("made");
    lives
        .until("five run", |picture| slices(picture).iter().filter(|slice| slice.how.is_some()).count() == 5)
        .await;
    let held = |picture: &Picture| -> Vec<(String, Option<String>)> {
        slices(picture).iter().map(|slice| (slice.pod.clone(), slice.instance.clone())).collect()
    };
    let before = held(&lives.picture());
    lives.stop().await;
    let again = Lives::start(Some(folder.path()), None);
    again.until("they run again", |picture| held(picture) == before).await;
    again.until("nothing waits", |picture| picture.waiting.is_empty()).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(held(&again.picture()), before, "and nothing moves");
    let now = jiff::Timestamp::now().as_second();
    let covered = again.books.covered(Window { from: now - 3600, until: now + 1 });
    assert!(covered.ledger.unbalanced().is_empty());
    assert!(covered.ledger.price().dollars() > 0.0);
    again.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_come_to_their_end_and_failures_are_counted() {
    let lives = Lives::start(None, Some("g5.xlarge=1"));
    lives.until("the machine is there", |picture| picture.nodes.len() == 1).await;
    let job = |name: &str, behaviour: &str, limit: i64| {
        let mut spec = pod_spec(json!({"nvidia.com/gpu": 1}));
        spec["restartPolicy"] = "Never".into();
        let metadata = json!({"annotations": {"carve.dev/simulate": behaviour}});
        json!({"metadata": {"name": name}, "spec": {
            "completions": 2, "backoffLimit": limit, "template": {"metadata": metadata, "spec": spec},
        }})
    };
    lives.make("jobs", job("good", "lasts=0.2s", 6)).await.expect("made");
    let status = |name: &str| {
        let job = lives.api.get(kind_named("jobs").expect("a kind"), "default", name).expect("a Job");
        job["status"].clone()
    };
    lives.until("it is complete", |_| status("good")["conditions"][0]["type"] == "Complete").await;
    assert_eq!(status("good")["succeeded"], 2);
    lives.make("jobs", job("bad", "lasts=0.2s fails=true", 1)).await.expect("made");
    lives.until("it is given up", |_| status("bad")["conditions"][0]["type"] == "Failed").await;
    assert_eq!(status("bad")["failed"], 2);
    lives.until("the GPU is free", |picture| slices(picture).is_empty()).await;
    lives.stop().await;
}
