//! Deletes what runs and waits until its pods are gone: whoever still runs would write again what is deleted next.

use super::{LeaveError, LeaveOptions};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::time::{Duration, Instant};

/// How often pods are looked for.
const LOOK: Duration = Duration::from_millis(500);

/// Deletes an object; says whether it was there.
pub(super) async fn delete<K>(api: &Api<K>, name: &str, params: &DeleteParams) -> Result<bool, kube::Error>
where
    K: Clone + DeserializeOwned + Debug + Resource,
{
    match api.delete(name, params).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
}

/// Deletes a Deployment with its pods and waits until they are gone; says whether it was there.
pub(super) async fn deployment(
    client: &Client,
    options: &LeaveOptions,
    name: &str,
) -> Result<bool, LeaveError> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), &options.namespace);
    let what = format!("Deployment {}/{name}", options.namespace);
    let was_there = delete(&api, name, &DeleteParams::foreground())
        .await
        .map_err(LeaveError::at(&format!("{what} can not be deleted")))?;
    let left = wait_for_pods(client, options, name).await?;
    if !left.is_empty() {
        let pods = left.iter().map(ResourceExt::name_any).collect::<Vec<_>>().join(", ");
        return Err(LeaveError::Stuck { what, seconds: options.patience.as_secs(), pods });
    }
    Ok(was_there)
}

/// Pods of an app that runs in the release's namespace.
pub(super) async fn pods(client: &Client, options: &LeaveOptions, app: &str) -> Result<Vec<Pod>, LeaveError> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &options.namespace);
    let labelled = ListParams::default().labels(&format!("app={app}"));
    let listed = api.list(&labelled).await;
    Ok(listed.map_err(LeaveError::at(&format!("pods of {app} can not be listed")))?.items)
}

/// Waits until no pod of an app is there, and says which still are when it has taken too long.
pub(super) async fn wait_for_pods(
    client: &Client,
    options: &LeaveOptions,
    app: &str,
) -> Result<Vec<Pod>, LeaveError> {
    let give_up = Instant::now() + options.patience;
    loop {
        let left = pods(client, options, app).await?;
        if left.is_empty() || Instant::now() > give_up {
            return Ok(left);
        }
        tokio::time::sleep(LOOK).await;
    }
}
