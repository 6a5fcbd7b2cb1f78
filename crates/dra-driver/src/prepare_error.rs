//! Why a claim is not made ready, or not taken back, in words for whoever reads the pod's events.

use crate::record::RecordError;
use carve_cdi::WriteError;
use carve_dra::{DeviceName, GrantError};
use carve_gpu_host::HostError;
use carve_mig_manager::InstanceError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a claim is not made ready, or not taken back.
#[derive(Debug, Error)]
pub enum PrepareError {
    /// The claim itself.
    #[error(transparent)]
    Grant(#[from] GrantError),
    /// Records.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The GPUs can not be asked.
    #[error("claim {claim}: the GPUs can not be read: {source}")]
    Host {
        /// The claim.
        claim: String,
        /// Why.
        source: HostError,
    },
    /// The GPU is gone.
    #[error(
        "claim {claim}: GPU {minor} of device {device} is not here any more; delete the pod to have another one chosen"
    )]
    NoGpu {
        /// The claim.
        claim: String,
        /// Minor number of the GPU.
        minor: u32,
        /// The device.
        device: DeviceName,
    },
    /// Another claim has it.
    #[error(
        "claim {claim}: device {device} can not be used beside {held}, which claim {holder} {how}; it is made ready when that has ended"
    )]
    Taken {
        /// The claim.
        claim: String,
        /// The device.
        device: DeviceName,
        /// What the other has.
        held: String,
        /// Who.
        holder: String,
        /// Still holds it, or is being taken back.
        how: &'static str,
    },
    /// MIG.
    #[error("claim {claim}: device {device}: {source}")]
    Instance {
        /// The claim.
        claim: String,
        /// The device.
        device: String,
        /// Why.
        source: InstanceError,
    },
    /// MPS can not hold clients to this.
    #[error("claim {claim}: device {device}: {why}")]
    Mps {
        /// The claim.
        claim: String,
        /// The device.
        device: DeviceName,
        /// Why.
        why: String,
    },
    /// The length of turns.
    #[error(
        "claim {claim}: device {device}: the length of turns can not be set: {why}; take timeSlicingConfig out of the claim to do without"
    )]
    Turns {
        /// The claim.
        claim: String,
        /// The device.
        device: DeviceName,
        /// Why.
        why: String,
    },
    /// The file for the container runtime.
    #[error("claim {claim}: {source}: {}", source.source)]
    Cdi {
        /// The claim.
        claim: String,
        /// Why.
        source: WriteError,
    },
    /// A fraction that nothing fits into.
    #[error(
        "claim {claim}: device {device}: its share of {memory} MiB has room for no program, because the driver takes {context} MiB of it for \
         each process that uses the GPU; ask for more memory, or let --limiter-context of the agent leave that out"
    )]
    TooSmall {
        /// The claim.
        claim: String,
        /// The device.
        device: DeviceName,
        /// Mebibytes of the share.
        memory: u64,
        /// Mebibytes that a context takes.
        context: u64,
    },
    /// What a fraction is limited by.
    #[error("claim {claim}: {}", whole(source))]
    Share {
        /// The claim.
        claim: String,
        /// Why.
        source: carve_limiter_host::ShareError,
    },
    /// The file that makes programs load the limiter.
    #[error("claim {claim}: {}: it can not be written: {source}", .path.display())]
    Limits {
        /// The claim.
        claim: String,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The driver's files were not found.
    #[error("claim {claim}: {why}")]
    NoFiles {
        /// The claim.
        claim: String,
        /// Why.
        why: String,
    },
    /// There is a file for containers, and no record.
    #[error(
        "the record of the claim with uid {0} was lost; MPS daemons are left as they are until it is written anew or the claim's file is cleared \
         away, which takes some seconds once the API server answers"
    )]
    Lost(String),
    /// Finished before it was begun.
    #[error("claim with uid {0} was not begun, or was taken back meanwhile; kubelet asks again")]
    NotBegun(String),
}

/// An error with its causes: kubelet shows one line.
fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        text = format!("{text}: {deeper}");
        cause = deeper.source();
    }
    text
}

impl PrepareError {
    /// Whether it may pass by itself in a moment: somebody else has what the claim was given, and is about to give it back. A scheduler
    /// gives a device away again as soon as a claim is gone, and kubelet takes it back when the containers have ended.
    pub fn may_pass(&self) -> bool {
        use InstanceError::{InTheWay, StillCut};
        matches!(
            self,
            PrepareError::Taken { .. }
                | PrepareError::Instance { source: InTheWay { .. } | StillCut { .. }, .. }
        )
    }
}
