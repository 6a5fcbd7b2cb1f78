//! Many sets of claims and pods put to the scheduler at once, each in a namespace and on a node of its own, so that none is in the way
//! of another.

use crate::dra_claims::{documents, given_device, why_waiting};
use crate::{Cluster, DeviceOrder, HollowNodes, Offered, PATIENCE, machine_layout, slice_objects};
use carve_dra::Ways;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::{Duration, Instant};

/// One set: what a manifest becomes when its pods are put on one node.
#[derive(Debug, Clone)]
pub struct Unit {
    /// Name of its namespace and its node.
    pub name: String,
    /// The simulated machine of its node.
    pub machine: String,
    /// In which ways its GPUs are offered.
    pub ways: Ways,
    /// Claims, templates, and whatever makes pods.
    pub objects: Vec<Value>,
    /// Classes it brings.
    pub classes: Vec<Value>,
    /// Labels of its namespace.
    pub labels: Value,
    /// How many pods it becomes.
    pub pods: usize,
}

impl Unit {
    /// Nothing yet.
    pub fn new(name: &str, machine: &str) -> Self {
        Unit {
            name: name.to_owned(),
            machine: machine.to_owned(),
            ways: Ways::default(),
            objects: Vec::new(),
            classes: Vec::new(),
            labels: json!({}),
            pods: 0,
        }
    }

    /// Takes an object of a manifest. Its pods get an image that is there, and will be put on the node of this set.
    pub fn take(&mut self, mut object: Value, image: &str) {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        match kind.as_str() {
            "Namespace" => {
                if object["metadata"]["labels"].is_object() {
                    self.labels = object["metadata"]["labels"].clone();
                }
                return;
            }
            "DeviceClass" => {
                self.classes.push(object);
                return;
            }
            "ResourceClaim" | "ResourceClaimTemplate" => {}
            "Pod" => {
                self.pods += 1;
                images(&mut object["spec"], image);
            }
            "Deployment" | "Job" => {
                let count = if kind == "Job" { "parallelism" } else { "replicas" };
                let number = object["spec"][count].as_u64().unwrap_or(1);
                self.pods += usize::try_from(number).unwrap_or(usize::MAX);
                images(&mut object["spec"]["template"]["spec"], image);
            }
            other => panic!("{}: a {other} is not known here", self.name),
        }
        self.objects.push(object);
    }

    /// Takes every object of a manifest.
    pub fn take_all(&mut self, manifest: &str, image: &str) {
        documents(manifest).into_iter().for_each(|object| self.take(object, image));
    }

    /// Its objects in its namespace, its pods on its node.
    fn placed(&self) -> impl Iterator<Item = Value> {
        self.objects.iter().cloned().map(|mut object| {
            object["metadata"]["namespace"] = self.name.clone().into();
            let path = if object["kind"] == "Pod" { "/spec" } else { "/spec/template/spec" };
            if let Some(spec) = object.pointer_mut(path) {
                HollowNodes::pin(spec, &self.name);
            }
            object
        })
    }

    /// What the scheduler gives its claims and why its pods wait; nothing before it has decided about all of them.
    fn answer(&self, all: &Value) -> Option<String> {
        let mine = |kind: &'static str| {
            items(all).filter(move |object| {
                object["kind"] == kind && object["metadata"]["namespace"] == self.name.as_str()
            })
        };
        let waits = |pod: &&Value| pod["spec"]["nodeName"].is_null();
        let undecided = mine("Pod").filter(waits).any(|pod| why_waiting(pod).is_none());
        if undecided || mine("Pod").count() != self.pods {
            return None;
        }
        let given = |claim: &Value| {
            let results = claim["status"]["allocation"]["devices"]["results"].as_array()?;
            Some(results.iter().map(given_device).collect::<Vec<_>>().join(" + "))
        };
        // Which of two like pods comes first is the scheduler's business; what they get together is not.
        let mut told: Vec<String> = mine("ResourceClaim").filter_map(given).collect();
        told.sort();
        let reasons = mine("Pod").filter(waits).filter_map(why_waiting);
        let mut waiting: Vec<String> =
            reasons.map(|message| format!("waits: {}", reason(&message))).collect();
        waiting.sort();
        told.extend(waiting);
        Some(counted(told, "; "))
    }
}

/// The sets under way; everything of them goes when this is dropped.
#[derive(Debug)]
pub struct Batch {
    cluster: Cluster,
    units: Vec<Unit>,
    // In the order in which they go: pods with their nodes, then what they held, then the rest.
    _nodes: HollowNodes,
    offered: Offered,
    _namespaces: Namespaces,
    said: RefCell<(BTreeMap<String, String>, Instant)>,
    /// How often pods may have been put again.
    turns: Cell<usize>,
}

/// How long the scheduler says nothing new before it is made to look again.
const UNCHANGED: Duration = Duration::from_secs(4);

