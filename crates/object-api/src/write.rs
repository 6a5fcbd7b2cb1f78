//! Objects that are made, changed and taken away.

use crate::admission::{Admission, admitted};
use crate::asked::Asked;
use crate::check::{Causes, Unknown, check, labels_in, read_options, shape};
use crate::collect;
use crate::failure::Failure;
use crate::metadata::{born, grown, now, same};
use crate::patch::{Applied, Style, apply, patched};
use crate::resources::Kind;
use carve_object_store::{Act, Changed, Key, Resource, Store};
use serde_json::{Value, json};
use std::sync::Arc;

/// What was written, with what its author is to know.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) object: Arc<Value>,
    pub(crate) warnings: Vec<String>,
    pub(crate) new: bool,
}

/// The hands that write.
#[derive(Clone, Copy)]
pub(crate) struct Writer<'a> {
    pub(crate) store: &'a Store,
    pub(crate) admission: Option<&'a dyn Admission>,
}

fn named(asked: &Asked) -> Result<&str, Failure> {
    asked.name.as_deref().ok_or_else(|| Failure::not_allowed(asked.method.as_str()))
}

/// What was sent says the same as the path about what it is.
fn agree(object: &mut Value, kind: &Kind) -> Result<(), Failure> {
    shape(object)?;
    for (field, wanted) in [("apiVersion", kind.api_version()), ("kind", kind.kind.to_owned())] {
        match object[field].as_str().filter(|written| !written.is_empty()) {
            Some(written) if written != wanted => {
                let why =
                    format!("{field} is '{written}', and the path is that of {} ({wanted})", kind.named());
                return Err(Failure::unreadable(why.clone(), field, &why));
            }
            _ => object[field] = wanted.into(),
        }
    }
    Ok(())
}

/// The version that a change was made for must be the one that is there.
fn is_newest(sent: &Value, before: &Value, asked: &Asked) -> Result<(), Failure> {
    let name = before["metadata"]["name"].as_str().unwrap_or_default();
    let conflict = |why: &str| Err(Failure::conflict(&asked.kind.named(), name, why));
    let (wanted, there) = (&sent["metadata"], &before["metadata"]);
    if wanted["uid"].as_str().is_some_and(|uid| there["uid"] != uid) {
        return conflict("the uid in the precondition is not that of the object");
    }
    if wanted["resourceVersion"]
        .as_str()
        .is_some_and(|version| !version.is_empty() && there["resourceVersion"] != version)
    {
        return conflict(
            "the object has been modified; please apply your changes to the latest version and try again",
        );
    }
    Ok(())
}

/// Only what belongs to the part that is written is taken from what was sent.
fn within_part(object: Value, before: &Value, asked: &Asked) -> Value {
    match asked.part.as_deref() {
        Some("status") => {
            let mut kept = before.clone();
            kept["status"] = object["status"].clone();
            // Agents tell what they have made of an object in its annotations.
            kept["metadata"]["managedFields"] = object["metadata"]["managedFields"].clone();
            if kept["metadata"]["managedFields"].is_null() {
                kept["metadata"].as_object_mut().map(|fields| fields.remove("managedFields"));
            }
            kept
        }
        _ if asked.kind.parts.contains(&"status") => {
            let mut kept = object;
            kept["status"] = before["status"].clone();
            if kept["status"].is_null() {
                kept.as_object_mut().map(|fields| fields.remove("status"));
            }
            kept
        }
        _ => object,
    }
}

