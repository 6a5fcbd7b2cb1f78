//! A pod without a node, as people see it: what made it, what it asks for, and why it waits; pure.

use crate::waiting::waits;
use carve_admission::keys;
use carve_cluster_api::workload;
use carve_fleet_picture::Waiting;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use std::collections::BTreeMap;

/// What is shown of a pod, if it waits for a GPU.
pub(super) fn shown(pod: &Value) -> Option<(String, Waiting)> {
    let (group, since) = waits(pod)?;
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let made = serde_json::from_value::<Pod>(pod.clone()).map(|pod| workload(&pod));
    let waiting = Waiting {
        workload: made.unwrap_or_else(|_| format!("Pod/{name}")),
        asks: asks(pod),
        why: why(pod),
        since: i64::try_from(since.0).unwrap_or(i64::MAX),
    };
    Some((format!("{}/{name}", group.namespace), waiting))
}

/// What it asks for, in words: as it was understood when it was admitted, else as it is written.
fn asks(pod: &Value) -> String {
    if let Some(words) = pod["metadata"]["annotations"][keys::UNDERSTOOD_AS].as_str() {
        return words.to_owned();
    }
    let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
    for container in pod["spec"]["containers"].as_array().into_iter().flatten() {
        for (name, amount) in container["resources"]["limits"].as_object().into_iter().flatten() {
            let count = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned).parse::<i64>();
            if let (true, Ok(count)) = (name.contains('/'), count) {
                *sums.entry(name).or_default() += count;
            }
        }
    }
    let short = |name: &str| name.trim_start_matches("nvidia.com/").trim_start_matches("mig-").to_owned();
    let mut words: Vec<String> =
        sums.iter().map(|(name, count)| format!("{count} × {}", short(name))).collect();
    let claims = pod["spec"]["resourceClaims"].as_array().into_iter().flatten();
    let of = |claim: &Value| {
        let named = ["resourceClaimTemplateName", "resourceClaimName", "name"].into_iter();
        named.filter_map(|field| claim[field].as_str()).next().unwrap_or_default().to_owned()
    };
    words.extend(claims.map(|claim| format!("claim {}", of(claim))));
    words.join(", ")
}

/// What its scheduler said last.
fn why(pod: &Value) -> String {
    let conditions = pod["status"]["conditions"].as_array();
    let said = conditions.into_iter().flatten().find(|one| one["type"] == "PodScheduled");
    match said.and_then(|one| one["message"].as_str()) {
        Some(message) if !message.is_empty() => message.to_owned(),
        _ => {
            let scheduler = pod["spec"]["schedulerName"].as_str().unwrap_or(keys::DEFAULT_SCHEDULER);
            format!("{scheduler} has not looked at it yet")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::shown;
    use serde_json::json;

    #[test]
    fn a_pod_says_what_made_it_what_it_asks_for_and_why_it_waits() {
        let mut pod = json!({
            "metadata": {
                "name": "web-5d8f-x", "namespace": "team", "uid": "u", "creationTimestamp": "1970-01-01T00:01:00Z",
                "labels": {"pod-template-hash": "5d8f"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d8f", "uid": "r", "controller": true}],
            },
            "spec": {"schedulerName": "mine", "containers": [{"name": "main", "resources": {"limits": {"cpu": "1", "nvidia.com/mig-1g.5gb": "2"}}}]},
            "status": {"phase": "Pending"},
        });
        let (name, waiting) = shown(&pod).expect("it waits");
        assert_eq!((name.as_str(), waiting.workload.as_str()), ("team/web-5d8f-x", "Deployment/web"));
        assert_eq!((waiting.asks.as_str(), waiting.since), ("2 × 1g.5gb", 60));
        assert_eq!(waiting.why, "mine has not looked at it yet");
        pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]);
        pod["metadata"]["annotations"] = json!({"carve.dev/understood-as": "a quarter of a GPU"});
        let (_, waiting) = shown(&pod).expect("it waits");
        assert_eq!((waiting.asks.as_str(), waiting.why.as_str()), ("a quarter of a GPU", "0/3 nodes"));
        pod["metadata"]["annotations"] = json!({});
        pod["spec"] = json!({"containers": [], "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "half"}]});
        assert_eq!(shown(&pod).expect("it waits").1.asks, "claim half");
        pod["spec"]["nodeName"] = "a".into();
        assert_eq!(shown(&pod), None);
    }
}
