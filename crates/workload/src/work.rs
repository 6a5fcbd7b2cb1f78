//! What a tenant does, piece after piece, and what of it every kind of work needs.

use crate::bandwidth::Bandwidth;
use crate::batch::Batch;
use crate::burn::Burn;
use crate::inference::{Inference, Load};
use crate::kernels::Kernels;
use crate::spec::Spec;
use carve_cuda::{Context, CudaError, Stream};
use carve_study::Workload;

/// Where a tenant works.
#[derive(Debug)]
pub(crate) struct Place<'x> {
    pub(crate) context: &'x Context<'x>,
    pub(crate) stream: &'x Stream<'x>,
    pub(crate) kernels: &'x Kernels<'x>,
    /// Multiprocessors that it may use.
    pub(crate) multiprocessors: u32,
}

/// Work in pieces.
pub(crate) trait Work {
    /// Does one and waits until it is done; answers how much that was in the workload's unit.
    fn piece(&mut self) -> Result<f64, CudaError>;

    /// Bytes of device memory that it holds.
    fn memory(&self) -> u64;
}

/// A loop that does nothing.
struct Nothing;

impl Work for Nothing {
    fn piece(&mut self) -> Result<f64, CudaError> {
        Ok(1.0)
    }

    fn memory(&self) -> u64 {
        0
    }
}

/// Makes a tenant's work ready. `room` is its part of the memory, where it has one.
pub(crate) fn prepare<'x>(
    place: &'x Place<'x>,
    spec: &Spec,
    room: Option<u64>,
) -> Result<Box<dyn Work + 'x>, CudaError> {
    Ok(match spec.workload {
        Workload::Light | Workload::LightOpen => {
            Box::new(Inference::new(place, Load::LIGHT, spec.takes_memory)?)
        }
        Workload::Heavy | Workload::HeavyOpen => {
            Box::new(Inference::new(place, Load::HEAVY, spec.takes_memory)?)
        }
        Workload::Batch => Box::new(Batch::new(place, spec.seed as u32)?),
        Workload::Burn => Box::new(Burn::new(place, room)?),
        Workload::Bandwidth => Box::new(Bandwidth::new(place)?),
        Workload::Empty
        | Workload::TorchLight
        | Workload::TorchHeavy
        | Workload::TorchBatch
        | Workload::TorchBurn
        | Workload::CupyBatch => Box::new(Nothing),
    })
}
