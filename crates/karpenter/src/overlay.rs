//! NodeOverlays: what Karpenter is told about the capacity of machines before there are any.

use crate::machines::Machines;
use crate::{ChosenBy, Pool, Promise};
use serde_json::{Map, Value, json};

/// One NodeOverlay, for machines that are alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Overlay {
    /// Its name, which stays the same while pool, model and number of GPUs do.
    pub name: String,
    /// Its weight, which no other overlay of the pool has.
    pub weight: u16,
    /// Model as the operator wrote it.
    pub model: String,
    /// GPUs of each machine.
    pub gpus: u8,
    /// Types of machines it is about, as far as they are known.
    pub types: Vec<&'static str>,
    /// What a node of it must advertise.
    pub promise: Promise,
    /// The object.
    pub document: Value,
}

pub(crate) const GPU_NAME: &str = "karpenter.k8s.aws/instance-gpu-name";
pub(crate) const GPU_COUNT: &str = "karpenter.k8s.aws/instance-gpu-count";
pub(crate) const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";

/// A requirement that a label has one of these values.
pub(crate) fn one_of<T: ToString>(key: &str, values: impl IntoIterator<Item = T>) -> Value {
    let values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    json!({"key": key, "operator": "In", "values": values})
}

pub(crate) fn overlays(pool: &Pool, machines: &[Machines]) -> Vec<Overlay> {
    // Weights count only where overlays are written.
    let last = if pool.told_by().stand_ins() { u16::MAX } else { pool.weights.last };
    let weights = pool.weights.first..=last;
    machines.iter().zip(weights).map(|(machines, weight)| overlay(pool, machines, weight)).collect()
}

fn overlay(pool: &Pool, machines: &Machines, weight: u16) -> Overlay {
    let model = &machines.model;
    // A pool's name has no dots, so no two pools make the same name.
    let name = format!("{}.{}.x{}", pool.name, model.written, machines.gpus);
    let mut requirements = vec![one_of("karpenter.sh/nodepool", [&pool.name])];
    if pool.chosen_by == ChosenBy::AwsLabels {
        requirements.push(one_of(GPU_NAME, [&model.label]));
        requirements.push(one_of(GPU_COUNT, [machines.gpus]));
    }
    if pool.chosen_by != ChosenBy::AwsLabels || model.narrowed {
        requirements.push(one_of(INSTANCE_TYPE, &machines.types));
    }
    let amount = |(name, amount): (String, u64)| (name, Value::from(amount.to_string()));
    let capacity: Map<String, Value> = machines.promise.capacity().into_iter().map(amount).collect();
    let document = json!({
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": name},
        "spec": {"weight": weight, "requirements": requirements, "capacity": capacity},
    });
    Overlay {
        name,
        weight,
        model: model.written.clone(),
        gpus: machines.gpus,
        types: machines.types.clone(),
        promise: machines.promise.clone(),
        document,
    }
}
