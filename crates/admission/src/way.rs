//! By which mechanism a part is served: the rules of `carve plan`, as far as they can be known before a GPU is chosen.

use crate::claims::{Part, Share};
use carve_formats::workloads::{Isolation, Mechanism};
use carve_gpu_model::ProfileName;

/// How a part is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Way {
    /// A whole GPU.
    Whole,
    /// A MIG device of this profile.
    Profile(ProfileName),
    /// The smallest MIG device that holds it.
    Mig {
        /// What it gets where no MIG device is offered.
        otherwise: Option<Mechanism>,
    },
    /// A part that the limiter holds.
    Fraction,
    /// A part that an MPS daemon holds.
    Mps,
    /// A turn.
    Turn,
}

impl Way {
    /// Mechanisms that may serve it.
    pub(crate) fn mechanisms(&self) -> Vec<Mechanism> {
        match self {
            Way::Whole => vec![Mechanism::Exclusive],
            Way::Profile(_) => vec![Mechanism::Mig],
            Way::Mig { otherwise } => std::iter::once(Mechanism::Mig).chain(*otherwise).collect(),
            Way::Fraction => vec![Mechanism::Limiter],
            Way::Mps => vec![Mechanism::Mps],
            Way::Turn => vec![Mechanism::TimeSlicing],
        }
    }
}

/// Why nothing serves a part, and what to write instead.
pub(crate) type Unserved = (&'static str, &'static str);

/// How a part is served.
pub(crate) fn way(part: &Part) -> Result<Way, Unserved> {
    match &part.share {
        Share::Whole => Ok(Way::Whole),
        Share::Mig(profile) => Ok(Way::Profile(profile.clone())),
        Share::Turn if part.isolation >= Isolation::Performance => Err((
            "a share without a size is not kept apart from its neighbours",
            "name a size, such as carve.dev/gpu-memory: 4096, or take carve.dev/isolation away",
        )),
        Share::Turn => Ok(Way::Turn),
        Share::Part { .. } => match (part.mechanism, part.isolation) {
            (Some(Mechanism::Exclusive), _) => Ok(Way::Whole),
            (Some(Mechanism::Mig), _) => Ok(Way::Mig { otherwise: None }),
            (Some(Mechanism::TimeSlicing), _) => Err((
                "turns on a GPU have no size: nothing would hold the container to it",
                "write carve.dev/mechanism: limiter, mps or mig, or leave it out",
            )),
            (Some(_), Isolation::Tenant) => Err((
                "only MIG or a whole GPU keeps tenants apart",
                "write carve.dev/mechanism: mig, or leave it out",
            )),
            (Some(Mechanism::Mps), Isolation::Fault) => Err((
                "clients of one MPS daemon end together when one of them faults",
                "write carve.dev/mechanism: mig or limiter, or leave it out",
            )),
            (Some(Mechanism::Mps), _) => Ok(Way::Mps),
            (None, Isolation::Tenant) => Ok(Way::Mig { otherwise: Some(Mechanism::Exclusive) }),
            (None, Isolation::Fault) => Ok(Way::Mig { otherwise: Some(Mechanism::Limiter) }),
            (Some(Mechanism::Limiter) | None, _) => Ok(Way::Fraction),
        },
    }
}
