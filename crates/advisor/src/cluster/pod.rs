//! Pods: who made them, what they ask of GPUs, what they say of themselves.

use super::text;
use crate::class::Class;
use crate::input::{Beside, Domains, Dtype, ModelFacts, Replica, Situation, Workload};
use carve_formats::Severity;
use carve_formats::workloads::{PodAsk, Source, dialect_of_resource, read};
use carve_gpu_model::Isolation;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Puts pods into the situation: those with GPUs as workloads, others beside them.
pub(super) fn pods(
    pods: &[Value],
    claims: &[Value],
    tenants: &BTreeMap<String, String>,
    shared: &[String],
    domains: Domains,
    situation: &mut Situation,
) {
    let ended = |pod: &&Value| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let running: Vec<&Value> = pods.iter().filter(|pod| !ended(pod)).collect();
    let asks = asks(&running, claims, situation);
    let known: BTreeSet<String> = situation.nodes.iter().map(|node| node.name.clone()).collect();
    let mut workloads: BTreeMap<(String, String, String), Workload> = BTreeMap::new();
    for pod in running {
        let namespace = text(&pod["metadata"]["namespace"]).unwrap_or("default").to_owned();
        let Some(name) = text(&pod["metadata"]["name"]) else { continue };
        let Some(ask) = asks.get(&(namespace.clone(), name.to_owned())) else { continue };
        let node = text(&pod["spec"]["nodeName"]);
        if ask.gpus.is_empty() {
            if let Some(node) = node.filter(|node| known.contains(*node)) {
                situation.beside.push(Beside {
                    pod: format!("{namespace}/{name}"),
                    node: node.to_owned(),
                    every_node: matches!(owner(pod).0.as_str(), "DaemonSet" | "Node"),
                    cpu_milli: ask.cpu_milli,
                    memory: ask.memory,
                });
            }
            continue;
        }
        let (kind, maker) = owner(pod);
        let key = (namespace.clone(), kind, maker);
        let workload = workloads.entry(key.clone()).or_insert_with(|| {
            let tenant = said(pod, "carve.dev/tenant").or(tenants.get(&namespace).map(String::as_str));
            let domain = match domains {
                Domains::Cluster => "cluster".to_owned(),
                Domains::Namespaces => tenant.unwrap_or(&namespace).to_owned(),
            };
            workload(pod, &key, ask, domain, &mut situation.notes)
        });
        match node {
            None => workload.waiting += 1,
            Some(node) if known.contains(node) => {
                if shared.iter().any(|one| one == node) {
                    // What is called a GPU there is a share of one.
                    workload.whole_gpus = None;
                }
                workload.replicas.push(Replica { pod: name.to_owned(), node: node.to_owned(), ..Replica::default() });
            }
            Some(node) => situation.notes.push(format!(
                "pod {namespace}/{name} asks for GPUs and is on {node}, which is not among the nodes with GPUs; it is left out"
            )),
        }
    }
    situation.workloads =
        workloads.into_values().filter(|one| !one.replicas.is_empty() || one.waiting > 0).collect();
    for workload in &mut situation.workloads {
        workload.replicas.sort_by(|one, other| one.pod.cmp(&other.pod));
    }
}

/// What every pod asks for, by the reader of manifests; pods that it does not understand are noted.
fn asks(pods: &[&Value], claims: &[Value], situation: &mut Situation) -> BTreeMap<(String, String), PodAsk> {
    let items: Vec<&Value> = pods.iter().copied().chain(claims).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
    let manifests = read(&[Source { name: "cluster", text: &list }]);
    for finding in manifests.findings.iter().filter(|one| one.diagnostic.severity == Severity::Error) {
        situation.notes.push(format!("{} is left out: {}", finding.object, finding.diagnostic.message));
    }
    let pods = manifests.workloads.into_iter().filter(|one| one.kind == "Pod");
    pods.map(|one| ((one.namespace, one.name), one.pod)).collect()
}

/// Kind and name of what made a pod; a Deployment where a ReplicaSet of one did.
fn owner(pod: &Value) -> (String, String) {
    let metadata = &pod["metadata"];
    let own = || ("Pod".to_owned(), text(&metadata["name"]).unwrap_or_default().to_owned());
    let references = metadata["ownerReferences"].as_array();
    let Some(reference) = references.into_iter().flatten().find(|one| one["controller"] == true) else {
        return own();
    };
    let (Some(kind), Some(name)) = (text(&reference["kind"]), text(&reference["name"])) else { return own() };
    let hash = text(&metadata["labels"]["pod-template-hash"]);
    let deployment = hash.and_then(|hash| name.strip_suffix(hash)?.strip_suffix('-'));
    match (kind, deployment) {
        ("ReplicaSet", Some(deployment)) => ("Deployment".to_owned(), deployment.to_owned()),
        _ => (kind.to_owned(), name.to_owned()),
    }
}

/// What a pod says in a label or an annotation.
fn said<'a>(pod: &'a Value, key: &str) -> Option<&'a str> {
    text(&pod["metadata"]["labels"][key]).or_else(|| text(&pod["metadata"]["annotations"][key]))
}

