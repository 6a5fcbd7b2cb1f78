//! The layout of every product on the real API server, and the real scheduler's choices among the modes of two GPUs.

use carve_cluster_api::SliceOwner;
use carve_cluster_tests::{Cluster, Namespace, PATIENCE, Pod};
use carve_dra::{GpuFacts, Sharing, Ways, layout, slices};
use carve_gpu_host::{GpuHost, Machine, SimulatedHost};
use carve_gpu_model::{GpuIndex, products::CATALOGUE};
use carve_test_support::fixture_text;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The slices of a machine, as one list of objects.
fn offer(driver: &str, machine: &str, ways: &Ways) -> Option<(Value, usize)> {
    let host = SimulatedHost::new(Machine::named(machine).ok()?);
    let facts = |gpu: carve_gpu_host::Gpu| {
        let index: GpuIndex = gpu.index;
        let table = host.profile_table(index).ok().filter(|table| !table.profiles().is_empty());
        let reserved = host.memory(index).expect("memory").reserved;
        GpuFacts { gpu, reserved, table, pcie_root: None, taints: Vec::new(), mig_taints: BTreeMap::new() }
    };
    let gpus: Vec<GpuFacts> = host.gpus().expect("GPUs").into_iter().map(facts).collect();
    let offered = slices(&layout(&host.driver().expect("a driver"), &gpus, ways));
    let owner = SliceOwner { driver: driver.to_owned(), node: "node0".to_owned(), node_uid: None };
    let objects: Vec<Value> = offered.iter().map(|slice| json!(owner.object(slice, 1))).collect();
    let number = objects.len();
    Some((json!({"apiVersion": "v1", "kind": "List", "items": objects}), number))
}

/// Slices and classes are objects of the whole cluster; they go with the test.
struct Offered<'a> {
    cluster: &'a Cluster,
    driver: &'static str,
}

impl Offered<'_> {
    fn withdraw(&self) {
        let driver = format!("--field-selector=spec.driver={}", self.driver);
        let _ = self.cluster.try_kubectl(&["delete", "resourceslices", &driver], None);
        let classes = format!("test={}", self.driver);
        let _ = self.cluster.try_kubectl(&["delete", "deviceclasses", "-l", &classes], None);
    }
}

impl Drop for Offered<'_> {
    fn drop(&mut self) {
        self.withdraw();
    }
}

fn apply(cluster: &Cluster, object: &Value) {
    let applied = cluster.try_kubectl(&["apply", "--server-side", "-f", "-"], Some(&object.to_string()));
    applied.unwrap_or_else(|error| panic!("{error}"));
}

/// The API server drops fields whose feature is switched off, so what it keeps is compared with what was sent.
fn published(offered: &Offered<'_>, list: &Value, number: usize) {
    let driver = format!("--field-selector=spec.driver={}", offered.driver);
    let kept = offered.cluster.get(&["resourceslices", &driver]);
    let kept: BTreeMap<String, Value> = kept["items"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|slice| (slice["metadata"]["name"].to_string(), slice["spec"].clone()))
        .collect();
    assert_eq!(kept.len(), number);
    for sent in list["items"].as_array().into_iter().flatten() {
        let name = sent["metadata"]["name"].to_string();
        assert_eq!(kept.get(&name), Some(&sent["spec"]), "{name}");
    }
}

#[test]
fn the_api_server_takes_and_keeps_the_layout_of_every_product() {
    let Some(cluster) = Cluster::connect() else { return };
    let offered = Offered { cluster: &cluster, driver: "every-product.example.com" };
    let ways = Ways { shared_mig: BTreeSet::from(Sharing::ALL), ..Ways::default() };
    let mut seen = 0;
    for product in CATALOGUE {
        // Nine GPUs have more counter sets than one slice holds; one product is enough to see that.
        let gpus = if product.key == "h200-141gb" { 9 } else { 1 };
        let machine = format!("{}:{gpus}", product.key);
        let Some((list, number)) = offer(offered.driver, &machine, &ways) else { continue };
        offered.withdraw();
        apply(&cluster, &list);
        published(&offered, &list, number);
        seen += 1;
    }
    assert!(seen >= 10, "only {seen} products could be laid out");
}

