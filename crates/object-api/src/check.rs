//! Whether an object can be what it says that it is.

mod schema;
mod shape;
mod templates;
mod typed;

pub(crate) use shape::{labels_in, shape};
pub(crate) use templates::MOST_REPLICAS;
pub(crate) use typed::read_options;

use crate::failure::Failure;
use crate::resources::Kind;
use serde_json::Value;

/// What is wrong, and with which field.
pub(crate) type Causes = Vec<(String, String)>;

/// What is done about fields that nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    Refuse,
    Warn,
    Ignore,
}

impl Unknown {
    pub(crate) fn read(written: Option<&str>) -> Result<Self, Failure> {
        match written {
            Some("Strict") => Ok(Unknown::Refuse),
            None | Some("Warn") => Ok(Unknown::Warn),
            Some("Ignore") => Ok(Unknown::Ignore),
            Some(other) => Err(Failure::bad_request(format!(
                "fieldValidation: '{other}' is not known; write Strict, Warn or Ignore"
            ))),
        }
    }
}

/// Checks an object, fills in what is left out, and tells which fields nobody knows.
pub(crate) fn check(object: &mut Value, kind: &Kind, unknown: Unknown) -> Result<Vec<String>, Failure> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let mut causes = Causes::new();
    if let Some(why) = wrong_name(&name) {
        causes.push(("metadata.name".to_owned(), format!("Invalid value: \"{name}\": {why}")));
    }
    labels_in(&object["metadata"], "metadata", &mut causes);
    let strangers = match schema::of(kind) {
        Some(schema) => {
            typed::metadata(object, kind)?;
            schema.check(object, &mut causes)
        }
        None => typed::check(object, kind)?,
    };
    templates::check(object, kind, &mut causes);
    if !causes.is_empty() {
        return Err(Failure::invalid(kind.kind, &name, causes));
    }
    let told: Vec<String> = strangers.iter().map(|path| format!("unknown field \"{path}\"")).collect();
    match unknown {
        Unknown::Refuse if !told.is_empty() => {
            let message = format!(
                "{} in version \"{}\" cannot be handled as a {}: strict decoding error: {}",
                kind.kind,
                kind.version,
                kind.kind,
                told.join(", ")
            );
            let causes = strangers.into_iter().zip(told).collect();
            Err(Failure { causes, ..Failure::bad_request(message) })
        }
        Unknown::Ignore => Ok(Vec::new()),
        _ => Ok(told),
    }
}

/// Why this is no name for an object.
fn wrong_name(name: &str) -> Option<&'static str> {
    let inside = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let whole = |part: &str| {
        let bytes = part.as_bytes();
        !bytes.is_empty()
            && bytes.iter().all(|letter| inside(*letter) || *letter == b'-')
            && inside(bytes[0])
            && inside(bytes[bytes.len() - 1])
    };
    match name {
        name if name.len() > 253 => Some("must be no more than 253 characters"),
        name if !name.split('.').all(whole) => {
            Some("must be lower case letters, digits, '-' and '.', and begin and end with a letter or digit")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Unknown, check};
    use crate::resources::kind_named;
    use serde_json::{Value, json};

    fn pod(change: impl Fn(&mut Value)) -> Value {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
        });
        change(&mut pod);
        pod
    }

    fn said(object: &Value, kind: &str) -> String {
        let mut object = object.clone();
        match check(&mut object, kind_named(kind).expect("a kind"), Unknown::Refuse) {
            Ok(_) => String::new(),
            Err(failure) => failure.message,
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_field() {
        let container = |field: &'static str, value: Value| {
            move |pod: &mut Value| pod["spec"]["containers"][0][field] = value.clone()
        };
        let limits = |value: Value| container("resources", json!({"limits": value}));
        assert_eq!(said(&pod(|_| ()), "pods"), "");
        for (pod, words) in [
            (pod(|pod| pod["metadata"]["name"] = "Not_a_name".into()), "metadata.name"),
            (pod(|pod| pod["metadata"]["labels"] = json!({"a": "not so"})), "metadata.labels.a"),
            (pod(|pod| pod["spec"]["containers"] = json!([])), "spec.containers: Required"),
            (pod(container("name", "Upper".into())), "spec.containers[0].name"),
            (pod(container("image", "".into())), "spec.containers[0].image: Required"),
            (
                pod(limits(json!({"nvidia.com/gpu": "lots"}))),
                "spec.containers[0].resources.limits[nvidia.com/gpu]",
            ),
            (pod(limits(json!({"nvidia.com/gpu": "1500m"}))), "must be an integer"),
            (
                pod(|pod| {
                    pod["spec"]["containers"][0]["resources"]["requests"] = json!({"nvidia.com/gpu": "2"})
                }),
                "must be equal",
            ),
            (pod(|pod| pod["spec"]["contaners"] = json!([])), "unknown field \"spec.contaners\""),
            (
                pod(|pod| pod["spec"]["containers"][0]["resources"]["limit"] = json!({"a": 1})),
                "unknown field \"spec.containers[0].resources.limit\"",
            ),
            (
                pod(|pod| pod["spec"]["containers"] = json!("text")),
                "cannot be handled as a Pod: spec.containers: invalid type: string \"text\"",
            ),
            (
                pod(container("ports", json!([{"containerPort": 80}, {"containerPort": "80"}]))),
                "spec.containers[0].ports[1].containerPort: invalid type: string \"80\", expected i32",
            ),
        ] {
            assert!(said(&pod, "pods").contains(words), "{words}: {}", said(&pod, "pods"));
        }
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
            "spec": {"replicas": -1, "selector": {"matchLabels": {"app": "a"}}, "template": {
                "metadata": {"labels": {"app": "b"}}, "spec": pod(|_| ())["spec"],
            }},
        });
        let words = said(&deployment, "deployments");
        assert!(
            words.contains("spec.replicas") && words.contains("spec.template.metadata.labels"),
            "{words}"
        );
    }

    #[test]
    fn our_own_objects_are_checked_by_their_definitions() {
        let policy = |spec: Value| json!({"apiVersion": "carve.dev/v1beta1", "kind": "SlicePolicy", "metadata": {"name": "p"}, "spec": spec});
        for (spec, words) in [
            (json!({}), ""),
            (json!({"mig": {"mode": "Manual", "switchModeOn": true}}), "write DryRun or Automatic"),
            (
                json!({"mig": {"mode": "Automatic"}, "defragmentation": {"enabled": true}}),
                "podsEvictedAtOnce",
            ),
            (json!({"namespaces": [{"limits": {}}]}), "write either names or a selector"),
            (json!({"sharing": {"mechanism": "MPS", "replicas": 1}}), "nothing is shared"),
            (json!({"sharing": {"mechanism": "Magic", "replicas": 2}}), "Magic"),
            (json!({"sharing": {"replicas": 2}}), "spec.sharing.mechanism: Required"),
            (json!({"sharing": "yes"}), "spec.sharing"),
            (json!({"shering": {}}), "unknown field \"spec.shering\""),
        ] {
            let said = said(&policy(spec.clone()), "slicepolicies");
            assert!(said.contains(words) && (said.is_empty() == words.is_empty()), "{spec}: {words}: {said}");
        }
    }
}