fn workload(
    pod: &Value,
    key: &(String, String, String),
    ask: &PodAsk,
    domain: String,
    notes: &mut Vec<String>,
) -> Workload {
    let (namespace, kind, name) = key.clone();
    let mut wrong = |key: &str, found: &str, expected: &str| {
        notes
            .push(format!("{namespace}/{kind}/{name}: {key}: '{found}' is not understood; write {expected}"));
    };
    let class = class(pod, &mut wrong);
    let latency_sensitive = match said(pod, "carve.dev/latency") {
        Some("sensitive") => Some(true),
        Some("tolerant") => Some(false),
        Some(other) => {
            wrong("carve.dev/latency", other, "sensitive or tolerant");
            None
        }
        None => None,
    };
    let model = model(pod, &mut wrong);
    let whole = ask.gpus.iter().all(|one| one.is_whole() && !one.burst);
    let count: u32 = ask.gpus.iter().map(|one| one.count).sum();
    let words: Vec<String> = ask.gpus.iter().map(ToString::to_string).collect();
    let (container, resources) = container(pod);
    let isolation = ask.gpus.iter().map(|one| one.isolation).max().unwrap_or(Isolation::Unstated);
    Workload {
        container,
        resources,
        today: words.join(", "),
        whole_gpus: u8::try_from(count).ok().filter(|_| whole),
        replicas: Vec::new(),
        waiting: 0,
        domain,
        isolation,
        named: ask.gpus.iter().find_map(|one| one.hint),
        class,
        latency_sensitive,
        model,
        cpu_milli: ask.cpu_milli,
        memory: ask.memory,
        namespace,
        kind,
        name,
    }
}

/// The class that a pod names, or that Spark or JupyterHub mark their pods with.
fn class(pod: &Value, wrong: &mut impl FnMut(&str, &str, &str)) -> Option<Class> {
    if let Some(word) = said(pod, "carve.dev/class") {
        let class = Class::named(word);
        if class.is_none() {
            let words: Vec<&str> = Class::ALL.iter().map(|class| class.word()).collect();
            wrong("carve.dev/class", word, &format!("one of {}", words.join(", ")));
        }
        return class;
    }
    if said(pod, "spark-role").is_some() {
        return Some(Class::Spark);
    }
    (said(pod, "component") == Some("singleuser-server")).then_some(Class::Notebook)
}

fn model(pod: &Value, wrong: &mut impl FnMut(&str, &str, &str)) -> ModelFacts {
    let mut facts = ModelFacts::default();
    if let Some(word) = said(pod, "carve.dev/model-parameters") {
        facts.parameters = parameters(word);
        if facts.parameters.is_none() {
            wrong("carve.dev/model-parameters", word, "a number such as 7B, 350M or 7000000000");
        }
    }
    if let Some(word) = said(pod, "carve.dev/model-dtype") {
        facts.dtype = Dtype::named(word);
        if facts.dtype.is_none() {
            wrong("carve.dev/model-dtype", word, "one of fp32, fp16, bf16, int8, int4");
        }
    }
    facts.transformer = said(pod, "carve.dev/model-kind").map(|word| word == "transformer");
    facts
}

/// `7B`, `1.5B`, `350M`, `7000000000`.
fn parameters(text: &str) -> Option<u64> {
    let (number, unit) = match text.strip_suffix(['B', 'b']) {
        Some(number) => (number, 1_000_000_000.0),
        None => match text.strip_suffix(['M', 'm']) {
            Some(number) => (number, 1_000_000.0),
            None => (text, 1.0),
        },
    };
    let parameters = number.parse::<f64>().ok()? * unit;
    (1.0..1e15).contains(&parameters).then_some(parameters.round() as u64)
}

/// The first container that asks for GPUs, and by which names; the first one of all where claims or annotations ask.
fn container(pod: &Value) -> (String, Vec<String>) {
    let containers = pod["spec"]["containers"].as_array();
    let mut first = None;
    for container in containers.into_iter().flatten() {
        let name = text(&container["name"]).unwrap_or_default().to_owned();
        let lists = ["limits", "requests"].map(|list| container["resources"][list].as_object());
        let names: BTreeSet<String> = lists
            .into_iter()
            .flatten()
            .flat_map(|list| list.keys())
            .filter(|name| dialect_of_resource(name).is_some())
            .cloned()
            .collect();
        if !names.is_empty() {
            return (name, names.into_iter().collect());
        }
        first = first.or(Some(name));
    }
    (first.unwrap_or_default(), Vec::new())
}

#[cfg(test)]
mod tests {
    use super::{owner, parameters};
    use serde_json::json;

    #[test]
    fn a_replica_set_of_a_deployment_is_the_deployment() {
        let pod = |labels| {
            json!({"metadata": {"name": "web-5d4f-x", "labels": labels,
                "ownerReferences": [{"controller": true, "kind": "ReplicaSet", "name": "web-5d4f"}]}})
        };
        assert_eq!(
            owner(&pod(json!({"pod-template-hash": "5d4f"}))),
            ("Deployment".to_owned(), "web".to_owned())
        );
        assert_eq!(owner(&pod(json!({}))), ("ReplicaSet".to_owned(), "web-5d4f".to_owned()));
        assert_eq!(owner(&json!({"metadata": {"name": "one"}})), ("Pod".to_owned(), "one".to_owned()));
    }

    #[test]
    fn parameters_as_people_write_them() {
        assert_eq!(
            ["7B", "1.5B", "350M", "7000000000", "many", "-1"].map(parameters),
            [Some(7_000_000_000), Some(1_500_000_000), Some(350_000_000), Some(7_000_000_000), None, None]
        );
    }
}
