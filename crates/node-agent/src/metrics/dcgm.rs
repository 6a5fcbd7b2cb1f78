//! The same under the names and labels of NVIDIA's DCGM exporter, so that dashboards and queries that people have keep working.
//!
//! Where several containers share a device, each has its own part of what was used, and what is nobody's has a series without a container: the
//! sum over a device is the device. What can not be divided, such as a temperature, is told once.

use super::table::{Family, Kind, Labels};
use crate::usage::{ContainerRow, DeviceRow, UnitRow, UsageRows};
use prometheus_client::encoding::DescriptorEncoder;
use std::fmt;

/// What is the same for all series of a node.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeLabels {
    pub(crate) node: String,
    pub(crate) driver: String,
}

const MEBI: f64 = 1_048_576.0;

/// What is told of a GPU as a whole.
type OfDevice = (&'static str, &'static str, Kind, fn(&DeviceRow) -> Option<f64>);

const DEVICES: [OfDevice; 15] = [
    ("DEV_SM_CLOCK", "Clock of the multiprocessors in MHz", Kind::Gauge, |row| {
        of(row.readings?.compute_clock)
    }),
    ("DEV_MEM_CLOCK", "Clock of the memory in MHz", Kind::Gauge, |row| of(row.readings?.memory_clock)),
    ("DEV_MEMORY_TEMP", "Temperature of the memory in degrees Celsius", Kind::Gauge, |row| {
        of(row.readings?.memory_temperature)
    }),
    ("DEV_GPU_TEMP", "Temperature in degrees Celsius", Kind::Gauge, |row| of(row.readings?.temperature)),
    ("DEV_POWER_USAGE", "Power drawn in watts", Kind::Gauge, |row| {
        row.readings?.power.map(|milliwatts| f64::from(milliwatts) / 1000.0)
    }),
    (
        "DEV_TOTAL_ENERGY_CONSUMPTION",
        "Energy since the driver was loaded in millijoules",
        Kind::Bare,
        |row| row.readings?.energy.map(|millijoules| millijoules as f64),
    ),
    ("DEV_PCIE_REPLAY_COUNTER", "How often something had to be sent again over PCI", Kind::Bare, |row| {
        of(row.readings?.pci_replays)
    }),
    ("DEV_MEM_COPY_UTIL", "Time in which memory was read or written in percent", Kind::Gauge, |row| {
        of(row.memory_percent)
    }),
    ("DEV_ENC_UTIL", "Use of the encoder in percent", Kind::Gauge, |row| of(row.readings?.encoder_percent)),
    ("DEV_DEC_UTIL", "Use of the decoder in percent", Kind::Gauge, |row| of(row.readings?.decoder_percent)),
    ("DEV_FB_FREE", "Free memory in MiB", Kind::Gauge, |row| {
        row.memory.map(|(_, free, _)| free as f64 / MEBI)
    }),
    ("DEV_FB_RESERVED", "Memory that the driver keeps in MiB", Kind::Gauge, |row| {
        row.memory.map(|(_, _, reserved)| reserved as f64 / MEBI)
    }),
    (
        "DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "Rows replaced after errors that could not be corrected",
        Kind::Bare,
        |row| row.readings?.remapped_rows.map(|rows| f64::from(rows.uncorrectable)),
    ),
    (
        "DEV_CORRECTABLE_REMAPPED_ROWS",
        "Rows replaced after errors that could be corrected",
        Kind::Bare,
        |row| row.readings?.remapped_rows.map(|rows| f64::from(rows.correctable)),
    ),
    ("DEV_ROW_REMAP_FAILURE", "Whether replacing rows has failed", Kind::Gauge, |row| {
        row.readings?.remapped_rows.map(|rows| f64::from(u8::from(rows.failed)))
    }),
];

fn of(value: Option<u32>) -> Option<f64> {
    value.map(f64::from)
}

fn device_labels(node: &NodeLabels, device: &DeviceRow) -> Labels {
    vec![
        ("gpu", device.gpu.to_string()),
        ("UUID", device.uuid.clone()),
        ("pci_bus_id", device.pci.clone()),
        ("device", format!("nvidia{}", device.minor)),
        ("modelName", device.model.clone()),
        // The exporter has called it both.
        ("Hostname", node.node.clone()),
        ("hostname", node.node.clone()),
        ("DCGM_FI_DRIVER_VERSION", node.driver.clone()),
    ]
}

