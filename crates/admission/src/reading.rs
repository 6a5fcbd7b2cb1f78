//! From the pod that the API server sends to claims: only what speaks of GPUs is read, by the reader of manifests.

use crate::Road;
use crate::claims::{ContainerClaim, Part, PodClaims, Share};
use crate::keys;
use crate::policy::{Policy, WholeGpus};
use crate::refusal::Refusal;
use carve_formats::workloads::{
    ContainerAsk, Dialect, GpuAsk, Isolation, Names, Thousandths, dialect_of_resource, is_request_annotation,
    read_containers,
};
use serde_json::{Map, Value, json};

/// What a pod asks for, and what is to be said about it.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) containers: Vec<ContainerAsk>,
    pub(crate) warnings: Vec<String>,
}

/// Lists of containers in a pod's spec.
pub(crate) const LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Every container of a pod with its path.
pub(crate) fn containers(pod: &Value) -> impl Iterator<Item = (String, &Value)> {
    LISTS.into_iter().flat_map(move |list| {
        let items = pod["spec"][list].as_array().map(Vec::as_slice).unwrap_or_default();
        items.iter().enumerate().map(move |(index, item)| (format!("spec.{list}[{index}]"), item))
    })
}

/// Every container of a pod, to be changed.
pub(crate) fn containers_mut(pod: &mut Value) -> impl Iterator<Item = &mut Value> {
    let spec = pod.get_mut("spec").and_then(Value::as_object_mut);
    let lists = spec.into_iter().flat_map(|spec| spec.iter_mut());
    let lists = lists.filter(|(name, _)| LISTS.contains(&name.as_str()));
    lists.filter_map(|(_, list)| list.as_array_mut()).flatten()
}

/// Whether anything in a pod speaks of GPUs in a dialect, or carries our marks: a look at names alone.
pub(crate) fn speaks_of_gpus(pod: &Value) -> bool {
    let annotations = names(&pod["metadata"]["annotations"]);
    let asks = |name: &String| is_request_annotation(name) || keys::ANNOTATIONS.contains(&name.as_str());
    let resources = containers(pod).flat_map(|(_, container)| {
        ["limits", "requests"].into_iter().flat_map(|list| names(&container["resources"][list]))
    });
    annotations.into_iter().any(asks)
        || names(&pod["metadata"]["labels"]).into_iter().any(|name| name == keys::ADMITTED)
        || resources.into_iter().any(|name| dialect_of_resource(name).is_some())
        || crate::marks::entries(pod).next().is_some()
}

fn names(map: &Value) -> Vec<&String> {
    map.as_object().map(|map| map.keys().collect()).unwrap_or_default()
}

/// Reads what the containers ask for.
pub(crate) fn read(pod: &Value) -> Result<Asked, Vec<Refusal>> {
    let parsed = read_containers(&excerpt(pod).to_string());
    let refusals: Vec<Refusal> = parsed.errors().map(Refusal::from).collect();
    let warnings = parsed.warnings().map(|found| Refusal::from(found).to_string()).collect();
    match parsed.value {
        Some(containers) => Ok(Asked { containers, warnings }),
        None => Err(refusals),
    }
}

