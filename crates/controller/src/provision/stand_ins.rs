//! From objects to stand-ins: which there are to be for each policy, which nodes go on to be cut, and how a stand-in looks.

use super::decide::{is_ours, understood};
use super::objects::{NODE_POOL, NodeSeen, Objects};
use super::pods::{PodSeen, STAND_IN};
use carve_karpenter::{
    Amounts, BROKEN, Changes, Compiled, GPU, NOT_READY, POOL, Place, Situation, Stage, StandIn, ToldBy,
    Waiting, changes, least_of_each_gpu,
};
use carve_repartition::Taint;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The class of stand-ins.
pub(crate) const CLASS: &str = "carve-stand-in";
/// Below everybody who says nothing. The cluster autoscaler brings no machines for pods with less.
const PRIORITY: i32 = -10;

/// The class that stand-ins have: they go for anybody, and nobody goes for them.
pub(super) fn priority_class() -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": CLASS, "labels": {"app.kubernetes.io/managed-by": "carve"}},
        "value": PRIORITY, "preemptionPolicy": "Never",
        "description": "Pods that ask for whole GPUs in place of pods that wait for slices of them.",
    })
}

/// The pod of a stand-in.
pub(super) fn pod(policy: &str, told_by: ToldBy, image: &str, stand_in: &StandIn) -> Value {
    let (mut requests, mut limits) = (Map::new(), Map::new());
    for (name, amount) in &stand_in.besides {
        let text = if amount % 1000 == 0 { (amount / 1000).to_string() } else { format!("{amount}m") };
        // What can not be had in part must be limited.
        let whole = name.contains('/') || name.starts_with("hugepages-");
        if whole { &mut limits } else { &mut requests }.insert(name.clone(), text.into());
    }
    limits.insert(GPU.to_owned(), stand_in.gpus.to_string().into());
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": stand_in.name, "labels": {"app.kubernetes.io/managed-by": "carve", STAND_IN: policy}},
        "spec": {
            "priorityClassName": CLASS,
            "nodeSelector": {whose(told_by): policy},
            "tolerations": [
                {"key": GPU, "operator": "Exists", "effect": "NoSchedule"},
                {"key": NOT_READY, "operator": "Equal", "value": Stage::Whole.word(), "effect": "NoSchedule"},
            ],
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "containers": [{
                "name": "wait", "image": image,
                "resources": {"requests": requests, "limits": limits},
                "securityContext": {
                    "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": true,
                    "runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"},
                },
            }],
        },
    })
}

/// The label by which nodes are a policy's.
fn whose(told_by: ToldBy) -> &'static str {
    if told_by == ToldBy::StandInsOfGroups { POOL } else { NODE_POOL }
}

/// A node that goes on.
#[derive(Debug, PartialEq)]
pub(super) struct Step {
    pub(super) node: String,
    pub(super) stage: Stage,
    pub(super) taints: Vec<Value>,
    pub(super) labels: BTreeMap<String, String>,
}

/// Nodes for which it is time to go on: whoever brought them counts on whole GPUs no more, or stand-ins are gone.
pub(super) fn steps(objects: &Objects) -> Vec<Step> {
    let one = |(name, node): (&String, &NodeSeen)| {
        let stage = node.stage()?;
        let (_, compiled) = understood(objects.policies.get(&node.pool)?)?;
        let machine = compiled.machine(&node.labels)?;
        if !compiled.told_by.stand_ins() || !is_ours(objects, &node.pool, compiled) {
            return None;
        }
        let settled = match compiled.told_by {
            // Karpenter compares what a node advertises with what its claim asked for, until once it is the same.
            ToldBy::StandIns => node.labels.get("karpenter.sh/initialized").is_some_and(|it| it == "true"),
            _ => {
                let gpus = node.advertised.get(GPU).copied().unwrap_or(0);
                node.ready && gpus >= u64::from(machine.gpus)
            }
        };
        let there = |pod: &&PodSeen| pod.stands_in_for.is_some() && pod.node.as_ref() == Some(name);
        let stand_ins = objects.pods.values().filter(there).count();
        let next = stage.next(settled, stand_ins)?;
        let labels = if next == Stage::Cutting { compiled.cut_labels.clone() } else { BTreeMap::new() };
        Some(Step { node: name.clone(), stage: next, taints: node.taints_at(next), labels })
    };
    objects.nodes.iter().filter_map(one).collect()
}

