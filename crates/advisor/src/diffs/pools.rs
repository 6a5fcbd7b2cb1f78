//! NodePools and NodeOverlays, so that an autoscaler brings machines that are cut in the same way, and no more than are needed.

use super::{GROUP, Group};
use crate::advice::Diff;
use carve_economics::InstanceType;
use carve_gpu_model::Geometry;
use carve_karpenter::{CapacityType, ChosenBy, Cut, MigCut, NodeClass, Pool, WeightBand, compile};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A file for each group of which a pool can be made.
pub(super) fn diffs(groups: &[Group<'_>]) -> Vec<Diff> {
    groups.iter().enumerate().filter_map(|(number, group)| diff(number, group)).collect()
}

fn diff(number: usize, group: &Group<'_>) -> Option<Diff> {
    let (first, _) = group.nodes.first()?;
    let provider = InstanceType::named(&first.machine)?.provider;
    let band = 5000 + u16::try_from(number).ok()?.min(40) * 100;
    let mut labels = BTreeMap::from([(GROUP.to_owned(), group.name.clone())]);
    if group.replicas.is_some() {
        labels.insert("nvidia.com/device-plugin.config".to_owned(), group.name.clone());
    }
    let (group_name, kind, name) = ("karpenter.k8s.aws", "EC2NodeClass", "default");
    let pool = Pool {
        name: group.name.clone(),
        node_class: NodeClass { group: group_name.to_owned(), kind: kind.to_owned(), name: name.to_owned() },
        models: vec![first.product?.key.to_owned()],
        counts: group.nodes.iter().map(|(node, _)| node.gpus).collect::<BTreeSet<u8>>().into_iter().collect(),
        capacity_types: vec![CapacityType::OnDemand],
        cut: cut(group)?,
        chosen_by: ChosenBy::InstanceTypes(provider),
        weights: WeightBand { first: band, last: band + 99 },
        most_gpus: Some(group.nodes.iter().map(|(node, _)| u32::from(node.gpus)).sum()),
        labels,
    };
    let compiled = compile(&pool).ok()?;
    let items: Vec<&Value> = compiled.documents().collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let text = serde_json::to_string_pretty(&list).ok()?;
    Some(Diff {
        file: format!("karpenter/{}.json", group.name),
        apply: format!(
            "for clusters with Karpenter, once nodeClassRef names your own {kind}: kubectl apply -f karpenter/{}.json",
            group.name
        ),
        text: format!("{text}\n"),
    })
}

/// How every GPU of the group is cut; nothing where they differ, which one NodePool can not say.
fn cut(group: &Group<'_>) -> Option<Cut> {
    if let Some(replicas) = group.replicas {
        return Some(Cut::Shared { replicas, renamed: true });
    }
    match group.mechanism.as_str() {
        "limiter" => return Some(Cut::Parts),
        "MIG" => {}
        // Claims are no resources of a node, of which a NodePool could promise a number.
        _ => return None,
    }
    let all: BTreeSet<Geometry> =
        group.nodes.iter().flat_map(|(_, node)| super::nodes::geometries(node)).collect();
    let mut all = all.into_iter();
    match (all.next(), all.next()) {
        (Some(geometry), None) if !geometry.is_empty() => Some(Cut::Mig(MigCut::Mixed(geometry))),
        _ => None,
    }
}
