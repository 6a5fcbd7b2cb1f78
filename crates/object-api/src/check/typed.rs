//! Objects of Kubernetes, read as its own types.

use crate::failure::Failure;
use crate::resources::Kind;
use k8s_openapi::api;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta};
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
        // Events have two shapes; what only the other one has is no stranger.
        (_, "Event") => |object: &Value| read::<api::core::v1::Event>(object).map(|_| Vec::new()),
        _ => return Ok(Vec::new()),
    };
    read(object).map_err(|wrong| wrong.of(kind))
}

/// The metadata alone, of objects that are described elsewhere.
pub(super) fn metadata(object: &Value, kind: &Kind) -> Result<(), Failure> {
    let read = read::<ObjectMeta>(&object["metadata"]);
    read.map(drop).map_err(|wrong| Wrong { field: format!("metadata.{}", wrong.field), ..wrong }.of(kind))
}

/// How something is to be deleted.
pub(crate) fn read_options(options: &Value) -> Result<(), Failure> {
    if options.is_null() {
        return Ok(());
    }
    read::<DeleteOptions>(options).map(drop).map_err(|Wrong { field, why }| {
        Failure::unreadable(format!("DeleteOptions does not read: {field}: {why}"), &field, &why)
    })
}

/// A field that does not read, and why.
struct Wrong {
    field: String,
    why: String,
}

impl Wrong {
    fn of(self, kind: &Kind) -> Failure {
        let Wrong { field, why } = self;
        let message = format!(
            "{} in version \"{}\" cannot be handled as a {}: {field}: {why}",
            kind.kind, kind.version, kind.kind
        );
        Failure::unreadable(message, &field, &why)
    }
}

fn read<T: DeserializeOwned + Serialize>(object: &Value) -> Result<Vec<String>, Wrong> {
    let read: T = serde_path_to_error::deserialize(object.clone()).map_err(|error| {
        let why = error.inner().to_string();
        // Of what is missing, the name stands in the words alone.
        let field = match error.path().to_string().as_str() {
            "." => why.split('`').nth(1).unwrap_or("body").to_owned(),
            path => path.to_owned(),
        };
        Wrong { field, why }
    })?;
    let known = serde_json::to_value(read)
        .map_err(|error| Wrong { field: "body".to_owned(), why: error.to_string() })?;
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
