//! What the API server is answered about an object: every config of ours in it is read as it will be when a claim is prepared.

use carve_formats::dra_config::OpaqueConfig;
use serde_json::{Value, json};

/// Letters of a field's name or of a sentence about it: a config may have 10 KiB, which nobody wants to read twice.
const LONGEST: usize = 500;
/// Kubernetes cuts warnings after 256 letters.
const WARNING: usize = 250;

/// A field that is refused.
struct Refusal {
    field: String,
    /// What is wrong, and what to write instead.
    words: String,
}

/// Whether a document asks for a review that can be answered.
pub fn is_review(document: &Value) -> bool {
    document["kind"] == "AdmissionReview"
        && document["apiVersion"] == "admission.k8s.io/v1"
        && document["request"]["uid"].as_str().is_some_and(|uid| !uid.is_empty())
}

/// Answers an AdmissionReview (`admission.k8s.io/v1`): configs of these drivers must be ones that can be served.
///
/// Any document is answered, and none but claims, templates of claims and device classes is refused. An update that leaves the configs
/// as they were is let through: an object from before the webhook must still be able to lose its finalizers.
pub fn review(document: &Value, drivers: &[String]) -> Value {
    let request = &document["request"];
    let uid = request["uid"].as_str().unwrap_or_default();
    let mut response = json!({"uid": uid, "allowed": true});
    match configs_path(request) {
        None => {
            let kind = request["kind"]["kind"].as_str().unwrap_or("nothing");
            let words = format!("carve's webhook has nothing to say about {kind}; take it out of the rules");
            response["warnings"] = json!([cut(words, WARNING)]);
        }
        Some(path) if is_of_interest(request, path) => {
            let refusals = refusals(&request["object"], path, drivers);
            if !refusals.is_empty() {
                response["allowed"] = json!(false);
                response["status"] = status(request, &refusals);
            }
        }
        Some(_) => {}
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

/// Where the configs are in an object; the same in all versions of the API.
fn configs_path(request: &Value) -> Option<&'static [&'static str]> {
    let kind = &request["kind"];
    if kind["group"] != "resource.k8s.io" {
        return None;
    }
    match kind["kind"].as_str()? {
        "ResourceClaim" => Some(&["spec", "devices", "config"]),
        "ResourceClaimTemplate" => Some(&["spec", "spec", "devices", "config"]),
        "DeviceClass" => Some(&["spec", "config"]),
        _ => None,
    }
}

/// Whether the request brings configs that were not there before, in an object that is to stay.
fn is_of_interest(request: &Value, path: &[&str]) -> bool {
    let writes = request["operation"] != "DELETE" && request["operation"] != "CONNECT";
    let whole = request["subResource"].as_str().unwrap_or_default().is_empty();
    let stays = request["object"]["metadata"]["deletionTimestamp"].is_null();
    let known = request["operation"] == "UPDATE"
        && configs(&request["object"], path) == configs(&request["oldObject"], path);
    writes && whole && stays && !known
}

fn configs<'a>(object: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(object, |value, name| &value[*name])
}

fn refusals(object: &Value, path: &[&str], drivers: &[String]) -> Vec<Refusal> {
    let ours = |config: &Value| {
        let driver = config["opaque"]["driver"].as_str();
        driver.is_some_and(|driver| drivers.iter().any(|ours| ours == driver))
    };
    let listed = configs(object, path).as_array().map(Vec::as_slice).unwrap_or_default();
    let mut refusals = Vec::new();
    for (place, config) in listed.iter().enumerate().filter(|(_, config)| ours(config)) {
        if let Err(error) = OpaqueConfig::decode(&config["opaque"]["parameters"]) {
            let mut field = format!("{}[{place}].opaque.parameters", path.join("."));
            if !error.field.is_empty() {
                field = format!("{field}.{}", error.field);
            }
            let (what, fix) = (cut(error.what, LONGEST), cut(error.fix, LONGEST));
            refusals.push(Refusal { field: cut(field, LONGEST), words: format!("{what}; {fix}") });
        }
    }
    refusals
}

/// The refusal as kubectl shows it, and field by field for programs.
fn status(request: &Value, refusals: &[Refusal]) -> Value {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, meta) = (text(&request["kind"]["kind"]), &request["object"]["metadata"]);
    let mut name = text(&meta["name"]);
    if name.is_empty() {
        // The API server gives it a name after the review.
        name = format!("{}…", text(&meta["generateName"]));
    }
    let namespace = text(&request["namespace"]);
    let shown = if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") };
    let lines: Vec<String> =
        refusals.iter().map(|refusal| format!("{}: {}", refusal.field, refusal.words)).collect();
    let causes: Vec<Value> = refusals
        .iter()
        .map(|refusal| {
            json!({"reason": "FieldValueInvalid", "field": refusal.field, "message": refusal.words})
        })
        .collect();
    json!({
        "code": 422,
        "reason": "Invalid",
        "message": format!("{kind} {shown} has a config that can not be served: {}", lines.join("\n")),
        "details": {"group": "resource.k8s.io", "kind": kind, "name": name, "causes": causes},
    })
}

/// Words that quote what somebody wrote, without the rest of what somebody wrote.
fn cut(mut words: String, most: usize) -> String {
    if let Some((end, _)) = words.char_indices().nth(most) {
        words.truncate(end);
        words.push('…');
    }
    words
}
