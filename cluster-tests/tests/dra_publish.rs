//! Slices, classes and claims on a real API server: published as the agent's account, deleted by others, asked for through every class.

use carve_cluster_tests::{Background, Cluster, Namespace, PATIENCE, Pod, alone};
use carve_dra::{Mode, ServerVersion, classes, ways_for};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

const PROGRAM: &str = env!("CARGO_BIN_EXE_dra_api");

/// What a node offers under a driver of its own, kept by a process that has the agent's permissions and no others.
struct Offer<'a> {
    cluster: &'a Cluster,
    namespace: &'a Namespace,
    driver: &'static str,
    kubeconfig: String,
    publisher: Option<Background>,
}

impl<'a> Offer<'a> {
    fn new(cluster: &'a Cluster, namespace: &'a Namespace, driver: &'static str) -> Self {
        let kubeconfig = account(cluster, namespace, driver, Some("node0"));
        let mut offer = Offer { cluster, namespace, driver, kubeconfig, publisher: None };
        offer.withdraw();
        offer.start();
        offer
    }

    fn start(&mut self) {
        let words =
            [PROGRAM, "publish", &self.kubeconfig, "node0", self.driver, self.namespace.name(), "offer"];
        self.publisher = Some(self.cluster.background(&words, &[]));
    }

    /// Asks for an offer of an H100 machine.
    fn wants(&self, gpus: &[u32], mode: Mode, taints: Value) {
        let offer =
            json!({"machine": "h100-sxm-80gb:4", "gpus": gpus, "mode": mode.to_string(), "taints": taints});
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "offer"}, "data": {"offer": offer.to_string()},
        });
        self.namespace.apply(&map.to_string());
    }

    fn heard(&self) -> String {
        self.publisher.as_ref().map(Background::heard).unwrap_or_default()
    }

    /// The slices by name.
    fn slices(&self) -> BTreeMap<String, Value> {
        let driver = format!("--field-selector=spec.driver={},spec.nodeName=node0", self.driver);
        let found = self.cluster.get(&["resourceslices", &driver]);
        let named = |slice: &Value| {
            (slice["metadata"]["name"].as_str().unwrap_or_default().to_owned(), slice.clone())
        };
        found["items"].as_array().into_iter().flatten().map(named).collect()
    }

    /// Generation and number of slices, if the pool is whole.
    fn pool(&self) -> Option<(i64, usize)> {
        let slices = self.slices();
        let pools: BTreeSet<(i64, i64)> = slices
            .values()
            .filter_map(|slice| {
                let pool = &slice["spec"]["pool"];
                Some((pool["generation"].as_i64()?, pool["resourceSliceCount"].as_i64()?))
            })
            .collect();
        let [(generation, count)] = pools.iter().copied().collect::<Vec<_>>()[..] else { return None };
        (usize::try_from(count) == Ok(slices.len())).then_some((generation, slices.len()))
    }

    fn until(&self, what: &str, holds: impl Fn() -> bool) {
        self.cluster.until_or(what, PATIENCE, holds, || format!("{}\n{:#?}", self.heard(), self.slices()));
    }

    fn until_pool(&self, what: &str, generation: i64, number: usize) {
        self.until(what, || self.pool() == Some((generation, number)));
    }

    fn name(&self, index: usize) -> String {
        format!("{index:05x}-{}-node0", self.driver)
    }

    fn versions(&self) -> BTreeMap<String, Value> {
        self.slices()
            .into_iter()
            .map(|(name, slice)| (name, slice["metadata"]["resourceVersion"].clone()))
            .collect()
    }

    /// Names of the devices that have a taint, in a slice.
    fn tainted(&self, index: usize) -> (usize, usize) {
        let slice = self.slices().remove(&self.name(index)).unwrap_or_default();
        let devices = slice["spec"]["devices"].as_array().cloned().unwrap_or_default();
        (devices.iter().filter(|device| device["taints"][0]["key"].is_string()).count(), devices.len())
    }

    /// Objects of the whole cluster go with the test.
    fn withdraw(&mut self) {
        self.publisher = None;
        let driver = format!("--field-selector=spec.driver={}", self.driver);
        let _ = self.cluster.try_kubectl(&["delete", "resourceslices", &driver], None);
        let classes = format!("test={}", self.driver);
        let _ = self.cluster.try_kubectl(&["delete", "deviceclasses", "-l", &classes], None);
    }
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        self.withdraw();
        let role = format!("carve-agent-{}", self.driver);
        for kind in ["clusterrole", "clusterrolebinding"] {
            let _ = self.cluster.try_kubectl(&["delete", kind, &role, "--ignore-not-found"], None);
        }
    }
}

