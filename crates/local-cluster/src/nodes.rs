//! Node objects: what a kubelet and an agent would tell of each machine.

use crate::machine::{Machine, TOKENS, Told};
use crate::objects::{moment, name_of, now, text};
use crate::workloads::kind;
use carve_cluster_api::names;
use carve_economics::InstanceType;
use carve_formats::MigPartedConfig;
use carve_object_api::{ObjectApi, set_condition};
use carve_object_store::{Act, Key};
use carve_repartition::{Amounts, NodeReport, Order, Taint, taints_of};
use carve_slicing::{LabelFacts, LabelOptions, labels};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

/// What placing and machines read of a Node.
#[derive(Debug, Clone)]
pub(crate) struct NodeView {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) taints: Vec<Taint>,
    pub(crate) unschedulable: bool,
    pub(crate) allocatable: Amounts,
    /// The config that a label asks for.
    pub(crate) mig_config: Option<String>,
    /// How whole GPUs are shared, as a policy says.
    pub(crate) sharing: Option<String>,
    /// What GPUs are cut into, as a policy says: a file of mig-parted with one config.
    pub(crate) layout: Option<String>,
    pub(crate) order: Option<Order>,
}

impl NodeView {
    pub(crate) fn of(node: &Value) -> Self {
        let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
        let labels: BTreeMap<String, String> =
            labels.map(|(key, value)| (key.clone(), text(value).to_owned())).collect();
        let annotation = |name: &str| node["metadata"]["annotations"][name].as_str();
        NodeView {
            taints: taints_of(node),
            unschedulable: node["spec"]["unschedulable"] == true,
            allocatable: Amounts::of(&node["status"]["allocatable"]),
            mig_config: labels.get(names::MIG_CONFIG).filter(|name| !name.is_empty()).cloned(),
            sharing: annotation(names::POLICY_CONFIG).map(str::to_owned),
            layout: annotation(names::POLICY_MIG).map(str::to_owned),
            order: annotation(Order::ANNOTATION).and_then(|text| Order::parse(text).ok()),
            labels,
        }
    }
}

impl NodeView {
    /// The config that is wanted for good: a label's, or the one of a policy.
    pub(crate) fn wanted_config(&self) -> Option<String> {
        let fixed = || MigPartedConfig::parse(self.layout.as_deref()?).value?.configs.into_keys().next();
        self.mig_config.clone().or_else(fixed)
    }
}

/// What runs containers on a machine that is not simulated, as its Node says.
pub const PROCESSES: &str = "process://1";

/// Labels that machines keep themselves.
fn own_labels(machine: &Machine) -> BTreeMap<String, String> {
    let facts = LabelFacts { machine: Some(machine.spec.kind.clone()), ..LabelFacts::default() };
    let mut found =
        labels(&machine.gpus, machine.settings(), Some(&machine.offered), &facts, &LabelOptions::default());
    for (label, value) in [
        ("kubernetes.io/hostname", machine.spec.name.as_str()),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/os", "linux"),
        ("node.kubernetes.io/instance-type", machine.spec.kind.as_str()),
        (names::GPU_PRESENT, "true"),
    ] {
        found.insert(label.to_owned(), value.to_owned());
    }
    found.extend(machine.spec.labels.clone());
    match &machine.asked {
        None => {}
        Some((_, told)) => {
            let state = match told {
                Told::Pending => "pending",
                Told::Success => "success",
                Told::Failed { .. } => "failed",
            };
            found.insert(names::MIG_CONFIG_STATE.to_owned(), state.to_owned());
        }
    }
    // A label's value has few letters; a type of ours may have a colon.
    found.values_mut().for_each(|value| *value = value.replace(':', "-"));
    found
}

fn capacity(machine: &Machine) -> Map<String, Value> {
    let host = InstanceType::named(&machine.spec.kind).and_then(|listed| listed.host);
    let usual = || host.map_or((96, 1_048_576), |host| (host.cpus, host.memory.0));
    let (cpus, memory) = machine.body.as_ref().map_or_else(usual, |body| (body.cpus, body.memory));
    let mut all = Map::new();
    all.insert("cpu".to_owned(), cpus.to_string().into());
    all.insert("memory".to_owned(), format!("{memory}Mi").into());
    all.insert("pods".to_owned(), "250".into());
    all.insert("ephemeral-storage".to_owned(), "200Gi".into());
    // One that had devices and has none any more says so.
    all.insert("nvidia.com/gpu".to_owned(), "0".into());
    for (name, resource) in &machine.offered.resources {
        all.insert(name.to_string(), resource.devices.len().to_string().into());
    }
    let parts = machine.parts().gpus;
    if !parts.is_empty() {
        let memory: u64 = parts.iter().map(|gpu| gpu.memory.0).sum();
        all.insert(names::SLICE.to_owned(), (parts.len() * TOKENS).to_string().into());
        all.insert(names::MEMORY.to_owned(), memory.to_string().into());
        all.insert(names::COMPUTE.to_owned(), (parts.len() * 100).to_string().into());
    }
    all
}