/// A claim of the scenario and a pod that wants it.
fn ask(namespace: &Namespace, offered: &Offered<'_>, claim: &Value) {
    let mut claim = claim.clone();
    let name = claim["metadata"]["name"].as_str().expect("a name").to_owned();
    claim["metadata"] = json!({"name": name});
    let text = claim.to_string().replace("gpu.slicer.example", offered.driver);
    namespace.apply(&text);
    let pod = Pod::sleeping(offered.cluster, &name)
        .spec("resourceClaims", json!([{"name": "it", "resourceClaimName": name}]))
        .container("resources", json!({"claims": [{"name": "it"}]}));
    namespace.apply(&pod.manifest());
}

/// What the scheduler gave a claim, in the words of the recorded answers; nothing while it has not decided.
fn decided(namespace: &Namespace, name: &str) -> Option<String> {
    let claim = namespace.get(&["resourceclaim", name]);
    let result = &claim["status"]["allocation"]["devices"]["results"][0];
    if let Some(device) = result["device"].as_str() {
        let consumed = result["consumedCapacity"].as_object().map(|consumed| {
            let each =
                consumed.iter().map(|(name, amount)| format!("{name}:{}", amount.as_str().unwrap_or("?")));
            format!("{{{}}}", each.collect::<Vec<_>>().join(","))
        });
        return Some(format!("OK r={device}{}", consumed.unwrap_or_default()));
    }
    let pod = namespace.get(&["pod", name]);
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let refused = conditions.any(|one| {
        one["type"] == "PodScheduled" && one["status"] == "False" && one["reason"] == "Unschedulable"
    });
    refused.then(|| "PENDING (no fit)".to_owned())
}

/// What it comes to. Where a claim should be served, it may wait at first: the scheduler learns a moment later who has left.
fn answer(namespace: &Namespace, cluster: &Cluster, name: &str, served: bool) -> String {
    let what = format!("the scheduler decides about {name}");
    let is_it = |told: String| told.starts_with("OK") || !served;
    cluster.until(&what, PATIENCE, || decided(namespace, name).is_some_and(is_it));
    decided(namespace, name).unwrap_or_default()
}

fn free(namespace: &Namespace, cluster: &Cluster, name: &str) {
    for kind in ["pod", "resourceclaim"] {
        cluster.kubectl(&["delete", kind, name, "-n", namespace.name(), "--wait=true"]);
    }
}

/// The modes of two GPUs under the same claims that were once put to the scheduler's own allocator.
#[test]
fn the_scheduler_switches_gpus_between_modes_as_recorded() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(scenario) = fixture_text("dra/ours/scenario-modes.yaml") else { return };
    let Some(expected) = fixture_text("dra/ours/scenario-modes.expected.txt") else { return };
    let offered = Offered { cluster: &cluster, driver: "modes.example.com" };
    offered.withdraw();
    let (list, _) = offer(offered.driver, "h100-sxm-80gb:2", &Ways::default()).expect("a machine");
    apply(&cluster, &list);
    let namespace = cluster.namespace("dra-layout");
    let mut expected = expected.lines();
    let mut waiting: Vec<String> = Vec::new();
    let mut held: Vec<String> = Vec::new();
    for document in scenario.split("\n---\n") {
        let document: Value = serde_saphyr::from_str(document).expect("a document");
        match document["kind"].as_str() {
            Some("ResourceSlice") => {}
            Some("DeviceClass") => {
                let mut class: Value =
                    serde_json::from_str(&document.to_string().replace("gpu.slicer.example", offered.driver))
                        .expect("JSON");
                class["metadata"]["labels"] = json!({"test": offered.driver});
                apply(&cluster, &class);
            }
            Some("ResourceClaim") => {
                let name = document["metadata"]["name"].as_str().expect("a name");
                ask(&namespace, &offered, &document);
                let line = expected.next().expect("an answer was recorded");
                let told = answer(&namespace, &cluster, name, line.contains(" OK "));
                assert_eq!(format!("{name:<18} {told}"), line, "what the scheduler gave");
                if told.starts_with("OK") { &mut held } else { &mut waiting }.push(name.to_owned());
                // The recorded allocator forgot a claim that it could not serve; here its pod would come again.
                for name in waiting.drain(..) {
                    free(&namespace, &cluster, &name);
                }
            }
            _ => {
                let gone = document["free"].as_str().expect("who leaves");
                assert_eq!(expected.next(), Some(format!("-- free {gone}").as_str()));
                let leaving: Vec<String> = held.extract_if(.., |name| gone == "*" || name == gone).collect();
                for name in leaving {
                    free(&namespace, &cluster, &name);
                }
            }
        }
    }
    assert_eq!(expected.next(), None, "all recorded answers were asked for");
}