/// A kubeconfig for an account with the permissions of the example, whose token is bound to a node as that of a pod would be.
fn account(cluster: &Cluster, namespace: &Namespace, driver: &str, node: Option<&str>) -> String {
    let example = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/agent/rbac.yaml");
    let example = std::fs::read_to_string(&example).expect("the example");
    let role = example
        .replace("name: carve-agent\n", &format!("name: carve-agent-{driver}\n"))
        .replace("namespace: carve\n", &format!("namespace: {}\n", namespace.name()))
        .replace("\"gpu.carve.dev\"", &format!("\"{driver}\""));
    let applied = cluster.try_kubectl(&["apply", "-f", "-"], Some(&role));
    applied.unwrap_or_else(|error| panic!("{error}\n{role}"));
    let name = format!("carve-agent-{driver}");
    let mut words = vec!["create", "token", &name, "-n", namespace.name()];
    if let Some(node) = node {
        words.extend(["--bound-object-kind", "Node", "--bound-object-name", node]);
    }
    let token = cluster.kubectl(&words);
    let text = cluster.kubectl(&["config", "view", "--raw", "--minify", "-o", "json"]);
    let mut config: Value = serde_json::from_str(&text).expect("a kubeconfig");
    config["users"][0]["user"] = json!({"token": token.trim()});
    let path = format!("{}/{driver}-{}.kubeconfig", env!("CARGO_TARGET_TMPDIR"), node.unwrap_or("anywhere"));
    std::fs::write(&path, config.to_string()).expect("a kubeconfig can be written");
    path
}

fn version(cluster: &Cluster) -> ServerVersion {
    let told = cluster.on_node(&[PROGRAM, "version", &cluster.kubeconfig(), "node0"]);
    told.trim().parse().expect("a version")
}

/// Whether the lab's Kubernetes takes what most tests here publish.
fn has_everything(cluster: &Cluster) -> bool {
    let version = version(cluster);
    let all = ways_for(version, Mode::All).is_ok_and(|choice| choice.mode == Mode::All);
    if !all {
        eprintln!(
            "Kubernetes {version} does not take every way of using a GPU; only what it drops is looked at"
        );
    }
    all
}