/// What Kubernetes fills in.
fn fill_in(object: &mut Value, kind: &Kind, store: &Store) {
    let mut or = |path: &[&str], value: Value| {
        let place = path.iter().fold(&mut *object, |place, field| &mut place[*field]);
        if place.is_null() {
            *place = value;
        }
    };
    match kind.kind {
        "Pod" => {
            or(&["spec", "restartPolicy"], "Always".into());
            or(&["spec", "schedulerName"], "default-scheduler".into());
            or(&["spec", "terminationGracePeriodSeconds"], 30.into());
            or(&["spec", "serviceAccountName"], "default".into());
            or(&["status"], json!({"phase": "Pending"}));
            let class = object["spec"]["priorityClassName"].as_str().unwrap_or_default().to_owned();
            if object["spec"]["priority"].is_null() {
                let key = Key {
                    resource: Resource("priorityclasses.scheduling.k8s.io".to_owned()),
                    namespace: String::new(),
                    name: class,
                };
                object["spec"]["priority"] = store.get(&key).map_or(json!(0), |class| class["value"].clone());
            }
        }
        "Deployment" | "StatefulSet" | "ReplicaSet" => or(&["spec", "replicas"], 1.into()),
        "Job" => {
            or(&["spec", "parallelism"], 1.into());
            or(&["spec", "completions"], 1.into());
            or(&["spec", "backoffLimit"], 6.into());
        }
        "Namespace" => {
            or(&["status"], json!({"phase": "Active"}));
            let name = object["metadata"]["name"].clone();
            if !object["metadata"]["labels"].is_object() {
                object["metadata"]["labels"] = json!({});
            }
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
        }
        _ => {}
    }
}

