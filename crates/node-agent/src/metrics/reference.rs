//! `docs/reference/metrics.md`: what the agent can tell, made of what it answers when it knows everything.

use super::{ClaimDevice, Metrics, NodeLabels, ShareLabels, ShareSeries};
use crate::ledger::CostRows;
use crate::usage::{ContainerRow, DeviceRow, UnitRow, UsageRows};
use carve_economics::{Account, Bill, Price, Rate};
use carve_gpu_host::{Readings, RemappedRows};
use carve_gpu_model::Mechanism;
use carve_slicing::Holder;
use carve_test_support::reference::{check_section, series_table, untold};
use carve_usage::Evidence;
use std::collections::{BTreeMap, BTreeSet};

/// Where series are named.
const SOURCES: [&str; 6] = [
    include_str!("../metrics.rs"),
    include_str!("cost.rs"),
    include_str!("dcgm.rs"),
    include_str!("shares.rs"),
    include_str!("state.rs"),
    include_str!("usage.rs"),
];

fn container() -> ContainerRow {
    ContainerRow {
        holder: Holder { namespace: "n".to_owned(), pod: "p".to_owned(), container: "c".to_owned() },
        uuid: "GPU-0".to_owned(),
        mechanism: "whole",
        seconds: vec![(Evidence::Measured, 1.0)],
        now: Some(0.5),
        how: Some(Evidence::Measured),
        memory: 1,
        memory_limit: Some(1),
        part_memory: Some(1),
        shares: None,
        promised: Some(1.0),
        throttled: Some(1.0),
        denied: Some(1),
    }
}

fn unit(instance: Option<(u32, String)>) -> UnitRow {
    UnitRow {
        uuid: "GPU-0".to_owned(),
        gpu: 0,
        instance,
        seconds: 1.0,
        former: 0.0,
        unattributed: 0.0,
        now: Some(0.5),
        rest_now: 0.0,
        rest_memory: 0,
        memory: 1,
        memory_total: Some(1),
        containers: vec![0],
    }
}

fn device() -> DeviceRow {
    let readings = Readings {
        temperature: Some(1),
        memory_temperature: Some(1),
        power: Some(1),
        energy: Some(1),
        compute_clock: Some(1),
        memory_clock: Some(1),
        pci_replays: Some(1),
        encoder_percent: Some(1),
        decoder_percent: Some(1),
        remapped_rows: Some(RemappedRows::default()),
    };
    DeviceRow {
        uuid: "GPU-0".to_owned(),
        gpu: 0,
        minor: 0,
        pci: "00000000:00:1E.0".to_owned(),
        model: "NVIDIA H200".to_owned(),
        memory: Some((1, 1, 1)),
        readings: Some(readings),
        memory_percent: Some(1),
        only: Some(0),
    }
}

fn share() -> ShareSeries {
    let labels = ShareLabels {
        namespace: "n".to_owned(),
        pod: "p".to_owned(),
        container: "c".to_owned(),
        claim: "k".to_owned(),
        claim_namespace: "n".to_owned(),
        device: "d".to_owned(),
        share: "s".to_owned(),
        uuid: "GPU-0".to_owned(),
    };
    ShareSeries {
        labels,
        gpu_seconds: 1.0,
        throttled_seconds: 1.0,
        denials: 1,
        launches: 1,
        memory_limit: 1,
        compute_limit: Some(0.5),
        mechanism: "limiter",
        now: Some((1, 1)),
        beside: Some(1),
        overhead: Some(1),
    }
}

fn cost() -> CostRows {
    let account = Account {
        namespace: "n".to_owned(),
        workload: "Deployment/w".to_owned(),
        pod: "p".to_owned(),
        mechanism: Mechanism::Exclusive,
        within_mig: false,
    };
    let mut rows = CostRows {
        node: "node-0".to_owned(),
        present: BTreeMap::from([(account, Bill::default())]),
        ..CostRows::default()
    };
    rows.priced.price = Some(Price { per_hour: Rate::from_micros(1), source: "somebody".to_owned() });
    rows
}

/// An answer of an agent to which everything has happened.
fn everything() -> String {
    let metrics = Metrics::new();
    metrics.ready(true);
    metrics.health(vec![(0, "GPU-0".to_owned(), true)]);
    metrics.mps("devices", vec![("GPU-0".to_owned(), true)]);
    metrics.allocation("nvidia.com/gpu", true);
    metrics.registered("nvidia.com/gpu");
    metrics.devices("nvidia.com/gpu", 1, 0);
    metrics.config(true);
    metrics.xid("GPU-0".to_owned(), 79, "fatal".to_owned());
    metrics.attribute(1, BTreeSet::from([ClaimDevice { labels: share().labels, usage: "alone" }]));
    metrics.shares("claims", vec![share()], BTreeMap::from([("GPU-0".to_owned(), 1)]));
    metrics.node(NodeLabels { node: "node-0".to_owned(), driver: "580.65.06".to_owned() });
    metrics.usage(UsageRows {
        containers: vec![container()],
        units: vec![unit(None), unit(Some((1, "1g.5gb".to_owned())))],
        devices: vec![device()],
    });
    metrics.cost(cost());
    metrics.text()
}

#[test]
fn series_are_those_of_the_reference() {
    let answer = everything();
    for source in SOURCES {
        assert_eq!(
            untold(source, &answer),
            Vec::<&str>::new(),
            "this test does not make the agent tell these"
        );
    }
    let shares = |name: &str| name.starts_with("carve_agent_share_");
    check_section(
        "metrics.md",
        "The agent",
        &series_table(&answer, |name| name.starts_with("carve_agent_") && !shares(name)),
    );
    check_section("metrics.md", "Shares of claims and parts", &series_table(&answer, shares));
    for (heading, begins) in [
        ("Containers", &["carve_container_"][..]),
        ("GPUs and MIG instances", &["carve_gpu_"]),
        ("Money", &["carve_cost_", "carve_node_"]),
        ("Under NVIDIA's names", &["DCGM_FI_"]),
    ] {
        let chosen = |name: &str| begins.iter().any(|begin| name.starts_with(begin));
        check_section("metrics.md", heading, &series_table(&answer, chosen));
    }
}

#[test]
fn no_series_is_left_out_of_the_reference() {
    let answer = everything();
    let subjects =
        ["carve_agent_", "carve_container_", "carve_gpu_", "carve_cost_", "carve_node_", "DCGM_FI_"];
    let names = answer.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    for name in names {
        assert!(subjects.iter().any(|subject| name.starts_with(subject)), "{name} is in no section");
    }
}
