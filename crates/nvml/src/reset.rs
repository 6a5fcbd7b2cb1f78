//! Resetting GPUs, which NVML can not do and `nvidia-smi` can.

use crate::Nvml;
use crate::call::Answer;
use crate::facts::address;
use carve_gpu_host::HostFailure;
use carve_gpu_model::{GpuIndex, PciAddress};
use std::process::Command;

impl Nvml {
    /// Resets the named GPUs and no others. NVML is shut down meanwhile: our own hold on the device nodes would make
    /// every GPU "in use".
    pub(crate) fn reset_by_program(&mut self, gpus: &[GpuIndex]) -> Answer {
        if gpus.is_empty() {
            return Ok(());
        }
        let addresses = gpus.iter().map(|gpu| self.address_of(*gpu)).collect::<Answer<Vec<_>>>()?;
        self.forget_watch();
        self.forget_samples();
        self.calls.shutdown()?;
        self.started = false;
        let outcome = self.run_nvidia_smi(&addresses);
        self.calls.init()?;
        self.started = true;
        outcome
    }

    /// A lost GPU may need its reset most, so its last known place will do.
    fn address_of(&self, gpu: GpuIndex) -> Answer<PciAddress> {
        let asked = self.device(gpu).and_then(|device| self.calls.pci(device)).map(|pci| address(&pci));
        asked.or_else(|failure| self.seen.borrow().get(&gpu).map(|known| known.address).ok_or(failure))
    }

    fn run_nvidia_smi(&mut self, addresses: &[PciAddress]) -> Answer {
        let ids: Vec<String> = addresses.iter().map(|address| address.nvml_bus_id()).collect();
        let mut command = Command::new(&self.paths.nvidia_smi);
        command.args(["-r", "-i", &ids.join(",")]);
        if let Some(folder) = &self.paths.smi_libraries {
            command.env("LD_LIBRARY_PATH", folder);
        }
        let output = match command.output() {
            Ok(output) => output,
            Err(error) => {
                self.reset_report = Some(format!("{}: {error}", self.paths.nvidia_smi.display()));
                return Err(HostFailure::NotFound);
            }
        };
        if output.status.success() {
            self.reset_report = None;
            return Ok(());
        }
        let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
        said.push_str(&String::from_utf8_lossy(&output.stderr));
        let failure = understood(&said);
        self.reset_report = Some(said);
        Err(failure)
    }
}

/// What the words of `nvidia-smi` come to; it has no codes for these.
fn understood(said: &str) -> HostFailure {
    let said = said.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if says(&["in use", "being used", "is using"]) {
        HostFailure::InUse
    } else if says(&["permission", "root"]) {
        HostFailure::NoPermission
    } else if says(&["not supported"]) {
        HostFailure::NotSupported
    } else if says(&["is lost"]) {
        HostFailure::GpuLost
    } else {
        HostFailure::Other(999)
    }
}

#[cfg(test)]
mod tests {
    use super::understood;
    use carve_gpu_host::HostFailure;

    #[test]
    fn words_become_failures() {
        assert_eq!(
            understood("GPU 00000000:01:00.0 is currently in use by one or more other processes"),
            HostFailure::InUse
        );
        assert_eq!(understood("Insufficient Permissions"), HostFailure::NoPermission);
        assert_eq!(understood("GPU Reset is not supported on this device"), HostFailure::NotSupported);
        assert_eq!(understood("?"), HostFailure::Other(999));
    }
}