impl Writer<'_> {
    /// The namespace must be there, and must stay.
    fn may_hold(&self, asked: &Asked) -> Result<(), Failure> {
        let Some(namespace) = asked.namespace.as_deref() else { return Ok(()) };
        let key = Key {
            resource: Resource("namespaces".to_owned()),
            namespace: String::new(),
            name: namespace.to_owned(),
        };
        match self.store.get(&key) {
            None => Err(Failure::not_found("namespaces", namespace)),
            Some(found) if found["metadata"]["deletionTimestamp"].is_string() => {
                Err(Failure::forbidden(format!(
                    "unable to create new content in namespace {namespace} because it is being terminated"
                )))
            }
            Some(_) => Ok(()),
        }
    }

    /// Makes an object.
    pub(crate) async fn create(&self, asked: &Asked, mut object: Value) -> Result<Written, Failure> {
        let kind = asked.kind;
        agree(&mut object, kind)?;
        if kind.namespaced && asked.namespace.is_none() {
            return Err(Failure::not_allowed("POST without a namespace"));
        }
        self.may_hold(asked)?;
        if kind.parts.contains(&"status") && kind.kind != "Node" {
            object.as_object_mut().map(|fields| fields.remove("status"));
        }
        let mut told =
            check(&mut object_with_name(&object), kind, Unknown::read(asked.parameter("fieldValidation"))?)?;
        let (mut object, warnings) = admitted(self.admission, asked, "CREATE", object, None).await?;
        told.extend(warnings);
        let name = born(&mut object, kind, asked.namespace.as_deref())?;
        fill_in(&mut object, kind, self.store);
        check(&mut object, kind, Unknown::Ignore)?;
        if asked.is_rehearsal()? {
            return Ok(Written { object: Arc::new(object), warnings: told, new: true });
        }
        let key = asked.key(&name);
        let changed = self.store.change(&key, |before| match before {
            Some(_) => Err(Failure::exists(&kind.named(), &name)),
            None => Ok(Act::Put(object)),
        })?;
        let object = changed.object().cloned().unwrap_or_default();
        Ok(Written { object, warnings: told, new: true })
    }

    /// Puts an object in the place of the one that is there.
    pub(crate) async fn replace(&self, asked: &Asked, mut object: Value) -> Result<Written, Failure> {
        let name = named(asked)?;
        agree(&mut object, asked.kind)?;
        if object["metadata"]["name"].as_str().is_some_and(|written| written != name) {
            return Err(Failure::bad_request(
                "the name of the object does not match the name on the URL".to_owned(),
            ));
        }
        self.rewrite(asked, |before| {
            is_newest(&object, before, asked)?;
            Ok(object.clone())
        })
        .await
    }

    /// Changes an object by a patch; one that is applied is made where it is not there.
    pub(crate) async fn patch(&self, asked: &Asked, patch: Value, style: Style) -> Result<Written, Failure> {
        let name = named(asked)?;
        if style != Style::Apply {
            return self
                .rewrite(asked, |before| {
                    if style != Style::Json {
                        is_newest(&patch, before, asked)?;
                    }
                    patched(before, &patch, style)
                })
                .await;
        }
        let manager = asked.parameter("fieldManager");
        let manager = manager
            .ok_or_else(|| Failure::bad_request("fieldManager is required for apply patch".to_owned()))?;
        let applied = Applied { manager, force: asked.is("force"), part: asked.part.as_deref() };
        let mut wanted = patch;
        agree(&mut wanted, asked.kind)?;
        wanted["metadata"]["name"] = name.into();
        if self.store.get(&asked.key(name)).is_none() {
            if asked.part.is_some() {
                return Err(Failure::not_found(&asked.kind.named(), name));
            }
            let object = apply(None, &wanted, asked.kind, &applied)?;
            match self.create(asked, object).await {
                Err(failure) if failure.reason == "AlreadyExists" => {}
                made => return made,
            }
        }
        self.rewrite(asked, |before| {
            is_newest(&wanted, before, asked)?;
            apply(Some(before), &wanted, asked.kind, &applied)
        })
        .await
    }

    /// Reads, has it admitted, and writes if it is still the same; otherwise once more.
    async fn rewrite(
        &self,
        asked: &Asked,
        make: impl Fn(&Value) -> Result<Value, Failure>,
    ) -> Result<Written, Failure> {
        let (name, kind) = (named(asked)?, asked.kind);
        let key = asked.key(name);
        let missing = || Failure::not_found(&kind.named(), name);
        let unknown = Unknown::read(asked.parameter("fieldValidation"))?;
        for _ in 0..16 {
            let before = self.store.get(&key).ok_or_else(missing)?;
            let mut object = within_part(make(&before)?, &before, asked);
            agree(&mut object, kind)?;
            grown(&mut object, &before, kind);
            let (mut object, mut warnings) =
                admitted(self.admission, asked, "UPDATE", object, Some(&before)).await?;
            grown(&mut object, &before, kind);
            warnings.splice(0..0, check(&mut object, kind, unknown)?);
            if same(&object, &before) || asked.is_rehearsal()? {
                let object = if asked.is_rehearsal()? { Arc::new(object) } else { before };
                return Ok(Written { object, warnings, new: false });
            }
            let ends = object["metadata"]["deletionTimestamp"].is_string()
                && !has_finalizers(&object)
                && has_finalizers(&before);
            let version = before["metadata"]["resourceVersion"].clone();
            let changed = self.store.change(&key, |now| match now {
                Some(now) if now["metadata"]["resourceVersion"] == version => {
                    Ok::<_, Failure>(if ends { Act::Delete } else { Act::Put(object) })
                }
                _ => Ok(Act::Leave),
            })?;
            if let Changed::Put(object) | Changed::Deleted(object) = changed {
                return Ok(Written { object, warnings, new: false });
            }
        }
        Err(Failure::conflict(&kind.named(), name, "it is changed all the time; try again"))
    }

    /// Binds a pod to a node.
    pub(crate) fn bind(&self, asked: &Asked, binding: &Value) -> Result<Written, Failure> {
        let name = named(asked)?;
        let node = binding["target"]["name"].as_str().filter(|node| !node.is_empty());
        let node = node.ok_or_else(|| {
            Failure::invalid("Binding", name, vec![("target.name".to_owned(), "Required value".to_owned())])
        })?;
        let mut causes = Causes::new();
        labels_in(&binding["metadata"], "metadata", &mut causes);
        if !causes.is_empty() {
            return Err(Failure::invalid("Binding", name, causes));
        }
        let changed = self.store.change(&asked.key(name), |pod| {
            let pod = pod.ok_or_else(|| Failure::not_found("pods", name))?;
            is_newest(binding, pod, asked)?;
            let conflict = |why: &str| Err(Failure::conflict("pods", name, why));
            if pod["metadata"]["deletionTimestamp"].is_string() {
                return conflict("pod is being deleted, cannot be assigned to a host");
            }
            if let Some(bound) = pod["spec"]["nodeName"].as_str().filter(|bound| !bound.is_empty()) {
                return conflict(&format!("pod {name} is already assigned to node \"{bound}\""));
            }
            let mut pod = pod.clone();
            pod["spec"]["nodeName"] = node.into();
            for field in ["annotations", "labels"] {
                for (key, value) in binding["metadata"][field].as_object().into_iter().flatten() {
                    pod["metadata"][field][key.as_str()] = value.clone();
                }
            }
            set_condition(&mut pod, "PodScheduled", "True", "", "");
            Ok(Act::Put(pod))
        })?;
        let object = changed.object().cloned().unwrap_or_default();
        Ok(Written { object, warnings: Vec::new(), new: true })
    }

    /// Takes an object away, with all that belongs to it.
    pub(crate) fn delete(&self, asked: &Asked, name: &str, options: &Value) -> Result<Arc<Value>, Failure> {
        read_options(options)?;
        let (kind, key) = (asked.kind, asked.key(name));
        let dry = options["dryRun"].as_array().is_some_and(|words| words.iter().any(|word| word == "All"));
        let rehearsal = asked.is_rehearsal()? || dry;
        let written = asked.parameter("gracePeriodSeconds").and_then(|text| text.parse().ok());
        let grace = options["gracePeriodSeconds"].as_i64().or(written);
        let changed = self.store.change(&key, |object| {
            let object = object.ok_or_else(|| Failure::not_found(&kind.named(), name))?;
            is_newest(&json!({"metadata": options["preconditions"]}), object, asked)?;
            Ok::<_, Failure>(if rehearsal { Act::Leave } else { ended(object, kind, grace) })
        })?;
        let object = changed.object().cloned().unwrap_or_default();
        if matches!(changed, Changed::Deleted(_)) {
            let policy = asked.parameter("propagationPolicy").or(options["propagationPolicy"].as_str());
            match (kind.kind, policy) {
                ("Namespace", _) => collect::empty(self.store, name),
                (_, Some("Orphan")) => collect::orphan(self.store, &object),
                _ => collect::dependents(self.store, &object),
            }
        }
        Ok(object)
    }
}

