//! Pods in every dialect, admitted on the claims road, on the real API server and scheduler: templates are taken as they are written, and the
//! scheduler gives what the words ask for.
//!
//! Each set has a namespace and a node without a kubelet of its own, with two simulated A100 of 80 GB.

use carve_admission::{Admission, Fleet, FleetProduct, FleetProfile, Outcome, Policy, Road, admit};
use carve_cluster_tests::{
    Batch, Cluster, DeviceOrder, PATIENCE, Unit, class_objects, machine_layout, text_attribute,
};
use carve_dra::{Quantity, Ways};
use carve_gpu_model::Mebibytes;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const DRIVER: &str = "gpu.carve.dev";
const MACHINE: &str = "a100-80gb:2";

/// What a machine's own devices say of it, as a controller learns it from ResourceSlices.
fn fleet() -> Fleet {
    let layout = machine_layout(MACHINE, &Ways::default(), DeviceOrder::Packing).expect("a machine");
    let mut product = FleetProduct { name: String::new(), memory: Mebibytes(0), profiles: Vec::new() };
    for device in layout.gpus.iter().flatten() {
        let memory = match device.capacity.get("memory").map(|capacity| capacity.value) {
            Some(Quantity::Memory(memory)) => memory,
            _ => continue,
        };
        match (text_attribute(device, "type"), text_attribute(device, "profile")) {
            (Some("fraction"), _) => {
                product.name = text_attribute(device, "productName").expect("a name").to_owned();
                product.memory = memory;
            }
            (Some("mig"), Some(profile)) => {
                let name = profile.parse().expect("a profile");
                if product.profiles.iter().all(|known| known.name != name) {
                    product.profiles.push(FleetProfile { name, memory });
                }
            }
            _ => {}
        }
    }
    // One that is not on any node of the test: its alternative is passed over.
    let absent =
        FleetProduct { name: "Tesla T4".to_owned(), memory: Mebibytes(15_360), profiles: Vec::new() };
    Fleet { products: vec![product, absent], ..Fleet::default() }
}

/// A set of pods that are alike, and what their claims get.
struct Case {
    name: &'static str,
    annotations: Value,
    limits: Value,
    pods: usize,
    gets: &'static str,
}

fn case(name: &'static str, annotations: Value, limits: Value, pods: usize, gets: &'static str) -> Case {
    Case { name, annotations, limits, pods, gets }
}

fn many_models() -> String {
    let long = (0..31).map(|number| format!("{number:02}{}", "x".repeat(62)));
    long.chain(["A100".to_owned()]).collect::<Vec<_>>().join(",")
}

