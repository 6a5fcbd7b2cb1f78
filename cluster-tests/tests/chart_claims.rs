//! The chart with claims: a pod in HAMi's words runs, is held to its part by the limiter of the image, and outlives the release that gave it.

use carve_cluster_tests::{Cluster, Everything, GpuNode, Namespace, PATIENCE, Release, stand_ins};
use serde_json::{Value, json};

/// A pod in HAMi's words: 4 GiB and a quarter of a GPU.
fn hami(cluster: &Cluster, node: &GpuNode, name: &str) -> String {
    let limits = json!({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4096", "nvidia.com/gpucores": "25"});
    let container = json!({
        "name": "main", "image": cluster.looker_image(), "imagePullPolicy": "Never",
        "command": ["/bin/sleep", "infinity"], "resources": {"limits": limits},
        "volumeMounts": [{"name": "machine", "mountPath": "/machine"}],
    });
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 0, "containers": [container],
            "volumes": [{"name": "machine", "hostPath": {"path": node.machine_folder()}}],
        },
    })
    .to_string()
}

fn container(namespace: &Namespace, pod: &str) -> Value {
    namespace.get(&["pod", pod])["status"]["containerStatuses"][0].clone()
}

/// The limiter of the image is on the node, in the container, and loaded by everything that starts there.
fn is_held(namespace: &Namespace, pod: &str) {
    let preload = namespace.exec(pod, &["/bin/cat", "/etc/ld.so.preload"]);
    assert_eq!(preload.trim(), "/run/carve/libcarve_limiter.so");
    let loaded = namespace.exec(pod, &["/bin/cat", "/proc/self/maps"]);
    assert!(loaded.contains("/run/carve/libcarve_limiter.so"), "{loaded}");
}

