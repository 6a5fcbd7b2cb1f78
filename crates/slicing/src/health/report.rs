//! What the health book says: how a part is, what changed, and what else a person should know.

use super::Sequence;
use crate::PartId;
use carve_gpu_model::{ComputeInstanceId, GpuIndex, GpuInstanceId, GpuUuid, Xid, XidClass};
use std::fmt;

/// How a part is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It may be handed out.
    Healthy,
    /// It must not be handed out.
    Unhealthy {
        /// Why; of several reasons the gravest.
        reason: SickReason,
        /// The input with which that reason began.
        since: Sequence,
    },
}

impl Health {
    /// Whether the part may be handed out.
    pub fn is_healthy(&self) -> bool {
        matches!(self, Health::Healthy)
    }
}

/// Why a part must not be handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SickReason {
    /// The node has no such part.
    Absent,
    /// The driver has lost the GPU.
    GpuLost,
    /// The driver reported an error.
    Xid {
        /// Which.
        xid: Xid,
        /// What heals it.
        class: XidClass,
        /// Whether the error is confined to this MIG device, so that the rest of the GPU is well.
        confined: bool,
    },
    /// The GPU did not pass a probe.
    ProbeFailed(String),
    /// The part is shared by MPS and its daemon does not serve.
    MpsNotReady(String),
}

impl SickReason {
    /// One word for metrics and events.
    pub fn label(&self) -> &'static str {
        match self {
            SickReason::Absent => "Absent",
            SickReason::GpuLost => "GpuLost",
            SickReason::Xid { .. } => "Xid",
            SickReason::ProbeFailed(_) => "ProbeFailed",
            SickReason::MpsNotReady(_) => "MpsNotReady",
        }
    }

    /// The error, if it is one.
    pub fn xid(&self) -> Option<Xid> {
        match self {
            SickReason::Xid { xid, .. } => Some(*xid),
            _ => None,
        }
    }
}

impl fmt::Display for SickReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SickReason::Absent => f.write_str("this node has no such GPU or MIG device now"),
            SickReason::GpuLost => f.write_str(
                "the driver has lost the GPU; read the kernel log, then reset the GPU or restart the machine",
            ),
            SickReason::Xid { xid, class: XidClass::Fatal, .. } => {
                write!(f, "{xid}; reset the GPU or restart the machine")
            }
            SickReason::Xid { xid, confined: true, .. } => {
                write!(f, "{xid} in this MIG device; it is offered again once created anew or proved well")
            }
            SickReason::Xid { xid, confined: false, .. } => {
                write!(f, "{xid}; the GPU is offered again once it was reset or proved well")
            }
            SickReason::ProbeFailed(why) => {
                write!(f, "the GPU did not pass a probe: {why}; it is offered again once it proved well")
            }
            SickReason::MpsNotReady(why) => write!(f, "its MPS daemon does not serve: {why}"),
        }
    }
}

/// What the book was told when something changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// An error.
    Xid(Xid),
    /// The GPU is lost.
    Lost,
    /// The GPU is there again.
    Found,
    /// A probe.
    Probe,
    /// The GPU was reset.
    Reset,
    /// The driver was loaded anew.
    DriverReloaded,
    /// The MIG device was created anew.
    Recreated,
    /// A new reading of the node.
    NodeChanged,
    /// News of an MPS daemon.
    Mps,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Xid(xid) => xid.fmt(f),
            Cause::Lost => f.write_str("the driver lost the GPU"),
            Cause::Found => f.write_str("the driver has found the GPU again"),
            Cause::Probe => f.write_str("the GPU was probed"),
            Cause::Reset => f.write_str("the GPU was reset"),
            Cause::DriverReloaded => f.write_str("the driver was loaded anew"),
            Cause::Recreated => f.write_str("the MIG device was created anew"),
            Cause::NodeChanged => f.write_str("the node was read anew"),
            Cause::Mps => f.write_str("news of its MPS daemon"),
        }
    }
}

/// A part is otherwise than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthChange {
    /// The GPU.
    pub gpu: GpuUuid,
    /// The GPU itself, or a MIG device on it.
    pub part: PartId,
    /// How it was.
    pub from: Health,
    /// How it is.
    pub to: Health,
    /// What the book was told.
    pub cause: Cause,
}

impl HealthChange {
    /// Whether the part became fit or unfit to be handed out, rather than sick of something else.
    pub fn flips(&self) -> bool {
        self.from.is_healthy() != self.to.is_healthy()
    }

    /// The error the part is sick of, or was cured of.
    pub fn xid(&self) -> Option<Xid> {
        [&self.to, &self.from].into_iter().find_map(|health| match health {
            Health::Unhealthy { reason, .. } => reason.xid(),
            Health::Healthy => None,
        })
    }
}

impl fmt::Display for HealthChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.to {
            Health::Healthy => write!(f, "{} is healthy again: {}", self.part, self.cause),
            Health::Unhealthy { reason, .. } => write!(f, "{} is unhealthy: {reason}", self.part),
        }
    }
}

/// Something that marks nothing and that a person should know nevertheless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remark {
    /// An error of a GPU that the node does not have. NVIDIA's plugin marks every GPU of the node instead.
    UnknownGpu {
        /// The error.
        xid: Xid,
        /// The place it named.
        gpu: GpuIndex,
    },
    /// An error confined to an instance that holds no MIG device.
    UnknownInstance {
        /// The error.
        xid: Xid,
        /// The GPU.
        gpu: GpuUuid,
        /// The GPU instance.
        gpu_instance: GpuInstanceId,
        /// The compute instance, if the error is confined to one.
        compute_instance: Option<ComputeInstanceId>,
    },
    /// An error that says nothing bad about the GPU.
    Harmless {
        /// The error.
        xid: Xid,
        /// The GPU.
        gpu: GpuUuid,
        /// Why it is harmless.
        class: XidClass,
    },
    /// An error that the operator switched off.
    SwitchedOff {
        /// The error.
        xid: Xid,
        /// The GPU.
        gpu: GpuUuid,
    },
    /// News of a GPU or part that the node does not have.
    NotHere(String),
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remark::UnknownGpu { xid, gpu } => write!(
                f,
                "{xid} came for GPU {gpu}, which this node does not have; nothing is marked; compare nvidia-smi -L"
            ),
            Remark::UnknownInstance { xid, gpu, gpu_instance, compute_instance } => {
                write!(f, "{xid} came for GPU instance {gpu_instance}")?;
                if let Some(compute) = compute_instance {
                    write!(f, ", compute instance {compute}")?;
                }
                write!(f, " of {gpu}, where no MIG device is now; nothing is marked")
            }
            Remark::Harmless { xid, gpu, class: XidClass::Application } => {
                write!(f, "{xid} on {gpu}: the GPU is well; the process that met it must be started again")
            }
            Remark::Harmless { xid, gpu, .. } => write!(f, "{xid} on {gpu}: nothing needs to be done now"),
            Remark::SwitchedOff { xid, gpu } => {
                write!(f, "{xid} on {gpu} is not acted on: DP_DISABLE_HEALTHCHECKS switches it off")
            }
            Remark::NotHere(name) => {
                write!(f, "news of {name}, which this node does not have; nothing is marked")
            }
        }
    }
}

/// What came of telling the book something.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HealthNews {
    /// Parts that were there before and after, and are otherwise now; by GPU, then part.
    pub changes: Vec<HealthChange>,
    /// What marked nothing.
    pub remarks: Vec<Remark>,
}
