//! Every example of the other systems, through the real API server, on both roads: admitted and put on a legal slice, or refused or waiting
//! for a stated reason. The table `docs/reference/placed.md` says which.
//!
//! The test fails when the table is another one; `UPDATE_TABLES=1` writes it anew. Of the manifests only names and figures are in it. Nodes
//! have no kubelets: where pods land is the scheduler's word, and what they hold is read from the API server alone.

#[path = "../../crates/admission/tests/pods/manifests.rs"]
mod manifests;

use carve_cluster_tests::{
    Cluster, ControlPlane, DeviceOrder, HollowNodes, Namespace, Offered, PATIENCE, class_objects,
    given_device, machine_layout, slice_objects, why_waiting,
};
use carve_dra::Ways;
use manifests::{asked, manifests, pods_in};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

const DRIVER: &str = "gpu.carve.dev";
const SUITE: &str = "admit-examples";
/// Nodes, all alike, so that a share of a GPU is the same amount everywhere; enough for all examples at once.
const MACHINES: [&str; 16] = ["a100-80gb:8"; 16];

const HEAD: &str = "# Where pods written for other systems land

Every pod and pod template of [admitted.md](admitted.md), created through a real API server with `carve controller` as its webhook, on nodes with
A100s of 80 GB, and placed by the stock scheduler of Kubernetes 1.36.4: on the claims road by its own plugins, on the scheduler road by a
second one that asks the controller. `cluster-tests/tests/admit_examples.rs` writes this table, fails when it is another one, and checks from the
API server's objects alone that no GPU is given out twice. Images, volumes that the cluster lacks, and wishes for particular nodes were taken out of
the pods; everything else is as its author wrote it.

- *device plugin*: whole GPUs and MIG devices in the device plugin's words are its own; the pod is bound to a node that has them.

| file | object | claims | scheduler |
|---|---|---|---|
";

struct Example {
    file: String,
    object: String,
    pod: Value,
}

/// The examples, with what the lab can not have taken out.
fn examples(image: &str) -> Option<Vec<Example>> {
    let folder = carve_test_support::fixtures("fractional")?;
    let mut all = Vec::new();
    for path in manifests(&folder) {
        let file = path.strip_prefix(&folder).expect("inside").display().to_string();
        for (object, pod) in pods_in(&path) {
            if asked(&pod).is_none() || pod["spec"]["resourceClaims"].is_array() {
                continue;
            }
            let pod = reduced(&pod, &format!("example-{}", all.len()), image);
            all.push(Example { file: file.clone(), object, pod });
        }
    }
    Some(all)
}

fn reduced(pod: &Value, name: &str, image: &str) -> Value {
    let mut spec = Map::new();
    let gone: Vec<&Value> = pod["spec"]["volumes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|volume| volume.get("hostPath").is_none() && volume.get("emptyDir").is_none())
        .map(|volume| &volume["name"])
        .collect();
    for (key, value) in pod["spec"].as_object().into_iter().flatten() {
        let kept =
            ["containers", "initContainers", "schedulerName", "hostPID", "hostIPC", "hostNetwork", "volumes"];
        if kept.contains(&key.as_str()) {
            spec.insert(key.clone(), value.clone());
        }
    }
    let mut spec = Value::Object(spec);
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            container["image"] = image.into();
            let mounts = container.get_mut("volumeMounts").and_then(Value::as_array_mut);
            mounts.into_iter().for_each(|mounts| mounts.retain(|mount| !gone.contains(&&mount["name"])));
            for (_, amounts) in container["resources"].as_object_mut().into_iter().flatten() {
                amounts.as_object_mut().into_iter().for_each(|map| map.retain(|name, _| name.contains('/')));
            }
        }
    }
    if let Some(volumes) = spec.get_mut("volumes").and_then(Value::as_array_mut) {
        volumes.retain(|volume| !gone.contains(&&volume["name"]));
    }
    HollowNodes::allow(&mut spec, SUITE);
    let annotations = &pod["metadata"]["annotations"];
    let labels = &pod["metadata"]["labels"];
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations, "labels": labels}, "spec": spec})
}

/// What becomes of the examples on one road, one after the other in their order.
fn placed(
    cluster: &Cluster,
    namespace: &Namespace,
    examples: &[Example],
    plane: &ControlPlane,
) -> Vec<String> {
    let mut refused: BTreeMap<usize, String> = BTreeMap::new();
    for (number, example) in examples.iter().enumerate() {
        let words = ["create", "-n", namespace.name(), "-f", "-"];
        if let Err(error) = cluster.try_kubectl(&words, Some(&example.pod.to_string())) {
            let words = error.split_once("denied the request: ").map_or(error.as_str(), |(_, words)| words);
            refused.insert(number, format!("refused: {}", words.trim()));
        }
    }
    let pods = || {
        let all = namespace.get(&["pods"]);
        let items = all["items"].as_array().cloned().unwrap_or_default();
        let named = |pod: Value| (pod["metadata"]["name"].as_str().unwrap_or_default().to_owned(), pod);
        items.into_iter().map(named).collect::<BTreeMap<String, Value>>()
    };
    let decided = |pod: &Value| {
        pod["spec"]["nodeName"].is_string() || why_waiting(pod).is_some() || elsewhere(pod).is_some()
    };
    let all_decided = || pods().values().all(decided);
    cluster.until_or("every example is placed or has a reason", PATIENCE, all_decided, || plane.said());
    // What waits now may only wait for somebody who was placed a moment ago; nobody leaves, so this is final.
    let (pods, claims) = (pods(), namespace.get(&["resourceclaims"]));
    let told = |number: usize| {
        let name = format!("example-{number}");
        match (refused.get(&number), pods.get(&name)) {
            (Some(words), _) => words.clone(),
            (None, Some(pod)) => holds(pod, &claims),
            (None, None) => panic!("{name} is gone"),
        }
    };
    (0..examples.len()).map(told).collect()
}