#[test]
fn slices_follow_what_is_wanted_and_come_back_whoever_deletes_them() {
    let Some(cluster) = Cluster::connect() else { return };
    // One of the tests restarts kubelet, which deletes everybody's slices.
    let _alone = alone();
    if !has_everything(&cluster) {
        return;
    }
    let namespace = cluster.namespace("dra-publish");
    let mut offer = Offer::new(&cluster, &namespace, "gpu.publish.example.com");
    offer.wants(&[0, 1], Mode::All, json!({}));
    offer.until_pool("two GPUs are published", 1, 3);
    let slices = offer.slices();
    let owner = &slices[&offer.name(1)]["metadata"]["ownerReferences"][0];
    assert_eq!(owner["uid"], cluster.get(&["node", "node0"])["metadata"]["uid"]);
    let before = offer.versions();

    // A taint comes and goes: one object, within the generation.
    offer.wants(&[0, 1], Mode::All, json!({"0": ["unhealthy"]}));
    offer.until("every device of GPU 0 is tainted", || {
        let (tainted, devices) = offer.tainted(1);
        devices > 10 && tainted == devices
    });
    assert_eq!(offer.pool(), Some((1, 3)));
    let after = offer.versions();
    let changed: Vec<&String> = before
        .iter()
        .filter(|(name, version)| after.get(*name) != Some(version))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(changed, [&offer.name(1)]);
    let since = |offer: &Offer<'_>| {
        offer.slices()[&offer.name(1)]["spec"]["devices"][0]["taints"][0]["timeAdded"].clone()
    };
    let tainted_since = since(&offer);
    assert!(tainted_since.is_string());

    // Another GPU: a new generation of all slices, and the taint stays as old as it is.
    offer.wants(&[0, 1, 2], Mode::All, json!({"0": ["unhealthy"]}));
    offer.until_pool("a third GPU is published", 2, 4);
    assert_eq!(since(&offer), tainted_since);
    offer.wants(&[0, 1, 2], Mode::All, json!({}));
    offer.until("the taint is gone", || offer.tainted(1).0 == 0 && offer.tainted(1).1 > 10);
    assert_eq!(offer.pool(), Some((2, 4)));
    offer.wants(&[0], Mode::All, json!({}));
    offer.until_pool("two GPUs are gone", 3, 2);

    // Somebody deletes one, then all, then changes one.
    let uid = |index: usize| {
        offer.slices().remove(&offer.name(index)).unwrap_or_default()["metadata"]["uid"].clone()
    };
    let first = uid(1);
    cluster.kubectl(&["delete", "resourceslice", &offer.name(1)]);
    offer.until("the deleted slice is back", || uid(1).is_string() && uid(1) != first);
    assert_eq!(offer.pool(), Some((3, 2)));
    let driver = format!("--field-selector=spec.driver={}", offer.driver);
    // kubectl deletes one after the other, and the first must not be back before the second is gone.
    let publisher = offer.publisher.as_ref().expect("it runs");
    publisher.pause();
    cluster.kubectl(&["delete", "resourceslices", &driver]);
    publisher.resume();
    offer.until("all slices are back, newer than before", || {
        offer.pool().is_some_and(|(generation, number)| generation > 3 && number == 2)
    });
    let right = offer.slices()[&offer.name(1)]["spec"]["devices"][0]["attributes"]["uuid"].clone();
    let patch =
        json!([{"op": "replace", "path": "/spec/devices/0/attributes/uuid/string", "value": "GPU-wrong"}]);
    cluster.kubectl(&["patch", "resourceslice", &offer.name(1), "--type=json", "-p", &patch.to_string()]);
    offer.until("the changed slice is right again", || {
        offer.slices().remove(&offer.name(1)).unwrap_or_default()["spec"]["devices"][0]["attributes"]["uuid"]
            == right
    });
    assert!(offer.heard().contains("somebody else changed slices"), "{}", offer.heard());

    // Kubelet deletes the slices of its node when it starts.
    let before = uid(1);
    cluster.restart("kubelet-node0");
    offer.until("kubelet has deleted the slices, and they are back", || {
        uid(1).is_string() && uid(1) != before && offer.pool().is_some_and(|(_, number)| number == 2)
    });

    // A new process finds everything as it should be, and our own writes do not make us write.
    let versions = offer.versions();
    offer.publisher = None;
    offer.start();
    offer.until("the new process has looked", || offer.heard().contains("generation"));
    offer.until("it has nothing to do", || offer.heard().contains("written 0 deleted 0"));
    assert_eq!(offer.versions(), versions, "{}", offer.heard());
    offer.wants(&[0, 1], Mode::All, json!({}));
    offer.until("it publishes", || offer.pool().is_some_and(|(_, number)| number == 3));
    let heard = offer.heard();
    assert!(!heard.contains("somebody else changed slices\ngeneration 0"), "{heard}");
    assert!(heard.lines().count() < 8, "it writes because it wrote:\n{heard}");

    let words = [PROGRAM, "withdraw", &offer.kubeconfig, "node0", offer.driver];
    offer.publisher = None;
    cluster.on_node(&words);
    assert_eq!(offer.slices(), BTreeMap::new());
}

