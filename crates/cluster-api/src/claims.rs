//! Claims as the API server has them: what was allocated, and what a driver tells about the devices it made ready.

use crate::node::{Tone, event};
use crate::{ApiError, NodeApi, names};
use carve_dra::{Allocated, Allocation, Claim, ClaimConfig, ConfigSource, ServerVersion};
use k8s_openapi::api::core::v1::{Event, ObjectReference};
use k8s_openapi::api::resource::v1 as api;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// Condition of a device of a claim: a container can use it.
const READY: &str = "Ready";

/// What is told about one device of a claim, or one share of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimDeviceStatus {
    /// Name of the driver.
    pub driver: String,
    /// Pool it is from.
    pub pool: String,
    /// Its name in the pool.
    pub device: String,
    /// Which share, where several claims may hold the device.
    pub share: Option<String>,
    /// Whether a container can use it.
    pub ready: bool,
    /// More about that, for people.
    pub message: String,
    /// More about the device, for programs: an object of at most 10 KiB, or null.
    pub data: Value,
}

impl NodeApi {
    /// The version of the API server.
    pub async fn server_version(&self) -> Result<ServerVersion, ApiError> {
        let told = self.client().apiserver_version().await?.git_version;
        told.parse()
            .map_err(|error| ApiError::Refused(format!("the API server's version is unclear: {error}")))
    }

    fn claims(&self, namespace: &str) -> Api<api::ResourceClaim> {
        Api::namespaced(self.client(), namespace)
    }

    /// A claim as it is now, or that it is not there.
    pub async fn claim(&self, namespace: &str, name: &str) -> Result<Option<Claim>, ApiError> {
        Ok(self.claims(namespace).get_opt(name).await?.map(claim))
    }

    /// All claims that hold a device of a driver on this node.
    pub async fn claims_here(&self, driver: &str) -> Result<Vec<Claim>, ApiError> {
        let all: Api<api::ResourceClaim> = Api::all(self.client());
        let found = all.list(&ListParams::default()).await?.items.into_iter().map(claim);
        let here = |claim: &Claim| {
            let mut results = claim.allocation.iter().flat_map(|allocation| &allocation.results);
            results.any(|result| result.driver == driver && result.pool == self.node())
        };
        Ok(found.filter(here).collect())
    }

    /// Tells an event about a claim.
    pub async fn tell_about_claim(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        tone: Tone,
        reason: &str,
        message: &str,
    ) -> Result<(), ApiError> {
        let about = ObjectReference {
            api_version: Some("resource.k8s.io/v1".to_owned()),
            kind: Some("ResourceClaim".to_owned()),
            namespace: Some(namespace.to_owned()),
            name: Some(name.to_owned()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        };
        let event = event(self.node(), namespace, about, tone, reason, message);
        let api: Api<Event> = Api::namespaced(self.client(), namespace);
        api.create(&PostParams::default(), &event).await?;
        Ok(())
    }

    /// Makes these the devices that we tell about in the status of a claim; what we told about others before goes, and what
    /// other drivers tell stays. Writes nothing where that is told already. A claim of that name with another uid is left alone.
    pub async fn apply_claim_devices(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        devices: &[ClaimDeviceStatus],
    ) -> Result<(), ApiError> {
        let claims = self.claims(namespace);
        let found = claims.get(name).await?;
        if found.metadata.uid.as_deref() != Some(uid) {
            return Err(ApiError::Refused(format!(
                "claim {namespace}/{name} with uid {uid} is gone; there is another one of that name"
            )));
        }
        let told = found.status.and_then(|status| status.devices).unwrap_or_default();
        let now = Timestamp::now().to_string();
        let wanted: Vec<Value> = devices.iter().map(|device| device_status(device, &told, &now)).collect();
        let told: Vec<Value> = told.iter().map(|told| json!(told)).collect();
        let of_driver = |driver: &str| told.iter().filter(|told| told["driver"] == driver).count();
        let as_many = |device: &ClaimDeviceStatus| {
            of_driver(&device.driver) == devices.iter().filter(|other| other.driver == device.driver).count()
        };
        if !devices.is_empty() && devices.iter().all(as_many) && wanted.iter().all(|one| told.contains(one)) {
            return Ok(());
        }
        let patch = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            // The uid makes it a conflict if the claim is replaced by another in between.
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
            "status": {"devices": wanted},
        });
        let params = PatchParams::apply(names::CLAIMS_MANAGER).force();
        claims.patch_status(name, &params, &Patch::Apply(patch)).await?;
        Ok(())
    }
}

/// An entry of `status.devices`. A condition keeps the time since when it holds.
fn device_status(device: &ClaimDeviceStatus, told: &[api::AllocatedDeviceStatus], now: &str) -> Value {
    let status = if device.ready { "True" } else { "False" };
    let before = told.iter().find(|told| {
        told.driver == device.driver
            && told.pool == device.pool
            && told.device == device.device
            && told.share_id == device.share
    });
    let conditions = before.and_then(|before| before.conditions.as_ref()).into_iter().flatten();
    let same = conditions.filter(|condition| condition.type_ == READY && condition.status == status);
    let since = same.map(|condition| json!(condition.last_transition_time)).next();
    let mut entry = json!({
        "driver": device.driver,
        "pool": device.pool,
        "device": device.device,
        "conditions": [{
            "type": READY,
            "status": status,
            "reason": if device.ready { "Prepared" } else { "NotPrepared" },
            // For people; the API server would take more, and refuse a claim's status as a whole where it is too much.
            "message": device.message.chars().take(1024).collect::<String>(),
            "lastTransitionTime": since.unwrap_or_else(|| json!(seconds(now))),
        }],
    });
    if let Some(share) = &device.share {
        entry["shareID"] = json!(share);
    }
    if !device.data.is_null() {
        entry["data"] = device.data.clone();
    }
    entry
}

