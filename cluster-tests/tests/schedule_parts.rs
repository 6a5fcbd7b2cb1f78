//! The scheduler road, whole: pods in anyone's words are admitted by the webhook, placed by a second stock scheduler that asks the controller,
//! and started by a real kubelet with the part that was decided; and nobody gets around it.

use carve_cluster_tests::{Cluster, ControlPlane, GpuNode, Namespace, PATIENCE};
use carve_lab::Image;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const IMAGE: &str = "localhost/takes:2";

/// The limiter's library; the tests' own command builds it.
fn library() -> Option<PathBuf> {
    let found = std::env::var_os("CARVE_LIMITER_LIBRARY").map(PathBuf::from).filter(|path| path.exists());
    if found.is_none() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "CARVE_LIMITER_LIBRARY must name the limiter");
        eprintln!("skipped: CARVE_LIMITER_LIBRARY does not name the limiter (cargo xtask limiter builds it)");
    }
    found
}

/// A pod with a program that takes memory, in the words of a dialect.
fn pod(node: &GpuNode, name: &str, annotations: Value, limits: Value) -> String {
    let folder = node.machine_folder().display().to_string();
    let env = json!([{"name": "CARVE_SIM_STATE", "value": "/machine/machine.json"}, {"name": "CARVE_SIM_DEV", "value": "/dev"}]);
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["/bin/sleep", "infinity"], "env": env,
                "resources": {"limits": limits}, "volumeMounts": [{"name": "machine", "mountPath": "/machine"}],
            }],
            "volumes": [{"name": "machine", "hostPath": {"path": folder}}],
        },
    })
    .to_string()
}

/// What a pod was given: GPU, MiB and tenths of a percent of each part.
fn given(namespace: &Namespace, name: &str) -> Vec<(String, u64, u64)> {
    let pod = namespace.get(&["pod", name]);
    let text = pod["metadata"]["annotations"]["carve.dev/slices"].as_str().unwrap_or("null").to_owned();
    let slices: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let containers = slices["containers"].as_array().cloned().unwrap_or_default();
    let parts =
        containers.iter().flat_map(|container| container["slices"].as_array().cloned().unwrap_or_default());
    parts
        .map(|part| {
            let gpu = part["gpu"].as_str().unwrap_or_default().to_owned();
            (gpu, part["memory"].as_u64().unwrap_or(0), part["compute"].as_u64().unwrap_or(0))
        })
        .collect()
}

#[test]
fn a_part_is_admitted_placed_and_held() {
    let (Some(cluster), Some(library)) = (Cluster::connect(), library()) else { return };
    let Some(node) = GpuNode::new(&cluster, "parts", "a100-40gb:2") else { return };
    let image = Image::new(IMAGE).program(Path::new(env!("CARGO_BIN_EXE_takes_memory")), "/takes-memory");
    let image = image.and_then(|image| image.program(Path::new("/bin/sleep"), "/bin/sleep"));
    cluster.import(&image.unwrap_or_else(|error| panic!("{error:#}")));
    let namespace = cluster.namespace("parts");
    let library = library.display().to_string();
    let agent = node.start_agent(&namespace, &[("CARVE_SLICES", "true"), ("CARVE_LIMITER", &library)]);
    let Some(plane) = ControlPlane::start(&cluster, &namespace, "scheduler") else { return };
    agent.offers("carve.dev/slice", 32);
    let tenants = cluster.namespace("parts-tenants");
    let hami = json!({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"});
    for (name, annotations, limits) in [
        ("hami-1", json!({}), hami.clone()),
        ("hami-2", json!({}), hami.clone()),
        ("kai", json!({"gpu-fraction": "0.5"}), json!({})),
        (
            "volcano",
            json!({}),
            json!({"volcano.sh/vgpu-number": "2", "volcano.sh/vgpu-memory": "2048", "volcano.sh/vgpu-cores": "10"}),
        ),
        ("ours", json!({}), json!({"carve.dev/gpu-memory": "4096", "carve.dev/gpu-compute": "20"})),
    ] {
        tenants.apply(&pod(&node, name, annotations, limits));
    }
    for name in ["hami-1", "hami-2", "kai", "volcano", "ours"] {
        let runs = || tenants.phase(name) == "Running";
        cluster.until_or(&format!("{name} runs"), PATIENCE, runs, || {
            format!("{}\n{}", plane.said(), agent.log())
        });
    }
    let [(_, memory, compute)] = given(&tenants, "hami-1")[..] else { panic!("one part") };
    assert_eq!((memory, compute), (3_000, 300));
    let volcano = given(&tenants, "volcano");
    assert!(volcano.len() == 2 && volcano[0].0 != volcano[1].0, "two parts of different GPUs: {volcano:?}");
    // What is promised is what a program gets: 3000 MiB, and not one more.
    let taken = tenants.exec("hami-1", &["/takes-memory"]);
    assert!(taken.starts_with("3000 2944 "), "{taken}");
}
