//! Which replica leads, written where a Service can see it: in a label of its pod.
//!
//! Every replica answers the API server, but only one decides where pods go. The Service that the scheduler asks selects pods by this label.

use crate::kubernetes::within;
use crate::store::StoreError;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use std::time::Duration;

const LABEL: &str = "carve.dev/leader";
/// How often it is looked who leads; the scheduler asks nobody meanwhile, and tries again.
const LOOK: Duration = Duration::from_millis(500);
/// How long the API server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Keeps the label where it belongs, for as long as this runs.
pub(crate) async fn mark(client: Client, namespace: &str, me: &str, leads: impl Fn() -> bool) {
    let pods: Api<Pod> = Api::namespaced(client, namespace);
    let mut told: Option<bool> = None;
    loop {
        let now = leads();
        if told != Some(now) {
            match mark_once(&pods, me, now).await {
                Ok(()) => told = Some(now),
                Err(error) => {
                    tracing::warn!(%error, "the label {LABEL} of pod {namespace}/{me} can not be written")
                }
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn mark_once(pods: &Api<Pod>, me: &str, leads: bool) -> Result<(), StoreError> {
    let label = |value: Value| json!({"metadata": {"labels": {LABEL: value}}});
    let params = PatchParams::default();
    let own = label(if leads { json!("true") } else { Value::Null });
    within(PATIENCE, pods.patch(me, &params, &Patch::Merge(&own))).await?;
    if !leads {
        return Ok(());
    }
    // One that ended badly could not take its label off.
    let others = within(PATIENCE, pods.list(&ListParams::default().labels(&format!("{LABEL}=true")))).await?;
    for other in others.items.iter().map(ResourceExt::name_any).filter(|name| name != me) {
        match within(PATIENCE, pods.patch(&other, &params, &Patch::Merge(&label(Value::Null)))).await {
            Ok(_) | Err(StoreError::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
