//! The same for the cluster autoscaler: tags of auto scaling groups, which say what a node of a group will be like while it has none.

use crate::machines::machines;
use crate::{GPU, NOT_READY, Pool, Promise, Refusal, Stage, node_pool};
use std::collections::BTreeMap;

/// Before the name of a tag.
const TEMPLATE: &str = "k8s.io/cluster-autoscaler/node-template";

/// An auto scaling group that the operator has for machines that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeGroup {
    /// Model as the operator wrote it.
    pub model: String,
    /// GPUs of each machine.
    pub gpus: u8,
    /// Types of machines that may be in it, as far as they are known.
    pub types: Vec<&'static str>,
    /// What a node of it must advertise.
    pub promise: Promise,
    /// Keys and values, by key. The autoscaler reads them, and so they need not be passed on to the machines.
    pub tags: Vec<(String, String)>,
}

/// The groups of a pool, by model and number of GPUs.
///
/// The taint of nodes that are not ready is not among the tags: the autoscaler would believe that no pod may ever go there. It is
/// told of it by `--startup-taint=carve.dev/not-ready`. Where stand-ins ask for machines it is: they bear it, and want whole GPUs.
pub fn node_groups(pool: &Pool) -> Result<Vec<NodeGroup>, Refusal> {
    pool.check()?;
    let labels = node_pool::labels(pool)?;
    let group = |machines: crate::machines::Machines| {
        let whole = || BTreeMap::from([(GPU.to_owned(), u64::from(machines.gpus))]);
        let stand_ins = pool.told_by().stand_ins();
        let capacity = if stand_ins { whole() } else { machines.promise.capacity() }.into_iter();
        let mut tags: Vec<(String, String)> = capacity
            .map(|(name, amount)| (format!("{TEMPLATE}/resources/{name}"), amount.to_string()))
            .collect();
        tags.extend(labels.iter().map(|(key, value)| (format!("{TEMPLATE}/label/{key}"), value.clone())));
        tags.push((format!("{TEMPLATE}/taint/{GPU}"), "true:NoSchedule".to_owned()));
        if stand_ins {
            let taint = format!("{}:NoSchedule", Stage::Whole.word());
            tags.push((format!("{TEMPLATE}/taint/{NOT_READY}"), taint));
        }
        tags.sort();
        NodeGroup {
            model: machines.model.written,
            gpus: machines.gpus,
            types: machines.types,
            promise: machines.promise,
            tags,
        }
    };
    Ok(machines(pool)?.into_iter().map(group).collect())
}
