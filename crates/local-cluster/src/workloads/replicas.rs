//! So many pods of one template: ReplicaSets, and StatefulSets, whose pods have numbers.

use super::{is_active, is_ready, kind, pod_of};
use crate::objects::{name_of, namespace_of, text};
use carve_object_api::{Kind, ObjectApi};
use serde_json::{Value, json};
use std::sync::Arc;

/// Those that are least of a loss first: without a node, not yet running, youngest.
fn expendable(pod: &Value) -> (bool, bool, std::cmp::Reverse<String>) {
    let bound = pod["spec"]["nodeName"].is_string();
    (bound, is_ready(pod), std::cmp::Reverse(text(&pod["metadata"]["creationTimestamp"]).to_owned()))
}

pub(super) async fn keep(
    api: &ObjectApi,
    of: &'static Kind,
    set: &Value,
    pods: &[Arc<Value>],
) -> Result<(), String> {
    let (namespace, name) = (namespace_of(set), name_of(set));
    let wanted = usize::try_from(set["spec"]["replicas"].as_i64().unwrap_or(1)).unwrap_or(0);
    let mut active: Vec<&Arc<Value>> = pods.iter().filter(|pod| is_active(pod)).collect();
    let numbered = of.kind == "StatefulSet";
    let mut made = Ok(());
    // Pods that have ended make room for those that replace them.
    for over in pods.iter().filter(|pod| crate::objects::is_over(pod)) {
        let _ = api.delete(kind("pods"), namespace, name_of(over), Some(0));
    }
    if active.len() < wanted {
        let template = &set["spec"]["template"];
        let taken = |name: &str| pods.iter().any(|pod| name_of(pod) == name);
        let mut ordinals = (0..).map(|number| format!("{name}-{number}")).filter(|name| !taken(name));
        for _ in active.len()..wanted {
            let mut pod = pod_of(set, of, template, &json!({}));
            match numbered {
                true => pod["metadata"]["name"] = ordinals.next().unwrap_or_default().into(),
                false => pod["metadata"]["generateName"] = format!("{name}-").into(),
            }
            if let Err(failure) = api.create(kind("pods"), namespace, pod).await {
                made = Err(failure.message);
                break;
            }
        }
    } else if active.len() > wanted {
        if numbered {
            let ordinal =
                |pod: &Value| name_of(pod).rsplit('-').next().and_then(|number| number.parse::<i64>().ok());
            active.sort_by_key(|pod| std::cmp::Reverse(ordinal(pod)));
        } else {
            active.sort_by_key(|pod| expendable(pod));
        }
        for pod in &active[..active.len() - wanted] {
            let _ = api.delete(kind("pods"), namespace, name_of(pod), None);
        }
    }
    let ready = pods.iter().filter(|pod| is_ready(pod)).count();
    let count = pods.iter().filter(|pod| is_active(pod)).count();
    let _ = api.update(of, namespace, name, |object| {
        let generation = object["metadata"]["generation"].clone();
        for (field, value) in [("replicas", count), ("readyReplicas", ready), ("availableReplicas", ready)] {
            object["status"][field] = value.into();
        }
        object["status"]["observedGeneration"] = generation;
    });
    made
}