fn with_container(mut labels: Labels, container: Option<&ContainerRow>) -> Labels {
    if let Some(row) = container {
        labels.push(("namespace", row.holder.namespace.clone()));
        labels.push(("pod", row.holder.pod.clone()));
        labels.push(("container", row.holder.container.clone()));
    }
    labels
}

/// What is divided among the containers of a GPU or an instance.
struct Divided {
    name: &'static str,
    help: &'static str,
    /// Whether it is told of instances.
    of_instances: bool,
    of_container: fn(&ContainerRow) -> Option<f64>,
    of_rest: fn(&UnitRow) -> Option<f64>,
}

const DIVIDED: [Divided; 3] = [
    Divided {
        name: "DEV_GPU_UTIL",
        help: "Time in which a kernel ran in percent",
        of_instances: false,
        of_container: |row| row.now.map(|part| part * 100.0),
        of_rest: |row| row.now.map(|_| row.rest_now * 100.0),
    },
    Divided {
        name: "PROF_GR_ENGINE_ACTIVE",
        help: "Part of the time in which anything ran",
        of_instances: true,
        of_container: |row| row.now,
        of_rest: |row| row.now.map(|_| row.rest_now),
    },
    Divided {
        name: "DEV_FB_USED",
        help: "Memory in use in MiB",
        of_instances: true,
        of_container: |row| Some(row.memory as f64 / MEBI),
        of_rest: |row| Some(row.rest_memory as f64 / MEBI),
    },
];

/// Writes all of them.
pub(super) fn encode(
    node: &NodeLabels,
    rows: &UsageRows,
    last_xids: &std::collections::BTreeMap<String, u64>,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let only = |device: &DeviceRow| device.only.and_then(|at| rows.containers.get(at));
    for (name, help, kind, value) in DEVICES {
        let mut family = Family::new(format!("DCGM_FI_{name}"), help, kind);
        for device in &rows.devices {
            family.add_some(|| with_container(device_labels(node, device), only(device)), value(device));
        }
        family.encode(encoder)?;
    }
    let mut xids = Family::new("DCGM_FI_DEV_XID_ERRORS", "The last XID; 0 while there was none", Kind::Gauge);
    for device in &rows.devices {
        let last = last_xids.get(&device.uuid).copied().unwrap_or(0);
        xids.add(with_container(device_labels(node, device), only(device)), last as f64);
    }
    xids.encode(encoder)?;
    for divided in &DIVIDED {
        let mut family = Family::new(format!("DCGM_FI_{}", divided.name), divided.help, Kind::Gauge);
        for unit in rows.units.iter().filter(|unit| divided.of_instances || unit.instance.is_none()) {
            let Some(device) = rows.devices.iter().find(|device| device.gpu == unit.gpu) else { continue };
            divide(divided, node, device, unit, rows, &mut family);
        }
        family.encode(encoder)?;
    }
    Ok(())
}

fn divide(
    divided: &Divided,
    node: &NodeLabels,
    device: &DeviceRow,
    unit: &UnitRow,
    rows: &UsageRows,
    family: &mut Family,
) {
    let labels = || {
        let mut labels = device_labels(node, device);
        if let Some((id, profile)) = &unit.instance {
            labels.push(("GPU_I_PROFILE", profile.clone()));
            labels.push(("GPU_I_ID", id.to_string()));
        }
        labels
    };
    let containers = || unit.containers.iter().filter_map(|at| rows.containers.get(*at));
    let rest = (divided.of_rest)(unit);
    let values: Vec<_> = containers().map(|row| (row, (divided.of_container)(row))).collect();
    match values.as_slice() {
        // Who is alone has all of it, what the driver keeps for him included, as people are used to.
        [(row, Some(value))] => {
            family.add(with_container(labels(), Some(row)), value + rest.unwrap_or(0.0));
        }
        _ => {
            for (row, value) in values {
                family.add_some(|| with_container(labels(), Some(row)), value);
            }
            family.add_some(labels, rest);
        }
    }
}
