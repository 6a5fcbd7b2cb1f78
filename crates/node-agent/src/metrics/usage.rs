//! Series about what containers and devices used: `carve_container_*` and `carve_gpu_*`.

use super::table::{Family, Kind, Labels};
use crate::usage::{ContainerRow, UnitRow, UsageRows};
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

fn container_labels(row: &ContainerRow) -> Labels {
    vec![
        ("namespace", row.holder.namespace.clone()),
        ("pod", row.holder.pod.clone()),
        ("container", row.holder.container.clone()),
        ("uuid", row.uuid.clone()),
        ("mechanism", row.mechanism.to_owned()),
    ]
}

fn unit_labels(row: &UnitRow) -> Labels {
    let (instance, profile) = row
        .instance
        .as_ref()
        .map_or_else(Default::default, |(id, profile)| (id.to_string(), profile.clone()));
    vec![
        ("gpu", row.gpu.to_string()),
        ("uuid", row.uuid.clone()),
        ("gpu_instance", instance),
        ("profile", profile),
    ]
}

/// What is told of a container, one value each.
type OfContainer = (&'static str, &'static str, Kind, fn(&ContainerRow) -> Option<f64>);

const CONTAINERS: [OfContainer; 5] = [
    (
        "container_memory_used_bytes",
        "Memory that the driver shows for processes of a container",
        Kind::Gauge,
        |row| Some(row.memory as f64),
    ),
    ("container_memory_limit_bytes", "Memory that a container can have of its part", Kind::Gauge, |row| {
        row.memory_limit.map(|bytes| bytes as f64)
    }),
    (
        "container_gpu_promised_ratio",
        "Part of the time of its GPU or MIG device that a container was promised; absent where nothing was",
        Kind::Gauge,
        |row| row.promised,
    ),
    (
        "container_throttled_seconds",
        "Time in which threads of a container were kept from starting work, summed up over them",
        Kind::Counter,
        |row| row.throttled,
    ),
    (
        "container_denied_allocations",
        "How often a container was refused memory because of its limit",
        Kind::Counter,
        |row| row.denied.map(|count| count as f64),
    ),
];

/// What is told of a GPU or an instance.
type OfUnit = (&'static str, &'static str, Kind, fn(&UnitRow) -> Option<f64>);

const UNITS: [OfUnit; 6] = [
    ("gpu_busy_seconds", "Time in which a GPU or an instance did anything", Kind::Counter, |row| {
        Some(row.seconds)
    }),
    (
        "gpu_unattributed_seconds",
        "Of the busy time that for which no container is known",
        Kind::Counter,
        |row| Some(row.unattributed),
    ),
    ("gpu_former_seconds", "Of the busy time that for containers which are gone", Kind::Counter, |row| {
        Some(row.former)
    }),
    ("gpu_memory_used_bytes", "Memory in use of a GPU or an instance", Kind::Gauge, |row| {
        Some(row.memory as f64)
    }),
    (
        "gpu_memory_unattributed_bytes",
        "Of the memory in use that of no container: the driver's, servers', strangers'",
        Kind::Gauge,
        |row| Some(row.rest_memory as f64),
    ),
    ("gpu_memory_bytes", "Memory of a GPU or an instance", Kind::Gauge, |row| {
        row.memory_total.map(|bytes| bytes as f64)
    }),
];

/// Writes all of them.
pub(super) fn encode(rows: &UsageRows, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let mut seconds = Family::new(
        "carve_container_gpu_seconds",
        "Time of a GPU or MIG device that a container used; attribution says how that is known",
        Kind::Counter,
    );
    for row in &rows.containers {
        for (evidence, value) in &row.seconds {
            let mut labels = container_labels(row);
            labels.push(("attribution", evidence.word().to_owned()));
            seconds.add(labels, *value);
        }
    }
    seconds.encode(encoder)?;
    for (name, help, kind, value) in CONTAINERS {
        let mut family = Family::new(format!("carve_{name}"), help, kind);
        for row in &rows.containers {
            family.add_some(|| container_labels(row), value(row));
        }
        family.encode(encoder)?;
    }
    for (name, help, kind, value) in UNITS {
        let mut family = Family::new(format!("carve_{name}"), help, kind);
        for row in &rows.units {
            family.add_some(|| unit_labels(row), value(row));
        }
        family.encode(encoder)?;
    }
    Ok(())
}
