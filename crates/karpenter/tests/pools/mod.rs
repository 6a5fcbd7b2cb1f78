//! Pools for tests, and a reading of requirements that knows nothing of how they are made.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

use carve_economics::{CATALOGUE, InstanceType, Provider};
use carve_karpenter::{CapacityType, ChosenBy, Cut, MigCut, NodeClass, Pool, WeightBand};
use serde_json::Value;
use std::collections::BTreeMap;

/// A pool with everything usual.
pub(crate) fn pool(models: &[&str], counts: &[u8], cut: Cut) -> Pool {
    Pool {
        name: "gpu-quarter".to_owned(),
        node_class: NodeClass {
            group: "karpenter.k8s.aws".to_owned(),
            kind: "EC2NodeClass".to_owned(),
            name: "gpu".to_owned(),
        },
        models: models.iter().map(|model| (*model).to_owned()).collect(),
        counts: counts.to_vec(),
        capacity_types: vec![CapacityType::OnDemand, CapacityType::Spot],
        cut,
        chosen_by: ChosenBy::AwsLabels,
        weights: WeightBand { first: 5100, last: 5199 },
        most_gpus: Some(64),
        labels: BTreeMap::new(),
    }
}

pub(crate) fn shared(replicas: u32) -> Cut {
    Cut::Shared { replicas, renamed: false }
}

pub(crate) fn all(profile: &str) -> Cut {
    Cut::Mig(MigCut::All(profile.parse().expect("a profile")))
}

pub(crate) fn mixed(geometry: &str) -> Cut {
    Cut::Mig(MigCut::Mixed(geometry.parse().expect("a geometry")))
}

/// Labels of AWS' machines, as its provider sets them. Names are those of its documentation, by family.
pub(crate) fn labels(machine: &InstanceType, pool: &str) -> BTreeMap<String, String> {
    let family = machine.name.split(['.']).next().unwrap_or_default();
    let gpu = match family {
        "g4dn" => "t4",
        "g5" => "a10g",
        "g6" | "gr6" | "g6f" | "gr6f" => "l4",
        "g6e" => "l40s",
        "g7e" => "rtx-pro-server-6000",
        "p3" | "p3dn" => "v100",
        "p4d" | "p4de" => "a100",
        "p5" => "h100",
        "p5e" | "p5en" => "h200",
        "p6-b200" => "b200",
        "p6-b300" => "b300",
        _ => "another",
    };
    [
        ("karpenter.sh/nodepool", pool.to_owned()),
        ("karpenter.sh/capacity-type", "on-demand".to_owned()),
        ("karpenter.k8s.aws/instance-gpu-name", gpu.to_owned()),
        ("karpenter.k8s.aws/instance-gpu-count", machine.gpus.to_string()),
        ("node.kubernetes.io/instance-type", machine.name.to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// Machines of AWS.
pub(crate) fn aws() -> impl Iterator<Item = &'static InstanceType> {
    CATALOGUE.iter().filter(|machine| machine.provider == Provider::Aws)
}

/// Whether requirements, all of which are made with `In`, let a machine with these labels through.
pub(crate) fn fits(requirements: &Value, labels: &BTreeMap<String, String>) -> bool {
    requirements.as_array().expect("requirements").iter().all(|requirement| {
        assert_eq!(requirement["operator"], "In", "{requirement}");
        let label = labels.get(requirement["key"].as_str().expect("a key"));
        let values = requirement["values"].as_array().expect("values");
        label.is_some_and(|label| values.iter().any(|value| value == label))
    })
}
