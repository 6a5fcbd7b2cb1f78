//! Limits of shares: what a context takes of fractions, which are too small, and the files that hold containers to what they have.

use crate::claim_spec::Places;
use crate::prepare_error::PrepareError;
use crate::preparer::Preparer;
use crate::record::{ClaimRecord, DeviceRecord, UsageRecord};
use carve_dra::{Grant, Usage};
use carve_gpu_host::Gpu;
use carve_gpu_model::Mebibytes;
use carve_limiter_host::{Contexts, Limits, Share};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What a process's context takes of a GPU, which counts into the share of the process.
#[derive(Debug, Clone)]
pub enum ContextMemory {
    /// So many bytes on every GPU and MIG device; none means that contexts are beside the shares.
    Told(u64),
    /// What was measured on each GPU by now.
    Measured(Contexts),
}

impl ContextMemory {
    /// Bytes that a context takes of a GPU, or of a MIG device on it; none where it is not known.
    pub fn of(&self, gpu: &str, is_mig: bool) -> u64 {
        match self {
            ContextMemory::Told(bytes) => *bytes,
            // A MIG device has fewer multiprocessors than its GPU, so its contexts take less, and nobody has measured how much.
            ContextMemory::Measured(_) if is_mig => 0,
            ContextMemory::Measured(contexts) => contexts.known(gpu).unwrap_or(0),
        }
    }
}

impl Preparer {
    /// A share that a context fills is of no use: every process in it would fail, and say that memory is out.
    pub(crate) fn refuse_small(
        &self,
        title: &str,
        uid: &str,
        grant: &Grant,
        gpu: &Gpu,
    ) -> Result<(), PrepareError> {
        let Usage::Fraction { memory, .. } = &grant.usage else { return Ok(()) };
        let context = self.settings.context.of(&gpu.uuid.0, grant.device.mig.is_some());
        // One that was given limits before the context was known goes on with them.
        if memory.bytes().0 > context || self.settings.limits_here.join(uid).exists() {
            return Ok(());
        }
        Err(PrepareError::TooSmall {
            claim: title.to_owned(),
            device: grant.device.clone(),
            memory: memory.0,
            context: context.div_ceil(1 << 20),
        })
    }

    /// What containers may use of a device, where the limiter holds or counts it.
    fn limits_of(&self, device: &DeviceRecord) -> Option<Limits> {
        match device.usage {
            UsageRecord::Fraction { memory, compute, burst, pass } => {
                let is_mig = device.part.as_ref().is_some_and(|part| *part != device.gpu);
                Some(Limits {
                    memory: Mebibytes(memory).bytes().0,
                    compute: u32::from(compute.min(100)) * 100,
                    context: self.settings.context.of(&device.gpu, is_mig),
                    burst,
                    pass,
                    mps: false,
                })
            }
            UsageRecord::Mps { daemon_threads, threads, counted: Some(together), .. } => Some(Limits {
                memory: Mebibytes(together).bytes().0,
                // Time is counted only where there is a limit of it, and all of it is one.
                compute: threads.unwrap_or(daemon_threads).clamp(1, 100) * 100,
                // A client's context is smaller than that of a process without MPS, and within the client's own limit.
                context: 0,
                burst: false,
                // The daemon holds every client, also one that can not be counted.
                pass: true,
                mps: true,
            }),
            _ => None,
        }
    }

    /// Leaves the limits of a claim's shares where its containers find them.
    pub(crate) fn write_limits(&self, record: &ClaimRecord) -> Result<(), PrepareError> {
        for device in &record.devices {
            let Some(limits) = self.limits_of(device) else { continue };
            let folder = self.limits_here(&self.settings.places.shares_of(&record.uid));
            let part = device.part.clone().unwrap_or_default();
            let made = Share::create(&folder, &part, device.share_name(), &limits);
            made.map_err(|source| PrepareError::Share { claim: record.title(), source })?;
            if self.settings.places.limiter.is_some() {
                let path = self.limits_here(&self.settings.places.preload());
                leave_preload(&path).map_err(|source| PrepareError::Limits {
                    claim: record.title(),
                    path,
                    source,
                })?;
            }
        }
        Ok(())
    }

    fn limits_here(&self, on_host: &Path) -> PathBuf {
        let within = on_host.strip_prefix(&self.settings.places.limits);
        within.map_or_else(|_| on_host.to_owned(), |within| self.settings.limits_here.join(within))
    }
}

/// Writes the file that makes every program of a container load the limiter.
pub fn leave_preload(path: &Path) -> io::Result<()> {
    write_if_new(path, Places::preload_text().as_bytes())
}

fn write_if_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|found| found == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    // A container may have it mounted, so it is never half written.
    let beside = path.with_extension("new");
    fs::write(&beside, bytes)?;
    fs::rename(&beside, path)
}