/// An object as it is checked before it has a name.
fn object_with_name(object: &Value) -> Value {
    let mut object = object.clone();
    if object["metadata"]["name"].as_str().is_none_or(str::is_empty)
        && object["metadata"]["generateName"].is_string()
    {
        object["metadata"]["name"] = "x".into();
    }
    object
}

fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty())
}

/// What becomes of an object that is deleted: some are only marked, and go when others are done with them.
pub(crate) fn ended(object: &Value, kind: &Kind, grace: Option<i64>) -> Act {
    let usual = object["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    let grace = if kind.kind == "Pod" { grace.unwrap_or(usual).max(0) } else { 0 };
    let bound = object["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let over = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let waits = kind.kind == "Pod" && bound && !over && grace > 0;
    if !waits && !has_finalizers(object) {
        return Act::Delete;
    }
    if object["metadata"]["deletionTimestamp"].is_string() {
        return Act::Leave;
    }
    let mut object = object.clone();
    object["metadata"]["deletionTimestamp"] = now().into();
    object["metadata"]["deletionGracePeriodSeconds"] = grace.into();
    Act::Put(object)
}

/// Sets a condition of an object, and when it changed.
pub fn set_condition(object: &mut Value, kind: &str, status: &str, reason: &str, message: &str) {
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    let Some(list) = object["status"]["conditions"].as_array_mut() else { return };
    let at = list.iter().position(|one| one["type"] == kind);
    let mut condition = json!({"type": kind, "status": status, "lastTransitionTime": now()});
    if !reason.is_empty() {
        condition["reason"] = reason.into();
        condition["message"] = message.into();
    }
    match at {
        Some(at) => {
            if list[at]["status"] == status {
                condition["lastTransitionTime"] = list[at]["lastTransitionTime"].clone();
            }
            list[at] = condition;
        }
        None => list.push(condition),
    }
}
