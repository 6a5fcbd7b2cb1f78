//! From documents to objects, and from objects to the pods they make, wherever their templates stand.

use super::claims::Claims;
use super::fields::{at, entries, field, items, quantity, text, text_at};
use super::pod;
use super::{Finding as Located, MOST_REPLICAS, Manifests, PodAsk, Replicas, SourceIndex, Workload};
use crate::diagnostic::{Finding, Place, Report};
use crate::go_json::found;
use crate::kubernetes_yaml::{Node, Value};
use std::collections::BTreeMap;

/// One object of a stream or of a list in it.
#[derive(Debug, Clone)]
pub(super) struct Object<'a> {
    pub(super) source: SourceIndex,
    pub(super) document: usize,
    pub(super) place: Place<'a>,
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Object<'_> {
    pub(super) fn title(&self) -> String {
        format!("{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// What an object without a name is called.
const UNNAMED: &str = "(unnamed)";
/// Kind, namespace and name of the objects that make pods, and the document in which each was first seen.
pub(super) type Seen = BTreeMap<(String, String, String), usize>;

/// How deep templates are searched in objects of unknown kinds.
const DEEPEST: u8 = 12;

/// Puts what a report holds into the findings; true if something in it is an error.
pub(super) fn file(
    source: SourceIndex,
    document: usize,
    object: String,
    report: Report,
    manifests: &mut Manifests,
) -> bool {
    let errors = report.has_errors();
    let diagnostics = report.finish::<()>(None).diagnostics;
    let located = diagnostics.into_iter().map(|diagnostic| Located {
        source,
        document,
        object: object.clone(),
        diagnostic,
    });
    manifests.findings.extend(located);
    errors
}

/// The objects of a document; a list is opened.
pub(super) fn collect<'a>(
    source: SourceIndex,
    document: usize,
    node: &'a Node,
    objects: &mut Vec<Object<'a>>,
    manifests: &mut Manifests,
) {
    collect_place(source, document, Place::root(node), objects, manifests);
}

fn collect_place<'a>(
    source: SourceIndex,
    document: usize,
    place: Place<'a>,
    objects: &mut Vec<Object<'a>>,
    manifests: &mut Manifests,
) {
    let mut report = Report::default();
    match &place.node.value {
        Value::Null => return,
        Value::Mapping(_) => {}
        other => {
            Finding::error(&place, format!("expected a Kubernetes object, found {}", found(other)))
                .hint("an object starts with apiVersion: and kind:")
                .report(&mut report);
            file(source, document, String::new(), report, manifests);
            return;
        }
    }
    let Some(kind) = text_at(&place, "kind") else {
        Finding::error(&place, "this object does not say what it is: 'kind' is missing")
            .hint("write kind: Deployment (and apiVersion: apps/v1), or leave the file out if it is no manifest")
            .report(&mut report);
        file(source, document, String::new(), report, manifests);
        return;
    };
    if let Some(list) = field(&place, "items").filter(|_| kind.ends_with("List")) {
        for item in items(&list) {
            collect_place(source, document, item, objects, manifests);
        }
        return;
    }
    let metadata = field(&place, "metadata");
    let word = |key: &str| metadata.as_ref().and_then(|place| text_at(place, key));
    objects.push(Object {
        source,
        document,
        kind: kind.to_owned(),
        namespace: word("namespace").unwrap_or("default").to_owned(),
        // A name that the cluster completes is none that could be written twice.
        name: word("name").unwrap_or(UNNAMED).to_owned(),
        place,
    });
}

/// A template and how many pods are made from it.
struct Template<'a> {
    place: Place<'a>,
    path: String,
    replicas: Option<Replicas>,
}

/// Reads the pods that an object makes.
pub(super) fn read(object: &Object<'_>, claims: &Claims, seen: &mut Seen, manifests: &mut Manifests) {
    let mut report = Report::default();
    let templates = templates(object, &mut report);
    if templates.is_empty() {
        *manifests.others.entry(object.kind.clone()).or_default() += 1;
        lone_claim(object, claims, manifests);
    }
    let mut workloads = Vec::new();
    for template in templates {
        let pod = pod::pod(&template.place, &object.namespace, claims, &mut report);
        let Some(replicas) = template.replicas else { continue };
        workloads.push(workload(object, template.path, replicas, pod));
    }
    // Several templates of one object are one object; two objects of one name are one too many.
    if !workloads.is_empty() && object.name != UNNAMED {
        let key = (object.kind.clone(), object.namespace.clone(), object.name.clone());
        if let Some(first) = seen.insert(key, object.document) {
            let message = format!("{} is written twice; first in document {first}", object.title());
            Finding::error(&object.place, message)
                .hint("give each object a name of its own")
                .report(&mut report);
        }
    }
    if !file(object.source, object.document, object.title(), report, manifests) {
        manifests.workloads.append(&mut workloads);
    }
}

