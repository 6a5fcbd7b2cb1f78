//! Gathers what is looked at.

use super::story::Evidence;
use crate::kubernetes::within;
use crate::store::StoreError;
use k8s_openapi::serde::Serialize;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams};
use kube::{Api, Client};
use serde_json::Value;
use std::time::Duration;

/// How long the API server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
const CARVE: &str = "carve";

fn values<T: Serialize>(items: Vec<T>) -> Vec<Value> {
    items.iter().filter_map(|item| serde_json::to_value(item).ok()).collect()
}

fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// What may be missing: the kind is not there, or whoever asks may not see it.
async fn listed(api: Api<DynamicObject>, params: ListParams) -> Result<Vec<Value>, StoreError> {
    match within(PATIENCE, api.list(&params)).await {
        Ok(list) => Ok(values(list.items)),
        Err(StoreError::Refused(_)) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Everything about a pod; nothing where there is none of that name.
pub async fn explain_pod(
    client: Client,
    namespace: &str,
    name: &str,
    controller: &str,
) -> Result<Option<Evidence>, StoreError> {
    let core = |kind: &str| resource("", "v1", kind);
    let inside =
        |kind: &ApiResource| -> Api<DynamicObject> { Api::namespaced_with(client.clone(), namespace, kind) };
    let all = |kind: &ApiResource| -> Api<DynamicObject> { Api::all_with(client.clone(), kind) };
    let Some(pod) = within(PATIENCE, inside(&core("Pod")).get_opt(name)).await? else { return Ok(None) };
    let everything = ListParams::default;
    let about = everything().fields(&format!("involvedObject.kind=Pod,involvedObject.name={name}"));
    let lease: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), controller, &resource("coordination.k8s.io", "v1", "Lease"));
    let lease = within(PATIENCE, lease.get_opt("carve-controller")).await.ok().flatten();
    let holder = lease.and_then(|lease| Some(lease.data["spec"]["holderIdentity"].as_str()?.to_owned()));
    let hooks = all(&resource("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration"));
    // Who may not look is not told that it is missing.
    let registered = !matches!(within(PATIENCE, hooks.get_opt(CARVE)).await, Ok(None));
    let claim = resource("resource.k8s.io", "v1", "ResourceClaim");
    let mut claims = listed(all(&claim), everything()).await?;
    if claims.is_empty() {
        claims = listed(inside(&claim), everything()).await?;
    }
    Ok(Some(Evidence {
        pod: serde_json::to_value(&pod).unwrap_or(Value::Null),
        events: listed(inside(&core("Event")), about).await?,
        nodes: listed(all(&core("Node")), everything()).await?,
        pods: listed(all(&core("Pod")), everything()).await?,
        claims,
        slices: listed(all(&resource("resource.k8s.io", "v1", "ResourceSlice")), everything()).await?,
        plans: listed(all(&resource("carve.dev", "v1alpha1", "SlicePlan")), everything()).await?,
        leader: holder.filter(|holder| !holder.is_empty()),
        registered,
    }))
}