/// What is to be done for every policy with stand-ins. Of those that are `held` nothing is touched.
pub(super) fn all_changes(objects: &Objects, held: &BTreeSet<String>) -> Vec<(String, Changes)> {
    let mut of_policies: BTreeMap<&str, Vec<&PodSeen>> = BTreeMap::new();
    let mut waiting: BTreeMap<&String, &PodSeen> = BTreeMap::new();
    let mut on_nodes: BTreeMap<&str, Vec<&PodSeen>> = BTreeMap::new();
    for (name, pod) in &objects.pods {
        match (&pod.stands_in_for, &pod.node) {
            (Some(policy), _) => of_policies.entry(policy).or_default().push(pod),
            (None, Some(node)) => on_nodes.entry(node).or_default().push(pod),
            (None, None) => drop(pod.waits.then(|| waiting.insert(name, pod))),
        }
    }
    let mut all = Vec::new();
    for (policy, seen) in &objects.policies {
        let Some((provision, compiled)) = understood(seen) else { continue };
        let ours = of_policies.remove(policy.as_str()).unwrap_or_default();
        if held.contains(policy) || !compiled.told_by.stand_ins() || !is_ours(objects, policy, compiled) {
            // Those of a policy that is served otherwise by now go.
            if !compiled.told_by.stand_ins() && !held.contains(policy) {
                of_policies.insert(policy, ours);
            }
            continue;
        }
        let each_gpu = least_of_each_gpu(compiled);
        let stand_ins: Vec<StandIn> = ours.iter().map(|pod| stand_in(objects, pod)).collect();
        let nodes = || objects.nodes.iter().filter(|(_, node)| &node.pool == policy);
        let rooms = nodes().filter_map(|(name, node)| {
            room(node, compiled, on_nodes.get(name.as_str()).map_or(&[], Vec::as_slice))
        });
        let rooms: Vec<Amounts> = rooms.collect();
        let gpus =
            nodes().filter_map(|(_, node)| Some(u64::from(compiled.machine(&node.labels)?.gpus))).sum();
        let pods: Vec<Waiting> = waiting
            .iter()
            .filter(|(_, pod)| would_do(policy, compiled, pod))
            .map(|(name, pod)| Waiting { name: (*name).clone(), wants: pod.wants.clone() })
            .collect();
        let sizes = || compiled.overlays.iter().map(|machine| u64::from(machine.gpus));
        let decided = changes(Situation {
            policy,
            each_gpu: &each_gpu,
            largest: sizes().max().unwrap_or(1),
            smallest: sizes().min().unwrap_or(1),
            waiting: &pods,
            rooms: &rooms,
            stand_ins: &stand_ins,
            gpus,
            most_gpus: provision.most_gpus.map(u64::from),
        });
        // One machine is enough for each.
        waiting.retain(|name, _| !decided.served.contains(*name));
        all.push((policy.clone(), decided));
    }
    // Nobody wants these any more. A policy that can not be understood may.
    for (policy, pods) in of_policies {
        let unknown = objects.policies.get(policy).is_some_and(|seen| matches!(seen.compiled, Some(Err(_))));
        if !unknown && !held.contains(policy) {
            let delete = pods.iter().map(|pod| pod.name.clone()).collect();
            all.push((policy.to_owned(), Changes { delete, ..Changes::default() }));
        }
    }
    all
}

fn stand_in(objects: &Objects, pod: &PodSeen) -> StandIn {
    let mut besides = pod.wants.clone();
    besides.remove("pods");
    let gpus = besides.remove(GPU).unwrap_or(0) / 1000;
    let place = match pod.node.as_ref() {
        _ if pod.ended => Place::Cut,
        None => Place::Nowhere,
        // A node that nobody has seen yet has just come.
        Some(node) => match objects.nodes.get(node).map(NodeSeen::stage) {
            None | Some(Some(Stage::Whole)) => Place::Whole,
            Some(_) => Place::Cut,
        },
    };
    StandIn { name: pod.name.clone(), gpus, besides, place }
}

/// What a node that is cut, or is about to be, has left.
fn room(node: &NodeSeen, compiled: &Compiled, pods: &[&PodSeen]) -> Option<Amounts> {
    let machine = compiled.machine(&node.labels)?;
    let stage = node.stage();
    // One that is being cut may not be ready for a moment.
    if stage == Some(Stage::Whole) || node.going || stage.is_none() && !node.ready {
        return None;
    }
    // Devices may be forgotten for a moment; what is lost for good is said in the node's condition.
    let lost = node.hardware.as_ref().is_some_and(|(reason, ready)| reason == BROKEN && !ready);
    let slices = if lost { &node.advertised } else { machine.promise.resources() };
    let promised = machine.promise.resources();
    let besides = node.allocatable.iter().filter(|(name, _)| !promised.contains_key(*name));
    let mut left: Amounts = besides.map(|(name, amount)| (name.to_owned(), amount)).collect();
    left.extend(promised.keys().map(|name| (name.clone(), slices.get(name).copied().unwrap_or(0) * 1000)));
    for (name, amount) in pods.iter().flat_map(|pod| &pod.wants) {
        if let Some(left) = left.get_mut(name) {
            *left = left.saturating_sub(*amount);
        }
    }
    Some(left)
}

/// Whether a node of the pool would do for a pod, as far as is known before there is one.
fn would_do(policy: &str, compiled: &Compiled, pod: &PodSeen) -> bool {
    let template = &compiled.node_pool["spec"]["template"]["metadata"]["labels"];
    let template = template.as_object().into_iter().flatten();
    let mut labels: BTreeMap<String, String> = template
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .chain(compiled.cut_labels.clone())
        .collect();
    labels.insert(whose(compiled.told_by).to_owned(), policy.to_owned());
    let taint = Taint { key: GPU.to_owned(), value: "true".to_owned(), effect: "NoSchedule".to_owned() };
    pod.whereabouts.allow("", &labels, &[taint])
}
