//! The chart as people use it: checked by the API server, installed, changed, rolled back and taken away, and nothing of it left.

use carve_cluster_tests::{Cluster, Everything, GpuNode, Namespace, Release};
use serde_json::{Value, json};

const MACHINE: &str = "a100-40gb:2";

/// Everything that can be switched on.
const ALL: [&str; 9] = [
    "scheduler.enabled=true",
    "dashboard.enabled=true",
    "dashboard.allowChanges=true",
    "monitoring.podMonitors=true",
    "monitoring.serviceMonitors=true",
    "monitoring.rules=true",
    "monitoring.dashboards=true",
    "networkPolicy.enabled=true",
    "agent.migEvict=true",
];

/// A kind of somebody else's, as far as a cluster must know it to take objects. Answers what the definition is called.
fn define(cluster: &Cluster, group: &str, scope: &str, kind: &str, plural: &str) -> String {
    let name = format!("{plural}.{group}");
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": anything}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
        "spec": {
            "group": group, "scope": scope, "versions": [version],
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
        },
    });
    let applied = cluster.try_kubectl(&["apply", "-f", "-"], Some(&definition.to_string()));
    applied.unwrap_or_else(|error| panic!("{error}"));
    cluster.kubectl(&["wait", "--for=condition=Established", &format!("crd/{name}"), "--timeout=120s"]);
    name
}

/// The Prometheus operator's kinds.
fn define_monitors(cluster: &Cluster) -> Vec<String> {
    let kinds = [
        ("PodMonitor", "podmonitors"),
        ("ServiceMonitor", "servicemonitors"),
        ("PrometheusRule", "prometheusrules"),
    ];
    kinds.map(|(kind, plural)| define(cluster, "monitoring.coreos.com", "Namespaced", kind, plural)).to_vec()
}

#[test]
fn the_api_server_would_take_every_object() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "chart-dry", MACHINE) else { return };
    let Some(release) = Release::new(&cluster, &node) else { return };
    let definitions = define_monitors(&cluster);
    for settings in [&[][..], &ALL[..], &["agent.mode=claims"][..], &["agent.mode=slices"][..]] {
        let manifests = release.manifests(settings).unwrap_or_else(|error| panic!("{settings:?}: {error}"));
        let words = ["apply", "--server-side", "--dry-run=server", "-f", "-"];
        let taken = cluster.try_kubectl(&words, Some(&manifests));
        let taken = taken.unwrap_or_else(|error| panic!("{settings:?}: {error}"));
        let lines = taken.lines().count();
        assert_eq!(lines, manifests.lines().filter(|line| line.starts_with("kind: ")).count(), "{taken}");
    }
    for name in definitions {
        cluster.kubectl(&["delete", "crd", &name]);
    }
}

/// The container of a pod: another one, or the same started again, has another id.
fn container(namespace: &Namespace, pod: &str) -> (String, u64) {
    let status = namespace.get(&["pod", pod])["status"]["containerStatuses"][0].clone();
    let id = status["containerID"].as_str().unwrap_or_default().to_owned();
    (id, status["restartCount"].as_u64().unwrap_or(99))
}

fn one_leads(release: &Release<'_>) -> bool {
    let pods = release.ready("carve-controller");
    let leaders = pods.iter().filter(|pod| pod["metadata"]["labels"]["carve.dev/leader"] == "true");
    pods.len() == 2 && leaders.count() == 1
}

fn offers(cluster: &Cluster, release: &Release<'_>, resource: &str, count: u64) {
    let what = format!("the node offers {count} {resource}");
    release.until(&what, || cluster.allocatable(resource) == Some(count));
}

/// Neither the agent nor anything that it starts can load a module or change the network; it mounts, and it writes nothing but its folders.
fn agent_has_given_up_what_it_does_not_need(cluster: &Cluster) {
    let status = cluster.on_node(&["sh", "-c", "cat /proc/$(pgrep -o -f '^/carve agent')/status"]);
    let mask = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let digits = line.unwrap_or_else(|| panic!("no {key} in {status}")).trim();
        u64::from_str_radix(digits, 16).unwrap_or_else(|error| panic!("{digits}: {error}"))
    };
    // By their numbers in linux/capability.h.
    let (net_admin, sys_module, sys_admin) = (1 << 12, 1 << 16, 1 << 21);
    for key in ["CapEff:", "CapPrm:", "CapBnd:"] {
        assert_eq!(mask(key) & (net_admin | sys_module | sys_admin), sys_admin, "{key} {status}");
    }
    let mounts = cluster.on_node(&["sh", "-c", "cat /proc/$(pgrep -o -f '^/carve agent')/mounts"]);
    let root = mounts.lines().find(|line| line.split(' ').nth(1) == Some("/")).unwrap_or_default();
    let options = root.split(' ').nth(3).unwrap_or_default();
    assert!(options.split(',').any(|option| option == "ro"), "the root file system is not read-only: {root}");
}

