//! A driver of dynamic resources on the lab's kubelet: prepares, unprepares, is handed over to a new instance, outlives kubelet, and its
//! devices' health is shown on their pods.

use carve_cluster_tests::{Background, Cluster, Namespace, PATIENCE, alone};
use serde_json::Value;
use std::time::Duration;

/// What the driver offers: objects of the whole cluster, which go with the test.
struct Offer<'a> {
    cluster: &'a Cluster,
    driver: String,
}

impl<'a> Offer<'a> {
    /// To be made once the driver is registered: kubelet removes the slices of drivers it does not know.
    fn new(cluster: &'a Cluster, driver: &str) -> Self {
        let offer = Offer { cluster, driver: driver.to_owned() };
        // What an interrupted run left behind.
        offer.withdraw();
        offer.make();
        offer
    }

    fn make(&self) {
        let driver = &self.driver;
        let manifest = format!(
            "apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: {driver}}}
spec:
  selectors:
  - cel: {{expression: device.driver == '{driver}'}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: node0-{driver}}}
spec:
  driver: {driver}
  nodeName: node0
  pool: {{name: node0, generation: 1, resourceSliceCount: 1}}
  devices:
  - name: first
  - name: second
"
        );
        let applied = self.cluster.try_kubectl(&["apply", "-f", "-"], Some(&manifest));
        applied.unwrap_or_else(|error| panic!("kubectl apply: {error}\n{manifest}"));
    }

    fn slice(&self) -> Value {
        self.cluster.get(&["resourceslice", &format!("node0-{}", self.driver)])
    }

    fn withdraw(&self) {
        let driver = &self.driver;
        for object in [format!("resourceslice/node0-{driver}"), format!("deviceclass/{driver}")] {
            let _ = self.cluster.try_kubectl(&["delete", &object, "--ignore-not-found"], None);
        }
    }
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// A driver that runs on the node.
struct Trivial<'a> {
    cluster: &'a Cluster,
    process: Background,
}

impl<'a> Trivial<'a> {
    /// Starts one and waits until kubelet knows it.
    fn start(cluster: &'a Cluster, driver: &str, instance: Option<&str>) -> Self {
        let words: Vec<&str> =
            [env!("CARGO_BIN_EXE_trivial_dra_driver"), "node0", driver].into_iter().chain(instance).collect();
        let trivial = Trivial { cluster, process: cluster.background(&words, &[]) };
        trivial.until("kubelet has registered the driver", |said| said == "registered");
        trivial
    }

    fn heard(&self) -> String {
        self.process.heard()
    }

    fn times(&self, says: impl Fn(&str) -> bool) -> usize {
        self.heard().lines().filter(|line| says(line)).count()
    }

    fn until(&self, what: &str, says: impl Fn(&str) -> bool) {
        self.cluster.until_or(what, PATIENCE, || self.times(&says) > 0, || self.heard());
    }

    /// Whether it has done something with a claim.
    fn has(&self, verb: &str, uid: &str) -> bool {
        let begin = format!("{verb} {uid} ");
        self.times(|line| line.starts_with(&begin) && line.ends_with(": done")) > 0
    }

    /// Ends it as kubelet ends a pod.
    fn terminate(&self) {
        let heard = self.heard();
        let process = heard.lines().find_map(|line| line.split_once(" as process ")).expect("its number").1;
        self.cluster.on_node(&["kill", "-TERM", process]);
        self.until("the driver has ended", |said| said == "ended");
    }
}

