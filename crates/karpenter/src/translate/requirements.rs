//! Requirements of v1alpha5 in v1: what is a label stays, what never was one goes.

use super::Notes;
use crate::overlay::{INSTANCE_TYPE, one_of};
use serde_json::{Value, json};

const GPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-gpu-manufacturer";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

/// What is given to an extended resource and can be no label that machines have.
fn is_resource(key: &str) -> bool {
    key == crate::GPU || key.starts_with("nvidia.com/mig-") || key == crate::GPU_SHARED
}

/// Requirements of a NodePool, from those of a Provisioner and the types that a template lists.
pub(super) fn translate(written: &Value, types: &[String], notes: &mut Notes<'_>) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    let mut wants_gpus = false;
    for (position, requirement) in written.as_array().into_iter().flatten().enumerate() {
        let field = format!("spec.requirements[{position}]");
        let key = requirement["key"].as_str().unwrap_or_default();
        if is_resource(key) {
            let text = format!("'{key}' is a resource, and requirements are about labels: it is left out");
            notes.add(field, text);
            wants_gpus = true;
        } else if key == "karpenter.sh/provisioner-name" || key == "karpenter.sh/nodepool" {
            notes.add(field, "a pool can not require its own name: it is left out");
        } else if key.is_empty() {
            notes.add(field, "it has no key and is left out");
        } else {
            all.push(requirement.clone());
        }
    }
    if !types.is_empty() {
        all.push(one_of(INSTANCE_TYPE, types));
    } else if wants_gpus && !has(&all, GPU_MANUFACTURER) {
        notes.add("spec.requirements", format!("guessed: {GPU_MANUFACTURER} In [nvidia]"));
        all.push(one_of(GPU_MANUFACTURER, ["nvidia"]));
    }
    if !has(&all, CAPACITY_TYPE) {
        let text = "v1alpha5 took machines on demand where nothing was said, and v1 takes any: on-demand is written out";
        notes.add("spec.requirements", text);
        all.push(json!({"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}));
    }
    all
}

fn has(all: &[Value], key: &str) -> bool {
    all.iter().any(|requirement| requirement["key"] == key)
}
