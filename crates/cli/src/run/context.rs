//! What a process's context takes of a GPU: measured when a command first uses it, and remembered for the next ones.

use super::choice::Part;
use super::mps;
use crate::machine::Chosen;
use carve_cuda::{Probe, context_cost};
use carve_gpu_model::{Bytes, GpuIndex};
use carve_limiter_host::{Limits, Runs};
use std::time::Duration;

/// A GPU that takes longer hangs, and other commands wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes that a context takes of a part, or why that is not known.
pub(crate) fn context(chosen: &Chosen, runs: &Runs, part: &Part, limits: &Limits) -> Result<u64, String> {
    let gpu = part.gpu.ok_or_else(|| "what it takes of a MIG device is not measured".to_owned())?;
    let driver = chosen.host.driver().map_err(|error| error.to_string())?.version;
    let contexts = runs.contexts(&driver);
    // It grows with the multiprocessors that a process may use.
    let of = if limits.mps { format!("{}@{}", part.uuid, limits.compute) } else { part.uuid.clone() };
    if let Some(known) = contexts.known(&of) {
        return Ok(known);
    }
    let measured = measure(chosen, gpu, &part.uuid, limits)?;
    // What can not be remembered is measured again by the next one.
    let _ = contexts.remember(&of, measured);
    Ok(measured)
}

fn measure(chosen: &Chosen, gpu: GpuIndex, uuid: &str, limits: &Limits) -> Result<u64, String> {
    let mut probe = Probe::new("/proc/self/exe");
    probe.timeout = PATIENCE;
    probe.env.insert("CUDA_VISIBLE_DEVICES".into(), uuid.into());
    probe.env.insert("CUDA_MPS_PIPE_DIRECTORY".into(), mps::pipe().into());
    if limits.mps {
        probe.env.extend(mps::environment(limits).into_iter().map(|(name, value)| (name.into(), value)));
    }
    let free = || {
        let memory = chosen.host.memory(gpu).map_err(|error| error.to_string())?;
        Ok(Bytes(memory.total.0.saturating_sub(memory.reserved.0).saturating_sub(memory.used.0)))
    };
    let within = || probe.look().map(|seen| seen.free).map_err(|error| error.to_string());
    context_cost(free, within).map(|cost| cost.0)
}
