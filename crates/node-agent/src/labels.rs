//! Writes the node's feature labels: to the Node, to a NodeFeature, or to a file.

use crate::options::{AgentOptions, LabelTarget};
use carve_cluster_api::{ApiError, NodeApi, names};
use carve_gpu_host::{Fabric, GpuHost};
use carve_gpu_model::{GpuIndex, PciAddress};
use carve_slicing::{LabelFacts, NodeGpus, Vgpu, feature_file, node_feature_name};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

/// Where the kernel tells about PCI devices.
const PCI: &str = "/sys/bus/pci/devices";
/// Where the firmware's name of the machine is, unless told otherwise.
const MACHINE: &str = "/sys/class/dmi/id/product_name";

/// Reads what labels tell that the driver does not.
pub(crate) fn read_facts(
    node: &NodeGpus,
    fabric: BTreeMap<GpuIndex, Fabric>,
    machine_file: Option<&str>,
    timestamp: Option<u64>,
) -> LabelFacts {
    let machine = fs::read_to_string(machine_file.unwrap_or(MACHINE)).ok().map(|text| text.trim().to_owned());
    let class = |address: PciAddress| {
        fs::read_to_string(format!("{PCI}/{address}/class")).ok().and_then(|text| text.parse().ok())
    };
    let pci_classes =
        node.gpus.iter().filter_map(|gpu| Some((gpu.gpu.index, class(gpu.gpu.address)?))).collect();
    LabelFacts { machine, pci_classes, timestamp, fabric, vgpus: Some(read_vgpus(node)) }
}

/// GPUs that a hypervisor lends us in part. A configuration that can not be read tells of none, as NVIDIA's program does.
fn read_vgpus(node: &NodeGpus) -> Vec<Vgpu> {
    let one = |gpu: &carve_slicing::NodeGpu| {
        let bytes = fs::read(format!("{PCI}/{}/config", gpu.gpu.address)).ok()?;
        Vgpu::read(&bytes).ok().flatten()
    };
    node.gpus.iter().filter_map(one).collect()
}

/// The fabric of every GPU that belongs to one.
pub(crate) fn read_fabric(host: &dyn GpuHost, node: &NodeGpus) -> BTreeMap<GpuIndex, Fabric> {
    let gpus = node.gpus.iter().filter(|gpu| !gpu.lost).map(|gpu| gpu.gpu.index);
    gpus.filter_map(|gpu| Some((gpu, host.fabric(gpu).ok()??))).collect()
}

/// What is published already, so that nothing is written twice.
#[derive(Debug, Default)]
pub(crate) struct Publisher {
    published: Option<BTreeMap<String, String>>,
}

/// What came of publishing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Published {
    /// Everything was as it should be.
    Same,
    /// Written.
    Written,
    /// Somebody else holds labels of ours; who and which.
    Held(String),
    /// It did not work; it is tried again.
    Failed(String),
}

impl Publisher {
    /// Writes the labels where the operator wants them.
    pub(crate) async fn publish(
        &mut self,
        options: &AgentOptions,
        api: Option<&NodeApi>,
        labels: &BTreeMap<String, String>,
    ) -> Published {
        if self.published.as_ref() == Some(labels) {
            return Published::Same;
        }
        let written = match (&options.label_target, api) {
            (LabelTarget::File(path), _) => write_file(path, &feature_file(labels))
                .map_err(|error| ApiError::Refused(format!("{}: {error}", path.display()))),
            (_, None) => return Published::Same,
            (LabelTarget::Node, Some(api)) => to_node(api, labels, options.take_over).await,
            (LabelTarget::NodeFeature, Some(api)) => to_feature(api, options, labels).await,
            (LabelTarget::Auto, Some(api)) => {
                if api.has_node_features().await {
                    to_feature(api, options, labels).await
                } else {
                    to_node(api, labels, options.take_over).await
                }
            }
        };
        match written {
            Ok(()) => {
                self.published = Some(labels.clone());
                Published::Written
            }
            Err(ApiError::Conflict(who)) => Published::Held(who),
            Err(error) => Published::Failed(error.to_string()),
        }
    }
}

async fn to_node(api: &NodeApi, labels: &BTreeMap<String, String>, force: bool) -> Result<(), ApiError> {
    api.apply_labels(names::LABELS_MANAGER, labels, &BTreeMap::new(), force).await
}

async fn to_feature(
    api: &NodeApi,
    options: &AgentOptions,
    labels: &BTreeMap<String, String>,
) -> Result<(), ApiError> {
    api.apply_node_feature(&options.namespace, &node_feature_name(api.node()), labels).await
}

/// Writes a file whole: readers see the old one or the new one.
fn write_file(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    // A name that starts with a dot is not read by Node Feature Discovery.
    let new = path.with_file_name(format!(".{}", name.to_string_lossy()));
    let written = fs::File::create(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        fs::rename(&new, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}
