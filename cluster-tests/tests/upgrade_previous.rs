//! From the release before to this one and back: pods with whole GPUs, shares over MPS, and claims run through it, and both go on serving them.

use carve_cluster_tests::{Ask, Cluster, Everything, GpuNode, Namespace, Previous, Release};
use serde_json::{Value, json};

/// The container of a pod: another one, or the same started again, has another id.
fn container(namespace: &Namespace, pod: &str) -> (Value, Value) {
    let status = namespace.get(&["pod", pod])["status"]["containerStatuses"][0].clone();
    (status["containerID"].clone(), status["restartCount"].clone())
}

/// What a pod sees: its MIG device, or its GPU.
fn part(namespace: &Namespace, pod: &str) -> String {
    let text = namespace.exec(pod, &["/carve", "gpus", "-o", "json"]);
    let seen: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let gpu = &seen["gpus"][0];
    let uuid = match gpu["mig"]["devices"].as_array().map(Vec::as_slice) {
        Some([only]) => &only["uuid"],
        _ => &gpu["uuid"],
    };
    uuid.as_str().unwrap_or_else(|| panic!("{pod} sees nothing: {seen:#}")).to_owned()
}

/// Everything of pods that must not change.
fn held(namespace: &Namespace, pods: &[&str]) -> Vec<(String, (Value, Value), String)> {
    let of = |pod: &&str| ((*pod).to_owned(), container(namespace, pod), part(namespace, pod));
    pods.iter().map(of).collect()
}

/// Nothing that a node has for pods has gone or is another: files, and processes by their numbers.
fn is_kept(cluster: &Cluster, before: &Everything) {
    let lost = before.beyond(&Everything::now(cluster));
    // Sockets for kubelet are an agent's own: the next one has others.
    let of_agent = |line: &String| line.starts_with("file /var/lib/kubelet/") && line.ends_with(".sock");
    let of_pods =
        |line: &&String| (line.starts_with("file ") && !of_agent(line)) || line.starts_with("process ");
    let lost: Vec<&String> = lost.iter().filter(of_pods).collect();
    assert!(lost.is_empty(), "{lost:#?}");
}

fn run(release: &Release<'_>, namespace: &Namespace, name: &str, manifest: &str) {
    release.until(&format!("{name} is taken"), || namespace.try_apply(manifest).is_ok());
    release.until(&format!("{name} runs"), || namespace.phase(name) == "Running");
}

#[test]
fn shares_over_mps_outlive_an_upgrade_and_a_rollback() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "upgrade-mps", "a100-40gb:2") else { return };
    let Some(release) = Release::new(&cluster, &node) else { return };
    let Some(previous) = Previous::bring(&cluster) else { return };
    let namespace = cluster.namespace("upgrade-mps");
    let before = Everything::now(&cluster);
    release.install_previous(&previous, &["devicePlugin.config.default=mps-4"]);
    let offers = || cluster.allocatable("nvidia.com/gpu") == Some(8);
    release.until("two GPUs are shared by four each", offers);
    let pod = |name: &str| node.looking_pod(name, "nvidia.com/gpu", 1).manifest();
    run(&release, &namespace, "one", &pod("one"));
    run(&release, &namespace, "two", &pod("two"));
    let (first, then) = (held(&namespace, &["one", "two"]), Everything::now(&cluster));

    release.upgrade_to_this();
    release.until("it offers the same", offers);
    assert_eq!(held(&namespace, &["one", "two"]), first, "pods go on with what they had");
    is_kept(&cluster, &then);
    run(&release, &namespace, "three", &pod("three"));

    release.roll_back();
    release.until("it offers the same again", offers);
    assert_eq!(held(&namespace, &["one", "two"]), first, "and still do");
    run(&release, &namespace, "four", &pod("four"));
    is_kept(&cluster, &then);

    release.upgrade_to_this();
    namespace.delete_pods();
    let said = release.uninstall().unwrap_or_else(|error| panic!("{error}\n{}", release.logs()));
    before.until_back(&cluster, &said);
}

#[test]
fn claims_and_policies_outlive_an_upgrade() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(node) = GpuNode::new(&cluster, "upgrade-claims", "h200-141gb:3") else { return };
    let Some(release) = Release::new(&cluster, &node) else { return };
    let Some(previous) = Previous::bring(&cluster) else { return };
    let namespace = cluster.namespace("upgrade-claims");
    let before = Everything::now(&cluster);
    release.install_previous(&previous, &["agent.mode=claims"]);
    let claims = [
        ("fraction", Ask::of("fraction").share("20Gi", "25")),
        ("mig", Ask::profile("mig", "1g.18gb")),
        ("mps", Ask::of("mps").share("10Gi", "30")),
    ];
    for (name, ask) in &claims {
        run(&release, &namespace, name, &node.claiming_pod(name, ask));
    }
    let policy = json!({
        "apiVersion": "carve.dev/v1alpha1", "kind": "SlicePolicy", "metadata": {"name": "kept"},
        "spec": {"nodeSelector": {"no": "such-node"}, "sharing": {"mechanism": "MPS", "replicas": 4}},
    });
    namespace.apply(&policy.to_string());
    let names = claims.each_ref().map(|(name, _)| *name);
    let (first, then) = (held(&namespace, &names), Everything::now(&cluster));
    let policy = || cluster.get(&["slicepolicy", "kept"])["spec"].clone();
    let kept = policy();

    release.upgrade_to_this();
    assert_eq!(held(&namespace, &names), first, "pods go on with what their claims were given");
    is_kept(&cluster, &then);
    assert_eq!(policy(), kept, "policies are the same");
    // What the release before made ready, this one takes back; and it makes others ready.
    for (name, ask) in &claims {
        let after = format!("{name}-after");
        run(&release, &namespace, &after, &node.claiming_pod(&after, ask));
    }
    let distinct: std::collections::BTreeSet<String> =
        ["mig", "mig-after"].iter().map(|pod| part(&namespace, pod)).collect();
    assert_eq!(distinct.len(), 2, "no MIG device is given twice");
    let uids: Vec<String> = items(&namespace).iter().map(|claim| word(&claim["metadata"]["uid"])).collect();
    assert_eq!(uids.len(), 6);
    namespace.delete_pods();
    cluster.kubectl(&["delete", "resourceclaims", "--all", "-n", namespace.name(), "--timeout=180s"]);
    let taken_back = || {
        let files = cluster.on_node(&["ls", "/var/run/cdi"]);
        !uids.iter().any(|uid| files.contains(uid.as_str()))
    };
    release.until("all are taken back", taken_back);
    cluster.kubectl(&["delete", "slicepolicy", "kept"]);
    let said = release.uninstall().unwrap_or_else(|error| panic!("{error}\n{}", release.logs()));
    before.until_back(&cluster, &said);
}

fn items(namespace: &Namespace) -> Vec<Value> {
    namespace.get(&["resourceclaims"])["items"].as_array().cloned().unwrap_or_default()
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
