//! What Services are to several controllers: one address for the API server, where any that is ready answers, and one for the scheduler, where
//! the one that leads does.

use crate::Cluster;
use crate::inside::page;
use crate::relay::Relay;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a replica may take to say that it is ready.
const PATIENCE: Duration = Duration::from_secs(1);

/// Both, until this is dropped.
#[derive(Debug)]
pub(crate) struct Doors {
    _stop: oneshot::Sender<()>,
}

impl Doors {
    /// For the API server, and for the scheduler.
    pub(crate) const PORTS: (u16, u16) = (18543, 18544);

    /// Opens both before replicas: the names of their pods, and their ports.
    pub(crate) fn open(cluster: &Cluster, namespace: &str, replicas: Vec<(String, (u16, u16))>) -> Self {
        let (webhook, extender) =
            (Relay::start(cluster, Self::PORTS.0), Relay::start(cluster, Self::PORTS.1));
        let (stop, stopped) = oneshot::channel();
        let namespace = namespace.to_owned();
        cluster.inside().spawn(move |client| async move {
            let leading = async {
                loop {
                    look(&client, &namespace, &replicas, &webhook, &extender).await;
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            };
            tokio::select! { () = leading => {}, _ = stopped => {} }
        });
        Doors { _stop: stop }
    }
}

async fn look(
    client: &Client,
    namespace: &str,
    replicas: &[(String, (u16, u16))],
    webhook: &Relay,
    extender: &Relay,
) {
    let mut ready = Vec::new();
    for (pod, ports) in replicas {
        let address = format!("127.0.0.1:{}", ports.0);
        let asked = tokio::time::timeout(PATIENCE, page(&address, "/readyz")).await;
        if matches!(asked, Ok(Ok(_))) {
            ready.push((pod, *ports));
        }
    }
    webhook.lead_to(ready.first().map(|(_, ports)| ports.0));
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let leads = ListParams::default().labels("carve.dev/leader=true");
    // While the API server does not answer, Services stay as they are.
    if let Ok(Ok(list)) = tokio::time::timeout(PATIENCE, pods.list(&leads)).await {
        let leader = list.items.first().map(ResourceExt::name_any);
        extender
            .lead_to(ready.iter().find(|(pod, _)| Some(*pod) == leader.as_ref()).map(|(_, ports)| ports.1));
    }
}
