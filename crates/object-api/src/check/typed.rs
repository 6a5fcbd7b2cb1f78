//! Objects of Kubernetes, read as its own types.

use crate::failure::Failure;
use crate::resources::Kind;
use k8s_openapi::api;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Fields that nobody knows; an error where the object does not read at all.
pub(super) fn check(object: &Value, kind: &Kind) -> Result<Vec<String>, Failure> {
    let read = match (kind.group, kind.kind) {
        ("", "Namespace") => read::<api::core::v1::Namespace>,
        ("", "Node") => read::<api::core::v1::Node>,
        ("", "Pod") => read::<api::core::v1::Pod>,
        ("", "ConfigMap") => read::<api::core::v1::ConfigMap>,
        ("", "Secret") => read::<api::core::v1::Secret>,
        ("", "Service") => read::<api::core::v1::Service>,
        ("", "ServiceAccount") => read::<api::core::v1::ServiceAccount>,
        ("", "ResourceQuota") => read::<api::core::v1::ResourceQuota>,
        ("", "PersistentVolumeClaim") => read::<api::core::v1::PersistentVolumeClaim>,
        ("apps", "Deployment") => read::<api::apps::v1::Deployment>,
        ("apps", "ReplicaSet") => read::<api::apps::v1::ReplicaSet>,
        ("apps", "StatefulSet") => read::<api::apps::v1::StatefulSet>,
        ("apps", "DaemonSet") => read::<api::apps::v1::DaemonSet>,
        ("batch", "Job") => read::<api::batch::v1::Job>,
        ("batch", "CronJob") => read::<api::batch::v1::CronJob>,
        ("coordination.k8s.io", _) => read::<api::coordination::v1::Lease>,
        ("scheduling.k8s.io", _) => read::<api::scheduling::v1::PriorityClass>,
        ("admissionregistration.k8s.io", _) => {
            read::<api::admissionregistration::v1::MutatingWebhookConfiguration>
        }
        ("policy", _) => read::<api::policy::v1::PodDisruptionBudget>,
        ("resource.k8s.io", "DeviceClass") => read::<api::resource::v1::DeviceClass>,
        ("resource.k8s.io", "ResourceClaim") => read::<api::resource::v1::ResourceClaim>,
        ("resource.k8s.io", "ResourceClaimTemplate") => read::<api::resource::v1::ResourceClaimTemplate>,
        ("resource.k8s.io", _) => read::<api::resource::v1::ResourceSlice>,
        // Events have two shapes, and are written by programs alone.
        _ => return Ok(Vec::new()),
    };
    read(object).map_err(|error| {
        Failure::bad_request(format!(
            "{} in version \"{}\" cannot be handled as a {}: {error}",
            kind.kind, kind.version, kind.kind
        ))
    })
}

fn read<T: DeserializeOwned + Serialize>(object: &Value) -> Result<Vec<String>, serde_json::Error> {
    let known = serde_json::to_value(serde_json::from_value::<T>(object.clone())?)?;
    let mut strangers = Vec::new();
    compare("", object, &known, &mut strangers);
    Ok(strangers)
}

/// What was written and is not there after it was read.
fn compare(path: &str, written: &Value, known: &Value, strangers: &mut Vec<String>) {
    match (written, known) {
        (Value::Object(written), Value::Object(known)) => {
            for (field, value) in written {
                let path = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
                match known.get(field) {
                    Some(known) => compare(&path, value, known, strangers),
                    None if value.is_null() => {}
                    None => strangers.push(path),
                }
            }
        }
        (Value::Array(written), Value::Array(known)) => {
            for (number, (written, known)) in written.iter().zip(known).enumerate() {
                compare(&format!("{path}[{number}]"), written, known, strangers);
            }
        }
        _ => {}
    }
}