/// What the server does not keep is told by its field and gate; where that keeps devices apart, none is offered.
#[test]
fn what_the_server_does_not_keep_is_told() {
    let Some(cluster) = Cluster::connect() else { return };
    let _alone = alone();
    let namespace = cluster.namespace("dra-dropped");
    let offer = Offer::new(&cluster, &namespace, "gpu.dropped.example.com");
    let server = version(&cluster);
    let gates_on = server >= ServerVersion::new(1, 36, 0);
    offer.wants(&[0, 1], Mode::All, json!({}));
    offer.until("something was published or not", || offer.heard().contains("generation"));
    if gates_on {
        assert!(offer.heard().contains("withheld false dropped []"), "{}", offer.heard());
        assert_eq!(offer.pool().map(|(_, number)| number), Some(3));
    } else {
        assert!(offer.heard().contains("withheld true"), "{}", offer.heard());
        assert!(offer.heard().contains("DRAPartitionableDevices"), "{}", offer.heard());
        assert_eq!(offer.slices(), BTreeMap::new());
    }
    // One way per GPU needs no counters.
    let before = offer.heard().lines().count();
    offer.wants(&[0, 1], Mode::Fraction, json!({"1": ["unhealthy"]}));
    offer.until("fractions are published", || {
        offer.heard().lines().count() > before && offer.pool().is_some_and(|(_, number)| number == 2)
    });
    let last = offer.heard().lines().last().unwrap_or_default().to_owned();
    let slices = offer.slices();
    let device = &slices[&offer.name(0)]["spec"]["devices"][0];
    assert_eq!((&device["name"], &device["consumesCounters"]), (&json!("gpu-0-frac"), &Value::Null));
    if gates_on {
        assert!(last.contains("dropped []"), "{last}");
        assert_eq!(device["allowMultipleAllocations"], true);
    } else {
        for word in ["allowMultipleAllocations", "DRAConsumableCapacity", "taints", "DRADeviceTaints"] {
            assert!(last.contains(word), "{last}");
        }
        assert_eq!(device["allowMultipleAllocations"], Value::Null);
    }
    if gates_on {
        fractions_share_without_counters(&offer);
    }
    // Whole GPUs are served by every version: what is told and what the scheduler gives.
    offer.wants(&[0, 1], Mode::Exclusive, json!({}));
    offer.until("whole GPUs are published", || {
        offer
            .slices()
            .values()
            .all(|slice| slice["spec"]["devices"][0]["name"].as_str().is_some_and(|name| name.len() == 5))
    });
    apply_classes(&offer, &[]);
    for (claim, device) in [("one", "gpu-0"), ("two", "gpu-1")] {
        ask(
            &offer,
            claim,
            json!([{"name": "it", "exactly": {"deviceClassName": "gpu.dropped.example.com"}}]),
        );
        assert_eq!(served(&offer, claim)[0]["device"], device);
    }
}

/// Claims share the GPU that is well until it is full, and the other, which is tainted, is left alone.
fn fractions_share_without_counters(offer: &Offer<'_>) {
    apply_classes(offer, &[]);
    let half = json!({"deviceClassName": "fraction.dropped.example.com", "capacity": {"requests": {"compute": "50", "memory": "1Gi"}}});
    for claim in ["half", "other-half"] {
        ask(offer, claim, json!([{"name": "it", "exactly": half}]));
        assert_eq!(served(offer, claim)[0]["device"], "gpu-0-frac");
    }
    ask(offer, "too-much", json!([{"name": "it", "exactly": half}]));
    offer.until("a third half has to wait", || {
        let pod = offer.namespace.get(&["pod", "too-much"]);
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|one| one["type"] == "PodScheduled" && one["reason"] == "Unschedulable")
    });
    // Once the other GPU is well again it is served there.
    offer.wants(&[0, 1], Mode::Fraction, json!({}));
    assert_eq!(served(offer, "too-much")[0]["device"], "gpu-1-frac");
    for claim in ["half", "other-half", "too-much"] {
        free(offer, claim);
    }
}

