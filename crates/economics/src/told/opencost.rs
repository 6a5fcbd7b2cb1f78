//! The answer of OpenCost's allocation API, for programs that read that: only GPUs cost anything, and shares of them cost what they are.

use super::report::Covered;
use super::window::{Window, moment};
use crate::ledger::{Account, Bill, Millis};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use thiserror::Error;

/// What allocations are summed up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregate {
    /// The whole cluster.
    Cluster,
    /// Machines.
    Node,
    /// Namespaces.
    Namespace,
    /// Kinds of what makes pods.
    ControllerKind,
    /// What makes pods.
    Controller,
    /// Pods.
    Pod,
}

/// Why an aggregate is not understood.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "aggregate: '{0}' is not known; write one or several of cluster, node, namespace, controllerKind, controller, pod, with commas between them"
)]
pub struct AggregateError(String);

/// What OpenCost calls what nobody was given.
const IDLE: &str = "__idle__";
/// The name of a cluster that was given none.
const CLUSTER: &str = "default-cluster";

impl Aggregate {
    /// Reads a list; an empty one is every pod for itself.
    pub fn parse(text: &str) -> Result<Vec<Self>, AggregateError> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        let found: Vec<Self> = words.map(Self::named).collect::<Result<_, _>>()?;
        if found.is_empty() {
            Ok(vec![Self::Cluster, Self::Node, Self::Namespace, Self::Pod])
        } else {
            Ok(found)
        }
    }

    fn named(word: &str) -> Result<Self, AggregateError> {
        match word.to_ascii_lowercase().as_str() {
            "cluster" => Ok(Self::Cluster),
            "node" => Ok(Self::Node),
            "namespace" => Ok(Self::Namespace),
            "controllerkind" => Ok(Self::ControllerKind),
            "controller" => Ok(Self::Controller),
            "pod" => Ok(Self::Pod),
            _ => Err(AggregateError(word.to_owned())),
        }
    }

    fn property(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Node => "node",
            Self::Namespace => "namespace",
            Self::ControllerKind => "controllerKind",
            Self::Controller => "controller",
            Self::Pod => "pod",
        }
    }

    fn value(self, node: &str, account: &Account) -> String {
        let (kind, name) = account.workload.split_once('/').unwrap_or(("Pod", &account.workload));
        match self {
            Self::Cluster => CLUSTER.to_owned(),
            Self::Node => node.to_owned(),
            Self::Namespace => account.namespace.clone(),
            Self::ControllerKind => kind.to_ascii_lowercase(),
            Self::Controller => name.to_owned(),
            Self::Pod => account.pod.clone(),
        }
    }
}

/// What is summed up under one name.
#[derive(Default)]
struct Sum {
    properties: serde_json::Map<String, Value>,
    bill: Bill,
    time: Millis,
}

/// The answer: one set of allocations for the window.
pub fn opencost(covered: &Covered, window: Window, aggregate: &[Aggregate]) -> Value {
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for (node, owner, bill) in covered.ledger.rows() {
        let (name, properties, time) = match owner {
            None => (IDLE.to_owned(), vec![("cluster", CLUSTER.to_owned())], Millis(0)),
            Some(account) => {
                let properties: Vec<(&str, String)> =
                    aggregate.iter().map(|one| (one.property(), one.value(node, account))).collect();
                let name: Vec<&str> = properties.iter().map(|(_, value)| value.as_str()).collect();
                (name.join("/"), properties, covered.ledger.gpu_time(node, account))
            }
        };
        let sum = sums.entry(name).or_default();
        sum.properties = properties.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
        sum.bill += *bill;
        sum.time.0 += time.0;
    }
    // Nobody's row of a machine that was all given out is empty, and no allocation.
    let told = sums.into_iter().filter(|(name, sum)| name != IDLE || sum.bill != Bill::default());
    let set: serde_json::Map<String, Value> =
        told.map(|(name, sum)| (name.clone(), allocation(&name, &sum, window))).collect();
    let mut answer = json!({"code": 200, "data": [set]});
    if !covered.missing.is_empty() {
        answer["warning"] = format!("these did not tell: {}", covered.missing.join("; ")).into();
    }
    answer
}

fn allocation(name: &str, sum: &Sum, window: Window) -> Value {
    let (start, end) = (moment(window.from), moment(window.until));
    let minutes = (window.until - window.from) as f64 / 60.0;
    let hours = sum.time.0 as f64 / 3_600_000.0;
    let cost = sum.bill.total().dollars();
    let allocated = sum.bill.allocated().dollars();
    let efficiency = if allocated > 0.0 { sum.bill.used.dollars() / allocated } else { 0.0 };
    let count = if minutes > 0.0 { hours * 60.0 / minutes } else { 0.0 };
    let mut told = json!({
        "name": name,
        "properties": sum.properties,
        "window": {"start": start, "end": end},
        "start": start,
        "end": end,
        "minutes": minutes,
        "gpuCount": count,
        "gpuHours": hours,
        "gpuCost": cost,
        "gpuCostIdle": sum.bill.idle_held.dollars(),
        "gpuEfficiency": efficiency,
        "totalCost": cost,
        "totalEfficiency": efficiency,
    });
    // Clients expect every field, and carve prices nothing but GPUs.
    for nothing in [
        "cpuCores",
        "cpuCoreRequestAverage",
        "cpuCoreUsageAverage",
        "cpuCoreHours",
        "cpuCost",
        "cpuCostAdjustment",
        "cpuEfficiency",
        "gpuCostAdjustment",
        "networkTransferBytes",
        "networkReceiveBytes",
        "networkCost",
        "networkCostAdjustment",
        "loadBalancerCost",
        "loadBalancerCostAdjustment",
        "pvBytes",
        "pvByteHours",
        "pvCost",
        "pvCostAdjustment",
        "ramBytes",
        "ramByteRequestAverage",
        "ramByteUsageAverage",
        "ramByteHours",
        "ramCost",
        "ramCostAdjustment",
        "ramEfficiency",
        "externalCost",
        "sharedCost",
    ] {
        told[nothing] = json!(0.0);
    }
    told
}
