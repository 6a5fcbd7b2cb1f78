//! ResourceClaimTemplates of admitted pods: there before the pod is, believed only where they say what they should, and gone when no pod
//! has named them for a while.
//!
//! ```text
//!   missing ──▶ used ──no pod names it──▶ marked unused ──an hour──▶ deleted
//!                 ▲                            │
//!                 └──────── a pod needs it ────┘
//! ```
//! Marking and unmarking are writes, and what is deleted is the version that was looked at: of a pod that comes and a sweep, one is refused.

use crate::kubernetes::within;
use crate::store::StoreError;
use carve_admission::{Template, keys};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thiserror::Error;

/// Less than what the API server waits for a webhook.
const PATIENCE: Duration = Duration::from_secs(4);
/// How long a template is kept that no pod names.
const KEPT: Duration = Duration::from_secs(60 * 60);
/// How often unused ones are looked for.
const SWEEP: Duration = Duration::from_secs(10 * 60);
/// Annotation of a template: since when no pod names it, in seconds since 1970.
const UNUSED: &str = "carve.dev/unused-since";
pub(crate) const LABEL: &str = "app.kubernetes.io/managed-by=carve";
/// Two that make, mark or delete the same at once.
const TRIES: usize = 4;

/// Why a pod can not have its template.
#[derive(Debug, Error)]
pub(crate) enum TemplateError {
    #[error(
        "the ResourceClaimTemplate {0} has a name of carve's and asks for something else; delete it, and create the pod again"
    )]
    SaysSomethingElse(String),
    #[error("the ResourceClaimTemplate {0} could not be made ({1}); create the pod again")]
    Store(String, StoreError),
    #[error("the ResourceClaimTemplate {0} changes faster than it can be read; create the pod again")]
    Restless(String),
}

/// Sees to it that a template is there and says what it should. In a rehearsal nothing is written.
pub(crate) async fn ensure(
    client: &Client,
    namespace: &str,
    template: &Template,
    rehearsal: bool,
) -> Result<(), TemplateError> {
    let api: Api<ResourceClaimTemplate> = Api::namespaced(client.clone(), namespace);
    let shown = format!("{namespace}/{}", template.name);
    let failed = |error: StoreError| TemplateError::Store(shown.clone(), error);
    for _ in 0..TRIES {
        let found = within(PATIENCE, api.get_opt(&template.name)).await.map_err(failed)?;
        let written = match found {
            Some(there) => {
                let spec = serde_json::to_value(&there.spec).unwrap_or(Value::Null);
                if !says_the_same(&template.object["spec"], &spec) {
                    return Err(TemplateError::SaysSomethingElse(shown));
                }
                if rehearsal || !there.annotations().contains_key(UNUSED) {
                    return Ok(());
                }
                let patch = json!({"metadata": {"annotations": {UNUSED: null}, "resourceVersion": there.resource_version()}});
                let params = PatchParams::default();
                within(PATIENCE, api.patch(&template.name, &params, &Patch::Merge(&patch))).await.map(drop)
            }
            None if rehearsal => return Ok(()),
            None => {
                let object = serde_json::from_value(template.object.clone());
                let object: ResourceClaimTemplate =
                    object.map_err(|error| failed(StoreError::Refused(error.to_string())))?;
                within(PATIENCE, api.create(&PostParams::default(), &object)).await.map(drop)
            }
        };
        match written {
            Ok(()) => return Ok(()),
            Err(StoreError::Refused(why))
                if why.contains("exists") || why.contains("modified") || why.contains("not found") => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(TemplateError::Restless(shown))
}

/// Whether a spec says what ours says. The API server adds what is meant by silence.
fn says_the_same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            ours.iter().all(|(key, value)| theirs.get(key).is_some_and(|there| says_the_same(value, there)))
                && theirs.iter().all(|(key, value)| ours.contains_key(key) || is_meant_by_silence(key, value))
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len()
                && ours.iter().zip(theirs).all(|(ours, theirs)| says_the_same(ours, theirs))
        }
        (ours, theirs) => ours == theirs,
    }
}

fn is_meant_by_silence(key: &str, value: &Value) -> bool {
    match key {
        "allocationMode" => value == "ExactCount",
        "count" => value == 1,
        "metadata" => value.as_object().is_some_and(|map| map.values().all(Value::is_null)),
        _ => value.is_null(),
    }
}

/// Deletes templates that no pod has named for a while, for as long as this runs and the replica leads.
pub(crate) async fn sweep(client: Client, leads: impl Fn() -> bool) {
    loop {
        tokio::time::sleep(SWEEP).await;
        if !leads() {
            continue;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        if let Err(error) = sweep_once(&client, now).await {
            tracing::warn!(%error, "unused ResourceClaimTemplates are looked for again later");
        }
    }
}

async fn sweep_once(client: &Client, now: Duration) -> Result<(), StoreError> {
    const LONG: Duration = Duration::from_secs(60);
    let templates: Api<ResourceClaimTemplate> = Api::all(client.clone());
    let found = within(LONG, templates.list(&ListParams::default().labels(LABEL))).await?;
    let ours: Vec<_> =
        found.items.into_iter().filter(|one| keys::is_template_name(&one.name_any())).collect();
    if ours.is_empty() {
        return Ok(());
    }
    // Templates first: a pod that came since has a template that is younger, or was unmarked.
    let pods: Api<Pod> = Api::all(client.clone());
    let admitted = ListParams::default().labels(&format!("{}=claims", keys::ADMITTED));
    let pods = within(LONG, pods.list(&admitted)).await?;
    let named: BTreeSet<(String, String)> = pods.items.iter().flat_map(named_by).collect();
    for template in ours {
        let (namespace, name) = (template.namespace().unwrap_or_default(), template.name_any());
        let is_named = named.contains(&(namespace.clone(), name.clone()));
        let since =
            template.annotations().get(UNUSED).and_then(|text| text.parse().ok()).map(Duration::from_secs);
        let api: Api<ResourceClaimTemplate> = Api::namespaced(client.clone(), &namespace);
        let mark = |value: Value| json!({"metadata": {"annotations": {UNUSED: value}, "resourceVersion": template.resource_version()}});
        let params = PatchParams::default();
        let done = match (is_named, since) {
            (true, None) => Ok(()),
            (true, Some(_)) => {
                within(LONG, api.patch(&name, &params, &Patch::Merge(&mark(Value::Null)))).await.map(drop)
            }
            // A clock that was ahead: from now on, then.
            (false, Some(since)) if since <= now && now - since < KEPT => Ok(()),
            (false, Some(since)) if since <= now => {
                let exactly =
                    Preconditions { uid: template.uid(), resource_version: template.resource_version() };
                let params = DeleteParams { preconditions: Some(exactly), ..DeleteParams::default() };
                within(LONG, api.delete(&name, &params)).await.map(drop)
            }
            (false, _) => {
                let patch = mark(json!(now.as_secs().to_string()));
                within(LONG, api.patch(&name, &params, &Patch::Merge(&patch))).await.map(drop)
            }
        };
        match done {
            // Somebody needs it after all, or deleted it.
            Ok(()) | Err(StoreError::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The templates that a pod names, with its namespace.
pub(crate) fn named_by(pod: &Pod) -> Vec<(String, String)> {
    let claims = pod.spec.iter().flat_map(|spec| spec.resource_claims.iter().flatten());
    let names = claims.filter_map(|claim| claim.resource_claim_template_name.clone());
    names.map(|name| (pod.namespace().unwrap_or_default(), name)).collect()
}

#[cfg(test)]
#[path = "templates_tests.rs"]
mod tests;