fn apply_classes(offer: &Offer<'_>, profiles: &[&str]) {
    let profiles: Vec<_> = profiles.iter().map(|name| name.parse().expect("a profile")).collect();
    for class in classes(offer.driver, &profiles).expect("classes") {
        let mut class = class.manifest();
        class["metadata"]["labels"] = json!({"test": offer.driver});
        let applied = offer.cluster.try_kubectl(&["apply", "-f", "-"], Some(&class.to_string()));
        applied.unwrap_or_else(|error| panic!("{error}\n{class}"));
    }
}

/// A claim and a pod that wants it.
fn ask(offer: &Offer<'_>, name: &str, requests: Value) {
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name},
        "spec": {"devices": {"requests": requests}},
    });
    offer.namespace.apply(&claim.to_string());
    let pod = Pod::sleeping(offer.cluster, name)
        .spec("resourceClaims", json!([{"name": "it", "resourceClaimName": name}]))
        .container("resources", json!({"claims": [{"name": "it"}]}));
    offer.namespace.apply(&pod.manifest());
}

/// What the scheduler gave a claim.
fn served(offer: &Offer<'_>, claim: &str) -> Value {
    let results = || {
        offer.namespace.get(&["resourceclaim", claim])["status"]["allocation"]["devices"]["results"].clone()
    };
    offer.until(&format!("claim {claim} is served"), || results().is_array());
    results()
}

fn free(offer: &Offer<'_>, claim: &str) {
    for kind in ["pod", "resourceclaim"] {
        offer.cluster.kubectl(&["delete", kind, claim, "-n", offer.namespace.name(), "--wait=true"]);
    }
}

