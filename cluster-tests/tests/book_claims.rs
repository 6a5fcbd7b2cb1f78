//! What the book has readers type where nodes serve claims: the ways over from others who gave parts of GPUs, claims, admission, policies, and whatever only looks.

use carve_cluster_tests::{
    Cluster, Everything, GpuNode, PATIENCE, Pod, Reader, Release, WITH_CLAIMS, tell_put_again,
};
use serde_json::Value;

/// The machine that the page about claims speaks of.
const MACHINE: &str = "h200-141gb:4";

/// Claims that somebody holds.
fn none_holds_a_claim(cluster: &Cluster, release: &Release<'_>) {
    let free = || cluster.get(&["resourceclaims", "-A"])["items"].as_array().is_some_and(Vec::is_empty);
    release.until("no claim is left", free);
}

/// Four quarters are where the page has them. Kubernetes 1.36 counts a share twice while it is written but still noted as on its way, and may put
/// the next one elsewhere though there is room; such a pod goes, and another one comes.
fn quarters_are_together(cluster: &Cluster, release: &Release<'_>) {
    let given = || -> Vec<(String, Value)> {
        let claims = cluster.get(&["resourceclaims", "-n", "default"])["items"].clone();
        let one = |claim: &Value| {
            let pod = claim["status"]["reservedFor"][0]["name"].as_str()?.to_owned();
            Some((pod, claim["status"]["allocation"]["devices"]["results"][0]["device"].clone()))
        };
        claims.as_array().into_iter().flatten().filter_map(one).collect()
    };
    release.until("four quarters are on the first GPU", || {
        let (there, astray): (Vec<_>, Vec<_>) =
            given().into_iter().partition(|(_, device)| device == "gpu-0-frac");
        for (pod, device) in &astray {
            tell_put_again("default", pod, device.as_str().unwrap_or_default());
            cluster.kubectl(&["delete", "pod", pod, "--ignore-not-found", "--grace-period=1"]);
        }
        there.len() == 4 && astray.is_empty()
    });
}

/// Programs of the examples are those of the lab under the name that stands there.
fn import_image_of_examples(cluster: &Cluster) {
    const NAME: &str = "docker.io/nvidia/cuda:12.6.2-base-ubuntu24.04";
    let socket = cluster.containerd_config().with_file_name("containerd.sock").display().to_string();
    let words = ["ctr", "--address", &socket, "--namespace", "k8s.io", "images", "tag", "--force"];
    let tagged = cluster.try_program(&[&words[..], &[cluster.looker_image(), NAME]].concat(), None);
    tagged.unwrap_or_else(|error| panic!("{error}"));
}

fn over_from_others(cluster: &Cluster, release: &Release<'_>, reader: &mut Reader<'_>) {
    reader.page_until("migrate/hami.md", "kubectl -n carve get pods -l app=carve-agent");
    cluster.label("node0", "carve.dev/agent", "true");
    release.until("the agent is ready", || release.ready("carve-agent").len() == 1);
    reader.page("migrate/hami.md");
    reader.page("migrate/volcano.md");
    reader.page("migrate/kai.md");
    release.until("both controllers are ready", || release.ready("carve-controller").len() == 2);
}

#[test]
fn pages_for_nodes_with_claims_do_what_they_say() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "book-claims", MACHINE) else { return };
    let Some(release) = Release::new(&cluster, &node) else { return };
    let Some(mut reader) = Reader::new(&cluster, &node, WITH_CLAIMS) else { return };
    let before = Everything::now(&cluster);
    import_image_of_examples(&cluster);
    over_from_others(&cluster, &release, &mut reader);

    reader.page_until("operations/claims.md", "/carve gpus");
    quarters_are_together(&cluster, &release);
    reader.page("operations/claims.md");
    cluster.kubectl(&["delete", "deployment", "quarters", "--timeout=120s"]);
    none_holds_a_claim(&cluster, &release);
    reader.page("../README.md");
    cluster.kubectl(&[
        "delete",
        "deployments,pods,resourceclaims,resourceclaimtemplates",
        "--all",
        "--timeout=120s",
    ]);
    none_holds_a_claim(&cluster, &release);

    reader.page("operations/controller.md");
    cluster.kubectl(&["delete", "namespace", "team", "--timeout=120s"]);
    reader.page("operations/webhook.md");
    reader.page("migrate/karpenter.md");
    cluster.kubectl(&["delete", "slicepolicy", "quarters"]);
    reader.page("operations/autoscaling.md");
    cluster.kubectl(&["delete", "slicepolicy", "quarters"]);
    // The Prometheus operator's definition, as far as a cluster must know it.
    let definition = include_str!("book_claims/prometheus-rules.yaml");
    let defined = cluster.try_kubectl(&["apply", "-f", "-"], Some(definition));
    defined.unwrap_or_else(|error| panic!("{error}"));
    let name = "crd/prometheusrules.monitoring.coreos.com";
    cluster.kubectl(&["wait", "--for=condition=Established", name, "--timeout=120s"]);
    reader.page("operations/monitoring.md");

    // Something that runs in the cluster.
    let deployment = Pod::sleeping(&cluster, "serve").limit("nvidia.com/gpu", "1").deployment(1);
    let applied = cluster.try_kubectl(&["apply", "-f", "-"], Some(&deployment));
    applied.unwrap_or_else(|error| panic!("{error}"));
    let runs = || cluster.get(&["deployment", "serve"])["status"]["readyReplicas"] == 1;
    cluster.until_or("something runs", PATIENCE, runs, || release.logs());
    reader.page("operations/plan.md");
    reader.page("operations/dashboard.md");
    reader.page("troubleshooting.md");
    cluster.kubectl(&["delete", "deployment", "serve", "--timeout=120s"]);
    none_holds_a_claim(&cluster, &release);
    // Where another suite defined what Karpenter has, policies brought pools, which outlive them, as the pages say.
    if cluster.try_kubectl(&["get", "crd", "nodepools.karpenter.sh"], None).is_ok() {
        cluster.kubectl(&["delete", "nodepools,nodeoverlays", "--all", "--timeout=120s"]);
    }
    // While its node still has the label: an agent that is only taken off a node leaves everything for the next.
    let said = release.uninstall().unwrap_or_else(|error| panic!("{error}\n{}", release.logs()));
    reader.has_read_everything();
    before.until_back(&cluster, &said);
}
