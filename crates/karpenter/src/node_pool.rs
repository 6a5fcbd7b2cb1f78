//! The NodePool of a pool: which machines it may have, what their nodes are marked with, and how many there may be.

use crate::machines::Machines;
use crate::overlay::{GPU_COUNT, GPU_NAME, INSTANCE_TYPE, one_of};
use crate::pool::is_label_value;
use crate::{CUT_WITHIN, ChosenBy, Cut, GPU, MigCut, NOT_READY, PROFILE, Pool, Refusal, Stage, ToldBy};
use carve_gpu_model::ProfileName;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Seconds after which a machine without pods goes.
const EMPTY: u32 = 300;
/// Label by which agents are told how to cut with MIG.
const MIG_CONFIG: &str = "nvidia.com/mig.config";

/// The NodePool.
pub(crate) fn document(pool: &Pool, machines: &[Machines]) -> Result<Value, Refusal> {
    let (taints, startup_taints) = taints(pool);
    let empty = if pool.told_by() == ToldBy::StandIns { CUT_WITHIN } else { EMPTY };
    let mut spec = json!({
        "template": {
            "metadata": {"labels": labels(pool)?},
            "spec": {
                "nodeClassRef": {
                    "group": pool.node_class.group,
                    "kind": pool.node_class.kind,
                    "name": pool.node_class.name,
                },
                "requirements": requirements(pool, machines),
                "taints": taints,
            },
        },
        // A pod with a part of a GPU has its model in memory; it is not moved to save a share of a machine.
        "disruption": {
            "consolidationPolicy": "WhenEmpty",
            "consolidateAfter": format!("{empty}s"),
            "budgets": [{"nodes": "10%"}],
        },
    });
    if !startup_taints.is_empty() {
        spec["template"]["spec"]["startupTaints"] = startup_taints.into();
    }
    if let Some(gpus) = pool.most_gpus {
        // Where stand-ins ask for machines, Karpenter counts those that are not cut yet, and the controller the others.
        let whole = || json!({GPU: gpus.to_string()});
        spec["limits"] = if pool.told_by().stand_ins() { whole() } else { limits(gpus, machines) };
    }
    Ok(json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": pool.name},
        "spec": spec,
    }))
}

/// Taints of new nodes, and those that Karpenter waits for. It counts a node as there when the latter are gone, and only then is a node cut for
/// which stand-ins asked: there the taint is an ordinary one.
fn taints(pool: &Pool) -> (Vec<Value>, Vec<Value>) {
    let gpu = json!({"key": GPU, "value": "true", "effect": "NoSchedule"});
    if pool.told_by().stand_ins() {
        (vec![gpu, Stage::Whole.taint()], Vec::new())
    } else {
        (vec![gpu], vec![json!({"key": NOT_READY, "effect": "NoSchedule"})])
    }
}

/// Labels that new nodes do not have yet: an agent that sees them cuts.
pub(crate) fn cut_labels(pool: &Pool) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    if pool.told_by().stand_ins() {
        if let Cut::Mig(MigCut::All(profile)) = &pool.cut {
            labels.insert(MIG_CONFIG.to_owned(), config_of(profile));
        }
        labels.extend(pool.labels.get(MIG_CONFIG).map(|name| (MIG_CONFIG.to_owned(), name.clone())));
    }
    labels
}

fn config_of(profile: &ProfileName) -> String {
    format!("all-{}", profile.resource_form())
}

/// Labels of nodes: how they are cut, and what tells an agent to cut them so.
pub(crate) fn labels(pool: &Pool) -> Result<BTreeMap<String, String>, Refusal> {
    let mut labels = BTreeMap::new();
    if let Cut::Mig(MigCut::All(profile)) = &pool.cut {
        labels.insert(MIG_CONFIG.to_owned(), config_of(profile));
    }
    labels.extend(pool.labels.clone());
    if pool.told_by().stand_ins() {
        labels.remove(MIG_CONFIG);
    }
    let word = profile_word(&pool.cut);
    if !is_label_value(&word) {
        let reason = format!("'{word}' would be too long for the label {PROFILE}");
        return Err(Refusal::new("cut.mixed", reason, "use fewer profiles"));
    }
    labels.insert(PROFILE.to_owned(), word);
    Ok(labels)
}

/// A cut in a word: `shared-4`, `mig-1g.10gb`, `mig-1g.10gb-4_3g.40gb-1`, `parts`.
fn profile_word(cut: &Cut) -> String {
    match cut {
        Cut::Shared { replicas, renamed: false } => format!("shared-{replicas}"),
        Cut::Shared { replicas, renamed: true } => format!("shared-{replicas}-renamed"),
        Cut::Mig(MigCut::All(profile)) => format!("mig-{}", profile.resource_form()),
        Cut::Mig(MigCut::Mixed(geometry)) => {
            let instances = geometry.iter().map(|(name, count)| format!("{}-{count}", name.resource_form()));
            format!("mig-{}", instances.collect::<Vec<_>>().join("_"))
        }
        Cut::Parts => "parts".to_owned(),
    }
}

fn requirements(pool: &Pool, machines: &[Machines]) -> Vec<Value> {
    let mut requirements = Vec::new();
    if pool.chosen_by == ChosenBy::AwsLabels {
        let names: BTreeSet<&str> = machines.iter().map(|machines| machines.model.label.as_str()).collect();
        let counts: BTreeSet<u8> = machines.iter().map(|machines| machines.gpus).collect();
        requirements.push(one_of(GPU_NAME, names));
        requirements.push(one_of(GPU_COUNT, counts));
    }
    // A label that names more than is meant is narrowed by types, and then types must say all that is meant.
    if pool.chosen_by != ChosenBy::AwsLabels || machines.iter().any(|machines| machines.model.narrowed) {
        let types: BTreeSet<&str> = machines.iter().flat_map(|machines| &machines.types).copied().collect();
        requirements.push(one_of(INSTANCE_TYPE, types));
    }
    let types: BTreeSet<_> = pool.capacity_types.iter().copied().collect();
    requirements.push(one_of("karpenter.sh/capacity-type", types.into_iter().map(|kind| kind.word())));
    requirements
}

/// So many GPUs in what nodes advertise, because that is what Karpenter adds up. Where models give different numbers of parts, the
/// smallest counts, so that there are never more GPUs than were allowed. What nodes may have more of than was promised does not count: the
/// limit would be reached too soon.
fn limits(gpus: u32, machines: &[Machines]) -> Value {
    let mut each: BTreeMap<&String, u64> = BTreeMap::new();
    for machines in machines {
        for (name, amount) in machines.promise.exact() {
            let of_one = amount / u64::from(machines.gpus.max(1));
            each.entry(name).and_modify(|least| *least = of_one.min(*least)).or_insert(of_one);
        }
    }
    let limit =
        |(name, of_one): (&String, u64)| (name.clone(), Value::from((of_one * u64::from(gpus)).to_string()));
    each.into_iter().map(limit).collect::<Map<String, Value>>().into()
}
