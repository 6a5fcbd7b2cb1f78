//! The health book as plain values, so that a sick GPU stays sick when the agent starts anew.

use super::gpu::Fault;
use super::{HealthBook, HealthSettings, Seconds, Sequence};
use crate::{NodeGpus, PartId};
use carve_gpu_model::GpuUuid;

/// All that a reading of the node does not tell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HealthRecords {
    /// How many things the book was told.
    pub sequence: Sequence,
    /// GPUs with something to record.
    pub gpus: Vec<GpuRecord>,
}

/// What is recorded of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuRecord {
    /// Which.
    pub gpu: GpuUuid,
    /// Since when it is lost.
    pub lost: Option<Sequence>,
    /// What is wrong with it.
    pub faults: Vec<Fault>,
    /// Parts whose MPS daemon does not serve.
    pub mps: Vec<MpsRecord>,
}

/// An MPS daemon that does not serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MpsRecord {
    /// Of which part.
    pub part: PartId,
    /// Since when.
    pub since: Sequence,
    /// Why.
    pub reason: String,
}

impl HealthBook {
    /// The book as plain values. Of healthy GPUs there is nothing to record.
    pub fn to_records(&self) -> HealthRecords {
        let recorded = |(uuid, gpu): (&GpuUuid, &super::GpuHealth)| {
            let mps = gpu.mps.iter().map(|(part, (since, reason))| MpsRecord {
                part: part.clone(),
                since: *since,
                reason: reason.clone(),
            });
            let record = GpuRecord {
                gpu: uuid.clone(),
                lost: gpu.lost,
                faults: gpu.faults.clone(),
                mps: mps.collect(),
            };
            let empty = record.lost.is_none() && record.faults.is_empty() && record.mps.is_empty();
            (!empty).then_some(record)
        };
        HealthRecords { sequence: self.sequence, gpus: self.gpus.iter().filter_map(recorded).collect() }
    }

    /// The book as it was, on the node as it is.
    ///
    /// What the reading tells wins: a GPU that is there again counts as found, one that is gone is forgotten. Errors that
    /// the settings no longer act on are forgotten too, which is how an operator overrules one.
    pub fn from_records(
        settings: HealthSettings,
        node: &NodeGpus,
        records: &HealthRecords,
        at: Seconds,
    ) -> Self {
        let mut book = HealthBook::new(settings, node);
        book.sequence = records.sequence;
        for gpu in book.gpus.values_mut().filter(|gpu| gpu.lost.is_some()) {
            gpu.lost = Some(records.sequence);
        }
        for record in &records.gpus {
            let Some(gpu) = book.gpus.get_mut(&record.gpu) else { continue };
            let is_lost = gpu.lost.is_some();
            gpu.remember(&record.faults, &book.settings);
            gpu.lost = record.lost.or(gpu.lost);
            let mps = record.mps.iter().filter(|mps| gpu.parts.contains_key(&mps.part));
            gpu.mps = mps.map(|mps| (mps.part.clone(), (mps.since, mps.reason.clone()))).collect();
            if !is_lost {
                gpu.find(at);
            }
        }
        book
    }
}
