//! Who holds which device, as kubelet tells.

use carve_kubelet_api::dial::dial;
use carve_kubelet_api::pod_resources::{ListPodResourcesRequest, PodResourcesListerClient};
use carve_slicing::{Held, Holder};
use std::path::Path;
use std::time::Duration;

/// How long kubelet may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Every device that a pod on this node holds.
pub(crate) async fn holders(socket: &Path) -> Result<Vec<Held>, String> {
    let call = async {
        let channel = dial(socket).await.map_err(|error| error.to_string())?;
        // A node full of pods answers with more than the usual limit of a message.
        let mut client = PodResourcesListerClient::new(channel).max_decoding_message_size(64 << 20);
        let answer =
            client.list(ListPodResourcesRequest {}).await.map_err(|status| status.message().to_owned())?;
        Ok::<_, String>(answer.into_inner())
    };
    let answer = match tokio::time::timeout(PATIENCE, call).await {
        Ok(answer) => answer?,
        Err(_) => return Err(format!("kubelet does not answer on {}", socket.display())),
    };
    let mut held = Vec::new();
    for pod in answer.pod_resources {
        for container in pod.containers {
            let holder = Holder {
                namespace: pod.namespace.clone(),
                pod: pod.name.clone(),
                container: container.name.clone(),
            };
            for devices in container.devices {
                held.extend(devices.device_ids.into_iter().map(|device| Held {
                    resource: devices.resource_name.clone(),
                    device,
                    holder: holder.clone(),
                }));
            }
        }
    }
    held.sort();
    Ok(held)
}