impl Batch {
    /// Publishes the devices of every set's machine for a driver, with the classes, and applies everything.
    pub fn apply(cluster: &Cluster, suite: &str, driver: &str, classes: &[Value], units: Vec<Unit>) -> Self {
        let namespaces = Namespaces::new(cluster, suite, &units);
        let offered = Offered::new(cluster, driver);
        let names: Vec<String> = units.iter().map(|unit| unit.name.clone()).collect();
        let nodes = HollowNodes::new(cluster, suite, &names);
        let mut objects = classes.to_vec();
        for unit in &units {
            let layout = machine_layout(&unit.machine, &unit.ways, DeviceOrder::Packing);
            let layout = layout.unwrap_or_else(|| panic!("{}: no machine {}", unit.name, unit.machine));
            objects.extend(slice_objects(driver, &unit.name, &layout));
            objects.extend(unit.classes.iter().cloned());
        }
        offered.publish(&objects);
        let mut all: Vec<Value> = units.iter().flat_map(Unit::placed).collect();
        // Claims and templates first, so that no pod waits for one.
        all.sort_by_key(|object| {
            !object["kind"].as_str().is_some_and(|kind| kind.starts_with("ResourceClaim"))
        });
        apply(cluster, &all);
        let said = RefCell::new((BTreeMap::new(), Instant::now()));
        let (cluster, turns) = (cluster.clone(), Cell::new(0));
        Batch { cluster, units, _nodes: nodes, offered, _namespaces: namespaces, said, turns }
    }

    /// What the scheduler has said so far, by the name of the set. Where that stays the same, the scheduler is made to look again
    /// ([`Offered::look_again`]), because some may wait without need, and at sets that are expected to get something else.
    pub fn answers(&self, expected: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let all = self.cluster.get(&["pods,resourceclaims", "-A"]);
        let answers = self.units.iter().filter_map(|unit| Some((unit.name.clone(), unit.answer(&all)?)));
        let answers: BTreeMap<String, String> = answers.collect();
        let mut said = self.said.borrow_mut();
        if said.0 != answers {
            *said = (answers.clone(), Instant::now());
        } else if said.1.elapsed() > UNCHANGED {
            self.offered.look_again();
            for unit in &self.units {
                let (told, wanted) = (answers.get(&unit.name), expected.get(&unit.name));
                if let Some((_, wanted)) = told.zip(wanted).filter(|(told, wanted)| told != wanted) {
                    self.one_again(unit, wanted, &all);
                }
            }
            self.turns.set(self.turns.get() + 1);
            said.1 = Instant::now();
        }
        answers
    }

    /// Takes away one of a set's pods, and brings it again. Of several shares that come at once the scheduler of Kubernetes 1.36 may put one
    /// elsewhere though there is room, because it counts another twice while that is written but still noted as on its way. Where this is not why, it
    /// gets the same again.
    fn one_again(&self, unit: &Unit, wanted: &str, all: &Value) {
        let held = |claim: &Value| {
            let pod = claim["status"]["reservedFor"][0]["name"].as_str()?.to_owned();
            Some((given_device(&claim["status"]["allocation"]["devices"]["results"][0]), pod))
        };
        let mine = |object: &&Value| {
            object["kind"] == "ResourceClaim" && object["metadata"]["namespace"] == unit.name.as_str()
        };
        let held = items(all).filter(mine).filter_map(held).collect();
        let Some((device, pod)) = which_again(held, wanted, self.turns.get()) else { return };
        tell_put_again(&unit.name, &pod, &device);
        // No kubelet would end it.
        let words = ["delete", "pod", &pod, "-n", &unit.name, "--ignore-not-found", "--force"];
        self.cluster.kubectl(&words);
        // Others are made again by whoever made them.
        let own = |object: &Value| object["kind"] == "Pod" && object["metadata"]["name"] == pod.as_str();
        let own: Vec<Value> = unit.placed().filter(own).collect();
        if !own.is_empty() {
            apply(&self.cluster, &own);
        }
    }
}

/// Of devices and the pods that have them, which one is put again: one that it was not promised before the others, and then one after the other, because a
/// pod that has its place already comes back to it.
fn which_again(mut held: Vec<(String, String)>, wanted: &str, turn: usize) -> Option<(String, String)> {
    held.sort_by_key(|(device, pod)| {
        (wanted.contains(device.as_str()), Reverse((device.clone(), pod.clone())))
    });
    let place = turn.checked_rem(held.len())?;
    Some(held.swap_remove(place))
}

/// Says that a pod is put again, also of a test that passes, whose `println!` nobody hears: how often that happens is for people to see.
pub fn tell_put_again(namespace: &str, pod: &str, device: &str) {
    let _ = writeln!(std::io::stderr(), "put again: pod {namespace}/{pod}, which had {device}");
}

/// Gives all containers an image that is there.
fn images(spec: &mut Value, image: &str) {
    for kind in ["initContainers", "containers"] {
        for container in spec[kind].as_array_mut().into_iter().flatten() {
            container["image"] = image.into();
            container["imagePullPolicy"] = "Never".into();
        }
    }
}

