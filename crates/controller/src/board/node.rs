//! A node by its own object: what it is, how it is, and its GPUs as agents have written them there; pure.

use carve_bookings::Offer;
use carve_cluster_api::names;
use carve_fleet_picture::{GpuPicture, GpuState, Instance, Mechanism, NodePicture, Slice};
use carve_gpu_model::{Placed, ProfileTable};
use carve_repartition::{GpuReport, InstanceReport, NodeReport, OrderState};
use serde_json::Value;

const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// What NVIDIA's feature discovery, or our agent, says of GPUs.
const COUNT: &str = "nvidia.com/gpu.count";
const PRODUCT: &str = "nvidia.com/gpu.product";
const MEMORY: &str = "nvidia.com/gpu.memory";
/// More than any machine has; a label that says more is wrong.
const MOST_GPUS: u64 = 64;

/// A node with GPUs, without what only its agent knows.
pub(super) fn drawn(node: &Value) -> Option<NodePicture> {
    let labels = &node["metadata"]["labels"];
    let report = annotation(node, NodeReport::ANNOTATION).and_then(|text| NodeReport::parse(text).ok());
    let gpus = gpus(node, report.as_ref());
    let says_so = labels[names::GPU_PRESENT] == "true";
    if gpus.is_empty() && !says_so {
        return None;
    }
    let trouble = not_ready(node);
    let mut words: Vec<String> = trouble.iter().cloned().collect();
    if node["spec"]["unschedulable"] == true {
        words.push("cordoned: nothing new comes here".to_owned());
    }
    words.extend(config(node));
    words.extend(report.as_ref().and_then(order));
    let kind = labels[INSTANCE_TYPE].as_str().unwrap_or_default().to_owned();
    Some(NodePicture { kind, ready: trouble.is_none(), why: words.join("; "), dollars_per_hour: None, gpus })
}

fn annotation<'a>(node: &'a Value, name: &str) -> Option<&'a str> {
    node["metadata"]["annotations"][name].as_str().filter(|text| !text.is_empty())
}

/// Why kubelet does not count as ready.
fn not_ready(node: &Value) -> Option<String> {
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|one| one["type"] == "Ready");
    match ready {
        Some(ready) if ready["status"] == "True" => None,
        Some(ready) => Some(match ready["message"].as_str().unwrap_or_default() {
            "" => "kubelet is not ready".to_owned(),
            message => format!("kubelet is not ready: {message}"),
        }),
        None => Some("kubelet has said nothing yet".to_owned()),
    }
}

/// How far the MIG config is that a person has asked for, unless it is in force.
fn config(node: &Value) -> Option<String> {
    let labels = &node["metadata"]["labels"];
    let state = labels[names::MIG_CONFIG_STATE].as_str().filter(|state| !matches!(*state, "success" | ""))?;
    let of = annotation(node, names::MIG_CONFIG_STATE_OF)
        .or_else(|| labels[names::MIG_CONFIG].as_str())
        .unwrap_or("unknown");
    let reason = annotation(node, names::MIG_CONFIG_REASON);
    Some(reason.map_or_else(
        || format!("MIG config {of}: {state}"),
        |reason| format!("MIG config {of}: {state}: {reason}"),
    ))
}

/// How far the last order of MIG on demand is, unless it is done.
fn order(report: &NodeReport) -> Option<String> {
    let order = report.order.as_ref()?;
    match order.state {
        OrderState::Done => None,
        OrderState::Pending => Some(format!("being cut for pods that wait: {}", order.message)),
        OrderState::Failed => Some(format!("could not be cut for pods that wait: {}", order.message)),
    }
}

/// GPUs by what agents have written, else as many as labels say.
fn gpus(node: &Value, report: Option<&NodeReport>) -> Vec<GpuPicture> {
    let mut gpus: Vec<GpuPicture> = Vec::new();
    for gpu in report.into_iter().flat_map(|report| &report.gpus) {
        gpus.extend(report.and_then(|report| report.tables.get(&gpu.product)).map(|table| cut(gpu, table)));
    }
    let offer = annotation(node, names::GPUS).and_then(|text| Offer::from_annotation(text).ok());
    for gpu in offer.into_iter().flat_map(|offer| offer.gpus) {
        let state = if gpu.withheld.is_some() { GpuState::Sick } else { GpuState::Ok };
        let why = gpu.withheld.unwrap_or_default();
        match gpus.iter_mut().find(|known| known.uuid == gpu.uuid.0) {
            Some(known) => (known.memory, known.state, known.why) = (gpu.memory.0, state, why),
            None => gpus.push(GpuPicture {
                index: u32::try_from(gpus.len()).unwrap_or(u32::MAX),
                uuid: gpu.uuid.0,
                product: gpu.product,
                memory: gpu.memory.0,
                state,
                why,
                ..GpuPicture::default()
            }),
        }
    }
    if gpus.is_empty() { labelled(node) } else { gpus }
}

/// A GPU that can be cut.
fn cut(gpu: &GpuReport, table: &ProfileTable) -> GpuPicture {
    let mut picture = GpuPicture {
        uuid: gpu.uuid.0.clone(),
        index: gpu.index,
        product: gpu.product.clone(),
        memory: table
            .profiles()
            .iter()
            .filter_map(|one| one.memory)
            .map(|memory| memory.value.0)
            .max()
            .unwrap_or(0),
        slots: gpu.mig.then(|| table.slots()),
        ..GpuPicture::default()
    };
    for one in &gpu.instances {
        let Some(instance) = instance(gpu, one, table) else { continue };
        let part = f64::from(instance.size) / f64::from(table.slots().max(1));
        for pod in &one.pods {
            picture.slices.push(Slice {
                pod: pod.clone(),
                mechanism: Mechanism::Mig,
                instance: Some(instance.uuid.clone()),
                compute: Some(part),
                memory: Some(instance.memory),
                ..Slice::default()
            });
        }
        picture.instances.push(instance);
    }
    picture
}

/// Reports name instances by their place, which is as good as an id among those of a node.
fn instance(gpu: &GpuReport, report: &InstanceReport, table: &ProfileTable) -> Option<Instance> {
    let (profile, about) = table.by_name(&report.instance.profile).ok()?;
    let at = table.placement(Placed { profile, start: report.instance.start })?;
    Some(Instance {
        uuid: format!("{}/{}", gpu.uuid, at.start),
        profile: report.instance.profile.to_string(),
        start: at.start,
        size: at.size,
        memory: about.memory.map_or(0, |memory| memory.value.0),
    })
}

fn labelled(node: &Value) -> Vec<GpuPicture> {
    let labels = &node["metadata"]["labels"];
    let number = |name: &str| labels[name].as_str().and_then(|text| text.parse::<u64>().ok());
    let name = node["metadata"]["name"].as_str().unwrap_or_default();
    let gpu = |index: u64| GpuPicture {
        uuid: format!("{name}/{index}"),
        index: u32::try_from(index).unwrap_or(u32::MAX),
        product: labels[PRODUCT].as_str().unwrap_or_default().to_owned(),
        memory: number(MEMORY).unwrap_or(0),
        ..GpuPicture::default()
    };
    (0..number(COUNT).unwrap_or(0).min(MOST_GPUS)).map(gpu).collect()
}
