//! Policies as people write and read them: both versions, defaults, refusals, `kubectl explain`, layouts that are fixed, and ConfigMaps turned into policies that do the same.

use carve_cluster_tests::{Background, Cluster, ControlPlane, GpuNode, PATIENCE};
use carve_gpu_host::GpuHost;
use serde_json::{Value, json};

/// ConfigMaps as NVIDIA's programs read them.
const MAPS: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: sharing}
data:
  any: |
    version: v1
    sharing:
      timeSlicing:
        resources:
        - {name: nvidia.com/gpu, replicas: 3}
  few: |
    version: v1
    sharing:
      mps:
        resources:
        - {name: nvidia.com/gpu, replicas: 2}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: mig}
data:
  config.yaml: |
    version: v1
    mig-configs:
      two_halves:
      - devices: [0]
        mig-enabled: true
        mig-devices: {3g.20gb: 2}
";

struct Scene<'a> {
    cluster: &'a Cluster,
    agent: &'a Background,
    plane: &'a ControlPlane,
}

impl Scene<'_> {
    fn apply(&self, version: &str, name: &str, spec: &Value) -> Result<String, String> {
        let object = json!({"apiVersion": format!("carve.dev/{version}"), "kind": "SlicePolicy",
            "metadata": {"name": name}, "spec": spec});
        self.cluster.try_kubectl(&["apply", "--server-side", "-f", "-"], Some(&object.to_string()))
    }

    fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let last = |text: String| text.lines().rev().take(25).collect::<Vec<_>>().join("\n");
        let more = || format!("{}\n──\n{}", last(self.agent.heard()), last(self.plane.said()));
        self.cluster.until_or(what, PATIENCE, holds, more);
    }

    fn offers(&self, resource: &str, count: Option<u64>) {
        let nothing = |found: Option<u64>| found.filter(|count| *count > 0);
        self.until(&format!("{resource}: {count:?} on the node"), || {
            nothing(self.cluster.allocatable(resource)) == count
        });
    }
}

/// What is left out is filled in by the API server, in whichever version it is read; what can not mean anything is refused there.
fn is_defaulted_and_checked(scene: &Scene<'_>) {
    let spec =
        json!({"nodeSelector": {"pool": "none"}, "sharing": {"mechanism": "MPS", "replicas": 4}, "mig": {}});
    scene.apply("v1alpha1", "older", &spec).expect("the older version is taken");
    for version in ["v1alpha1", "v1beta1"] {
        let read = scene.cluster.get(&[&format!("slicepolicies.{version}.carve.dev"), "older"]);
        assert_eq!(read["apiVersion"], format!("carve.dev/{version}"));
        let spec = &read["spec"];
        assert_eq!((&spec["priority"], &spec["mig"]["mode"]), (&json!(0), &json!("Manual")), "{read:#}");
        assert_eq!(spec["budgets"], json!({"nodesAtOnce": 1, "pauseSeconds": 60, "podsEvictedAtOnce": 0}));
        assert_eq!(spec["sharing"], json!({"mechanism": "MPS", "replicas": 4, "renamed": false}));
    }
    let stored = scene.cluster.get(&["crd", "slicepolicies.carve.dev"])["status"]["storedVersions"].clone();
    assert!(stored.as_array().is_some_and(|versions| versions.contains(&json!("v1beta1"))), "{stored}");
    for (spec, why) in [
        (json!({"mig": {"mode": "Fixed"}}), "write both or neither"),
        (json!({"mig": {"layout": [{"instances": {"1g.5gb": 1}}]}}), "write both or neither"),
        (
            json!({"mig": {"mode": "Fixed", "layout": [{"enabled": false, "instances": {"1g.5gb": 1}}]}}),
            "instances need MIG mode",
        ),
        (json!({"sharing": {"mechanism": "MPS"}}), "nothing is shared"),
        (
            json!({"sharing": {"mechanism": "MPS", "resources": [{"name": "gpu", "replicas": 2}]}}),
            "should match",
        ),
        (json!({"sharing": {"mechanism": "MPS", "replicas": 4, "replica": 4}}), "replica"),
    ] {
        let refused = scene.apply("v1beta1", "refused", &spec).expect_err("it can not be");
        assert!(refused.contains(why), "{spec}: {refused}");
    }
    scene.cluster.kubectl(&["delete", "slicepolicy", "older"]);
}

