//! What the API server is answered about pods, and about objects that pods are made after.

use carve_admission::{
    Admission, Fleet, JsonPatchOp, Outcome, Policy, Refusal, Road, Template, admit, update,
};
use serde_json::{Value, json};

/// Kubernetes cuts warnings after 256 letters.
const WARNING: usize = 250;

/// What an answer depends on, beside the object.
#[derive(Debug, Clone)]
pub(crate) struct Circumstances<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) road: Road,
    pub(crate) fleet: &'a Fleet,
}

/// What is decided.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Why it is not let in; let in where empty.
    pub(crate) refusals: Vec<Refusal>,
    /// What is changed about it.
    pub(crate) patch: Vec<JsonPatchOp>,
    /// What must be there before it is let in.
    pub(crate) templates: Vec<Template>,
    /// What its author is to know.
    pub(crate) warnings: Vec<String>,
}

impl Verdict {
    pub(crate) fn refused(refusals: Vec<Refusal>) -> Self {
        Verdict { refusals, ..Verdict::default() }
    }
}

/// A pod is created; it may still be changed.
pub(crate) fn admitted(request: &Value, with: &Circumstances<'_>) -> Verdict {
    let namespace = request["namespace"].as_str().unwrap_or_default();
    match admit(&request["object"], namespace, with.policy, with.road, with.fleet) {
        Outcome::NotOurs => Verdict::default(),
        Outcome::Refused(refusals) => Verdict::refused(refusals),
        Outcome::Admitted(Admission { patch, templates, warnings, .. }) => {
            Verdict { patch, templates, warnings, ..Verdict::default() }
        }
    }
}

/// Something is written for good.
pub(crate) fn validated(request: &Value, with: &Circumstances<'_>) -> Verdict {
    let kind = request["kind"]["kind"].as_str().unwrap_or_default();
    let is_update = request["operation"] == "UPDATE";
    match kind {
        "Pod" if is_update => match update(&request["oldObject"], &request["object"], with.policy) {
            Ok(()) => Verdict::default(),
            Err(refusals) => Verdict::refused(refusals),
        },
        "Pod" => settled(request, with),
        _ => match template_path(kind) {
            Some(path) => made_after(request, path, with),
            None => Verdict {
                warnings: vec![format!("carve has nothing to say about {kind}; take it out of the rules")],
                ..Verdict::default()
            },
        },
    }
}

/// A pod after everybody has changed it: nothing may be left to change.
fn settled(request: &Value, with: &Circumstances<'_>) -> Verdict {
    let verdict = admitted(request, with);
    if verdict.patch.is_empty() {
        return Verdict { templates: Vec::new(), warnings: Vec::new(), ..verdict };
    }
    let changes: Vec<&str> = verdict.patch.iter().map(|op| op.path()).take(3).collect();
    let reason = format!(
        "somebody changed the pod after carve admitted it, and so it would not be held to its part ({})",
        changes.join(", ")
    );
    let example = "let that webhook run before 'carve' (the API server goes by the alphabet), or leave such pods out of its rules";
    Verdict::refused(vec![Refusal::new("the pod", reason, example)])
}

/// Where an object has what its pods are made after.
fn template_path(kind: &str) -> Option<&'static str> {
    match kind {
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "Job" => Some("/spec/template"),
        "CronJob" => Some("/spec/jobTemplate/spec/template"),
        _ => None,
    }
}

/// Pods will be made after something in the object: what would be said of them is said now.
fn made_after(request: &Value, path: &str, with: &Circumstances<'_>) -> Verdict {
    let Some(template) = request["object"].pointer(path) else { return Verdict::default() };
    // An update that leaves the template as it was must pass: an object from before a policy must still be scaled and deleted.
    if request["oldObject"].pointer(path) == Some(template) {
        return Verdict::default();
    }
    let namespace = request["namespace"].as_str().unwrap_or_default();
    let prefix = path[1..].replace('/', ".");
    match admit(template, namespace, with.policy, with.road, with.fleet) {
        Outcome::NotOurs => Verdict::default(),
        Outcome::Admitted(admission) => Verdict { warnings: admission.warnings, ..Verdict::default() },
        Outcome::Refused(refusals) => {
            let there =
                |refusal: Refusal| Refusal { field: format!("{prefix}.{}", refusal.field), ..refusal };
            Verdict::refused(refusals.into_iter().map(there).collect())
        }
    }
}

/// The answer as the API server reads it. `encode` makes base64 of the patch.
pub(crate) fn answer(request: &Value, verdict: &Verdict, encode: impl Fn(&str) -> String) -> Value {
    let mut response = json!({"uid": request["uid"], "allowed": verdict.refusals.is_empty()});
    if !verdict.refusals.is_empty() {
        let words: Vec<String> = verdict.refusals.iter().map(Refusal::to_string).collect();
        response["status"] = json!({"code": 422, "reason": "Invalid", "message": words.join("; ")});
    } else if !verdict.patch.is_empty() {
        let patch = serde_json::to_string(&verdict.patch).unwrap_or_default();
        response["patchType"] = json!("JSONPatch");
        response["patch"] = json!(encode(&patch));
    }
    if !verdict.warnings.is_empty() {
        let cut = |text: &String| text.chars().take(WARNING).collect::<String>();
        response["warnings"] = verdict.warnings.iter().map(cut).collect();
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

#[cfg(test)]
#[path = "review_tests.rs"]
mod tests;