#[test]
fn a_part_outlives_the_release_and_what_it_uses_is_named() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "chart-claims", "a100-40gb:2") else { return };
    let Some(release) = Release::new(&cluster, &node) else { return };
    let namespace = cluster.namespace("chart-claims");
    let before = Everything::now(&cluster);
    release.install(&["agent.mode=claims"]);
    let hami = hami(&cluster, &node, "part");
    release.until("the webhook takes a pod", || namespace.try_apply(&hami).is_ok());
    let admitted = namespace.get(&["pod", "part"])["metadata"]["labels"]["carve.dev/admitted"].clone();
    assert_eq!(admitted, "claims", "whoever is ready is asked");
    let running = || namespace.phase("part") == "Running";
    release.until("the part runs", running);
    is_held(&namespace, "part");
    let policy = json!({
        "apiVersion": "carve.dev/v1alpha1", "kind": "SlicePolicy", "metadata": {"name": "kept"},
        "spec": {"nodeSelector": {"no": "such-node"}, "mig": {"mode": "DryRun"}},
    });
    namespace.apply(&policy.to_string());
    let id = container(&namespace, "part")["containerID"].clone();

    // Kubelet could not end the pod any more, so the release stays, whole.
    let refused = release.uninstall().expect_err("a claim is held");
    assert!(refused.contains("pods hold claims") && refused.contains("--even-if-claimed"), "{refused}");
    assert!(
        !release.ready("carve-agent").is_empty() && release.ready("carve-controller").len() == 2,
        "{refused}"
    );
    // Helm takes it for one that goes, until somebody thinks better of it.
    let status = || release.helm(&["status", release.namespace(), "-n", release.namespace()]);
    assert!(status().is_ok_and(|said| said.contains("STATUS: uninstalling")), "{:?}", status());
    let back = ["rollback", release.namespace(), "1", "-n", release.namespace(), "--wait", "--timeout", "8m"];
    release.helm(&back).unwrap_or_else(|error| panic!("{error}\n{}", release.logs()));
    assert!(status().is_ok_and(|said| said.contains("STATUS: deployed")), "{:?}", status());
    assert_eq!(container(&namespace, "part")["containerID"], id, "the pod goes on");
    release.uninstall().expect_err("the claim is still held");
    // Somebody insists, and Helm goes on where that has ended.
    let carve = stand_ins().map(|folder| folder.join("carve").display().to_string()).expect("it was built");
    let insisted =
        cluster.try_program(&[&carve, "leave", "-n", release.namespace(), "--even-if-claimed"], None);
    let said = insisted.unwrap_or_else(|error| panic!("{error}\n{}", release.logs()));
    release.uninstall().unwrap_or_else(|error| panic!("{error}\n{}", release.logs()));
    let uid = claim_uid(&namespace);
    let spec = format!("/var/run/cdi/k8s.gpu.carve.dev-claim_{uid}.json");
    let limits = format!("/run/carve/limits/{uid}");
    for left in [spec.as_str(), &limits, "test-chart-claims/part", "slicepolicies.carve.dev", "kept"] {
        assert!(said.contains(left), "{left} is not named:\n{said}");
    }
    let now = Everything::now(&cluster);
    let files: Vec<String> =
        now.beyond(&before).into_iter().filter(|line| line.starts_with("file ")).collect();
    let named = |file: &String| {
        let path = file.trim_start_matches("file ");
        said.contains(path) || path.starts_with(&limits)
    };
    assert!(files.iter().all(named), "{files:#?}\n{said}");
    assert!(files.iter().any(|file| file.contains(&spec)), "{files:#?}");

    // It goes on, and when its container ends it starts again with the same part under the same limits.
    assert_eq!(container(&namespace, "part")["containerID"], id);
    is_held(&namespace, "part");
    cluster.on_node(&["pkill", "-KILL", "-x", "-f", "/bin/sleep infinity"]);
    let again = || {
        let now = container(&namespace, "part");
        now["restartCount"].as_u64() >= Some(1) && now["state"]["running"].is_object()
    };
    cluster.until("the container starts again", PATIENCE, again);
    is_held(&namespace, "part");

    // A release that comes again finds what is left, and when nobody uses it any more it goes with that one.
    let words = ["delete", "pod", "part", "-n", namespace.name(), "--force", "--grace-period=0"];
    cluster.kubectl(&words);
    cluster.kubectl(&["delete", "slicepolicy", "kept"]);
    release.install(&["agent.mode=claims"]);
    let taken_back = || !cluster.on_node(&["ls", "/var/run/cdi"]).contains(&uid);
    release.until("the claim is taken back", taken_back);
    let nodes = cluster.nodes();
    let other = nodes.iter().find(|other| *other != node.name()).expect("a lab has two nodes");
    agent_that_is_gone(&cluster, other);
    let said = release.uninstall().unwrap_or_else(|error| panic!("{error}\n{}", release.logs()));
    let files = "an agent was there once and is not now".to_owned();
    for told in [format!("conditions of node {other}"), format!("ResourceSlices of {DRIVER}"), files] {
        assert!(said.contains(&told), "{told} is not told:\n{said}");
    }
    before.until_back(&cluster, &said);
}

const DRIVER: &str = "gpu.carve.dev";

/// What an agent has said of a node before it was ended without a chance to take it back.
fn agent_that_is_gone(cluster: &Cluster, node: &str) {
    let of_node = |more: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}});
        object.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        object.to_string()
    };
    let labels = of_node(json!({"metadata": {"name": node, "labels": {"nvidia.com/gpu.count": "2"}}}));
    let condition = json!({"type": "CarveConfigured", "status": "True", "reason": "Tried", "message": ""});
    let status = of_node(json!({"status": {"conditions": [condition]}}));
    let slice = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": format!("00000-{DRIVER}-{node}")},
        "spec": {
            "driver": DRIVER, "nodeName": node, "devices": [],
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        },
    });
    let apply = |manager: &str, more: &[&str], object: &str| {
        let words = ["apply", "--server-side", "--field-manager", manager, "-f", "-"];
        let applied = cluster.try_kubectl(&[&words[..], more].concat(), Some(object));
        applied.unwrap_or_else(|error| panic!("{error}"));
    };
    apply("carve-labels", &[], &labels);
    apply("carve-agent-CarveConfigured", &["--subresource=status"], &status);
    apply("carve-slices", &[], &slice.to_string());
}

fn claim_uid(namespace: &Namespace) -> String {
    let claims = namespace.get(&["resourceclaims"]);
    claims["items"][0]["metadata"]["uid"].as_str().unwrap_or("no claim").to_owned()
}
