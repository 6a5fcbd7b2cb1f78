//! A pod on a machine: what it has of which GPUs, and what its program does with it.

use crate::behaviour::{ANNOTATION, Behaviour};
use crate::objects::{name_of, namespace_of, text, uid_of, workload_of};
use carve_admission::keys;
use carve_bookings::Slices;
use carve_fleet_picture::{Evidence, Mechanism};
use carve_repartition::Amounts;
use carve_slicing::Device;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Of a pod: which devices its containers have, as kubelet keeps it in a file of its own.
pub(crate) const DEVICES: &str = "carve.dev/devices";

/// Devices by container and resource.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Devices(pub(crate) BTreeMap<String, BTreeMap<String, Vec<String>>>);

impl Devices {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn to_annotation(&self) -> String {
        // Texts alone: there is nothing that could fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What a container was given.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Given {
    /// A device, by the name that kubelet would know it under.
    Device { id: String },
    /// A part of a GPU that a limiter holds it to: MiB, and thousandths of its compute.
    Part { gpu: String, memory: u64, compute: u32, burst: bool },
}

/// What a container has, and what it does with it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Held {
    pub(crate) container: String,
    pub(crate) given: Given,
    /// The device as it was when it was given: a machine may offer others by now.
    pub(crate) device: Option<Device>,
    /// What is measured of it; refreshed with every look.
    pub(crate) use_: Use,
}

/// What is measured of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Use {
    /// Part of the GPU's time.
    pub(crate) compute: f64,
    /// The same of what it has.
    pub(crate) of_own: f64,
    /// MiB.
    pub(crate) memory: u64,
    pub(crate) throttled: f64,
    pub(crate) how: Option<Evidence>,
    pub(crate) mechanism: Mechanism,
}

/// How far a pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its containers are being made.
    Starting {
        /// Until then.
        until: i64,
    },
    /// Its program runs.
    Running {
        /// Since then.
        since: i64,
    },
    /// It is told to end.
    Ending {
        /// It is gone then.
        until: i64,
    },
}

/// A pod on a machine. Times are milliseconds since 1970.
#[derive(Debug, Clone)]
pub(crate) struct Tenant {
    pub(crate) uid: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) workload: String,
    pub(crate) stage: Stage,
    pub(crate) behaviour: Behaviour,
    pub(crate) held: Vec<Held>,
    /// Its containers, without what they ask of GPUs.
    pub(crate) spec: Value,
    /// What it asks for besides GPUs.
    pub(crate) asks: Amounts,
    /// What could not be read of its annotation.
    pub(crate) wrong: Vec<String>,
}

/// How long containers take to be made, and to end.
const STARTS: i64 = 700;

/// When a pod's program began, as its status has it.
fn started(pod: &Value) -> Option<i64> {
    let at: jiff::Timestamp = pod["status"]["startTime"].as_str()?.parse().ok()?;
    (pod["status"]["phase"] == "Running").then_some(at.as_millisecond())
}

impl Tenant {
    /// A pod that is bound to the machine.
    pub(crate) fn of(pod: &Value, now: i64) -> Self {
        let annotations = &pod["metadata"]["annotations"];
        let uid = uid_of(pod).to_owned();
        let ends = text(&pod["spec"]["restartPolicy"]) != "Always";
        let (behaviour, wrong) = Behaviour::of(&uid, annotations[ANNOTATION].as_str(), ends);
        let stage = match started(pod) {
            Some(since) => Stage::Running { since },
            None => Stage::Starting { until: now + STARTS },
        };
        Tenant {
            namespace: namespace_of(pod).to_owned(),
            name: name_of(pod).to_owned(),
            workload: workload_of(pod),
            stage,
            behaviour,
            held: held(pod),
            asks: Amounts::asked_by(&plain(&pod["spec"])),
            spec: plain(&pod["spec"]),
            wrong,
            uid,
        }
    }

    pub(crate) fn pod(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Seconds since its program began.
    pub(crate) fn age(&self, now: i64) -> Option<f64> {
        match self.stage {
            Stage::Running { since } => Some((now - since).max(0) as f64 / 1000.0),
            _ => None,
        }
    }
}

fn held(pod: &Value) -> Vec<Held> {
    let annotations = &pod["metadata"]["annotations"];
    let new = |container: &str, given: Given| Held {
        container: container.to_owned(),
        given,
        device: None,
        use_: Use::default(),
    };
    let mut held = Vec::new();
    let slices = annotations[keys::SLICES].as_str().and_then(|text| Slices::from_annotation(text).ok());
    for (container, slice) in slices.iter().flat_map(Slices::parts) {
        let (memory, compute) = (slice.memory.0, slice.compute.0);
        let given = Given::Part { gpu: slice.gpu.0.clone(), memory, compute, burst: slice.burst };
        held.push(new(container, given));
    }
    let devices = annotations[DEVICES].as_str().and_then(|text| serde_json::from_str::<Devices>(text).ok());
    for (container, resources) in devices.unwrap_or_default().0 {
        let ids = resources.into_values().flatten();
        held.extend(ids.map(|id| new(&container, Given::Device { id })));
    }
    held
}

/// What a pod asks for besides devices.
pub(crate) fn plain(spec: &Value) -> Value {
    let mut spec =
        serde_json::json!({"containers": spec["containers"], "initContainers": spec["initContainers"]});
    for list in ["containers", "initContainers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            for field in ["limits", "requests"] {
                if let Some(amounts) = container["resources"][field].as_object_mut() {
                    amounts.retain(|name, _| !name.contains('/'));
                }
            }
        }
    }
    spec
}