/// Equal neighbours are said once, with how many they are.
pub fn counted(texts: Vec<String>, between: &str) -> String {
    let mut told: Vec<(String, usize)> = Vec::new();
    for text in texts {
        match told.last_mut() {
            Some((last, count)) if *last == text => *count += 1,
            _ => told.push((text, 1)),
        }
    }
    let one = |(text, count): (String, usize)| if count == 1 { text } else { format!("{count} × {text}") };
    told.into_iter().map(one).collect::<Vec<_>>().join(between)
}

/// The scheduler's reason without what it says about the nodes of others.
fn reason(message: &str) -> String {
    let Some((_, reasons)) = message.split_once("nodes are available: ") else {
        return without_claim(message);
    };
    let reasons = reasons.split_once(". ").map_or(reasons.trim_end_matches('.'), |(reasons, _)| reasons);
    let bare =
        |reason: &str| reason.trim_start_matches(|letter: char| letter.is_ascii_digit()).trim().to_owned();
    let of_others = |reason: &String| reason.contains("didn't match Pod's node affinity");
    reasons.split(", ").map(bare).filter(|reason| !of_others(reason)).collect::<Vec<_>>().join(", ")
}

/// An error without the name of the claim, of which a part is random.
fn without_claim(message: &str) -> String {
    match message.split_once("claim ").and_then(|(before, after)| Some((before, after.split_once(": ")?.1))) {
        Some((before, after)) => format!("{before}{after}"),
        None => message.to_owned(),
    }
}

/// The namespaces of all sets.
#[derive(Debug)]
struct Namespaces {
    cluster: Cluster,
    suite: String,
}

impl Namespaces {
    fn new(cluster: &Cluster, suite: &str, units: &[Unit]) -> Self {
        let namespaces = Namespaces { cluster: cluster.clone(), suite: suite.to_owned() };
        namespaces.delete("--wait=true");
        let object = |unit: &Unit| {
            let mut labels = unit.labels.clone();
            labels["suite"] = suite.into();
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": unit.name, "labels": labels}})
        };
        apply(cluster, &units.iter().map(object).collect::<Vec<_>>());
        // A pod is refused until the controller has made the account it runs under.
        cluster.until("the namespaces have their service accounts", PATIENCE, || {
            let accounts = cluster.get(&["serviceaccounts", "-A", "--field-selector=metadata.name=default"]);
            let found: BTreeSet<&str> =
                items(&accounts).filter_map(|account| account["metadata"]["namespace"].as_str()).collect();
            units.iter().all(|unit| found.contains(unit.name.as_str()))
        });
        namespaces
    }

    fn delete(&self, wait: &str) {
        let suite = format!("suite={}", self.suite);
        let words = ["delete", "namespaces", "-l", &suite, "--ignore-not-found", wait];
        let _ = self.cluster.try_kubectl(&words, None);
    }
}

impl Drop for Namespaces {
    /// Not waited for, as with a namespace of one test.
    fn drop(&mut self) {
        self.delete("--wait=false");
    }
}

fn apply(cluster: &Cluster, objects: &[Value]) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let applied = cluster.try_kubectl(&["apply", "--server-side", "-f", "-"], Some(&list));
    applied.unwrap_or_else(|error| panic!("kubectl apply: {error}"));
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::{counted, reason, which_again};

    #[test]
    fn a_reason_is_told_without_the_nodes_of_others() {
        let message = "0/47 nodes are available: 1 cannot allocate all claims, 46 node(s) didn't match Pod's node \
                       affinity/selector. still not schedulable, preemption: 0/47 nodes are available.";
        assert_eq!(reason(message), "cannot allocate all claims");
        assert_eq!(reason("something else"), "something else");
        let error = "running \"DynamicResources\" filter plugin: claim a-1/pod-b2-c3: selector #0: no such key: index";
        assert_eq!(
            reason(error),
            "running \"DynamicResources\" filter plugin: selector #0: no such key: index"
        );
    }

    #[test]
    fn the_pod_that_is_elsewhere_is_put_again_first_and_the_others_after_it() {
        let held = || {
            [("gpu-6", "a"), ("gpu-5", "b"), ("gpu-6", "c")].map(|(device, pod)| (device.into(), pod.into()))
        };
        let pod = |turn| which_again(held().to_vec(), "3 × gpu-6", turn).map(|(_, pod)| pod);
        assert_eq!([0, 1, 2, 3].map(|turn| pod(turn).unwrap_or_default()), ["b", "c", "a", "b"]);
        assert_eq!(which_again(Vec::new(), "3 × gpu-6", 1), None);
    }

    #[test]
    fn equal_neighbours_are_counted() {
        let texts = ["a", "a", "b", "a"].map(str::to_owned).to_vec();
        assert_eq!(counted(texts, "; "), "2 × a; b; a");
    }
}