/// Applies a pod with a claim of its own, and waits until it runs; the uid of the claim.
fn run_pod(cluster: &Cluster, namespace: &Namespace, driver: &str, pod: &str) -> String {
    namespace.apply(&format!(
        "apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: one}}
spec:
  spec:
    devices:
      requests:
      - name: any
        exactly: {{deviceClassName: {driver}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: {pod}}}
spec:
  terminationGracePeriodSeconds: 0
  resourceClaims:
  - {{name: mine, resourceClaimTemplateName: one}}
  containers:
  - name: main
    image: {}
    imagePullPolicy: Never
    command: [/bin/sleep, infinity]
    resources: {{claims: [{{name: mine}}]}}
",
        cluster.probe_image()
    ));
    namespace.wait_for_phase(pod, "Running");
    let name = &namespace.get(&["pod", pod])["status"]["resourceClaimStatuses"][0]["resourceClaimName"];
    let claim = namespace.get(&["resourceclaim", name.as_str().expect("the claim of the pod")]);
    assert_eq!(claim["status"]["allocation"]["devices"]["results"][0]["pool"], "node0");
    let uid = claim["metadata"]["uid"].as_str().expect("a uid").to_owned();
    assert_eq!(namespace.env(pod, "TRIVIAL_CLAIM").as_deref(), Some(uid.as_str()));
    uid
}

fn delete_pod(cluster: &Cluster, namespace: &Namespace, pod: &str) {
    cluster.kubectl(&["delete", "pod", pod, "-n", namespace.name()]);
}

/// Whether something is on the node, whose folders are not those of the test.
fn is_on_node(cluster: &Cluster, pattern: &str) -> bool {
    let look = format!("if ls -d {pattern} >/dev/null 2>&1; then echo there; else echo gone; fi");
    match cluster.on_node(&["sh", "-c", &look]).trim() {
        "there" => true,
        "gone" => false,
        other => panic!("looking for {pattern}: {other}"),
    }
}

#[test]
fn a_pod_is_told_its_claim_and_nothing_stays_behind() {
    let Some(cluster) = Cluster::connect() else { return };
    let _alone = alone();
    let driver = "trivial.example.com";
    let trivial = Trivial::start(&cluster, driver, None);
    let _offer = Offer::new(&cluster, driver);
    let namespace = cluster.namespace("dra-trivial");
    let uid = run_pod(&cluster, &namespace, driver, "pod");
    let spec = format!("/var/run/cdi/{driver}-{uid}.json");
    assert!(is_on_node(&cluster, &spec), "{}", trivial.heard());

    delete_pod(&cluster, &namespace, "pod");
    cluster.until("the claim is unprepared", PATIENCE, || trivial.has("unprepare", &uid));
    assert!(!is_on_node(&cluster, &spec), "{}", trivial.heard());
    trivial.terminate();
    let sockets =
        format!("/var/lib/kubelet/plugins/{driver}/*.sock /var/lib/kubelet/plugins_registry/{driver}*");
    assert!(!is_on_node(&cluster, &sockets), "no socket stays behind");
}

/// As a DaemonSet with `maxSurge: 1` does it: both instances are there for a while, and kubelet asks the newer one.
#[test]
fn a_new_instance_takes_over_while_the_old_one_is_there() {
    let Some(cluster) = Cluster::connect() else { return };
    let _alone = alone();
    let driver = "rolling.example.com";
    let (first, second) = ("00000000-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000b");
    let old = Trivial::start(&cluster, driver, Some(first));
    let offer = Offer::new(&cluster, driver);
    let namespace = cluster.namespace("dra-rolling");
    let by_old = run_pod(&cluster, &namespace, driver, "before");
    assert!(old.has("prepare", &by_old), "{}", old.heard());

    let new = Trivial::start(&cluster, driver, Some(second));
    let by_new = run_pod(&cluster, &namespace, driver, "between");
    assert!(new.has("prepare", &by_new), "kubelet asks the newer one\n{}\n{}", old.heard(), new.heard());
    assert_eq!(
        old.times(|line| line == "registered"),
        1,
        "the new one does not disturb the old one\n{}",
        old.heard()
    );

    old.terminate();
    for gone in
        [format!("plugins/{driver}/dra-{first}.sock"), format!("plugins_registry/{driver}-{first}-reg.sock")]
    {
        assert!(!is_on_node(&cluster, &format!("/var/lib/kubelet/{gone}")), "{gone} is there");
    }
    // What the old one prepared is undone by the new one, and the device is free again for the next pod.
    delete_pod(&cluster, &namespace, "before");
    cluster.until("the claim of the old one is unprepared", PATIENCE, || new.has("unprepare", &by_old));
    let after = run_pod(&cluster, &namespace, driver, "after");
    assert!(new.has("prepare", &after), "{}", new.heard());
    // Kubelet removes the slices of a driver 30 s after it lost the last instance; it has lost none.
    std::thread::sleep(Duration::from_secs(32));
    assert!(!offer.slice().is_null(), "{}", new.heard());
}

