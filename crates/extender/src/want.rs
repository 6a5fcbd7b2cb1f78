//! From what a pod asks for to what is looked for on nodes.

use carve_admission::{ContainerKind, PodClaims, Share};
use carve_bookings::{Compute, ContainerWant, Memory, Part, Stage, Want};
use carve_formats::workloads::{Mechanism, MemoryAsk};
use thiserror::Error;

/// Something that this road does not give out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "container {container} asks for {what}, which this cluster's scheduler road does not give out; {instead}"
)]
pub struct NotServed {
    /// The container.
    pub container: String,
    /// What it asks for.
    pub what: String,
    /// What to do.
    pub instead: &'static str,
}

/// What a pod wants.
pub fn want_of(claims: &PodClaims) -> Result<Want, NotServed> {
    let mut containers = Vec::new();
    for claim in claims.containers() {
        let stage = match claim.kind {
            ContainerKind::Init => Stage::Init,
            ContainerKind::Sidecar => Stage::Sidecar,
            ContainerKind::Main => Stage::Main,
        };
        let mut parts = Vec::new();
        for part in &claim.parts {
            let not = |instead: &'static str| NotServed {
                container: claim.name.clone(),
                what: part.to_string(),
                instead,
            };
            let (memory, compute) = match &part.share {
                Share::Whole => (Memory::All, Some(Compute::ALL)),
                Share::Part { .. } if part.mechanism == Some(Mechanism::Exclusive) => {
                    (Memory::All, Some(Compute::ALL))
                }
                Share::Part { memory, compute } => {
                    let memory = match memory {
                        None => Memory::All,
                        Some(MemoryAsk::Amount(amount)) => Memory::Amount(*amount),
                        Some(MemoryAsk::Share(share)) => Memory::Share(u32::from(share.0)),
                    };
                    (memory, compute.map(|percent| Compute(u32::from(percent) * 10)))
                }
                Share::Mig(_) => return Err(not("ask for it by its resource, nvidia.com/mig-…")),
                Share::Turn => return Err(not("say how much memory it needs")),
            };
            parts.push(Part {
                count: part.count,
                memory,
                compute,
                burst: part.burst,
                models: part.models.clone(),
                uuids: part.uuids.clone(),
            });
        }
        containers.push(ContainerWant { name: claim.name.clone(), stage, parts });
    }
    Ok(Want { containers })
}