fn cases() -> Vec<Case> {
    let no = || json!({});
    let part = |memory: &str, compute: &str| json!({"carve.dev/gpu-memory": memory, "carve.dev/gpu-compute": compute});
    vec![
        case(
            "hami",
            no(),
            json!({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"}),
            3,
            "3 × gpu-0-frac{compute:30,memory:3Gi}",
        ),
        // Memory alone is no reason to have a GPU alone.
        case("memory-alone", json!({"gpu-memory": "2000"}), no(), 2, "2 × gpu-0-frac{compute:0,memory:2Gi}"),
        // This scheduler looks at a device once for a request; the constraint says what is meant to those that do not.
        case(
            "different-gpus",
            no(),
            json!({"nvidia.com/gpu": "2", "nvidia.com/gpumem": "4096", "nvidia.com/gpucores": "10"}),
            2,
            "2 × gpu-0-frac{compute:10,memory:4Gi} + gpu-1-frac{compute:10,memory:4Gi}",
        ),
        case(
            "too-many-gpus",
            no(),
            json!({"nvidia.com/gpu": "3", "nvidia.com/gpumem": "4096"}),
            1,
            "waits: cannot allocate all claims",
        ),
        // Two halves of a GPU fill it, and the third goes to the other one.
        case(
            "halves",
            json!({"gpu-fraction": "0.5"}),
            no(),
            3,
            "2 × gpu-0-frac{compute:50,memory:40704Mi}; gpu-1-frac{compute:50,memory:40704Mi}",
        ),
        case(
            "mps",
            json!({"mps": "true"}),
            part("8192", "25"),
            2,
            "2 × gpu-0-mps{clients:1,compute:25,memory:8Gi}",
        ),
        case("turns", no(), json!({"nvshare.com/gpu": "1"}), 2, "2 × gpu-0-ts{replicas:1}"),
        case("whole", no(), json!({"koordinator.sh/gpu": "200"}), 1, "gpu-0 + gpu-1"),
        case(
            "mig",
            json!({"nvidia.com/vgpu-mode": "mig"}),
            json!({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8000"}),
            2,
            "gpu-0-mig-1g10gb-19-5; gpu-0-mig-1g10gb-19-6",
        ),
        case(
            "tenant",
            json!({"carve.dev/isolation": "tenant"}),
            part("4096", "10"),
            1,
            "gpu-0-mig-1g10gb-19-6",
        ),
        case(
            "burst",
            json!({"carve.dev/burst": "true"}),
            part("4096", "25"),
            1,
            "gpu-0-frac{compute:25,memory:4Gi}",
        ),
        case(
            "model",
            json!({"nvidia.com/use-gputype": "a100-sxm4", "nvidia.com/nouse-gputype": "40GB,H100", "nvidia.com/nouse-gpuuuid": "GPU-1"}),
            json!({"nvidia.com/gpumem": "1024", "nvidia.com/gpucores": "5"}),
            1,
            "gpu-0-frac{compute:5,memory:1Gi}",
        ),
        // As many names as are taken, each as long as it may be: the selector is still cheap enough for the API server.
        case(
            "many-models",
            json!({"nvidia.com/use-gputype": many_models()}),
            json!({"nvidia.com/gpumem": "1024", "nvidia.com/gpucores": "5"}),
            1,
            "gpu-0-frac{compute:5,memory:1Gi}",
        ),
        case(
            "another-model",
            json!({"nvidia.com/use-gputype": "H100"}),
            json!({"nvidia.com/gpumem": "1024"}),
            1,
            "waits: cannot allocate all claims",
        ),
    ]
}

/// What the pod becomes, and its templates.
fn admitted(case: &Case, namespace: &str, road: Road, pod: &Value) -> (Value, Vec<Value>) {
    let outcome = admit(pod, namespace, &Policy::default(), road, &fleet());
    let Outcome::Admitted(Admission { patch, templates, .. }) = outcome else {
        panic!("{}: {outcome:?}", case.name)
    };
    let patch: json_patch::Patch =
        serde_json::from_value(serde_json::to_value(patch).expect("a patch")).expect("as others read it");
    let mut after = pod.clone();
    json_patch::patch(&mut after, &patch).expect("it applies");
    (after, templates.into_iter().map(|template| template.object).collect())
}

/// A pod of a case. Where it asks by resources, an init container asks for the same, and needs no claim of its own.
fn pod(case: &Case, name: &str, image: &str) -> Value {
    let limits = &case.limits;
    let container = |name: &str| json!({"name": name, "image": image, "resources": {"limits": limits, "requests": limits}});
    let mut spec = json!({"containers": [container("work")]});
    if !limits.as_object().is_some_and(serde_json::Map::is_empty) {
        spec["initContainers"] = json!([container("before")]);
    }
    let metadata = json!({"name": name, "annotations": case.annotations});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

fn unit(case: &Case, image: &str) -> Unit {
    let name = format!("admit-{}", case.name);
    let mut unit = Unit::new(&name, MACHINE);
    for number in 0..case.pods {
        let asked = pod(case, &format!("p{number}"), image);
        let (pod, templates) = admitted(case, &name, Road::Claims, &asked);
        // Each template once, as the webhook does.
        let new = templates.into_iter().filter(|_| number == 0);
        new.for_each(|template| unit.take(template, image));
        unit.take(pod, image);
    }
    unit
}

#[test]
fn every_dialect_gets_what_it_asks_for() {
    let Some(cluster) = Cluster::connect() else { return };
    let units: Vec<Unit> = cases().iter().map(|case| unit(case, cluster.probe_image())).collect();
    let batch = Batch::apply(&cluster, "admit-claims", DRIVER, &class_objects(DRIVER), units);
    let expected: BTreeMap<String, String> =
        cases().iter().map(|case| (format!("admit-{}", case.name), case.gets.to_owned())).collect();
    let mut last = BTreeMap::new();
    let settled = std::time::Instant::now() + PATIENCE;
    while last != expected {
        last = batch.answers(&expected);
        assert!(
            std::time::Instant::now() < settled,
            "expected {expected:#?}, and the scheduler says {last:#?}"
        );
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
}

#[test]
fn pods_of_either_road_are_taken_by_the_api_server() {
    let Some(cluster) = Cluster::connect() else { return };
    for road in [Road::Claims, Road::Scheduler] {
        let image = cluster.probe_image();
        // What only claims can serve is refused on the other road.
        let each: Vec<Case> = cases()
            .into_iter()
            .filter(|case| road == Road::Claims || !["mps", "turns", "mig", "tenant"].contains(&case.name))
            .collect();
        let pods = each.iter().map(|case| admitted(case, "default", road, &pod(case, case.name, image)).0);
        let list = json!({"apiVersion": "v1", "kind": "List", "items": pods.collect::<Vec<_>>()}).to_string();
        let words = ["create", "--dry-run=server", "-o", "json", "-f", "-"];
        let taken =
            cluster.try_kubectl(&words, Some(&list)).unwrap_or_else(|error| panic!("{road:?}: {error}"));
        // Resources that no node has are kept, so that quotas can count them; tokens are whole numbers.
        assert_eq!(taken.contains("nvidia.com/gpumem"), road == Road::Scheduler);
        assert_eq!(taken.contains("\"carve.dev/slice\": \"2\""), road == Road::Scheduler);
        assert!(!taken.contains("\"nvidia.com/gpu\":"), "{road:?} leaves what nodes count");
    }
}
