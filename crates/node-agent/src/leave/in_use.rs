//! What pods of this node still hold of what carve gave them.

use crate::holders::{Holdings, holders};
use crate::options::AgentOptions;
use carve_bookings::TokenHolder;
use carve_cluster_api::names;
use carve_dra_driver::{RecordStore, Records};
use carve_slicing::PartId;
use std::collections::{BTreeMap, BTreeSet};

/// What is still in use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct InUse {
    /// Pods, and claims that no pod is known of, by their names.
    pub(super) pods: BTreeSet<String>,
    /// GPUs and MIG devices that somebody has.
    pub(super) parts: BTreeSet<PartId>,
    /// Whether a pod holds a device that kubelet gave it for one of ours.
    pub(super) devices: bool,
    /// Who has tokens for parts.
    pub(super) tokens: Vec<TokenHolder>,
    /// Claims that were made ready, by uid.
    pub(super) claims: BTreeSet<String>,
}

impl InUse {
    /// Asks kubelet, and reads what is on record.
    pub(super) async fn find(options: &AgentOptions) -> Result<Self, String> {
        let held = holders(&options.pod_resources_socket)
            .await
            .map_err(|why| format!("kubelet does not say who holds what: {why}"))?;
        let records = RecordStore::of_agent(&options.state_dir).look().map_err(|error| error.to_string())?;
        Ok(InUse::of(held, records))
    }

    fn of(held: Holdings, records: Records) -> Self {
        let mut found = InUse::default();
        let mut tokens: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
        for one in held.devices {
            let pod = one.holder.to_string();
            if one.resource == names::SLICE {
                found.pods.insert(pod.clone());
                tokens.entry((pod, one.holder.container)).or_default().insert(one.device);
            } else if is_of_a_gpu(&one.device) {
                found.pods.insert(pod);
                found.parts.insert(one.part());
                found.devices = true;
            }
        }
        let holder = |((pod, container), tokens)| TokenHolder { pod, container, tokens };
        found.tokens = tokens.into_iter().map(holder).collect();
        for (uid, record) in records.claims {
            let of_it = |held: &&crate::holders::ClaimHeld| {
                held.claim_namespace == record.namespace && held.claim == record.name
            };
            let pods: Vec<String> =
                held.claims.iter().filter(of_it).map(|held| held.holder.to_string()).collect();
            if pods.is_empty() {
                found.pods.insert(format!("claim {}", record.title()));
            }
            found.pods.extend(pods);
            let parts = record.devices.into_iter().map(|device| device.part.unwrap_or(device.gpu));
            found.parts.extend(parts.map(PartId::new));
            found.claims.insert(uid);
        }
        found
    }
}

/// Whether a device of some plugin is called as those of GPUs are, ours and NVIDIA's alike.
fn is_of_a_gpu(device: &str) -> bool {
    device.starts_with("GPU-") || device.starts_with("MIG-")
}

#[cfg(test)]
mod tests {
    use super::InUse;
    use crate::holders::{ClaimHeld, Holdings};
    use carve_dra_driver::{ClaimRecord, Records, Stage};
    use carve_slicing::{Held, Holder, PartId};
    use std::collections::BTreeSet;

    fn holder(pod: &str) -> Holder {
        Holder { namespace: "team".to_owned(), pod: pod.to_owned(), container: "main".to_owned() }
    }

    fn held(resource: &str, device: &str, pod: &str) -> Held {
        Held { resource: resource.to_owned(), device: device.to_owned(), holder: holder(pod) }
    }

    #[test]
    fn devices_tokens_and_claims_of_ours_are_in_use_and_nobody_else_s() {
        let claim = |name: &str| ClaimRecord {
            boot: String::new(),
            namespace: "team".to_owned(),
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            stage: Stage::Ready,
            devices: Vec::new(),
        };
        let mut records = Records::default();
        for name in ["held", "lost"] {
            records.claims.insert(format!("uid-{name}"), claim(name));
        }
        let held = Holdings {
            devices: vec![
                held("nvidia.com/gpu", "GPU-1::2", "shared"),
                held("carve.dev/slice", "slice-003", "part"),
                held("example.com/fpga", "fpga-0", "other"),
            ],
            claims: vec![ClaimHeld {
                holder: holder("claimant"),
                claim_namespace: "team".to_owned(),
                claim: "held".to_owned(),
                driver: "gpu.carve.dev".to_owned(),
                device: "gpu-0".to_owned(),
                share: None,
            }],
        };
        let found = InUse::of(held, records);
        let pods: Vec<&str> = found.pods.iter().map(String::as_str).collect();
        assert_eq!(pods, ["claim team/lost", "team/claimant", "team/part", "team/shared"]);
        assert_eq!(found.parts, BTreeSet::from([PartId::new("GPU-1")]));
        assert!(found.devices);
        assert_eq!(found.tokens.len(), 1);
        assert_eq!(found.claims.len(), 2);
        assert_eq!(InUse::of(Holdings::default(), Records::default()), InUse::default());
    }
}