#[test]
fn a_release_comes_changes_goes_back_and_leaves_nothing() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "chart", MACHINE) else { return };
    let Some(release) = Release::new(&cluster, &node) else { return };
    let namespace = cluster.namespace("chart");
    let before = Everything::now(&cluster);

    release.install(&[]);
    release.until("two controllers are ready, and one leads", || one_leads(&release));
    assert_eq!(release.ready("carve-agent").len(), 1);
    offers(&cluster, &release, "nvidia.com/gpu", 2);
    agent_has_given_up_what_it_does_not_need(&cluster);
    namespace.apply(&node.looking_pod("whole", "nvidia.com/gpu", 1).manifest());
    namespace.wait_for_phase("whole", "Running");
    let seen = namespace.exec("whole", &["/carve", "gpus", "-o", "json"]);
    let seen: Value = serde_json::from_str(&seen).unwrap_or_else(|error| panic!("{error}: {seen}"));
    assert_eq!(seen["gpus"].as_array().map(Vec::len), Some(1), "{seen:#}");
    let first = container(&namespace, "whole");

    // Another value: the GPU that a pod has stays as it is, the other one is shared by four.
    release.upgrade(&["devicePlugin.config.default=time-slicing-4"]);
    offers(&cluster, &release, "nvidia.com/gpu", 4);
    assert_eq!(container(&namespace, "whole"), first, "the pod goes on");
    namespace.apply(&node.looking_pod("turns", "nvidia.com/gpu", 1).manifest());
    namespace.wait_for_phase("turns", "Running");
    namespace.delete_pod("turns");
    release.roll_back();
    offers(&cluster, &release, "nvidia.com/gpu", 2);
    assert_eq!(container(&namespace, "whole"), first, "and still does");
    namespace.delete_pod("whole");

    configurations_of_others(&cluster, &release);

    let said = release.uninstall().unwrap_or_else(|error| panic!("{error}\n{}", release.logs()));
    for gone in [
        "Deployment carve/carve-controller",
        "DaemonSet carve/carve-agent",
        "on node node0",
        "slicepolicies.carve.dev",
    ] {
        assert!(said.contains(gone), "{gone} is not told:\n{said}");
    }
    before.until_back(&cluster, &said);
}

/// The ClusterPolicy of NVIDIA's operator, patched as guides do it, in place of values.
fn what_the_operator_was_told(cluster: &Cluster, release: &Release<'_>) {
    let definition = define(cluster, "nvidia.com", "Cluster", "ClusterPolicy", "clusterpolicies");
    let policy = json!({
        "apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"},
        "spec": {"mig": {"strategy": "mixed"}, "devicePlugin": {"enabled": true}},
    });
    let applied = cluster.try_kubectl(&["apply", "-f", "-"], Some(&policy.to_string()));
    applied.unwrap_or_else(|error| panic!("{error}"));
    release.upgrade(&[
        "devicePlugin.config.create=true",
        "devicePlugin.config.name=carve-sharing",
        "devicePlugin.config.default=exclusive",
        "migManager.config.name=",
        "clusterPolicy.name=cluster-policy",
    ]);
    // A policy that says nothing of it leaves it to the values.
    offers(cluster, release, "nvidia.com/gpu", 2);
    let patch =
        r#"{"spec": {"devicePlugin": {"config": {"name": "time-slicing-config-fine", "default": "a100"}}}}"#;
    let object = "clusterpolicies.nvidia.com/cluster-policy";
    cluster.kubectl(&["patch", object, "--type", "merge", "-p", patch]);
    release.upgrade(&[]);
    offers(cluster, release, "nvidia.com/gpu", 6);
    cluster.kubectl(&["delete", "crd", &definition]);
}

/// ConfigMaps that NVIDIA's programs were given, and the labels that choose in them.
fn configurations_of_others(cluster: &Cluster, release: &Release<'_>) {
    let create = |name: &str, key: &str, text: &str| {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {key: text},
            "metadata": {"name": name, "namespace": release.namespace()},
        });
        let applied = cluster.try_kubectl(&["apply", "-f", "-"], Some(&map.to_string()));
        applied.unwrap_or_else(|error| panic!("{error}"));
    };
    let fine =
        "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 3}\n";
    create("time-slicing-config-fine", "a100", fine);
    let mig = "version: v1\nmig-configs:\n  halves:\n  - {devices: all, mig-enabled: true, mig-devices: {3g.20gb: 2}}\n";
    create("their-mig-parted", "config.yaml", mig);
    release.upgrade(&[
        "devicePlugin.config.create=false",
        "devicePlugin.config.name=time-slicing-config-fine",
        "devicePlugin.config.default=",
        "migManager.config.name=their-mig-parted",
    ]);
    cluster.label("node0", "nvidia.com/device-plugin.config", "a100");
    offers(cluster, release, "nvidia.com/gpu", 6);
    let applied = |config: &str| {
        cluster.label("node0", "nvidia.com/mig.config", config);
        release.until(&format!("{config} is applied"), || cluster.is_cut_as("node0", config));
    };
    applied("halves");
    offers(cluster, release, "nvidia.com/mig-3g.20gb", 4);
    // The layout is the hardware's, and nobody's to undo who only leaves.
    applied("all-disabled");
    offers(cluster, release, "nvidia.com/gpu", 6);
    for label in ["nvidia.com/mig.config-", "nvidia.com/device-plugin.config-"] {
        cluster.kubectl(&["label", "node", "node0", label]);
    }
    what_the_operator_was_told(cluster, release);
    for name in ["time-slicing-config-fine", "their-mig-parted"] {
        cluster.kubectl(&["delete", "configmap", name, "-n", release.namespace()]);
    }
}