/// The scheduler of a pod that is left alone, where the cluster has none of that name.
fn elsewhere(pod: &Value) -> Option<&str> {
    let name = pod["spec"]["schedulerName"].as_str()?;
    (!["default-scheduler", "carve-scheduler"].contains(&name)).then_some(name)
}

/// What a pod holds, without saying which GPU it is of: that depends on who came first.
fn holds(pod: &Value, claims: &Value) -> String {
    if let Some(reason) = why_waiting(pod).filter(|_| pod["spec"]["nodeName"].is_null()) {
        let reason = reason.split_once("nodes are available: ").map_or(reason.as_str(), |(_, why)| why);
        let reason = reason.split_once(". ").map_or(reason, |(why, _)| why);
        let bare =
            |one: &str| one.trim_start_matches(|letter: char| letter.is_ascii_digit()).trim().to_owned();
        let mut reasons: Vec<String> =
            reason.split(", ").map(bare).filter(|one| !one.contains("affinity")).collect();
        reasons.sort();
        reasons.dedup();
        // Nodes that others have filled tell nothing about this one.
        if reasons.iter().any(|one| !one.starts_with("Insufficient")) {
            reasons.retain(|one| !one.starts_with("Insufficient"));
        }
        return format!("waits: {}", reasons.join(", "));
    }
    if let Some(scheduler) = elsewhere(pod) {
        return format!("device plugin, when {scheduler} places it");
    }
    let kind = |device: &str| -> String {
        let text = device.split('{').next().unwrap_or(device);
        // gpu-3-mig-1g10gb-19-5: the number of the GPU and the place on it are taken out.
        let parts: Vec<&str> = text.split('-').collect();
        match parts.as_slice() {
            ["gpu", _] => "whole GPU".to_owned(),
            ["gpu", _, "mig", profile, ..] => format!("MIG {profile}"),
            ["gpu", _, rest @ ..] => rest.join("-"),
            _ => text.to_owned(),
        }
    };
    let mut told: Vec<String> = Vec::new();
    match pod["metadata"]["labels"]["carve.dev/admitted"].as_str() {
        None => return "device plugin".to_owned(),
        Some("claims") => {
            let name = &pod["metadata"]["name"];
            for claim in claims["items"].as_array().into_iter().flatten() {
                if claim["metadata"]["ownerReferences"][0]["name"] != *name {
                    continue;
                }
                for result in
                    claim["status"]["allocation"]["devices"]["results"].as_array().into_iter().flatten()
                {
                    let device = given_device(result);
                    let taken = device
                        .split_once('{')
                        .map(|(_, taken)| taken.trim_end_matches('}').replace(',', " "));
                    told.push(format!("{} {}", kind(&device), taken.unwrap_or_default()).trim().to_owned());
                }
            }
        }
        Some(_) => {
            for (container, _, memory, compute) in parts(pod) {
                let limit = if compute == 0 {
                    "no limit of compute".to_owned()
                } else {
                    format!("{} %", compute as f64 / 10.0)
                };
                told.push(format!("{container}: {memory} MiB, {limit}"));
            }
        }
    }
    told.sort();
    carve_cluster_tests::counted(told, "; ")
}

/// Container, GPU, MiB and tenths of a percent of every part that a pod was given.
fn parts(pod: &Value) -> Vec<(String, String, u64, u64)> {
    let text = pod["metadata"]["annotations"]["carve.dev/slices"].as_str().unwrap_or("{}");
    let slices: Value = serde_json::from_str(text).expect("JSON");
    let mut all = Vec::new();
    for container in slices["containers"].as_array().into_iter().flatten() {
        for part in container["slices"].as_array().into_iter().flatten() {
            let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let number = |value: &Value| value.as_u64().unwrap_or(0);
            all.push((
                word(&container["name"]),
                word(&part["gpu"]),
                number(&part["memory"]),
                number(&part["compute"]),
            ));
        }
    }
    all
}

