//! From objects to the facts that decisions are made of.

use super::objects::{NodeSeen, Objects, PlanSeen};
use super::read;
use carve_gpu_model::GpuUuid;
use carve_repartition::{
    BoundPod, Facts, History, Instance, Mode, NodeFacts, Order, Ordered, Rules, Seconds, WaitingPod,
};
use carve_slice_policy::{MigMode, Phase, SlicePlanSpec, SlicePolicySpec};

/// Everything that a decision is made of.
pub(super) fn facts(objects: &Objects, now: Seconds, defragment: bool) -> Facts {
    let full = |namespace: &str, name: &str| format!("{namespace}/{name}");
    let nodes = objects.nodes.iter().map(|(name, node)| {
        let bound = objects.pods.values().filter(|pod| pod.node.as_ref() == Some(name));
        let bound = bound
            .map(|pod| BoundPod {
                name: full(&pod.namespace, &pod.name),
                wants: pod.wants.clone(),
                besides: pod.besides.clone(),
                whereabouts: pod.whereabouts.clone(),
                priority: pod.priority,
                comes_back: pod.comes_back,
            })
            .collect();
        let left = objects.left(name, node);
        NodeFacts { left, ..node_facts(name, node, objects.plans.get(name), bound) }
    });
    let pods = objects.pods.values().filter(|pod| pod.node.is_none()).filter_map(|pod| {
        Some(WaitingPod {
            name: full(&pod.namespace, &pod.name),
            wants: pod.wants.clone(),
            besides: pod.besides.clone(),
            whereabouts: pod.whereabouts.clone(),
            priority: pod.priority,
            since: pod.since?,
        })
    });
    let rules = objects.policies.iter().map(|(name, policy)| rules(name, &policy.spec));
    Facts { nodes: nodes.collect(), pods: pods.collect(), rules: rules.collect(), now, defragment }
}

fn node_facts(name: &str, node: &NodeSeen, plan: Option<&PlanSeen>, bound: Vec<BoundPod>) -> NodeFacts {
    let numbers = [
        plan.map(|plan| plan.spec.generation),
        node.order.as_ref().map(|order| order.generation),
        node.report.as_ref().and_then(|report| Some(report.order.as_ref()?.generation)),
    ];
    let cutting = plan.filter(|plan| plan.is_cutting());
    NodeFacts {
        name: name.to_owned(),
        labels: node.labels.clone(),
        taints: node.taints.clone(),
        ready: node.ready,
        report: node.report.clone(),
        ordered: cutting
            .map(|plan| Ordered { policy: plan.spec.policy.clone(), order: order_of(&plan.spec) }),
        next_generation: numbers.into_iter().flatten().max().unwrap_or(0) + 1,
        history: plan.map(history).unwrap_or_default(),
        bound,
        left: None,
    }
}

/// What the agent is told of a plan.
pub(super) fn order_of(spec: &SlicePlanSpec) -> Order {
    let instance = |one: &carve_slice_policy::Instance| {
        let profile = one.profile.parse().ok()?;
        Some(Instance { profile, start: one.start, compute: one.compute.clone() })
    };
    let gpus = spec
        .gpus
        .iter()
        .map(|gpu| (GpuUuid(gpu.uuid.clone()), gpu.layout.iter().filter_map(instance).collect()));
    Order { generation: spec.generation, gpus: gpus.collect(), evict: spec.evicts.clone() }
}

fn history(plan: &PlanSeen) -> History {
    let status = &plan.status;
    let recuts = status.recuts.iter();
    let failed = status.phase == Phase::Failed;
    let finished = status.finished.as_deref().filter(|_| failed).and_then(read);
    History {
        recuts: recuts.filter_map(|one| Some((GpuUuid(one.uuid.clone()), read(&one.at)?))).collect(),
        failures: status.failures,
        failed_at: finished.unwrap_or_default(),
    }
}

/// A policy as decisions know it.
pub(super) fn rules(name: &str, spec: &SlicePolicySpec) -> Rules {
    let mig = spec.mig.clone().unwrap_or_default();
    Rules {
        name: name.to_owned(),
        selector: spec.node_selector.clone(),
        priority: spec.priority,
        mode: match mig.mode {
            MigMode::Manual | MigMode::Fixed => Mode::Manual,
            MigMode::DryRun => Mode::DryRun,
            MigMode::Automatic => Mode::Automatic,
        },
        // Resources have no '+' in their names.
        profiles: mig.profiles.iter().map(|profile| profile.replace('+', ".")).collect(),
        switch_mode_on: mig.switch_mode_on,
        nodes_at_once: spec.budgets.nodes_at_once.max(1),
        pause: u64::from(spec.budgets.pause_seconds),
        evictions: spec.budgets.pods_evicted_at_once,
        least_gain: spec.defragmentation.as_ref().filter(|one| one.enabled).map(|one| one.least_gain),
    }
}