/// A device that says nothing about itself, first in the order, on every node: selectors must get past it.
fn bare_device(offer: &Offer<'_>) {
    let slice = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "00000-bare"},
        "spec": {
            "driver": offer.driver, "allNodes": true,
            "pool": {"name": "bare", "generation": 1, "resourceSliceCount": 1}, "devices": [{"name": "bare"}],
        },
    });
    let applied = offer.cluster.try_kubectl(&["apply", "-f", "-"], Some(&slice.to_string()));
    applied.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_claim_through_each_class_is_served_and_told_about() {
    let Some(cluster) = Cluster::connect() else { return };
    let _alone = alone();
    if !has_everything(&cluster) {
        return;
    }
    let namespace = cluster.namespace("dra-classes");
    let offer = Offer::new(&cluster, &namespace, "gpu.classes.example.com");
    offer.wants(&[0, 1], Mode::All, json!({}));
    offer.until_pool("two GPUs are published", 1, 3);
    apply_classes(&offer, &["1g.10gb", "1g.10gb+me"]);
    bare_device(&offer);
    let some = json!({"requests": {"memory": "4Gi", "compute": "20"}});
    let seat = json!({});
    for (class, capacity, device) in [
        ("gpu", &seat, "gpu-0"),
        ("mig", &seat, "gpu-0-mig-1g10gb-19-6"),
        ("fraction", &some, "gpu-0-frac"),
        ("mps", &some, "gpu-0-mps"),
        ("timeslicing", &seat, "gpu-0-ts"),
        ("mig-fraction", &some, "gpu-0-mig-1g10gb-19-6-frac"),
        ("mig-1g-10gb", &seat, "gpu-0-mig-1g10gb-19-6"),
        ("mig-1g-10gb-me", &seat, "gpu-0-mig-1g10gb-me-20-6"),
    ] {
        let class_name = format!("{class}.classes.example.com");
        let mut request = json!({"deviceClassName": class_name});
        if *capacity != seat {
            request["capacity"] = capacity.clone();
        }
        ask(&offer, class, json!([{"name": "it", "exactly": request}]));
        assert_eq!(served(&offer, class)[0]["device"], device, "{class}");
        free(&offer, class);
    }

    // Pods that were written for the device plugin.
    for (pod, resource, device) in
        [("whole", "nvidia.com/gpu", "gpu-0"), ("cut", "nvidia.com/mig-1g.10gb", "gpu-1-mig-1g10gb-19-6")]
    {
        namespace.apply(&Pod::sleeping(&cluster, pod).limit(resource, "1").manifest());
        let claim = || {
            let status = namespace.get(&["pod", pod])["status"]["extendedResourceClaimStatus"].clone();
            status["resourceClaimName"].as_str().map(str::to_owned)
        };
        offer.until(&format!("a claim was made for pod {pod}"), || claim().is_some());
        assert_eq!(served(&offer, &claim().unwrap_or_default())[0]["device"], device);
    }
    for pod in ["whole", "cut"] {
        cluster.kubectl(&["delete", "pod", pod, "-n", namespace.name(), "--wait=true"]);
    }

    // The same selector without asking whether the attribute is there: one device that lacks it, and nobody is served.
    let mut careless = classes(offer.driver, &[]).expect("classes")[0].manifest();
    careless["metadata"] = json!({"name": "careless.classes.example.com", "labels": {"test": offer.driver}});
    careless["spec"] = json!({"selectors": [{"cel": {"expression":
        format!("device.driver == '{0}' && device.attributes['{0}'].type == 'gpu'", offer.driver)}}]});
    cluster.try_kubectl(&["apply", "-f", "-"], Some(&careless.to_string())).expect("a class");
    ask(
        &offer,
        "careless",
        json!([{"name": "it", "exactly": {"deviceClassName": "careless.classes.example.com"}}]),
    );
    offer.until("the scheduler stumbles over the bare device", || {
        let pod = namespace.get(&["pod", "careless"]);
        let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|one| one["message"].as_str().is_some_and(|text| text.contains("no such key")))
    });
    free(&offer, "careless");
    claim_is_told_about(&cluster, &namespace, &offer);
}