/// The API server tells what definitions mean some time after it has taken them.
fn is_explained(scene: &Scene<'_>) {
    let explained = |path: &str| match scene.cluster.try_kubectl(&["explain", path], None) {
        Ok(told) | Err(told) => told.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    let tells = |path: &str, words: &[&str]| {
        let holds = || words.iter().all(|word| explained(path).contains(word));
        let what = format!("kubectl explain {path} says {words:?}");
        scene.cluster.until_or(&what, PATIENCE, holds, || explained(path));
    };
    tells("slicepolicy", &["VERSION: v1beta1", "An example"]);
    for (path, word) in [
        ("slicepolicy.spec.nodeSelector", "those that have all these labels"),
        ("slicepolicy.spec.sharing.mechanism", "ENUM"),
        ("slicepolicy.spec.sharing.replicas", "How often each whole GPU is offered"),
        ("slicepolicy.spec.mig.mode", "people"),
        ("slicepolicy.spec.mig.layout", "mig-parted"),
        ("slicepolicy.spec.priority", "highest"),
    ] {
        tells(path, &[word]);
    }
}

/// A layout is cut, another one takes its place, and a label wins over both.
fn is_fixed(scene: &Scene<'_>, node: &GpuNode) {
    let fixed = |instances: Value| json!({"mig": {"mode": "Fixed", "layout": [{"gpus": [0], "instances": instances}]}});
    scene.apply("v1beta1", "layout", &fixed(json!({"1g.5gb": 7}))).expect("it is taken");
    scene.offers("nvidia.com/mig-1g.5gb", Some(7));
    scene.offers("nvidia.com/gpu", Some(1));
    scene.apply("v1beta1", "layout", &fixed(json!({"2g.10gb": 3}))).expect("it is taken");
    scene.offers("nvidia.com/mig-2g.10gb", Some(3));
    scene.offers("nvidia.com/mig-1g.5gb", None);
    scene.cluster.label(node.name(), "nvidia.com/mig.config", "all-disabled");
    scene.offers("nvidia.com/gpu", Some(2));
    scene.cluster.kubectl(&["label", "node", node.name(), "nvidia.com/mig.config-"]);
    scene.offers("nvidia.com/mig-2g.10gb", Some(3));
    let found = node.machine().mig_devices(carve_gpu_model::GpuIndex(0)).expect("it answers");
    assert_eq!(found.len(), 3);
    scene.cluster.label(node.name(), "nvidia.com/mig.config", "all-disabled");
    scene.offers("nvidia.com/gpu", Some(2));
    scene.cluster.kubectl(&["delete", "slicepolicy", "layout"]);
    // Without the label an agent that does not know yet that the policy is gone would cut its layout once more.
    scene.until("the policy's order is taken back", || {
        let node = scene.cluster.get(&["node", node.name()]);
        node["metadata"].is_object() && node["metadata"]["annotations"]["carve.dev/mig.config"].is_null()
    });
    scene.cluster.kubectl(&["label", "node", node.name(), "nvidia.com/mig.config-"]);
}

/// What `carve policy from` prints does what the ConfigMaps did, by the labels that nodes have already.
fn is_converted(scene: &Scene<'_>, node: &GpuNode) {
    let file = scene.cluster.scratch("policy-maps.yaml");
    std::fs::write(&file, MAPS).expect("a file");
    let carve = scene.plane.binary().display().to_string();
    let file = file.display().to_string();
    let policies = scene.cluster.on_node(&[&carve, "policy", "from", &file, "--default-sharing", "any"]);
    let applied = scene.cluster.try_kubectl(&["apply", "--server-side", "-f", "-"], Some(&policies));
    applied.unwrap_or_else(|error| panic!("{error}\n{policies}"));
    scene.offers("nvidia.com/gpu", Some(6));
    scene.cluster.label(node.name(), "nvidia.com/device-plugin.config", "few");
    scene.offers("nvidia.com/gpu", Some(4));
    scene.cluster.label(node.name(), "nvidia.com/mig.config", "two_halves");
    scene.offers("nvidia.com/mig-3g.20gb", Some(2));
    scene.offers("nvidia.com/gpu", Some(2));
    scene.until("the label's config is done", || scene.cluster.is_cut_as(node.name(), "two_halves"));
    let conflicts = scene.cluster.get(&["slicepolicies"])["items"].as_array().cloned().unwrap_or_default();
    for policy in conflicts {
        let conditions = policy["status"]["conditions"].as_array().cloned().unwrap_or_default();
        assert!(
            !conditions.iter().any(|one| one["type"] == "Conflict" && one["status"] == "True"),
            "{policy:#}"
        );
    }
}

#[test]
fn policies_are_written_read_and_followed() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "policy", "a100-40gb:2") else { return };
    for (_, definition) in carve_slice_policy::definitions() {
        let text = serde_json::to_string(&definition).expect("a definition");
        let taken = cluster.try_kubectl(&["apply", "--server-side", "-f", "-"], Some(&text));
        taken.unwrap_or_else(|error| panic!("the API server does not take the definition: {error}"));
    }
    let (namespace, own) = (cluster.namespace("policy"), cluster.namespace("policy-control"));
    let Some(plane) = ControlPlane::start_replicas(&cluster, &own, 1) else { return };
    let settings = [("MIG_STRATEGY", "mixed"), ("CARVE_PROBE_SECONDS", "1")];
    let agent = node.agent_as_process(&namespace, plane.binary(), &settings);
    let scene = Scene { cluster: &cluster, agent: &agent, plane: &plane };
    scene.offers("nvidia.com/gpu", Some(2));
    is_defaulted_and_checked(&scene);
    is_explained(&scene);
    is_fixed(&scene, &node);
    is_converted(&scene, &node);
    cluster.kubectl(&["delete", "slicepolicies,sliceplans", "--all"]);
    for label in ["nvidia.com/mig.config-", "nvidia.com/device-plugin.config-"] {
        cluster.kubectl(&["label", "node", node.name(), label]);
    }
    drop(agent);
    let ours = ["carve.dev/mig.gpus-", "carve.dev/mig.config-", "carve.dev/device-plugin.config-"];
    cluster.kubectl(&[&["annotate", "node", node.name()][..], &ours].concat());
}