fn workload(object: &Object<'_>, template: String, replicas: Replicas, pod: PodAsk) -> Workload {
    Workload {
        source: object.source,
        document: object.document,
        at: object.place.node.at,
        kind: object.kind.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
        template,
        replicas,
        pod,
    }
}

/// A claim by itself asks for its devices too; pods that use it name it, and it is counted once.
fn lone_claim(object: &Object<'_>, claims: &Claims, manifests: &mut Manifests) {
    if object.kind != "ResourceClaim" {
        return;
    }
    let Some(claim) = claims.claim(&object.namespace, &object.name).filter(|claim| !claim.asks.is_empty())
    else {
        return;
    };
    let name = format!("{}/{}", object.namespace, object.name);
    let mut pod = PodAsk { gpus: claim.asks.clone(), same_gpu: claim.same_gpu, ..PodAsk::default() };
    pod.gpus.iter_mut().for_each(|ask| ask.claim = Some(name.clone()));
    manifests.workloads.push(workload(object, String::new(), Replicas::Count(1), pod));
}

fn templates<'a>(object: &Object<'a>, report: &mut Report) -> Vec<Template<'a>> {
    let root = &object.place;
    let usual = |place: Option<Place<'a>>, replicas| {
        let place = place.into_iter();
        place.map(|place| Template { place, path: String::new(), replicas }).collect()
    };
    match object.kind.as_str() {
        "Pod" => usual(Some(root.clone()), Some(Replicas::Count(1))),
        "Deployment" | "ReplicaSet" | "StatefulSet" | "ReplicationController" => {
            usual(at(root, &["spec", "template"]), count(root, &["spec", "replicas"], report))
        }
        "DaemonSet" => usual(at(root, &["spec", "template"]), Some(Replicas::EveryNode)),
        "Job" if is_of_kubernetes(root) => usual(at(root, &["spec", "template"]), job(root, report)),
        "CronJob" => match at(root, &["spec", "jobTemplate"]) {
            Some(job_template) => usual(at(&job_template, &["spec", "template"]), job(&job_template, report)),
            None => Vec::new(),
        },
        // Their schemas and examples hold templates that make no pods.
        "CustomResourceDefinition" | "ConfigMap" | "Secret" | "PodTemplate" => Vec::new(),
        _ => {
            let mut found = Vec::new();
            if let Some(spec) = field(root, "spec") {
                search(&spec, 1, 0, &mut found, report);
            }
            found
        }
    }
}

/// Whether a Job is Kubernetes' own; Volcano's has the same name, and several templates.
fn is_of_kubernetes(object: &Place<'_>) -> bool {
    text_at(object, "apiVersion").is_none_or(|version| version.starts_with("batch/"))
}

fn count(place: &Place<'_>, keys: &[&str], report: &mut Report) -> Option<Replicas> {
    match at(place, keys) {
        None => Some(Replicas::Count(1)),
        Some(place) => replicas(&place, report).map(Replicas::Count),
    }
}

/// As many pods at a time as a job runs.
fn job(place: &Place<'_>, report: &mut Report) -> Option<Replicas> {
    let most = match at(place, &["spec", "completions"]) {
        Some(place) => replicas(&place, report)?,
        None => u32::MAX,
    };
    match count(place, &["spec", "parallelism"], report)? {
        Replicas::Count(pods) => Some(Replicas::Count(pods.min(most))),
        every => Some(every),
    }
}

fn replicas(place: &Place<'_>, report: &mut Report) -> Option<u32> {
    let amount = quantity(place, report)?;
    let pods = amount.whole().and_then(|pods| u32::try_from(pods).ok()).filter(|pods| *pods <= MOST_REPLICAS);
    if pods.is_none() {
        Finding::error(place, format!("expected a whole number of pods up to {MOST_REPLICAS}"))
            .hint("write a number such as 3")
            .report(report);
    }
    pods
}

/// Looks for `template` with a pod in it, in objects of controllers that are not known by name.
fn search<'a>(place: &Place<'a>, times: u32, depth: u8, found: &mut Vec<Template<'a>>, report: &mut Report) {
    if depth > DEEPEST {
        return;
    }
    for item in items(place) {
        search(&item, times, depth + 1, found, report);
    }
    let number = ["replicas", "parallelism", "workers"].into_iter().find_map(|key| field(place, key));
    let own = match number.filter(|number| text(number).is_none()) {
        Some(number) if matches!(number.node.value, Value::Number(_)) => replicas(&number, report),
        _ => Some(1),
    };
    let many = own.map(|own| own.saturating_mul(times).min(MOST_REPLICAS));
    for (key, value) in entries(place) {
        let pod = at(&value, &["spec", "containers"]);
        if key.to_ascii_lowercase().ends_with("template") && pod.is_some_and(|pod| !items(&pod).is_empty()) {
            let path = place.path.clone();
            found.push(Template { place: value, path, replicas: many.map(Replicas::Count) });
        } else {
            search(&value, many.unwrap_or(times), depth + 1, found, report);
        }
    }
}
