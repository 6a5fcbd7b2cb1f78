//! Other plugins on the node that already offer the same GPUs.
//!
//! A socket does not say which resource it serves, but its device list says which GPUs: who lists one of ours is a rival,
//! whatever it is called.

use carve_kubelet_api::device_plugin::{DevicePluginClient, Empty};
use carve_kubelet_api::dial::dial;
use carve_slicing::{NodeGpus, NodeMig, PartId};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Another plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rival {
    pub(crate) socket: PathBuf,
    /// One of the devices it lists.
    pub(crate) device: String,
}

/// How long a plugin may take to list its devices.
const PATIENCE: Duration = Duration::from_secs(1);

/// Everything a plugin could list of this node: its GPUs and their MIG devices.
pub(crate) fn all_parts(node: &NodeGpus) -> BTreeSet<PartId> {
    let of = |gpu: &carve_slicing::NodeGpu| -> Vec<PartId> {
        std::iter::once(gpu.part()).chain(gpu.migs.iter().map(NodeMig::part)).collect()
    };
    node.gpus.iter().flat_map(of).collect()
}

/// Plugins that list one of these parts and are not ours.
pub(crate) async fn rivals(folder: &Path, ours: &[PathBuf], parts: &BTreeSet<PartId>) -> Vec<Rival> {
    let mut asked = tokio::task::JoinSet::new();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for socket in entries.map(|entry| entry.path()) {
        let name = socket.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.ends_with(".sock") || name == "kubelet.sock" || ours.contains(&socket) {
            continue;
        }
        // All at once: one that never answers must not cost the others their turn.
        let parts = parts.clone();
        asked.spawn(async move {
            let device = tokio::time::timeout(PATIENCE, lists_ours(&socket, &parts)).await.ok().flatten()?;
            Some(Rival { socket, device })
        });
    }
    let mut found: Vec<Rival> = Vec::new();
    while let Some(answer) = asked.join_next().await {
        // One that was not carried out says nothing: the agent is ending, and its tasks are taken away one by one.
        found.extend(answer.ok().flatten());
    }
    found.sort_by(|one, other| one.socket.cmp(&other.socket));
    found
}

/// The first of our parts that the plugin behind a socket lists. A socket that nobody answers on lists none.
async fn lists_ours(socket: &Path, parts: &BTreeSet<PartId>) -> Option<String> {
    let channel = dial(socket).await.ok()?;
    let mut stream = DevicePluginClient::new(channel).list_and_watch(Empty {}).await.ok()?.into_inner();
    let list = stream.message().await.ok()??;
    let part = |id: &str| PartId::new(id.split("::").next().unwrap_or(id));
    list.devices.into_iter().map(|device| device.id).find(|id| parts.contains(&part(id)))
}