/// A claim of two drivers: what each tells stays, and only the account of the node may tell.
fn claim_is_told_about(cluster: &Cluster, namespace: &Namespace, offer: &Offer<'_>) {
    let class = "fraction.classes.example.com";
    let neighbour = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
        "metadata": {"name": "neighbour.classes.example.com", "labels": {"test": offer.driver}},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'neighbour.example.com'"}}]},
    });
    let slice = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "neighbour"},
        "spec": {
            "driver": "neighbour.example.com", "nodeName": "node0",
            "pool": {"name": "node0", "generation": 1, "resourceSliceCount": 1}, "devices": [{"name": "nic"}],
        },
    });
    for object in [&neighbour, &slice] {
        cluster
            .try_kubectl(&["apply", "-f", "-"], Some(&object.to_string()))
            .unwrap_or_else(|error| panic!("{error}"));
    }
    let some = json!({"requests": {"memory": "10000Mi", "compute": "20"}});
    ask(
        offer,
        "both",
        json!([
            {"name": "gpu", "exactly": {"deviceClassName": class, "capacity": some}},
            {"name": "nic", "exactly": {"deviceClassName": "neighbour.classes.example.com"}},
        ]),
    );
    let results = served(offer, "both");
    let share = results[0]["shareID"].as_str().expect("a share").to_owned();
    let uid =
        namespace.get(&["resourceclaim", "both"])["metadata"]["uid"].as_str().expect("a uid").to_owned();

    let read = cluster.on_node(&[PROGRAM, "claim", &offer.kubeconfig, "node0", namespace.name(), "both"]);
    for word in [&uid, &share, "gpu-0-frac", "10Gi", "\"nic\""] {
        assert!(read.contains(word), "{word} is not in\n{read}");
    }
    let absent = cluster.on_node(&[PROGRAM, "claim", &offer.kubeconfig, "node0", namespace.name(), "absent"]);
    assert_eq!(absent.trim(), "None");

    // The neighbour tells first.
    let theirs = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "both"},
        "status": {"devices": [{"driver": "neighbour.example.com", "pool": "node0", "device": "nic", "data": {"is": "there"}}]},
    });
    let words = [
        "apply",
        "--server-side",
        "--subresource=status",
        "--field-manager=neighbour",
        "-n",
        namespace.name(),
        "-f",
        "-",
    ];
    cluster.try_kubectl(&words, Some(&theirs.to_string())).unwrap_or_else(|error| panic!("{error}"));

    let ours = json!([{
        "driver": offer.driver, "pool": "node0", "device": "gpu-0-frac", "share": share, "ready": true,
        "message": "10 GiB and 20 % of the compute of GPU 0", "data": {"uuid": "GPU-1", "mode": "fraction"},
    }]);
    let tell = |kubeconfig: &str, uid: &str, devices: &Value| {
        let devices = devices.to_string();
        let words = [PROGRAM, "status", kubeconfig, "node0", namespace.name(), "both", uid, &devices];
        cluster.on_node(&words).trim().to_owned()
    };
    let told = || -> BTreeMap<String, Value> {
        let claim = namespace.get(&["resourceclaim", "both"]);
        let devices = claim["status"]["devices"].as_array().cloned().unwrap_or_default();
        devices
            .into_iter()
            .map(|told| (told["driver"].as_str().unwrap_or_default().to_owned(), told))
            .collect()
    };
    assert_eq!(tell(&offer.kubeconfig, &uid, &ours), "told");
    let both = told();
    assert_eq!(both["neighbour.example.com"]["data"], json!({"is": "there"}));
    let entry = &both[offer.driver];
    assert_eq!((&entry["shareID"], &entry["data"]["mode"]), (&json!(share), &json!("fraction")));
    assert_eq!(
        (&entry["conditions"][0]["type"], &entry["conditions"][0]["status"]),
        (&json!("Ready"), &json!("True"))
    );

    // Told again, nothing is written; no longer ready, it is.
    let version = || namespace.get(&["resourceclaim", "both"])["metadata"]["resourceVersion"].clone();
    let before = version();
    assert_eq!(tell(&offer.kubeconfig, &uid, &ours), "told");
    assert_eq!(version(), before);
    let mut sick = ours.clone();
    sick[0]["ready"] = json!(false);
    assert_eq!(tell(&offer.kubeconfig, &uid, &sick), "told");
    assert_eq!(told()[offer.driver]["conditions"][0]["status"], "False");

    // Neither a claim that is gone nor an account that is on no node.
    let gone = tell(&offer.kubeconfig, "00000000-0000-0000-0000-000000000000", &ours);
    assert!(gone.starts_with("refused") && gone.contains("is gone"), "{gone}");
    let anywhere = account(cluster, namespace, offer.driver, None);
    let refused = tell(&anywhere, &uid, &ours);
    assert!(refused.starts_with("refused") && refused.contains("resourceclaims/driver"), "{refused}");

    assert_eq!(tell(&offer.kubeconfig, &uid, &json!([])), "told");
    assert_eq!(told().into_keys().collect::<Vec<_>>(), ["neighbour.example.com"]);

    let words = [PROGRAM, "tell", &offer.kubeconfig, "node0", namespace.name(), "both", &uid, "no daemon"];
    cluster.on_node(&words);
    let events = cluster.kubectl(&["describe", "resourceclaim", "both", "-n", namespace.name()]);
    assert!(events.contains("no daemon") && events.contains("NotPrepared"), "{events}");
    free(offer, "both");
    let _ = cluster.try_kubectl(&["delete", "resourceslice", "neighbour"], None);
}
