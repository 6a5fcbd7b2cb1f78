//! A Deployment has a ReplicaSet for its template, and lets go of those before.

use super::kind;
use crate::objects::{name_of, namespace_of, uid_of};
use carve_object_api::{ObjectApi, set_condition};
use serde_json::{Value, json};
use std::sync::Arc;

/// A short name for a template: the same for the same one.
fn hash(template: &Value) -> String {
    let text = template.to_string();
    let number = text.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    let letters = b"bcdfghjklmnpqrstvwxz2456789";
    (0..10).map(|place| char::from(letters[(number >> (place * 6)) as usize % letters.len()])).collect()
}

pub(super) async fn keep(api: &ObjectApi, deployment: &Value, sets: &[Arc<Value>]) {
    let (namespace, name) = (namespace_of(deployment), name_of(deployment));
    let template = &deployment["spec"]["template"];
    let hash = hash(template);
    let wanted = deployment["spec"]["replicas"].as_i64().unwrap_or(1);
    let current = format!("{name}-{hash}");
    let replica_sets = kind("replicasets.apps");
    if !sets.iter().any(|set| name_of(set) == current) {
        let mut template = template.clone();
        template["metadata"]["labels"]["pod-template-hash"] = hash.clone().into();
        let mut selector = deployment["spec"]["selector"].clone();
        selector["matchLabels"]["pod-template-hash"] = hash.into();
        let set = json!({
            "metadata": {
                "name": current, "labels": template["metadata"]["labels"],
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid_of(deployment),
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {"replicas": wanted, "selector": selector, "template": template},
        });
        if let Err(failure) = api.create(replica_sets, namespace, set).await {
            tracing::warn!(deployment = name, "its ReplicaSet can not be made: {}", failure.message);
        }
    }
    let (mut replicas, mut ready, mut updated) = (0, 0, 0);
    for set in sets {
        let is_current = name_of(set) == current;
        let count = if is_current { wanted } else { 0 };
        if set["spec"]["replicas"] != count {
            let _ = api
                .update(replica_sets, namespace, name_of(set), |set| set["spec"]["replicas"] = count.into());
        }
        let number = |field: &str| set["status"][field].as_i64().unwrap_or(0);
        replicas += number("replicas");
        ready += number("readyReplicas");
        if is_current {
            updated = number("replicas");
        } else if number("replicas") == 0 {
            // Nobody goes back to an earlier template here.
            let _ = api.delete(replica_sets, namespace, name_of(set), None);
        }
    }
    let status = |object: &mut Value| {
        let generation = object["metadata"]["generation"].clone();
        for (field, value) in [
            ("replicas", replicas),
            ("readyReplicas", ready),
            ("availableReplicas", ready),
            ("updatedReplicas", updated),
            ("unavailableReplicas", (wanted - ready).max(0)),
        ] {
            object["status"][field] = value.into();
        }
        object["status"]["observedGeneration"] = generation;
        let (word, reason) = if ready >= wanted {
            ("True", "MinimumReplicasAvailable")
        } else {
            ("False", "MinimumReplicasUnavailable")
        };
        set_condition(object, "Available", word, reason, "");
    };
    let _ = api.update(kind("deployments.apps"), namespace, name, status);
}
