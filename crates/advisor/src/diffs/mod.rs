//! What to apply: patches of workloads, configuration of nodes, NodePools for autoscalers, and which machines to empty.

mod nodes;
mod pools;
mod workloads;

use crate::advice::{Diff, Fleet, NodeThen, WorkloadAdvice};
use crate::input::{Node, Situation};
use std::collections::BTreeMap;

/// Label of nodes that are made alike by an advice; pods choose their nodes by it.
pub(crate) const GROUP: &str = "carve.dev/advice";

/// Nodes that are cut alike for pods that may share them.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    /// Value of the label.
    pub(crate) name: String,
    pub(crate) mechanism: String,
    /// Shares of each GPU, where all are alike and the device plugin can give them out.
    pub(crate) replicas: Option<u32>,
    pub(crate) nodes: Vec<(&'a Node, &'a NodeThen)>,
}

/// Everything to apply, in an order in which it can be.
pub(crate) fn diffs(situation: &Situation, workloads: &[WorkloadAdvice], fleet: &Fleet) -> Vec<Diff> {
    if !workloads.iter().any(|workload| workload.advised.change) && fleet.freed.is_empty() {
        return Vec::new();
    }
    let groups = groups(situation, workloads, fleet);
    let mut diffs = nodes::diffs(&groups);
    let seen = situation.workloads.iter().zip(workloads);
    for (workload, advice) in seen.filter(|(_, advice)| advice.advised.change) {
        let group = groups.iter().find(|group| group.has(&workload.title()));
        diffs.push(workloads::patch(workload, advice, group));
    }
    if !fleet.freed.is_empty() {
        diffs.extend(pools::diffs(&groups));
        let lines = fleet.freed.iter().map(|node| format!("kubectl drain {node} --ignore-daemonsets\n"));
        diffs.push(Diff {
            file: "machines-to-free.txt".to_owned(),
            apply: "line by line, once the pods run elsewhere; Karpenter and cluster autoscalers then take empty machines away".to_owned(),
            text: lines.collect(),
        });
    }
    diffs
}

impl Group<'_> {
    fn has(&self, workload: &str) -> bool {
        let gpus = self.nodes.iter().flat_map(|(_, node)| &node.gpus);
        gpus.flat_map(|gpu| &gpu.parts).any(|part| part.workload == workload)
    }
}

/// Nodes by how they are cut and for whom; nodes on which nothing changes belong to none.
fn groups<'a>(situation: &'a Situation, workloads: &[WorkloadAdvice], fleet: &'a Fleet) -> Vec<Group<'a>> {
    let changed: BTreeMap<String, (&WorkloadAdvice, &str)> = situation
        .workloads
        .iter()
        .zip(workloads)
        .filter(|(_, advice)| advice.advised.change)
        .map(|(workload, advice)| (workload.title(), (advice, workload.domain.as_str())))
        .collect();
    let mut groups: Vec<Group<'a>> = Vec::new();
    for then in &fleet.kept {
        let Some(node) = situation.nodes.iter().find(|node| node.name == then.name) else { continue };
        let parts = then.gpus.iter().flat_map(|gpu| &gpu.parts);
        let Some((advice, domain)) = parts.filter_map(|part| changed.get(&part.workload)).next() else {
            continue;
        };
        let product = node.product.map_or("gpu", |product| product.key);
        let mechanism = advice.advised.mechanism.to_lowercase();
        let name = match (mechanism.as_str(), advice.advised.replicas) {
            // MIG keeps strangers apart, so that one group serves all of them.
            ("mig", _) => format!("{product}-mig"),
            (_, Some(replicas)) => format!("{product}-{mechanism}-{replicas}-{domain}"),
            (_, None) => format!("{product}-{mechanism}-{domain}"),
        };
        let name = label(&name);
        match groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.nodes.push((node, then)),
            None => groups.push(Group {
                name,
                mechanism: advice.advised.mechanism.clone(),
                replicas: advice.advised.replicas,
                nodes: vec![(node, then)],
            }),
        }
    }
    for group in groups.iter_mut().filter(|group| group.mechanism == "MPS") {
        group.replicas = even(group);
    }
    groups
}

/// How many equal shares hold everybody of a group. The device plugin gives MPS out in such, and whoever comes gets any of them; where sizes differ
/// too much for that, claims ask for each.
fn even(group: &Group<'_>) -> Option<u32> {
    let gpus = || group.nodes.iter().flat_map(|(_, node)| &node.gpus);
    let replicas = gpus().map(|gpu| gpu.parts.len()).max().unwrap_or(0) as u32;
    let parts = || gpus().flat_map(|gpu| &gpu.parts);
    let compute = parts().filter_map(|part| part.compute_percent).max()?;
    let needed = parts().filter_map(|part| part.memory_mib).max()?;
    let memory = group.nodes.first()?.0.product?.memory()?.value.0;
    let holds =
        replicas >= 2 && u32::from(compute) * replicas <= 100 && needed * u64::from(replicas) <= memory;
    holds.then_some(replicas)
}

/// A name that labels, files and NodePools can have: small letters, digits and dashes, at most 50 of them.
fn label(text: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let text: String = text.chars().map(plain).take(50).collect();
    text.trim_matches('-').to_owned()
}
