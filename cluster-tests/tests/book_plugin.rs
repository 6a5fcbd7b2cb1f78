//! What the book has readers type where nodes have the agent as device plugin: the chart from its installation to its end, sharing, MIG, and the ways between plugins and claims.

use carve_cluster_tests::{Cluster, Everything, GpuNode, PATIENCE, Reader, Release, WITH_PLUGIN};
use serde_json::Value;

/// The machine that the pages speak of: eight A100s with 40 GB.
const MACHINE: &str = "p4d.24xlarge";

/// What is there while somebody reads.
struct Scene<'a> {
    cluster: &'a Cluster,
    node: &'a GpuNode,
    release: &'a Release<'a>,
}

impl Scene<'_> {
    fn label(&self, label: &str) {
        self.cluster.kubectl(&["label", "node", self.node.name(), "--overwrite", label]);
    }

    fn offers(&self, resource: &str, count: u64) {
        let what = format!("the node offers {count} {resource}");
        self.release.until(&what, || self.cluster.allocatable(resource).unwrap_or(0) == count);
    }

    fn apply(&self, manifest: &str, namespace: &str) {
        let applied = self.cluster.try_kubectl(&["apply", "-n", namespace, "-f", "-"], Some(manifest));
        applied.unwrap_or_else(|error| panic!("{error}\n{manifest}"));
    }

    /// A pod of the namespace `team` that has a GPU or a MIG device.
    fn holds(&self, pod: &str, resource: &str) {
        let made = self.cluster.try_kubectl(&["create", "namespace", "team"], None);
        assert!(made.as_ref().map_or_else(|error| error.contains("exists"), |_| true), "{made:?}");
        let account = || !self.cluster.get(&["serviceaccount", "default", "-n", "team"]).is_null();
        self.cluster.until("the namespace has its account", PATIENCE, account);
        self.apply(&self.node.looking_pod(pod, resource, 1).manifest(), "team");
        let runs = || self.cluster.get(&["pod", pod, "-n", "team"])["status"]["phase"] == "Running";
        self.release.until(&format!("{pod} runs"), runs);
    }

    fn ends(&self, pod: &str) {
        self.cluster.kubectl(&["delete", "pod", pod, "-n", "team", "--timeout=180s"]);
    }

    /// Cuts all GPUs into the smallest devices, as somebody may have done by the label, and takes the label away.
    fn is_cut_by_nobody(&self) {
        self.label("nvidia.com/mig.config=all-1g.5gb");
        self.offers("nvidia.com/mig-1g.5gb", 56);
        self.label("nvidia.com/mig.config-");
    }

    fn is_whole(&self) {
        self.label("nvidia.com/mig.config=all-disabled");
        self.offers("nvidia.com/gpu", 8);
        self.label("nvidia.com/mig.config-");
    }

    /// The second DaemonSet of the page: the first one with another name and label, and claims.
    fn second_daemon_set(&self) {
        let mut set: Value = self.cluster.get(&["daemonset", "carve-agent", "-n", "carve"]);
        set["metadata"] = serde_json::json!({"name": "carve-dra-agent", "namespace": "carve"});
        set["spec"]["selector"]["matchLabels"] = serde_json::json!({"app": "carve-dra-agent"});
        let template = &mut set["spec"]["template"];
        template["metadata"]["labels"] = serde_json::json!({"app": "carve-dra-agent"});
        template["spec"]["nodeSelector"] = serde_json::json!({"carve.dev/dra-agent": "true"});
        let env = template["spec"]["containers"][0]["env"].as_array_mut();
        let claims = serde_json::json!({"name": "CARVE_DRA", "value": "true"});
        env.unwrap_or_else(|| panic!("the agent has variables")).push(claims);
        self.apply(&set.to_string(), "carve");
    }
}

fn from_plugin_to_claims(scene: &Scene<'_>, reader: &mut Reader<'_>) {
    const PAGE: &str = "operations/from-device-plugin.md";
    scene.second_daemon_set();
    reader.page_until(PAGE, "kubectl get resourceclaims -A -o wide");
    scene.cluster.kubectl(&["delete", "pod", "as-before", "--timeout=180s"]);
    let free = || scene.cluster.get(&["resourceclaims", "-A"])["items"].as_array().is_some_and(Vec::is_empty);
    scene.release.until("no claim is there", free);
    reader.page(PAGE);
    scene.release.until("the agent is back", || scene.release.ready("carve-agent").len() == 1);
    scene.cluster.kubectl(&["delete", "daemonset", "carve-dra-agent", "-n", "carve"]);
    scene.label("nvidia.com/mig.config-");
}

#[test]
fn pages_for_nodes_with_the_plugin_do_what_they_say() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "book-plugin", MACHINE) else { return };
    let Some(release) = Release::new(&cluster, &node) else { return };
    let Some(mut reader) = Reader::new(&cluster, &node, WITH_PLUGIN) else { return };
    let before = Everything::now(&cluster);
    let scene = Scene { cluster: &cluster, node: &node, release: &release };
    // The first page makes it.
    cluster.kubectl(&["delete", "namespace", release.namespace(), "--timeout=120s"]);
    scene.label("carve.dev/agent=true");

    reader.page_until("operations/install.md", "helm uninstall");
    scene.offers("nvidia.com/gpu", 8);

    reader.page_until("operations/agent.md", "carve agent validate");
    scene.label("nvidia.com/device-plugin.config-");
    reader.page("migrate/mig-parted.md");
    scene.is_whole();
    reader.page("operations/agent.md");
    scene.holds("train", "nvidia.com/gpu");
    reader.page("operations/simulate.md");
    scene.ends("train");

    scene.is_cut_by_nobody();
    reader.page_until("operations/repartition.md", "get sliceplans,slicepolicies");
    scene.holds("wide", "nvidia.com/mig-3g.20gb");
    reader.page("operations/repartition.md");
    scene.ends("wide");
    cluster.kubectl(&["delete", "slicepolicy", "on-demand"]);
    scene.is_whole();

    reader.page("migrate/time-slicing.md");
    from_plugin_to_claims(&scene, &mut reader);

    reader.page_until("operations/install.md", "carve leave");
    release.install(&[]);
    scene.offers("nvidia.com/gpu", 8);
    scene.holds("train", "nvidia.com/gpu");
    reader.page("operations/install.md");
    scene.ends("train");
    release.uninstall().unwrap_or_else(|error| panic!("{error}\n{}", release.logs()));

    over_from_the_operator(&scene, &mut reader);
    reader.has_read_everything();
    before.until_back(&cluster, "");
}

/// A cluster with NVIDIA's operator, as far as the page speaks of it.
fn over_from_the_operator(scene: &Scene<'_>, reader: &mut Reader<'_>) {
    let cluster = scene.cluster;
    cluster.kubectl(&["create", "namespace", "gpu-operator"]);
    scene.apply(include_str!("book_plugin/operator.yaml"), "gpu-operator");
    let definition = "crd/clusterpolicies.nvidia.com";
    cluster.kubectl(&["wait", "--for=condition=Established", definition, "--timeout=120s"]);
    scene.apply(include_str!("book_plugin/cluster-policy.yaml"), "gpu-operator");
    reader.page("migrate/gpu-operator.md");
    scene.offers("nvidia.com/mig-3g.20gb", 8);
    reader.also("helm uninstall carve -n gpu-operator --wait --timeout 8m");
}
