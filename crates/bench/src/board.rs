//! What the driver says of the board while tenants work.

use carve_gpu_host::GpuHost;
use carve_gpu_model::GpuIndex;
use carve_study::Board;
use std::time::{Duration, Instant};

/// Time between two looks. Each takes the driver's attention away from the tenants for a moment.
const LOOK: Duration = Duration::from_millis(250);

/// Looks now and then, and keeps what it saw.
#[derive(Debug)]
pub(crate) struct Sampler {
    gpu: GpuIndex,
    last: Option<Instant>,
    busy: Vec<f64>,
    watts: Vec<f64>,
    memory_mib: Option<u64>,
}

impl Sampler {
    pub(crate) fn new(gpu: GpuIndex) -> Self {
        Sampler { gpu, last: None, busy: Vec::new(), watts: Vec::new(), memory_mib: None }
    }

    /// Looks, where the last time is long enough ago. What can not be read is not told.
    pub(crate) fn look(&mut self, host: &dyn GpuHost) {
        if self.last.is_some_and(|last| last.elapsed() < LOOK) {
            return;
        }
        self.last = Some(Instant::now());
        if let Ok(utilisation) = host.utilisation(self.gpu) {
            self.busy.push(f64::from(utilisation.compute_percent));
        }
        if let Some(power) = host.readings(self.gpu).ok().and_then(|readings| readings.power) {
            self.watts.push(f64::from(power) / 1000.0);
        }
        if let Ok(memory) = host.memory(self.gpu) {
            let used = (memory.used.0 + memory.reserved.0) >> 20;
            self.memory_mib = Some(self.memory_mib.unwrap_or(0).max(used));
        }
    }

    /// What was seen: means, and the most memory.
    pub(crate) fn board(&self) -> Option<Board> {
        let mean = |all: &[f64]| (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64);
        let board =
            Board { busy_percent: mean(&self.busy), watts: mean(&self.watts), memory_mib: self.memory_mib };
        (board.busy_percent.is_some() || board.watts.is_some() || board.memory_mib.is_some()).then_some(board)
    }
}
