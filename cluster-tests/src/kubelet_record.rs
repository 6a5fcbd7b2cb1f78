//! What kubelet itself wrote down about the devices it gave away: which, to whom, and what the plugin answered.

use crate::Cluster;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use carve_kubelet_api::device_plugin::ContainerAllocateResponse;
use prost::Message;
use serde_json::Value;
use std::collections::BTreeSet;

/// Where kubelet keeps its record on a node.
const FILE: &str = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint";

/// The devices of one resource in one container.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The pod, by its UID.
    pub pod: String,
    /// What was asked for.
    pub resource: String,
    /// What was given.
    pub devices: BTreeSet<String>,
    /// What the plugin answered to Allocate.
    pub answer: ContainerAllocateResponse,
}

impl Cluster {
    /// Everything that the first node's kubelet has written down. It keeps pods that are gone until it needs their
    /// devices, so ask for a pod by its UID.
    pub fn kubelet_records(&self) -> Vec<Record> {
        let text = self.on_node(&["cat", FILE]);
        let file: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{FILE}: {error}: {text}"));
        let entries = file["Data"]["PodDeviceEntries"].as_array().cloned().unwrap_or_default();
        entries.iter().map(record).collect()
    }
}

fn record(entry: &Value) -> Record {
    let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    // Devices stand there by NUMA node.
    let numa = entry["DeviceIDs"].as_object().cloned().unwrap_or_default();
    let devices = numa.values().flat_map(|ids| ids.as_array().cloned().unwrap_or_default());
    let bytes = STANDARD
        .decode(text("AllocResp"))
        .unwrap_or_else(|error| panic!("{FILE}: AllocResp is not base64: {error}: {entry}"));
    let answer = ContainerAllocateResponse::decode(bytes.as_slice())
        .unwrap_or_else(|error| panic!("{FILE}: AllocResp: {error}: {entry}"));
    Record {
        pod: text("PodUID"),
        resource: text("ResourceName"),
        devices: devices.filter_map(|id| Some(id.as_str()?.to_owned())).collect(),
        answer,
    }
}
