//! The manifests of `examples/dra`, applied as they are and under the name of NVIDIA's driver: each gets what its own comment says.

use carve_cluster_tests::{
    Batch, Cluster, DeviceOrder, HollowNodes, Offered, PATIENCE, Unit, class_objects, documents,
    machine_layout, slice_objects,
};
use carve_dra::{Mode, Ways};
use carve_formats::dra_config::OpaqueConfig;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

/// The machine that the comments speak of.
const MACHINE: &str = "h100-sxm-80gb:2";

/// Classes are of the whole cluster, and only one of them can stand for `nvidia.com/gpu`.
static EXTENDED: Mutex<()> = Mutex::new(());

/// Every example by its name, without `.yaml`; a new one is applied without this test being told of it.
fn examples() -> BTreeMap<String, String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/dra");
    let files = std::fs::read_dir(folder).expect("the examples").flatten();
    let read = |file: std::fs::DirEntry| {
        let name = file.file_name().to_string_lossy().strip_suffix(".yaml")?.to_owned();
        Some((name, std::fs::read_to_string(file.path()).expect("an example")))
    };
    files.filter_map(read).collect()
}

/// What an example says its claims get: the indented lines of its comment after the one that announces them.
fn promised(name: &str, text: &str) -> String {
    let comment = text.lines().map_while(|line| line.strip_prefix('#'));
    let after = comment.skip_while(|line| !line.contains("the claims get")).skip(2);
    let lines: Vec<&str> = after.map_while(|line| line.strip_prefix("   ")).collect();
    assert!(!lines.is_empty(), "{name} does not say what its claims get");
    lines.join("; ")
}

/// What the comments tell people to do where the driver has NVIDIA's name.
fn under_nvidias_name(text: &str) -> String {
    text.replace(".carve.dev", ".nvidia.com")
}

