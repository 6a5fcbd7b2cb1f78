//! Which of a resource's free devices a container should get, and why those.
//!
//! Kubelet names the devices that are free, those that must be in the answer, and how many it wants. Whole GPUs are
//! chosen by how they are connected; MIG devices and shares by how much of their part is already taken. The same
//! question always gets the same answer. A lost GPU is taken last and never makes the question fail, because kubelet
//! turns away every pod of the node when it gets no answer.

mod aligned;
mod explanation;
mod nearby;
mod pool;
mod shares;
mod topology;

pub use explanation::{Explanation, Reason, Search};
pub use pool::{Candidate, DeviceId, PartId, Pool};
pub use topology::Topology;

use pool::Asked;
use thiserror::Error;

/// What kubelet asks, with the facts needed to answer.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// All devices of the resource.
    pub pool: &'a Pool,
    /// How the node's GPUs are connected.
    pub topology: &'a Topology,
    /// The devices that are free. Names the pool does not know are passed over.
    pub available: &'a [DeviceId],
    /// The devices that must be in the answer, whether or not they are named as free.
    pub must_include: &'a [DeviceId],
    /// How many devices are wanted, those that must be included among them.
    pub size: usize,
    /// By what to choose.
    pub kind: Kind,
}

/// By what to choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// By how the GPUs are connected. A resource with several devices on one GPU has no whole GPUs, and is treated as
    /// `Parts(Policy::Distributed)`.
    WholeGpus,
    /// By how much of each part is taken: for MIG devices, and for shares of GPUs or of MIG devices.
    Parts(Policy),
}

/// Where the next share goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// To the part, then the GPU, of which the least is taken.
    Distributed,
    /// To the part, then the GPU, of which the most is taken, so that others stay empty.
    Packed,
}

/// Why no devices can be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PreferredError {
    /// More devices must be included than are wanted.
    #[error(
        "cannot choose devices for a container: {} must be included, but only {size} may be chosen; the question \
         contradicts itself, so compare kubelet's device checkpoint with the pods that run here",
        devices(*.required)
    )]
    TooManyRequired {
        /// How many are wanted.
        size: usize,
        /// How many must be included.
        required: usize,
    },
    /// Fewer devices are free than are wanted.
    #[error(
        "cannot choose {} for a container: {} can be chosen{}; the container has to wait until others release \
         theirs, or ask for fewer",
        devices(*.size),
        if *.usable == 0 { "none".to_owned() } else { format!("only {}", .usable) },
        unknown_names(*.unknown)
    )]
    TooFew {
        /// How many are wanted.
        size: usize,
        /// How many are free or must be included.
        usable: usize,
        /// How many names of free devices this resource does not have.
        unknown: usize,
    },
}

/// `1 device`, `2 devices`.
fn devices(count: usize) -> String {
    format!("{count} device{}", if count == 1 { "" } else { "s" })
}

fn unknown_names(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => " (1 more was named that this resource does not have)".to_owned(),
        _ => format!(" ({count} more were named that this resource does not have)"),
    }
}

/// The devices chosen, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The devices: first those that must be included, in the order they were named, then the others.
    pub devices: Vec<DeviceId>,
    /// Why these.
    pub explanation: Explanation,
}

/// The devices a container should get.
pub fn preferred(request: &Request<'_>) -> Result<Vec<DeviceId>, PreferredError> {
    let asked = Asked::new(request)?;
    let (picks, _) = pick(request, &asked);
    Ok(asked.answer(request.pool, &picks))
}

/// The devices a container should get, with the explanation.
pub fn choose(request: &Request<'_>) -> Result<Choice, PreferredError> {
    let asked = Asked::new(request)?;
    let (picks, reason) = pick(request, &asked);
    let explanation = explanation::explain(request, &asked, &picks, reason);
    Ok(Choice { devices: asked.answer(request.pool, &picks), explanation })
}

/// Picks what is needed besides the required devices, as places in the pool.
fn pick(request: &Request<'_>, asked: &Asked) -> (Vec<usize>, explanation::Basis) {
    use explanation::Basis;
    if asked.needed == 0 {
        return (Vec::new(), Basis::AllRequired);
    }
    if asked.needed == asked.free.len() {
        return (asked.free.clone(), Basis::NothingElse);
    }
    match request.kind {
        Kind::WholeGpus if asked.one_device_per_gpu(request.pool) => {
            let (picks, search) = aligned::pick(request, asked);
            (picks, Basis::Connection(search))
        }
        Kind::WholeGpus => {
            (shares::pick(request, asked, Policy::Distributed), Basis::Policy(Policy::Distributed))
        }
        Kind::Parts(policy) => (shares::pick(request, asked, policy), Basis::Policy(policy)),
    }
}
