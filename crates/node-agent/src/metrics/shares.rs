//! Series about shares that the limiter holds: what each used, what it may use, and processes that escaped.
//!
//! They are encoded from one table that is replaced as a whole, so a share that is gone has no series from one scrape to the next.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Which device of a claim, or share of one, and which container has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
pub(crate) struct ShareLabels {
    pub(crate) namespace: String,
    pub(crate) pod: String,
    pub(crate) container: String,
    pub(crate) claim: String,
    pub(crate) claim_namespace: String,
    pub(crate) device: String,
    pub(crate) share: String,
    pub(crate) uuid: String,
}

/// What is told of a share.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ShareSeries {
    pub(crate) labels: ShareLabels,
    pub(crate) gpu_seconds: f64,
    pub(crate) throttled_seconds: f64,
    pub(crate) denials: u64,
    pub(crate) launches: u64,
    pub(crate) memory_limit: u64,
    /// Of the part's time; none where it is not limited.
    pub(crate) compute_limit: Option<f64>,
    pub(crate) mechanism: &'static str,
    /// Bytes and processes now; none while they can not be read.
    pub(crate) now: Option<(u64, u32)>,
    /// Bytes that the driver shows for its processes and they do not count; none while the driver does not tell.
    pub(crate) beside: Option<u64>,
    /// Bytes of that which the share is charged; none while it can not be read.
    pub(crate) overhead: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Uuid {
    uuid: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Mechanism {
    mechanism: &'static str,
}

/// Everything that is told of shares now.
#[derive(Debug, Default)]
pub(crate) struct ShareTable {
    /// By the door that they came through.
    doors: Mutex<BTreeMap<String, Rows>>,
}

#[derive(Debug, Default)]
struct Rows {
    shares: Vec<ShareSeries>,
    /// How many processes escaped, by the part that is watched.
    escaped: BTreeMap<String, u64>,
}

impl ShareTable {
    pub(crate) fn set(&self, door: &str, shares: Vec<ShareSeries>, escaped: BTreeMap<String, u64>) {
        let mut doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        doors.insert(door.to_owned(), Rows { shares, escaped });
    }
}

/// A family and where its values come from.
struct Told<V> {
    name: &'static str,
    help: &'static str,
    value: fn(&ShareSeries) -> Option<V>,
}

const SECONDS: [Told<f64>; 2] = [
    Told {
        name: "share_gpu_seconds",
        help: "Time of the GPU that a share used",
        value: |share| Some(share.gpu_seconds),
    },
    Told {
        name: "share_throttled_seconds",
        help: "Time in which threads of a share were kept from starting work, summed up over them",
        value: |share| Some(share.throttled_seconds),
    },
];

const COUNTS: [Told<u64>; 2] = [
    Told {
        name: "share_memory_denials",
        help: "How often memory was refused to a share",
        value: |share| Some(share.denials),
    },
    Told {
        name: "share_launches",
        help: "Kernels and graphs that a share started",
        value: |share| Some(share.launches),
    },
];

const LEVELS: [Told<u64>; 5] = [
    Told {
        name: "share_memory_bytes",
        help: "Memory that a share holds",
        value: |share| share.now.map(|(bytes, _)| bytes),
    },
    Told {
        name: "share_memory_limit_bytes",
        help: "Memory that a share may hold",
        value: |share| Some(share.memory_limit),
    },
    Told {
        name: "share_processes",
        help: "Processes that have a slot in a share",
        value: |share| share.now.map(|(_, processes)| u64::from(processes)),
    },
    Told {
        name: "share_beside_bytes",
        help: "Memory that the driver shows for processes of a share beside what they count, such as contexts and code",
        value: |share| share.beside,
    },
    Told {
        name: "share_overhead_bytes",
        help: "Memory that a share is charged beside what its processes count, so that they can allocate so much less",
        value: |share| share.overhead,
    },
];

const COMPUTE: Told<f64> = Told {
    name: "share_compute_limit_ratio",
    help: "Part of the GPU's time that a share may use; absent where it is not limited",
    value: |share| share.compute_limit,
};

fn encode<V: Copy, M: EncodeMetric>(
    encoder: &mut DescriptorEncoder<'_>,
    shares: &[&ShareSeries],
    told: &Told<V>,
    kind: MetricType,
    metric: impl Fn(V) -> M,
) -> fmt::Result {
    let rows: Vec<(&ShareLabels, V)> =
        shares.iter().filter_map(|share| Some((&share.labels, (told.value)(share)?))).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let mut family = encoder.encode_descriptor(told.name, told.help, None, kind)?;
    for (labels, value) in rows {
        metric(value).encode(family.encode_family(labels)?)?;
    }
    Ok(())
}

impl Collector for ShareTable {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        let shares: Vec<&ShareSeries> = doors.values().flat_map(|rows| &rows.shares).collect();
        let shares = shares.as_slice();
        let escaped: BTreeMap<&String, u64> =
            doors.values().flat_map(|rows| &rows.escaped).map(|(uuid, number)| (uuid, *number)).collect();
        for told in &SECONDS {
            encode(&mut encoder, shares, told, MetricType::Counter, ConstCounter::<f64>::new)?;
        }
        for told in &COUNTS {
            encode(&mut encoder, shares, told, MetricType::Counter, ConstCounter::<u64>::new)?;
        }
        for told in &LEVELS {
            encode(&mut encoder, shares, told, MetricType::Gauge, ConstGauge::<u64>::new)?;
        }
        encode(&mut encoder, shares, &COMPUTE, MetricType::Gauge, ConstGauge::<f64>::new)?;
        if !shares.is_empty() {
            let help = "What holds a share to its time";
            let mut family = encoder.encode_descriptor("share_mechanism", help, None, MetricType::Gauge)?;
            for share in shares {
                let labels = (share.labels.clone(), Mechanism { mechanism: share.mechanism });
                ConstGauge::<u64>::new(1).encode(family.encode_family(&labels)?)?;
            }
        }
        if !escaped.is_empty() {
            let help = "Processes on a GPU with fractions that no share knows";
            let mut family = encoder.encode_descriptor("escaped_processes", help, None, MetricType::Gauge)?;
            for (uuid, number) in escaped {
                let labels = Uuid { uuid: uuid.clone() };
                ConstGauge::<u64>::new(number).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