/// What else the comment of `first-available` says: what it gets on nodes that offer less.
fn elsewhere(first_available: &str, image: &str) -> [(Unit, &'static str); 2] {
    let cases = [
        ("without-mig", Mode::All, "gpu-0-frac{compute:15,memory:9Gi}"),
        ("turns-alone", Mode::TimeSlicing, "gpu-0-ts{replicas:1}"),
    ];
    cases.map(|(name, mode, gets)| {
        let mut unit = Unit::new(name, "l40s:1");
        unit.ways = mode.ways();
        unit.take_all(first_available, image);
        (unit, gets)
    })
}

fn applied(cluster: &Cluster, driver: &str, rename: impl Fn(&str) -> String) {
    let mut examples = examples();
    let classes = documents(&rename(&examples.remove("classes").expect("the classes")));
    let suite = format!("example-{}", driver.replace('.', "-"));
    let unit = |name: &String, text: &String| {
        let mut unit = Unit::new(&format!("{suite}-{name}"), MACHINE);
        unit.take_all(&rename(text), cluster.probe_image());
        unit
    };
    let mut units: Vec<Unit> = examples.iter().map(|(name, text)| unit(name, text)).collect();
    let mut expected: BTreeMap<String, String> =
        examples.iter().map(|(name, text)| (format!("{suite}-{name}"), promised(name, text))).collect();
    for (mut unit, gets) in elsewhere(&rename(&examples["first-available"]), cluster.probe_image()) {
        unit.name = format!("{suite}-{}", unit.name);
        expected.insert(unit.name.clone(), gets.to_owned());
        units.push(unit);
    }
    let batch = Batch::apply(cluster, &suite, driver, &classes, units);
    let differing = || {
        let told = batch.answers(&expected);
        let differs = |(name, promised): (&String, &String)| {
            let told = told.get(name).map_or("nothing yet", String::as_str);
            (told != promised).then(|| format!("{name}\n  says: {promised}\n  gets: {told}"))
        };
        expected.iter().filter_map(differs).collect::<Vec<_>>().join("\n")
    };
    cluster.until_or("every example gets what it says", PATIENCE / 3, || differing().is_empty(), differing);
}

#[test]
fn examples_get_what_their_comments_say() {
    let Some(cluster) = Cluster::connect() else { return };
    let _one_at_a_time = EXTENDED.lock().expect("the other test went well");
    applied(&cluster, "gpu.carve.dev", str::to_owned);
    // One after the other: both make the extended resource nvidia.com/gpu.
    applied(&cluster, "gpu.nvidia.com", under_nvidias_name);
}

/// Every file begins with what it does, how to apply it and what to see; needs no cluster.
#[test]
fn examples_say_what_they_do_and_their_configs_are_read() {
    let examples = examples();
    assert!(examples.len() >= 14, "{:?}", examples.keys());
    let mut configs = 0;
    for (name, text) in &examples {
        assert!(text.starts_with("# "), "{name} begins with a comment");
        assert!(
            text.contains(&format!("kubectl apply -f examples/dra/{name}.yaml")),
            "{name} says how to apply it"
        );
        if name != "classes" {
            promised(name, text);
        }
        for document in documents(text) {
            let claims = [&document["spec"]["devices"], &document["spec"]["spec"]["devices"]];
            let of = |devices: &Value| devices["config"].as_array().cloned().unwrap_or_default();
            for config in claims.into_iter().flat_map(of) {
                let read = OpaqueConfig::decode(&config["opaque"]["parameters"]);
                read.unwrap_or_else(|error| panic!("{name}: {error}"));
                configs += 1;
            }
        }
    }
    assert!(configs >= 4, "only {configs} configs were read");
}

/// The classes of the examples are those that the program has.
#[test]
fn the_classes_are_those_of_the_program() {
    let text = examples().remove("classes").expect("the classes");
    assert_eq!(documents(&text), class_objects("gpu.carve.dev"));
    assert_eq!(documents(&under_nvidias_name(&text)), class_objects("gpu.nvidia.com"));
}

/// While a cluster moves from the device plugin to claims, some nodes have `nvidia.com/gpu` and some have slices.
#[test]
fn old_manifests_land_on_both_kinds_of_nodes() {
    let Some(cluster) = Cluster::connect() else { return };
    let _one_at_a_time = EXTENDED.lock().expect("the other test went well");
    let [old, new] = ["moving-device-plugin", "moving-claims"].map(str::to_owned);
    let _nodes = HollowNodes::new(&cluster, "moving", &[old.clone(), new.clone()]);
    // Kubelet goes on listing the resource of a plugin that has gone, with 0.
    for (node, number) in [(&old, "2"), (&new, "0")] {
        let amount = json!({"nvidia.com/gpu": number});
        let change = json!({"status": {"capacity": amount, "allocatable": amount}}).to_string();
        cluster.kubectl(&["patch", "node", node, "--subresource=status", "--type=merge", "-p", &change]);
    }
    let offered = Offered::new(&cluster, "gpu.carve.dev");
    let layout = machine_layout(MACHINE, &Ways::default(), DeviceOrder::Packing).expect("a machine");
    offered.publish(&class_objects(offered.driver()));
    offered.publish(&slice_objects(offered.driver(), &new, &layout));
    let namespace = cluster.namespace("moving");
    let example = examples().remove("extended-resource").expect("the example");
    let mut pod = documents(&example).remove(0);
    HollowNodes::allow(&mut pod["spec"], "moving");
    for number in 0..5 {
        pod["metadata"]["name"] = format!("old-{number}").into();
        namespace.apply(&pod.to_string());
    }
    let placed = || {
        let pods = namespace.get(&["pods"]);
        let place = |pod: &Value| {
            let node = pod["spec"]["nodeName"].as_str().unwrap_or("none").to_owned();
            (node, !pod["status"]["extendedResourceClaimStatus"].is_null())
        };
        let mut places: Vec<(String, bool)> =
            pods["items"].as_array().into_iter().flatten().map(place).collect();
        places.sort();
        places
    };
    let expected =
        [(new.clone(), true), (new, true), (old.clone(), false), (old, false), ("none".to_owned(), false)];
    let what = "two pods have a claim, two are counted by the device plugin, and one waits";
    cluster.until_or(what, PATIENCE / 3, || placed() == expected, || format!("{:?}", placed()));
}