/// What the reader needs, with everything at its place. Whatever else is in a pod is nobody's business, and need not be YAML.
fn excerpt(pod: &Value) -> Value {
    let annotations = pod["metadata"]["annotations"].as_object().into_iter().flatten();
    let annotations: Map<String, Value> = annotations
        .filter(|(name, _)| is_request_annotation(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let list = |name: &str| -> Vec<Value> {
        let items = pod["spec"][name].as_array().into_iter().flatten();
        items
            .map(|item| {
                let resources = &item["resources"];
                let only = |list: &str| -> Map<String, Value> {
                    let entries = resources[list].as_object().into_iter().flatten();
                    let asked = entries.filter(|(name, _)| is_of_interest(name));
                    asked.map(|(name, value)| (name.clone(), value.clone())).collect()
                };
                json!({
                    "name": item["name"], "restartPolicy": item["restartPolicy"],
                    "resources": {"limits": only("limits"), "requests": only("requests")},
                })
            })
            .collect()
    };
    json!({
        "metadata": {"annotations": annotations},
        "spec": {"containers": list("containers"), "initContainers": list("initContainers")},
    })
}

fn is_of_interest(resource: &str) -> bool {
    dialect_of_resource(resource).is_some() || resource.starts_with("nvidia.com/")
}

/// Whether a request is the device plugin's own affair. One with wishes is not: the device plugin knows no wishes, and a pod for an
/// A100 would get whatever is there.
pub(crate) fn is_left_alone(ask: &GpuAsk, policy: &Policy, road: Road) -> bool {
    let wishless = ask.models == Names::default()
        && ask.uuids == Names::default()
        && ask.hint.is_none()
        && ask.isolation == Isolation::Unstated;
    // What only claims could serve is left where it is served.
    let beyond = road == Road::Scheduler && (ask.mig.is_some() || ask.any_mig || ask.shared);
    (policy.whole_gpus == WholeGpus::Leave || beyond) && ask.dialect == Dialect::Nvidia && wishless
}

/// The claims of what was asked.
pub(crate) fn claims(containers: &[ContainerAsk]) -> Result<PodClaims, Vec<Refusal>> {
    let (mut claims, mut refusals) = (Vec::new(), Vec::new());
    for container in containers {
        let mut parts = Vec::new();
        for ask in &container.gpus {
            match part(ask) {
                Ok(part) => parts.push(part),
                Err((reason, example)) => {
                    refusals.push(Refusal::new(field(container, ask.dialect), reason, example));
                }
            }
        }
        claims.push(ContainerClaim { name: container.name.clone(), kind: container.kind, parts });
    }
    if refusals.is_empty() { Ok(PodClaims::new(claims)) } else { Err(refusals) }
}

/// Where a request of a dialect stands.
fn field(container: &ContainerAsk, dialect: Dialect) -> String {
    if is_in_annotations(dialect) {
        "metadata.annotations".to_owned()
    } else {
        format!("{}.resources.limits", container.path())
    }
}

/// Whether a dialect asks in annotations, which stay as they are.
pub(crate) fn is_in_annotations(dialect: Dialect) -> bool {
    matches!(dialect, Dialect::Kai | Dialect::TensorFusion)
}

/// More names than anybody writes; each is part of a selector, which may be 10 KiB long.
const MOST_NAMES: usize = 32;

fn part(ask: &GpuAsk) -> Result<Part, (String, String)> {
    let whole_compute = ask.compute == Some(Thousandths::WHOLE);
    let share = match &ask.mig {
        Some(profile) if ask.shared => {
            return Err((
                format!("a share of a MIG device {profile} has no size that could be reserved"),
                format!(
                    "ask for the device itself, nvidia.com/mig-{}: 1, or for a part of a GPU, carve.dev/gpu-memory: 4096",
                    profile.resource_form()
                ),
            ));
        }
        Some(profile) => Share::Mig(profile.clone()),
        None if ask.is_whole() => Share::Whole,
        // Several GPUs with all of their compute are whole GPUs, whatever memory is named. HAMi says the number in a word that admission
        // takes away, so what it means must not depend on it.
        None if ask.count > 1 && whole_compute && ask.dialect != Dialect::Hami => Share::Whole,
        None if ask.shared => Share::Turn,
        None => Share::Part { memory: ask.memory, compute: ask.compute.map(percent) },
    };
    let models = ask.models.wanted.iter().chain(&ask.models.unwanted);
    let uuids = ask.uuids.wanted.iter().chain(&ask.uuids.unwanted).map(|uuid| &uuid.0);
    let spoken = |c: char| c.is_ascii_alphanumeric() || " -_.+()/".contains(c);
    let mut number = 0;
    for name in models.chain(uuids) {
        number += 1;
        if name.len() > 64 || !name.chars().all(spoken) {
            let shown: String = name.chars().filter(|c| spoken(*c)).take(40).collect();
            return Err((
                format!("'{shown}' (with letters that are left out here) is no name of a GPU"),
                "write a part of a model's name such as A100, or an id such as GPU-5a2c…".to_owned(),
            ));
        }
    }
    if number > MOST_NAMES {
        return Err((
            format!("{number} models and ids of GPUs are named"),
            format!("name {MOST_NAMES} at most; a part of a name, such as A100, stands for all that have it"),
        ));
    }
    Ok(Part {
        count: ask.count,
        share,
        mechanism: ask.hint,
        isolation: ask.isolation,
        models: ask.models.clone(),
        uuids: ask.uuids.clone(),
        burst: ask.burst,
        dialect: ask.dialect,
    })
}

/// Whole percents, never less than asked for.
fn percent(share: Thousandths) -> u8 {
    u8::try_from(share.0.div_ceil(10).clamp(1, 100)).unwrap_or(100)
}
