//! Sensors and counters of a GPU, each of which a GPU may lack.

use crate::Nvml;
use crate::call::Answer;
use carve_gpu_host::{HostFailure, Readings, RemappedRows};
use carve_gpu_model::GpuIndex;
use nvml_wrapper_sys::bindings::field_id::NVML_FI_DEV_MEMORY_TEMP;

/// What is told; none where only this is not, and an error where nothing is.
fn told<T>(answer: Answer<T>) -> Answer<Option<T>> {
    match answer {
        Ok(told) => Ok(Some(told)),
        Err(failure @ (HostFailure::GpuLost | HostFailure::Uninitialized)) => Err(failure),
        Err(_) => Ok(None),
    }
}

impl Nvml {
    pub(crate) fn read(&self, gpu: GpuIndex) -> Answer<Readings> {
        let (device, calls) = (self.device(gpu)?, &self.calls);
        let rows = |(correctable, uncorrectable, failed)| RemappedRows { correctable, uncorrectable, failed };
        Ok(Readings {
            temperature: told(calls.temperature(device))?,
            memory_temperature: told(calls.number_in_field(device, NVML_FI_DEV_MEMORY_TEMP))?,
            power: told(calls.power(device))?,
            energy: told(calls.energy(device))?,
            compute_clock: told(calls.compute_clock(device))?,
            memory_clock: told(calls.memory_clock(device))?,
            pci_replays: told(calls.pci_replays(device))?,
            encoder_percent: told(calls.encoder(device))?,
            decoder_percent: told(calls.decoder(device))?,
            remapped_rows: told(calls.remapped_rows(device))?.map(rows),
        })
    }
}
