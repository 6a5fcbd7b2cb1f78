//! Started pods in the words of claims, so that what watches over shares of claims watches over these, too.

use super::store::{Store, share_name};
use crate::dra::on_record::{LookUp, OnRecord};
use crate::holders::ClaimHeld;
use carve_bookings::Started;
use carve_cluster_api::names;
use carve_dra_driver::{ClaimRecord, DeviceRecord, Stage, UsageRecord};
use carve_slicing::Holder;
use std::sync::Arc;

/// Whose the shares are, where claims have a driver.
pub(super) const DRIVER: &str = names::SLICE;

/// Reads what was started.
pub(super) fn look_up(store: Store) -> LookUp {
    Arc::new(move || {
        let mut found = OnRecord::default();
        for (uid, started) in store.records()? {
            let (record, held) = in_words_of_claims(&started);
            found.claims.insert(uid, record);
            found.held.extend(held);
        }
        Ok(found)
    })
}

/// One claim for a pod, called like it, with a device for each token.
fn in_words_of_claims(started: &Started) -> (ClaimRecord, Vec<ClaimHeld>) {
    let (namespace, pod) = started.pod.split_once('/').unwrap_or(("", started.pod.as_str()));
    let (mut devices, mut held) = (Vec::new(), Vec::new());
    for container in &started.slices {
        let tokens = started.tokens.get(&container.name).into_iter().flatten();
        for (token, slice) in tokens.zip(&container.slices) {
            let share = share_name(&container.name, token);
            held.push(ClaimHeld {
                holder: Holder {
                    namespace: namespace.to_owned(),
                    pod: pod.to_owned(),
                    container: container.name.clone(),
                },
                claim_namespace: namespace.to_owned(),
                claim: pod.to_owned(),
                driver: DRIVER.to_owned(),
                device: token.clone(),
                share: Some(share.clone()),
            });
            devices.push(DeviceRecord {
                request: container.name.clone(),
                device: token.clone(),
                share: Some(share),
                gpu: slice.gpu.0.clone(),
                part: Some(slice.gpu.0.clone()),
                guards: None,
                usage: UsageRecord::Fraction {
                    memory: slice.memory.0,
                    compute: u8::try_from(slice.compute.0.min(1000) / 10).unwrap_or(100),
                    burst: slice.burst,
                    pass: false,
                },
            });
        }
    }
    let record = ClaimRecord {
        boot: String::new(),
        namespace: namespace.to_owned(),
        name: pod.to_owned(),
        uid: started.uid.clone(),
        stage: Stage::Ready,
        devices,
    };
    (record, held)
}

#[cfg(test)]
mod tests {
    use super::in_words_of_claims;
    use carve_bookings::{Compute, ContainerSlices, Slice, Stage, Started};
    use carve_gpu_model::{GpuUuid, Mebibytes};
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn a_pod_is_a_claim_with_a_device_for_each_token_of_what_was_started() {
        let slice = |gpu: &str| Slice {
            gpu: GpuUuid(gpu.to_owned()),
            memory: Mebibytes(4096),
            compute: Compute(250),
            burst: false,
        };
        let container =
            |name: &str, slices| ContainerSlices { name: name.to_owned(), stage: Stage::Main, slices };
        let tokens = BTreeSet::from(["slice-001".to_owned(), "slice-007".to_owned()]);
        let started = Started {
            pod: "team/one".to_owned(),
            uid: "u".to_owned(),
            slices: vec![
                container("main", vec![slice("GPU-0"), slice("GPU-1")]),
                container("later", vec![slice("GPU-0")]),
            ],
            tokens: BTreeMap::from([("main".to_owned(), tokens)]),
        };
        let (record, held) = in_words_of_claims(&started);
        let devices: Vec<(&str, &str, &str)> = record
            .devices
            .iter()
            .map(|device| (device.device.as_str(), device.share_name(), device.gpu.as_str()))
            .collect();
        assert_eq!(
            devices,
            [("slice-001", "main.slice-001", "GPU-0"), ("slice-007", "main.slice-007", "GPU-1")]
        );
        assert!(record.devices.iter().all(|device| device.usage.has_share()));
        assert_eq!((record.title(), held.len()), ("team/one".to_owned(), 2));
        assert!(held.iter().all(|held| held.holder.container == "main" && held.holder.pod == "one"));
    }
}
