//! Clusters for tests.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

use carve_advisor::{Class, Evidence, ModelFacts, Node, Prices, Ratio, Replica, Sample, Situation, Workload};
use carve_economics::InstanceType;
use carve_gpu_model::{Bytes, Isolation, Mebibytes};

/// A machine of a listed type with everything that pods may have of it.
pub(crate) fn node(name: &str, machine: &str) -> Node {
    let listed = InstanceType::named(machine).expect("a listed type");
    let host = listed.host.expect("a known host");
    Node {
        name: name.to_owned(),
        machine: machine.to_owned(),
        product: listed.gpu(),
        gpus: listed.gpus,
        cpu_milli: u64::from(host.cpus) * 1000,
        memory: host.memory,
        price: Prices::default().of(machine),
        cordoned: false,
    }
}

/// A pod that was watched every hour for so many hours.
pub(crate) fn replica(pod: &str, node: &str, hours: i64, percents: &[u32], mebibytes: u64) -> Replica {
    let each = |hour: i64| percents[hour as usize % percents.len()];
    Replica {
        pod: pod.to_owned(),
        node: node.to_owned(),
        gpus: vec![format!("GPU-{pod}")],
        busy: (0..=hours)
            .map(|hour| Sample { at: Some(hour * 3600), value: Ratio(each(hour) * 10_000) })
            .collect(),
        memory: (0..=hours)
            .map(|hour| Sample { at: Some(hour * 3600), value: Bytes(mebibytes << 20) })
            .collect(),
        evidence: Some(Evidence::Device("DCGM_FI_DEV_GPU_UTIL".to_owned())),
    }
}

/// A workload with one whole GPU for each of its pods.
pub(crate) fn workload(namespace: &str, name: &str, replicas: Vec<Replica>) -> Workload {
    Workload {
        namespace: namespace.to_owned(),
        kind: "Deployment".to_owned(),
        name: name.to_owned(),
        container: "main".to_owned(),
        resources: vec!["nvidia.com/gpu".to_owned()],
        today: "1 × GPU".to_owned(),
        whole_gpus: Some(1),
        replicas,
        waiting: 0,
        domain: namespace.to_owned(),
        isolation: Isolation::Unstated,
        named: None,
        class: Some(Class::Inference),
        latency_sensitive: None,
        model: ModelFacts::default(),
        cpu_milli: 1000,
        memory: Mebibytes(2048),
    }
}

/// Four machines with one T4 each, and on each a server that uses a quarter of it.
pub(crate) fn quarters() -> Situation {
    let nodes: Vec<Node> = (1..=4).map(|number| node(&format!("gpu-{number}"), "g4dn.2xlarge")).collect();
    let workloads = nodes
        .iter()
        .enumerate()
        .map(|(index, node)| {
            let pod = format!("server-{index}");
            workload("serving", &pod.clone(), vec![replica(&pod, &node.name, 24, &[25, 23, 24], 3100)])
        })
        .collect();
    Situation { nodes, workloads, ..Situation::default() }
}
