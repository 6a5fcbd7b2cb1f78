//! What the driver tells of GPUs at a moment.

use super::tenant::Unit;
use carve_gpu_host::{BusyPart, GpuHost, GpuProcess, MemoryUse, Readings, Utilisation};
use carve_gpu_model::{GpuIndex, GpuInstanceId};
use std::collections::BTreeMap;
use std::time::Instant;

/// A GPU.
#[derive(Debug, Clone)]
pub(crate) struct GpuSaid {
    pub(crate) memory: Option<MemoryUse>,
    pub(crate) readings: Option<Readings>,
    pub(crate) utilisation: Option<Utilisation>,
    pub(crate) processes: Vec<GpuProcess>,
}

/// How busy a unit was since it was last asked about, and when it was asked now.
pub(crate) type BusyUntil = (Option<BusyPart>, Option<Instant>);

/// What was asked for.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) gpus: BTreeMap<GpuIndex, GpuSaid>,
    pub(crate) busy: BTreeMap<(GpuIndex, Option<GpuInstanceId>), BusyUntil>,
}

/// Asks about units. What one of them does not tell hides nothing of the others.
pub(crate) fn ask(host: &mut dyn GpuHost, units: &[Unit]) -> Said {
    let mut said = Said::default();
    for unit in units {
        // Asked first, and for all of them in a row: what was counted was read a moment ago.
        let busy = host.busy(unit.gpu, unit.instance);
        let busy = busy.inspect_err(|error| tracing::debug!(%error, "how busy a GPU was is not known now"));
        said.busy.insert((unit.gpu, unit.instance), (busy.ok().flatten(), Some(Instant::now())));
    }
    for unit in units {
        let gpu = unit.gpu;
        said.gpus.entry(gpu).or_insert_with(|| GpuSaid {
            memory: host.memory(gpu).ok(),
            readings: host.readings(gpu).ok(),
            utilisation: host.utilisation(gpu).ok(),
            processes: host.processes(gpu).unwrap_or_default(),
        });
    }
    said
}
