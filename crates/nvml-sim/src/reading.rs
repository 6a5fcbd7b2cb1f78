//! Sensors and counters of whole GPUs.

use crate::abi::{Out, nvml};
use crate::handle::Handle;
use crate::session::Answer;
use crate::simulation::{Simulation, said};
use carve_gpu_host::{HostFailure, Readings};
use nvml_wrapper_sys::bindings::{
    nvmlClockType_enum_NVML_CLOCK_GRAPHICS as GRAPHICS, nvmlClockType_enum_NVML_CLOCK_MEM as MEMORY,
    nvmlClockType_enum_NVML_CLOCK_SM as COMPUTE, nvmlTemperatureSensors_enum_NVML_TEMPERATURE_GPU as GPU,
};
use std::ffi::c_uint;

/// How long a sample of the video engines lasts, in microseconds.
const SAMPLE: c_uint = 166_666;

fn readings(simulation: &Simulation, device: Handle) -> Answer<Readings> {
    let gpu = simulation.gpu(device)?;
    said(simulation.host.readings(gpu))
}

/// What there is, where this GPU has it.
fn tell<T: Copy>(reading: Option<T>, out: Out<T>) -> Answer {
    out.set(reading.ok_or(HostFailure::NotSupported)?)
}

nvml! {
    fn nvmlDeviceGetTemperature(simulation, device: Handle, sensor: c_uint, degrees: Out<c_uint>) {
        if sensor != GPU {
            return Err(HostFailure::InvalidArgument);
        }
        tell(readings(simulation, device)?.temperature, degrees)
    }

    fn nvmlDeviceGetPowerUsage(simulation, device: Handle, milliwatts: Out<c_uint>) {
        tell(readings(simulation, device)?.power, milliwatts)
    }

    fn nvmlDeviceGetClockInfo(simulation, device: Handle, which: c_uint, megahertz: Out<c_uint>) {
        let readings = readings(simulation, device)?;
        match which {
            GRAPHICS | COMPUTE => tell(readings.compute_clock, megahertz),
            MEMORY => tell(readings.memory_clock, megahertz),
            _ => Err(HostFailure::NotSupported),
        }
    }

    fn nvmlDeviceGetPcieReplayCounter(simulation, device: Handle, replays: Out<c_uint>) {
        tell(readings(simulation, device)?.pci_replays, replays)
    }

    fn nvmlDeviceGetEncoderUtilization(simulation, device: Handle, percent: Out<c_uint>, period: Out<c_uint>) {
        tell(readings(simulation, device)?.encoder_percent, percent)?;
        period.set(SAMPLE)
    }

    fn nvmlDeviceGetDecoderUtilization(simulation, device: Handle, percent: Out<c_uint>, period: Out<c_uint>) {
        tell(readings(simulation, device)?.decoder_percent, percent)?;
        period.set(SAMPLE)
    }

    fn nvmlDeviceGetRemappedRows(
        simulation, device: Handle, correctable: Out<c_uint>, uncorrectable: Out<c_uint>, pending: Out<c_uint>, failed: Out<c_uint>,
    ) {
        let rows = readings(simulation, device)?.remapped_rows.ok_or(HostFailure::NotSupported)?;
        correctable.set(rows.correctable)?;
        uncorrectable.set(rows.uncorrectable)?;
        pending.set(0)?;
        failed.set(u32::from(rows.failed))
    }
}