/// A time in whole seconds, as the API server keeps it.
fn seconds(now: &str) -> String {
    match now.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => now.to_owned(),
    }
}

fn claim(found: api::ResourceClaim) -> Claim {
    Claim {
        namespace: found.metadata.namespace.unwrap_or_default(),
        name: found.metadata.name.unwrap_or_default(),
        uid: found.metadata.uid.unwrap_or_default(),
        allocation: found.status.and_then(|status| status.allocation).map(allocation),
    }
}

fn allocation(found: api::AllocationResult) -> Allocation {
    let devices = found.devices.unwrap_or_default();
    Allocation {
        results: devices.results.unwrap_or_default().into_iter().map(allocated).collect(),
        configs: devices.config.unwrap_or_default().into_iter().filter_map(config).collect(),
    }
}

fn allocated(found: api::DeviceRequestAllocationResult) -> Allocated {
    let consumed = found.consumed_capacity.unwrap_or_default();
    Allocated {
        request: found.request,
        driver: found.driver,
        pool: found.pool,
        device: found.device,
        share: found.share_id,
        consumed: consumed.into_iter().map(|(name, amount)| (name, amount.0)).collect(),
        admin: found.admin_access.unwrap_or_default(),
    }
}

/// A config for a driver; there is no other kind yet, and one that comes later is for somebody who knows it.
fn config(found: api::DeviceAllocationConfiguration) -> Option<ClaimConfig> {
    let opaque = found.opaque?;
    Some(ClaimConfig {
        source: if found.source == "FromClass" { ConfigSource::Class } else { ConfigSource::Claim },
        requests: found.requests.unwrap_or_default(),
        driver: opaque.driver,
        parameters: opaque.parameters.0,
    })
}

#[cfg(test)]
mod tests {
    use super::{ClaimDeviceStatus, claim, device_status, seconds};
    use carve_dra::ConfigSource;
    use serde_json::{Value, json};

    #[test]
    fn a_claim_is_read_with_everything_a_driver_needs() {
        let object = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "two", "namespace": "team", "uid": "11-22"},
            "spec": {"devices": {"requests": []}},
            "status": {"allocation": {"devices": {
                "results": [
                    {
                        "request": "a/small", "driver": "gpu.carve.dev", "pool": "node0", "device": "gpu-0-frac",
                        "shareID": "33-44", "consumedCapacity": {"memory": "4Gi", "compute": "20"},
                    },
                    {"request": "b", "driver": "nic.example.com", "pool": "p", "device": "d", "adminAccess": true},
                ],
                "config": [
                    {"source": "FromClass", "opaque": {"driver": "gpu.carve.dev", "parameters": {"kind": "One"}}},
                    {
                        "source": "FromClaim", "requests": ["a"],
                        "opaque": {"driver": "gpu.carve.dev", "parameters": {"kind": "Two"}},
                    },
                ],
            }}},
        });
        let read = claim(serde_json::from_value(object).expect("a claim"));
        assert_eq!((&read.namespace[..], &read.name[..], &read.uid[..]), ("team", "two", "11-22"));
        let allocation = read.allocation.expect("an allocation");
        let first = &allocation.results[0];
        assert_eq!((&first.request[..], first.share.as_deref()), ("a/small", Some("33-44")));
        assert_eq!((&first.consumed["memory"][..], &first.consumed["compute"][..]), ("4Gi", "20"));
        assert!(!first.admin && allocation.results[1].admin);
        let configs: Vec<(ConfigSource, usize, &Value)> = allocation
            .configs
            .iter()
            .map(|config| (config.source, config.requests.len(), &config.parameters["kind"]))
            .collect();
        assert_eq!(
            configs,
            [(ConfigSource::Class, 0, &json!("One")), (ConfigSource::Claim, 1, &json!("Two"))]
        );
    }

    #[test]
    fn a_condition_keeps_its_time_until_it_turns() {
        let mut device = ClaimDeviceStatus {
            driver: "gpu.carve.dev".to_owned(),
            pool: "node0".to_owned(),
            device: "gpu-0-frac".to_owned(),
            share: Some("33-44".to_owned()),
            ready: true,
            message: "ready".to_owned(),
            data: json!({"uuid": "GPU-1"}),
        };
        let first = device_status(&device, &[], "2026-11-15T16:20:00.5Z");
        assert_eq!(first["conditions"][0]["lastTransitionTime"], "2026-11-15T16:20:00Z");
        let told = [serde_json::from_value(first.clone()).expect("an entry")];
        assert_eq!(device_status(&device, &told, "2026-11-15T17:00:00Z"), first);
        device.ready = false;
        let turned = device_status(&device, &told, "2026-11-15T17:00:00Z");
        assert_eq!(turned["conditions"][0]["lastTransitionTime"], "2026-11-15T17:00:00Z");
        // Another share of the same device is another entry.
        device.ready = true;
        device.share = Some("55-66".to_owned());
        let other = device_status(&device, &told, "2026-11-15T17:00:00Z");
        assert_eq!(other["conditions"][0]["lastTransitionTime"], "2026-11-15T17:00:00Z");
        assert_eq!(seconds("2026-11-15T17:00:00Z"), "2026-11-15T17:00:00Z");
    }
}