#[test]
fn the_health_of_a_device_is_shown_on_its_pod() {
    let Some(cluster) = Cluster::connect() else { return };
    let _alone = alone();
    let driver = "health.example.com";
    let tell = |health: &str| {
        let lines = format!("first {health}\nsecond {health}");
        cluster.on_node(&["sh", "-c", &format!("echo '{lines}' > /run/{driver}.health")]);
    };
    tell("healthy");
    let trivial = Trivial::start(&cluster, driver, None);
    let _offer = Offer::new(&cluster, driver);
    let namespace = cluster.namespace("dra-health");
    run_pod(&cluster, &namespace, driver, "pod");
    let shown = || {
        let status = namespace.get(&["pod", "pod"])["status"]["containerStatuses"][0].clone();
        let resource = &status["allocatedResourcesStatus"][0];
        (resource["name"].clone(), resource["resources"][0]["health"].clone(), status)
    };
    let until = |health: &str| {
        let holds = || shown().1 == health;
        cluster.until_or(&format!("the device is shown as {health}"), PATIENCE, holds, || {
            format!("{:#}\n{}", shown().2, trivial.heard())
        });
    };
    until("Healthy");
    assert_eq!(shown().0, "claim:mine");
    tell("unhealthy XID 79: the GPU has fallen off the bus");
    until("Unhealthy");
    let message = &shown().2["allocatedResourcesStatus"][0]["resources"][0]["message"];
    assert_eq!(message, "XID 79: the GPU has fallen off the bus");
    tell("healthy");
    until("Healthy");
    cluster.on_node(&["rm", "-f", &format!("/run/{driver}.health")]);
}

#[test]
fn kubelet_restarts_and_finds_the_driver_again() {
    let Some(cluster) = Cluster::connect() else { return };
    let _alone = alone();
    let driver = "restart.example.com";
    let trivial = Trivial::start(&cluster, driver, None);
    let offer = Offer::new(&cluster, driver);
    let namespace = cluster.namespace("dra-restart");
    let before = run_pod(&cluster, &namespace, driver, "before");

    cluster.restart("kubelet-node0");
    let again = || trivial.times(|line| line == "registered") == 2;
    cluster.until_or("kubelet has registered the driver again", PATIENCE, again, || trivial.heard());
    // Kubelet begins by removing the slices of all drivers; whoever publishes them has to notice.
    cluster.until("kubelet has removed the slice", PATIENCE, || offer.slice().is_null());
    offer.make();
    assert_eq!(namespace.phase("before"), "Running");
    let after = run_pod(&cluster, &namespace, driver, "after");
    assert!(trivial.has("prepare", &after), "{}", trivial.heard());
    delete_pod(&cluster, &namespace, "before");
    cluster.until_or(
        "the earlier claim is unprepared",
        PATIENCE,
        || trivial.has("unprepare", &before),
        || trivial.heard(),
    );

    // Somebody cleans up kubelet's folders while it runs.
    cluster.on_node(&[
        "sh",
        "-c",
        &format!("rm -rf /var/lib/kubelet/plugins_registry/{driver}* /var/lib/kubelet/plugins/{driver}"),
    ]);
    let again = || trivial.times(|line| line == "registered") == 3;
    cluster.until_or("kubelet has registered the driver once more", PATIENCE, again, || trivial.heard());
    delete_pod(&cluster, &namespace, "after");
    cluster.until_or(
        "the later claim is unprepared",
        PATIENCE,
        || trivial.has("unprepare", &after),
        || trivial.heard(),
    );
}