fn key(name: &str) -> Key {
    Key { resource: kind("nodes").resource(), namespace: String::new(), name: name.to_owned() }
}

/// Keys that machines have written before and would not write now.
fn is_ours(label: &str) -> bool {
    (label.starts_with("nvidia.com/") && label != names::MIG_CONFIG) || label.starts_with("carve.dev/model.")
}

/// Makes the Node of a machine true; one that is not there is made. Says why where it can not be written.
pub(crate) fn keep(api: &ObjectApi, machine: &Machine, number: usize) -> Result<(), String> {
    let (labels, capacity) = (own_labels(machine), capacity(machine));
    let (report, parts) = (machine.report(), machine.parts());
    let at = moment(now());
    let made = api.store().change(&key(&machine.spec.name), |before| {
        let mut node = before.cloned().unwrap_or_else(|| {
            json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": machine.spec.name, "uid": format!("node-{}", machine.spec.name), "creationTimestamp": at, "labels": {}, "annotations": {}},
                "spec": {"podCIDR": format!("10.{}.{}.0/24", 64 + number / 256, number % 256)},
            })
        });
        let there = node["metadata"]["labels"].as_object_mut();
        if let Some(there) = there {
            there.retain(|label, _| !is_ours(label) || labels.contains_key(label));
        }
        for (label, value) in &labels {
            node["metadata"]["labels"][label.as_str()] = value.clone().into();
        }
        let annotations = &mut node["metadata"]["annotations"];
        if report.gpus.is_empty() {
            annotations.as_object_mut().map(|all| all.remove(NodeReport::ANNOTATION));
        } else {
            annotations[NodeReport::ANNOTATION] = report.to_text().into();
        }
        annotations[names::GPUS] = parts.to_annotation().into();
        match &machine.asked {
            Some((_, Told::Failed { why, .. })) => annotations[names::MIG_CONFIG_REASON] = why.clone().into(),
            _ => {
                annotations.as_object_mut().map(|all| all.remove(names::MIG_CONFIG_REASON));
            }
        }
        let status = &mut node["status"];
        status["capacity"] = Value::Object(capacity.clone());
        status["allocatable"] = Value::Object(capacity.clone());
        status["addresses"] = json!([
            {"type": "InternalIP", "address": format!("10.0.{}.{}", number / 250, 1 + number % 250)},
            {"type": "Hostname", "address": machine.spec.name},
        ]);
        let (kernel, system, runtime) = machine.body.as_ref().map_or(
            ("simulated", "simulated", "simulated://1"),
            |body| (body.kernel.as_str(), body.system.as_str(), PROCESSES),
        );
        status["nodeInfo"] = json!({
            "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": kernel, "osImage": system, "operatingSystem": "linux",
            "architecture": "amd64", "containerRuntimeVersion": runtime, "kubeletVersion": concat!("v", env!("CARGO_PKG_VERSION"), "-carve"), "kubeProxyVersion": "",
        });
        set_condition(&mut node, "Ready", "True", "", "");
        let (word, why) = match &machine.wrong {
            None => ("True", ""),
            Some(why) => ("False", why.as_str()),
        };
        set_condition(&mut node, names::CONFIGURED, word, if why.is_empty() { "InForce" } else { "Refused" }, why);
        Ok::<_, Infallible>(if before == Some(&node) { Act::Leave } else { Act::Put(node) })
    });
    made.map(drop).map_err(|error| error.to_string())
}

/// The Nodes by name, each read once for as long as nobody changes it.
#[derive(Debug, Default)]
pub(crate) struct Views {
    read: BTreeMap<String, (Arc<Value>, NodeView)>,
}

impl Views {
    /// As they are now.
    pub(crate) fn look(&mut self, api: &ObjectApi) -> BTreeMap<String, NodeView> {
        let nodes = api.list(kind("nodes"), None);
        let mut now = BTreeMap::new();
        for node in nodes {
            let name = name_of(&node).to_owned();
            let view = match self.read.remove(&name) {
                Some((same, view)) if Arc::ptr_eq(&same, &node) => view,
                _ => NodeView::of(&node),
            };
            now.insert(name, (node, view));
        }
        self.read = now;
        self.read.iter().map(|(name, (_, view))| (name.clone(), view.clone())).collect()
    }
}