/// Whether the pods of a namespace hold no more than nodes have, and only what their own node has; by hand, from the objects alone.
fn check_scheduler_road(cluster: &Cluster, namespace: &Namespace) {
    let mut left: BTreeMap<(String, String), (u64, u64)> = BTreeMap::new();
    for node in cluster.get(&["nodes"])["items"].as_array().into_iter().flatten() {
        let Some(text) = node["metadata"]["annotations"]["carve.dev/gpus"].as_str() else { continue };
        let gpus: Value = serde_json::from_str(text).expect("JSON");
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        for gpu in gpus["gpus"].as_array().into_iter().flatten() {
            let uuid = gpu["uuid"].as_str().unwrap_or_default().to_owned();
            left.insert((name.to_owned(), uuid), (gpu["memory"].as_u64().unwrap_or(0), 1000));
        }
    }
    let mut held = 0;
    for pod in namespace.get(&["pods"])["items"].as_array().into_iter().flatten() {
        let Some(node) = pod["spec"]["nodeName"].as_str() else { continue };
        let init: Vec<&Value> =
            pod["spec"]["initContainers"].as_array().into_iter().flatten().map(|one| &one["name"]).collect();
        for (container, gpu, memory, compute) in parts(pod) {
            if init.contains(&&Value::from(container)) {
                continue;
            }
            let there = left.get_mut(&(node.to_owned(), gpu.clone()));
            let there = there.unwrap_or_else(|| panic!("{gpu} is no GPU of {node}"));
            let (memory_left, compute_left) = (there.0.checked_sub(memory), there.1.checked_sub(compute));
            *there =
                (memory_left.expect("memory is given once"), compute_left.expect("compute is given once"));
            held += 1;
        }
    }
    assert!(held > 20, "the examples hold {held} parts");
}

/// What the nodes say of themselves on the scheduler road, as agents write it.
fn offer_parts(cluster: &Cluster, nodes: &[String]) {
    for node in nodes {
        let (product, memory) = ("NVIDIA A100-SXM4-80GB", 81_920_u64);
        let gpus: Vec<Value> = (0..8)
            .map(|gpu| json!({"uuid": format!("GPU-{node}-{gpu}"), "product": product, "memory": memory}))
            .collect();
        let annotation = format!("carve.dev/gpus={}", json!({"v": 1, "gpus": gpus}));
        cluster.kubectl(&["annotate", "node", node, "--overwrite", &annotation]);
        let sizes = json!({"carve.dev/slice": "128", "carve.dev/memory": (memory * 8).to_string(), "carve.dev/compute": "800",
            "nvidia.com/gpu": "200", "nvidia.com/mig-3g.20gb": "100", "nvidia.com/mig-1g.5gb": "100", "nvidia.com/mig-1g.10gb": "100"});
        let patch = json!({"status": {"capacity": sizes, "allocatable": sizes}}).to_string();
        cluster.kubectl(&["patch", "node", node, "--subresource=status", "--type=merge", "-p", &patch]);
    }
}

#[test]
fn every_example_ends_on_a_legal_slice_or_says_why_not() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(examples) = examples(cluster.probe_image()) else { return };
    assert!(examples.len() > 60, "the examples were not found");
    let names: Vec<String> = (0..MACHINES.len()).map(|number| format!("{SUITE}-{number}")).collect();
    let _nodes = HollowNodes::new(&cluster, SUITE, &names);
    offer_parts(&cluster, &names);
    let own = cluster.namespace(SUITE);

    let tenants = cluster.namespace("examples-scheduler");
    let Some(plane) = ControlPlane::start(&cluster, &own, "scheduler") else { return };
    let scheduler = placed(&cluster, &tenants, &examples, &plane);
    check_scheduler_road(&cluster, &tenants);
    let force = ["delete", "pods", "--all", "-n", tenants.name(), "--force", "--grace-period=0"];
    cluster.kubectl(&force);
    drop(plane);

    let offered = Offered::new(&cluster, DRIVER);
    let mut objects = class_objects(DRIVER);
    for (node, machine) in names.iter().zip(MACHINES) {
        let layout = machine_layout(machine, &Ways::default(), DeviceOrder::Packing).expect("a machine");
        objects.extend(slice_objects(DRIVER, node, &layout));
    }
    offered.publish(&objects);
    let tenants = cluster.namespace("examples-claims");
    let Some(plane) = ControlPlane::start(&cluster, &own, "auto") else { return };
    let claims = placed(&cluster, &tenants, &examples, &plane);
    drop(plane);

    let mut table = HEAD.to_owned();
    let cell = |words: &str| words.replace('|', "\\|").replace('\n', " ");
    for ((example, claims), scheduler) in examples.iter().zip(&claims).zip(&scheduler) {
        let _ = writeln!(
            table,
            "| `{}` | {} | {} | {} |",
            example.file,
            cell(&example.object),
            cell(claims),
            cell(scheduler)
        );
    }
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/placed.md");
    if std::env::var_os("UPDATE_TABLES").is_some() {
        std::fs::write(&path, &table).expect("the table");
    }
    let recorded = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = carve_test_support::lines_that_differ(&recorded, &table);
    assert!(recorded == table, "the table is another one; UPDATE_TABLES=1 rewrites it:\n{differs}");
}
