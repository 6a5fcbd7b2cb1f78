//! Who holds which device, as kubelet tells.

use carve_kubelet_api::dial::dial;
use carve_kubelet_api::pod_resources::{ListPodResourcesRequest, PodResourcesListerClient};
use carve_slicing::{Held, Holder};
use std::path::Path;
use std::time::Duration;

/// How long kubelet may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A device of a claim that a container has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClaimHeld {
    pub(crate) holder: Holder,
    pub(crate) claim_namespace: String,
    pub(crate) claim: String,
    pub(crate) driver: String,
    pub(crate) device: String,
    pub(crate) share: Option<String>,
}

/// What the pods of this node hold.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    /// Devices of plugins.
    pub(crate) devices: Vec<Held>,
    /// Devices of claims, of every driver.
    pub(crate) claims: Vec<ClaimHeld>,
}

/// Every device that a pod on this node holds.
pub(crate) async fn holders(socket: &Path) -> Result<Holdings, String> {
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
    let mut holdings = Holdings::default();
    for pod in answer.pod_resources {
        for container in pod.containers {
            let holder = Holder {
                namespace: pod.namespace.clone(),
                pod: pod.name.clone(),
                container: container.name.clone(),
            };
            for devices in container.devices {
                holdings.devices.extend(devices.device_ids.into_iter().map(|device| Held {
                    resource: devices.resource_name.clone(),
                    device,
                    holder: holder.clone(),
                }));
            }
            for claim in container.dynamic_resources {
                holdings.claims.extend(claim.claim_resources.into_iter().map(|device| ClaimHeld {
                    holder: holder.clone(),
                    claim_namespace: claim.claim_namespace.clone(),
                    claim: claim.claim_name.clone(),
                    driver: device.driver_name,
                    device: device.device_name,
                    share: device.share_id,
                }));
            }
        }
    }
    holdings.devices.sort();
    holdings.claims.sort();
    Ok(holdings)
}
