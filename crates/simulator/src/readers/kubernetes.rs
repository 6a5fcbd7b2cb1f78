//! A cluster as `kubectl get nodes,pods -A -o json` prints it: nodes by what they have to give, pods by what they request.
//!
//! The list is read object by object, and of each object only what is used is kept, so that memory beside the text grows with the number
//! of nodes and pods, which is bounded, and not with what else somebody put into them.

use super::amounts::{self, Round};
use super::fields::{Amounts, Labels, MIG, Selector};
use crate::csv::MOST_ENTRIES;
use crate::readers::amounts::MOST_DEVICES;
use crate::trace::{TraceError, TraceNode, TracePod};
use carve_gpu_model::{Geometry, Mebibytes, ProfileName};
use carve_placement::{Claim, CpuMilli, MOST_GPUS};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// What a whole GPU is called where NVIDIA's device plugin or the agent offers it.
const GPU: &str = "nvidia.com/gpu";
const MEMORY: &str = "nvidia.com/gpu.memory";
const REPLICAS: &str = "nvidia.com/gpu.replicas";
const COUNT: &str = "nvidia.com/gpu.count";

/// More containers than a pod has.
const MOST_CONTAINERS: usize = 1000;

/// What a list is of; its items are read after that is known, wherever it stands.
#[derive(Debug, Deserialize)]
struct ListKind {
    #[serde(default)]
    kind: String,
}

#[derive(Debug, Deserialize)]
struct Item {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    labels: Option<Labels>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    #[serde(default)]
    node_name: Option<String>,
    #[serde(default)]
    node_selector: Option<Selector>,
    #[serde(default, deserialize_with = "super::bounded::list::<_, _, MOST_CONTAINERS>")]
    containers: Vec<Container>,
    #[serde(default, deserialize_with = "super::bounded::list::<_, _, MOST_CONTAINERS>")]
    init_containers: Vec<Container>,
    #[serde(default)]
    overhead: Option<Amounts>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    #[serde(default)]
    resources: Option<Resources>,
    #[serde(default)]
    restart_policy: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Resources {
    #[serde(default)]
    requests: Option<Amounts>,
    #[serde(default)]
    limits: Option<Amounts>,
}

#[derive(Debug, Default, Deserialize)]
struct Status {
    #[serde(default)]
    phase: Option<String>,
    #[serde(default)]
    allocatable: Option<Amounts>,
}

/// CPU, memory, GPUs and MIG devices together.
#[derive(Debug, Clone, Default)]
struct Sum {
    cpu: u64,
    memory: u64,
    gpus: u64,
    /// How many, by profile.
    mig: BTreeMap<ProfileName, u64>,
}

impl Sum {
    fn and(mut self, other: Sum) -> Sum {
        for (profile, number) in other.mig {
            let sum = self.mig.entry(profile).or_default();
            *sum = sum.saturating_add(number);
        }
        Sum {
            mig: self.mig,
            cpu: self.cpu.saturating_add(other.cpu),
            memory: self.memory.saturating_add(other.memory),
            gpus: self.gpus.saturating_add(other.gpus),
        }
    }

