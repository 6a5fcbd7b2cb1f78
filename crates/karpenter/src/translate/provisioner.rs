//! One Provisioner, with the template that it names if there is one, as a NodePool.

use super::{Notes, kind, name, requirements};
use serde_json::{Map, Value, json};

/// What is known of a spec and has a place in v1, or a note of its own. The first two were never part of v1alpha5.
const KNOWN: &[&str] = &[
    "instanceTypeSelector",
    "instanceTypes",
    "annotations",
    "consolidation",
    "kubeletConfiguration",
    "labels",
    "limits",
    "provider",
    "providerRef",
    "requirements",
    "startupTaints",
    "taints",
    "ttlSecondsAfterEmpty",
    "ttlSecondsUntilExpired",
    "weight",
];

/// The NodePool.
pub(super) fn translate(document: &Value, template: Option<&Value>, notes: &mut Notes<'_>) -> Value {
    let specs: Vec<&Value> =
        [Some(document), template].into_iter().flatten().map(|one| &one["spec"]).collect();
    if let Some(template) = template {
        let text = format!(
            "v1alpha5 has no NodeTemplate; what '{}' says became part of the NodePool",
            name(template)
        );
        notes.add("spec.providerRef", text);
    }
    unknown(&specs, notes);
    let mut inner = json!({
        "nodeClassRef": node_class(document, template, notes),
        "requirements": requirements::translate(&document["spec"]["requirements"], &types(&specs, notes), notes),
        "expireAfter": expire_after(&document["spec"], notes),
    });
    for field in ["taints", "startupTaints"] {
        let all: Vec<Value> =
            specs.iter().filter_map(|spec| spec[field].as_array()).flatten().cloned().collect();
        if !all.is_empty() {
            inner[field] = all.into();
        }
    }
    let mut outer = json!({"spec": inner});
    for field in ["labels", "annotations"] {
        let all = together(&specs, field, notes);
        if !all.is_empty() {
            outer["metadata"][field] = all.into();
        }
    }
    let mut spec = json!({"template": outer, "disruption": disruption(&document["spec"], notes)});
    if let Some(limits) =
        document["spec"]["limits"]["resources"].as_object().filter(|limits| !limits.is_empty())
    {
        spec["limits"] = limits.clone().into();
    }
    if let Some(weight) = document["spec"]["weight"].as_u64() {
        spec["weight"] = weight.into();
    }
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name(document)},
        "spec": spec,
    })
}

fn unknown(specs: &[&Value], notes: &mut Notes<'_>) {
    for (field, value) in specs.iter().filter_map(|spec| spec.as_object()).flatten() {
        let place = format!("spec.{field}");
        match field.as_str() {
            "kubeletConfiguration" => {
                notes.add(place, "it belongs into the EC2NodeClass, as spec.kubelet: it is left out")
            }
            "provider" => notes.add(place, "an EC2NodeClass says this by now: it is left out"),
            known if KNOWN.contains(&known) => {}
            _ => notes.add(place, format!("v1alpha5 has no such field; {value} is left out")),
        }
    }
}

/// What the machines are made from. Nothing in v1alpha5 says of what kind it is by now.
fn node_class(document: &Value, template: Option<&Value>, notes: &mut Notes<'_>) -> Value {
    let own = if kind(document) == "NodeTemplate" { Some(name(document)) } else { None };
    let wanted = document["spec"]["providerRef"]["name"].as_str().or(own);
    let class = wanted.unwrap_or("default");
    if wanted.is_none() || own.is_some() || template.is_some() {
        let text = format!(
            "guessed: EC2NodeClass/{class}, which says image, role, subnets and security groups and must be there"
        );
        notes.add("spec.providerRef", text);
    }
    json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class})
}

/// Types of machines, which only documents that never worked list so.
fn types(specs: &[&Value], notes: &mut Notes<'_>) -> Vec<String> {
    let mut types = Vec::new();
    for field in ["instanceTypeSelector", "instanceTypes"] {
        let listed = specs.iter().filter_map(|spec| spec[field].as_array()).flatten();
        let mut listed: Vec<String> = listed.filter_map(Value::as_str).map(str::to_owned).collect();
        if !listed.is_empty() {
            let text =
                "v1alpha5 has no such field; it became a requirement for node.kubernetes.io/instance-type";
            notes.add(format!("spec.{field}"), text);
        }
        types.append(&mut listed);
    }
    types.sort();
    types.dedup();
    types
}

/// Labels or annotations of all specs; the first to say something is heard.
fn together(specs: &[&Value], field: &str, notes: &mut Notes<'_>) -> Map<String, Value> {
    let mut all = Map::new();
    for (key, value) in specs.iter().filter_map(|spec| spec[field].as_object()).flatten() {
        if key == "karpenter.sh/provisioner-name" {
            let text = "nodes have karpenter.sh/nodepool instead, and Karpenter sets it: it is left out";
            notes.add(format!("spec.{field}"), text);
            continue;
        }
        all.entry(key.clone()).or_insert_with(|| value.clone());
    }
    all
}

fn expire_after(spec: &Value, notes: &mut Notes<'_>) -> String {
    match spec["ttlSecondsUntilExpired"].as_u64() {
        Some(seconds) => format!("{seconds}s"),
        None => {
            let text = "v1alpha5 let nodes live for ever where nothing was said, and v1 for 30 days: Never is written out";
            notes.add("spec.ttlSecondsUntilExpired", text);
            "Never".to_owned()
        }
    }
}

fn disruption(spec: &Value, notes: &mut Notes<'_>) -> Value {
    let empty = spec["ttlSecondsAfterEmpty"].as_u64();
    if spec["consolidation"]["enabled"] == true {
        if empty.is_some() {
            let text = "v1alpha5 refuses it beside consolidation: it is left out";
            notes.add("spec.ttlSecondsAfterEmpty", text);
        }
        return json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"});
    }
    let after = match empty {
        Some(seconds) => format!("{seconds}s"),
        None => {
            let text = "v1alpha5 kept empty nodes where nothing was said, and v1 takes them away at once: Never is written out";
            notes.add("spec.ttlSecondsAfterEmpty", text);
            "Never".to_owned()
        }
    };
    json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": after})
}
