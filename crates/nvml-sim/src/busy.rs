//! How busy GPUs and their instances were: samples that a program compares, and notes that the driver takes.

use crate::abi::{Out, VERSION_MISMATCH, nvml};
use crate::handle::{Handle, Thing};
use crate::session::Answer;
use crate::simulation::{Simulation, said};
use carve_gpu_host::HostFailure;
use carve_gpu_model::{GpuIndex, GpuInstanceId};
use nvml_wrapper_sys::bindings::{
    nvmlGpmMetric_t, nvmlGpmMetricId_t_NVML_GPM_METRIC_GRAPHICS_UTIL as ANYTHING_RAN,
    nvmlGpmMetricId_t_NVML_GPM_METRIC_SM_UTIL as MULTIPROCESSORS, nvmlGpmSupport_t, nvmlSample_t,
    nvmlSamplingType_enum_NVML_GPU_UTILIZATION_SAMPLES as USE_OF_THE_GPU, nvmlValue_t,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT as UNSIGNED,
};
use std::collections::BTreeMap;
use std::ffi::c_uint;
use std::time::{SystemTime, UNIX_EPOCH};

/// The version of structs about samples.
const VERSION: u32 = 1;

/// The first GPUs that count what they do.
const FIRST_THAT_COUNTS: (u32, u32) = (9, 0);

/// How often the driver looks at a GPU, in microseconds, and how many of its notes it keeps.
const NOTED_EVERY: u64 = 200_000;
const NOTES: u64 = 100;

/// What was busy in percent when a sample was taken; none for one that was not taken yet.
#[derive(Debug, Clone, Copy)]
struct Taken {
    of: (GpuIndex, Option<GpuInstanceId>),
    percent: f64,
}

/// Samples that C holds.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    taken: BTreeMap<u32, Option<Taken>>,
    next: u32,
}

/// The part of the question that all versions of the header have alike; the metrics follow it.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Question {
    version: c_uint,
    metrics: c_uint,
    before: Handle,
    after: Handle,
}

fn counts(simulation: &Simulation, gpu: GpuIndex) -> Answer<bool> {
    Ok(simulation.facts(gpu)?.compute_capability >= FIRST_THAT_COUNTS)
}

fn number(handle: Handle) -> Answer<u32> {
    match handle.thing()? {
        Thing::Sample(number) => Ok(number),
        _ => Err(HostFailure::InvalidArgument),
    }
}

fn take(simulation: &mut Simulation, gpu: GpuIndex, instance: Option<GpuInstanceId>, into: Handle) -> Answer {
    if !counts(simulation, gpu)? {
        return Err(HostFailure::NotSupported);
    }
    let busy = said(simulation.host.busy(gpu, instance))?.ok_or(HostFailure::NotSupported)?;
    let place = simulation.samples.taken.get_mut(&number(into)?).ok_or(HostFailure::InvalidArgument)?;
    *place = Some(Taken { of: (gpu, instance), percent: f64::from(busy.0) / 10_000.0 });
    Ok(())
}

fn taken(simulation: &Simulation, handle: Handle) -> Answer<Taken> {
    simulation.samples.taken.get(&number(handle)?).copied().flatten().ok_or(HostFailure::InvalidArgument)
}

/// Load changes rarely, so between two samples it was in the middle of what they saw.
fn between(simulation: &Simulation, question: &Question) -> Answer<f64> {
    let (before, after) = (taken(simulation, question.before)?, taken(simulation, question.after)?);
    if before.of != after.of {
        return Err(HostFailure::InvalidArgument);
    }
    Ok(f64::midpoint(before.percent, after.percent))
}

nvml! {
    fn nvmlGpmQueryDeviceSupport(simulation, device: Handle, support: Out<nvmlGpmSupport_t>) {
        if support.get()?.version != VERSION {
            return Err(VERSION_MISMATCH);
        }
        let gpu = simulation.gpu(device)?;
        let answer = u32::from(counts(simulation, gpu)?);
        support.set(nvmlGpmSupport_t { version: VERSION, isSupportedDevice: answer })
    }

    fn nvmlGpmSampleAlloc(simulation, sample: Out<Handle>) {
        sample.required()?;
        let samples = &mut simulation.samples;
        samples.next += 1;
        samples.taken.insert(samples.next, None);
        sample.set(Handle::of(Thing::Sample(samples.next)))
    }

    fn nvmlGpmSampleFree(simulation, sample: Handle) {
        simulation.samples.taken.remove(&number(sample)?).map(|_| ()).ok_or(HostFailure::InvalidArgument)
    }

    fn nvmlGpmSampleGet(simulation, device: Handle, sample: Handle) {
        let gpu = simulation.gpu(device)?;
        take(simulation, gpu, None, sample)
    }

    fn nvmlGpmMigSampleGet(simulation, device: Handle, instance: c_uint, sample: Handle) {
        let gpu = simulation.gpu(device)?;
        take(simulation, gpu, Some(GpuInstanceId(instance)), sample)
    }

    fn nvmlGpmMetricsGet(simulation, question: Out<Question>) {
        let asked = question.get()?;
        if asked.version != VERSION {
            return Err(VERSION_MISMATCH);
        }
        let percent = between(simulation, &asked)?;
        let metrics: Out<nvmlGpmMetric_t> = question.nth(1).cast();
        for place in 0..asked.metrics as usize {
            let mut metric = metrics.nth(place).get()?;
            let known = [ANYTHING_RAN, MULTIPROCESSORS].contains(&metric.metricId);
            metric.nvmlReturn = if known { 0 } else { HostFailure::NotSupported.code() };
            metric.value = if known { percent } else { 0.0 };
            metrics.nth(place).set(metric)?;
        }
        Ok(())
    }

    // As many as there is room for, the oldest first; without room, how many there may be.
    fn nvmlDeviceGetSamples(
        simulation, device: Handle, kind: c_uint, since: u64, value_type: Out<c_uint>, count: Out<c_uint>, samples: Out<nvmlSample_t>,
    ) {
        let device = simulation.device(device)?;
        if device.mig.is_some() || kind != USE_OF_THE_GPU {
            return Err(HostFailure::NotSupported);
        }
        let busy = said(simulation.host.utilisation(device.gpu))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
        let last = now / NOTED_EVERY;
        let first = (since / NOTED_EVERY + 1).max(last.saturating_sub(NOTES - 1));
        if first > last {
            return Err(HostFailure::NotFound);
        }
        value_type.set(UNSIGNED)?;
        let number = (last - first + 1) as c_uint;
        if samples.is_null() {
            return count.set(number);
        }
        let number = number.min(count.get()?);
        let value = nvmlValue_t { uiVal: busy.compute_percent };
        let note = |at: u64| nvmlSample_t { timeStamp: at * NOTED_EVERY, sampleValue: value };
        let notes: Vec<nvmlSample_t> = (first..first + u64::from(number)).map(note).collect();
        samples.set_all(&notes)?;
        count.set(number)
    }
}