    fn or(mut self, other: Sum) -> Sum {
        for (profile, number) in other.mig {
            let most = self.mig.entry(profile).or_default();
            *most = number.max(*most);
        }
        Sum {
            mig: self.mig,
            cpu: self.cpu.max(other.cpu),
            memory: self.memory.max(other.memory),
            gpus: self.gpus.max(other.gpus),
        }
    }
}

/// Nodes, by name, and pods, in their order. Pods that have ended hold nothing and are passed over.
pub fn read(text: &str) -> Result<(Vec<TraceNode>, Vec<TracePod>), TraceError> {
    let ListKind { kind } = serde_json::from_str(text).map_err(|error| super::syntax(&error))?;
    let mut reading =
        Reading { of: kind.strip_suffix("List").unwrap_or("").to_owned(), ..Reading::default() };
    let mut text = serde_json::Deserializer::from_str(text);
    let read = List(&mut reading).deserialize(&mut text).and_then(|()| text.end());
    match (reading.wrong, read) {
        (Some(wrong), _) => return Err(wrong),
        (None, Err(error)) => return Err(super::syntax(&error)),
        (None, Ok(())) => {}
    }
    reading.nodes.sort_by(|a: &TraceNode, b: &TraceNode| a.name.cmp(&b.name));
    Ok((reading.nodes, reading.pods))
}

/// What is known while a list is read.
#[derive(Debug, Default)]
struct Reading {
    /// What an item is that does not say so itself, as in a NodeList.
    of: String,
    nodes: Vec<TraceNode>,
    pods: Vec<TracePod>,
    /// Whether it is a node, and its name; the place of the item.
    seen: BTreeMap<(bool, String), usize>,
    /// What was wrong with an item, after which nothing more is read.
    wrong: Option<TraceError>,
}

impl Reading {
    fn take(&mut self, index: usize, item: &Item) -> Result<(), TraceError> {
        let path = format!("items[{index}]");
        let wrong =
            |(field, what): (&str, String)| TraceError::Entry { path: format!("{path}{field}"), what };
        let kind = if item.kind.is_empty() { &self.of } else { &item.kind };
        if item.metadata.name.is_empty() {
            return Err(wrong((".metadata.name", "is missing; this is no object of Kubernetes".to_owned())));
        }
        let is_node = kind == "Node";
        let name = match (&item.metadata.namespace, is_node) {
            (Some(namespace), false) => format!("{namespace}/{}", item.metadata.name),
            _ => item.metadata.name.clone(),
        };
        match kind.as_str() {
            "Node" => self.nodes.push(node(name.clone(), item).map_err(wrong)?),
            "Pod" => self.pods.extend(pod(name.clone(), item).map_err(wrong)?),
            other => {
                let what =
                    format!("is {other:?}; get nodes and pods alone: kubectl get nodes,pods -A -o json");
                return Err(wrong((".kind", what)));
            }
        }
        if let Some(before) = self.seen.insert((is_node, name), index) {
            return Err(wrong((".metadata.name", format!("is already the name of items[{before}]"))));
        }
        Ok(())
    }
}

/// The object around the items.
struct List<'a>(&'a mut Reading);

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects of Kubernetes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut found = false;
        while let Some(name) = fields.next_key::<String>()? {
            if name != "items" {
                fields.next_value::<IgnoredAny>()?;
            } else if std::mem::replace(&mut found, true) {
                return Err(A::Error::custom("\"items\" is there twice"));
            } else {
                fields.next_value_seed(Items(self.0))?;
            }
        }
        Ok(())
    }
}

/// The items, one after another.
struct Items<'a>(&'a mut Reading);

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0;
        while let Some(item) = items.next_element::<Item>()? {
            if index == MOST_ENTRIES {
                let what = format!("more than {MOST_ENTRIES} entries; simulate them in parts");
                return Err(A::Error::custom(what));
            }
            if let Err(wrong) = self.0.take(index, &item) {
                self.0.wrong = Some(wrong);
                return Err(A::Error::custom("an item is wrong"));
            }
            index += 1;
        }
        Ok(())
    }
}

fn node(name: String, item: &Item) -> Result<TraceNode, (&'static str, String)> {
    let unlabelled = Labels::default();
    let labels = item.metadata.labels.as_ref().unwrap_or(&unlabelled);
    if !matches!(labels.replicas.as_str(), "" | "0" | "1") {
        let what = format!(
            "{REPLICAS} is {:?}: the node shares its GPUs, and the list does not tell which pods share which; write nodes and pods as CSV",
            labels.replicas
        );
        return Err((".metadata.labels", what));
    }
    let none = Amounts::default();
    let allocatable = item.status.allocatable.as_ref().unwrap_or(&none);
    let has = sum(allocatable, Round::Down).map_err(|what| (".status.allocatable", what))?;
    // Where GPUs are divided, only the whole ones are allocatable; a label counts them all.
    let divided = allocatable.mig.keys().next();
    let gpus = match (divided, labels.count.as_str()) {
        (None, _) => has.gpus,
        // Kubelet goes on naming devices that were there once, with none of them.
        (Some(_), "") if has.mig.values().all(|number| *number == 0) => has.gpus,
        (Some(devices), "") => {
            let what = format!(
                "the node has {devices}, but no label {COUNT} that says how many GPUs it has; write nodes and pods as CSV"
            );
            return Err((".metadata.labels", what));
        }
        (Some(_), text) => {
            amounts::count(COUNT, text, u64::from(u32::MAX)).map_err(|what| (".metadata.labels", what))?
        }
    };
    if gpus > MOST_GPUS as u64 {
        return Err((
            ".status.allocatable",
            format!("{GPU} is {gpus}; more than {MOST_GPUS} can not be meant"),
        ));
    }
    let gpu_memory = match labels.memory.as_str() {
        "" => 0,
        text => {
            amounts::count(MEMORY, text, u64::from(u32::MAX)).map_err(|what| (".metadata.labels", what))?
        }
    };
    Ok(TraceNode {
        name,
        cpu: CpuMilli(has.cpu),
        memory: Mebibytes(has.memory),
        gpus: gpus as u8,
        gpu_memory: Mebibytes(if gpus == 0 { 0 } else { gpu_memory }),
        model: if gpus == 0 { String::new() } else { labels.product.clone() },
    })
}

