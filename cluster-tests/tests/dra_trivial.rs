//! A driver of dynamic resources written with `carve-kubelet-api` on the lab's kubelet: registers, prepares, unprepares.

use carve_cluster_tests::{Cluster, PATIENCE};

const DRIVER: &str = "trivial.example.com";
/// Kubelet asks again after an answer it did not like, with growing pauses.
/// What the driver offers: objects of the whole cluster, which go with the test.
struct Offer<'a>(&'a Cluster);

impl<'a> Offer<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        let offer = Offer(cluster);
        // What an interrupted run left behind.
        offer.withdraw();
        let manifest = format!(
            "apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: {DRIVER}}}
spec:
  selectors:
  - cel: {{expression: device.driver == '{DRIVER}'}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: node0-{DRIVER}}}
spec:
  driver: {DRIVER}
  nodeName: node0
  pool: {{name: node0, generation: 1, resourceSliceCount: 1}}
  devices:
  - name: first
  - name: second
"
        );
        let applied = cluster.try_kubectl(&["apply", "-f", "-"], Some(&manifest));
        applied.unwrap_or_else(|error| panic!("kubectl apply: {error}\n{manifest}"));
        offer
    }

    fn withdraw(&self) {
        for object in [format!("resourceslice/node0-{DRIVER}"), format!("deviceclass/{DRIVER}")] {
            let _ = self.0.try_kubectl(&["delete", &object, "--ignore-not-found"], None);
        }
    }
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// Whether a file is on the node, whose folders are not those of the test.
fn is_on_node(cluster: &Cluster, path: &str) -> bool {
    let look = format!("if test -e {path}; then echo there >&2; else echo gone >&2; fi");
    let looking = cluster.background(&["sh", "-c", &look], &[]);
    cluster.until("the node tells of a file", PATIENCE, || !looking.heard().is_empty());
    match looking.heard().as_str() {
        "there" => true,
        "gone" => false,
        other => panic!("looking for {path}: {other}"),
    }
}

#[test]
fn a_pod_is_told_its_claim_and_nothing_stays_behind() {
    let Some(cluster) = Cluster::connect() else { return };
    let driver = cluster.background(&[env!("CARGO_BIN_EXE_trivial_dra_driver"), "node0", DRIVER], &[]);
    cluster.until("kubelet has registered the driver", PATIENCE, || {
        driver.heard().lines().any(|line| line == "registered")
    });
    // Only now: kubelet removes the slices of drivers it does not know.
    let _offer = Offer::new(&cluster);
    let namespace = cluster.namespace("dra-trivial");
    namespace.apply(&format!(
        "apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: one}}
spec:
  spec:
    devices:
      requests:
      - name: any
        exactly: {{deviceClassName: {DRIVER}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: pod}}
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
    namespace.wait_for_phase("pod", "Running");

    let claims = namespace.get(&["resourceclaims"]);
    let claim = &claims["items"][0];
    let uid = claim["metadata"]["uid"].as_str().expect("the claim of the pod");
    assert_eq!(namespace.env("pod", "TRIVIAL_CLAIM").as_deref(), Some(uid));
    let allocated = &claim["status"]["allocation"]["devices"]["results"][0];
    assert_eq!(allocated["pool"], "node0");
    let spec = format!("/var/run/cdi/{DRIVER}-{uid}.json");
    assert!(is_on_node(&cluster, &spec), "{}", driver.heard());

    cluster.kubectl(&["delete", "pod", "pod", "-n", namespace.name()]);
    let unprepared = format!("unprepare {uid} ");
    cluster.until("the claim is unprepared", PATIENCE, || {
        driver.heard().lines().any(|line| line.starts_with(&unprepared) && line.ends_with(": done"))
    });
    assert!(!is_on_node(&cluster, &spec), "{}", driver.heard());
}