fn pod(name: String, item: &Item) -> Result<Option<TracePod>, (&'static str, String)> {
    if matches!(item.status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return Ok(None);
    }
    let asked = |container: &Container| requested(container).map_err(|what| (".spec.containers", what));
    let mut steady = Sum::default();
    for container in &item.spec.containers {
        steady = steady.and(asked(container)?);
    }
    // Kubernetes counts what runs beside the containers with them, and what runs before them by the largest.
    let mut before = Sum::default();
    let mut beside = Sum::default();
    for container in &item.spec.init_containers {
        let own = asked(container)?;
        if container.restart_policy.as_deref() == Some("Always") {
            beside = beside.and(own);
        } else {
            before = before.or(beside.clone().and(own));
        }
    }
    let none = Amounts::default();
    let overhead = item.spec.overhead.as_ref().unwrap_or(&none);
    let overhead = sum(overhead, Round::Up).map_err(|what| (".spec.overhead", what))?;
    let all = steady.and(beside).or(before).and(overhead);
    if all.gpus > MOST_GPUS as u64 {
        let what = format!("asks for {} GPUs; more than {MOST_GPUS} can not be on one node", all.gpus);
        return Err((".spec.containers", what));
    }
    let mut mig = Geometry::default();
    for (profile, number) in &all.mig {
        mig.add(profile.clone(), u32::try_from(*number).unwrap_or(u32::MAX));
    }
    if mig.instances() > MOST_DEVICES || (all.gpus > 0 && !mig.is_empty()) {
        let what = format!(
            "asks for {} GPUs and {mig}; only one of them can be simulated, and at most {MOST_DEVICES} MIG devices",
            all.gpus
        );
        return Err((".spec.containers", what));
    }
    let (cpu, memory) = (CpuMilli(all.cpu), Mebibytes(all.memory));
    let claim = match all.gpus as u8 {
        0 => Claim::cpu_only(cpu, memory),
        gpus => Claim::whole(gpus, cpu, memory),
    };
    let models = item.spec.node_selector.as_ref().map(|selector| &selector.product);
    Ok(Some(TracePod {
        name,
        claim,
        models: models.filter(|_| claim.gpus > 0 || !mig.is_empty()).cloned().unwrap_or_default(),
        mig,
        created: None,
        deleted: None,
        node: item.spec.node_name.clone().filter(|node| !node.is_empty()),
    }))
}

/// What a container requests; what it only limits, it also requests.
fn requested(container: &Container) -> Result<Sum, String> {
    let Some(resources) = &container.resources else { return Ok(Sum::default()) };
    let none = Amounts::default();
    let limits = resources.limits.as_ref().unwrap_or(&none);
    let amounts = resources.requests.as_ref().unwrap_or(&none).or(limits);
    if let Some(other) = &amounts.other {
        return Err(format!(
            "asks for {other}; from such a list only whole GPUs ({GPU}) and MIG devices ({MIG}…) can be simulated; write pods as CSV"
        ));
    }
    sum(&amounts, Round::Up)
}

fn sum(amounts: &Amounts, round: Round) -> Result<Sum, String> {
    let (cpu, memory, gpus) =
        (amounts.cpu.text("cpu")?, amounts.memory.text("memory")?, amounts.gpus.text(GPU)?);
    let mut mig = BTreeMap::new();
    for (name, amount) in &amounts.mig {
        let written = name.strip_prefix(MIG).unwrap_or(name);
        // A name of a resource can not hold a plus sign.
        let profile = match written.split_once("gb.") {
            Some((fields, attribute)) => amounts::profile(&format!("{fields}gb+{attribute}")),
            None => amounts::profile(written),
        };
        let number = amount.text(name)?;
        let number = if number.is_empty() { 0 } else { amounts::count(name, number, 1 << 20)? };
        mig.insert(profile.map_err(|what| format!("{name}: {what}"))?, number);
    }
    Ok(Sum {
        mig,
        cpu: amounts::cpu(cpu, round)?.0,
        memory: amounts::memory("memory", memory, true, round)?.0,
        gpus: if gpus.is_empty() { 0 } else { amounts::count(GPU, gpus, 1 << 20)? },
    })
}
