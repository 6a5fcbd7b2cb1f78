//! What a container takes of a node's GPUs in sum, in resources that the stock scheduler counts itself.
//!
//! They are the least that the container may come to, wherever it goes: a node that could serve it is never passed over for them, and
//! whether a GPU has room is decided by the book.

use crate::claims::{ContainerClaim, Part, Share};
use crate::fleet::Fleet;
use carve_formats::workloads::MemoryAsk;

/// Memory in MiB and percent of compute, over all GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sums {
    pub(crate) memory: u64,
    pub(crate) compute: u64,
}

/// The sums of a container; nothing of what is not known.
pub(crate) fn sums(container: &ContainerClaim, fleet: &Fleet) -> Sums {
    container.parts.iter().fold(Sums::default(), |sums, part| {
        let (memory, compute) = each(part, fleet);
        let times = |amount: u64| amount.saturating_mul(u64::from(part.count));
        Sums {
            memory: sums.memory.saturating_add(times(memory)),
            compute: sums.compute.saturating_add(times(compute)),
        }
    })
}

fn each(part: &Part, fleet: &Fleet) -> (u64, u64) {
    let all = || fleet.allowed(&part.models).map(|product| product.memory.0);
    let (least, most) = (all().min().unwrap_or(0), all().max().unwrap_or(0));
    match &part.share {
        Share::Whole => (least, 100),
        Share::Turn => (0, 0),
        Share::Mig(profile) => {
            let offered = fleet.products.iter().flat_map(|product| &product.profiles);
            let memory = offered.filter(|one| one.name == *profile).map(|one| one.memory.0).min();
            (memory.unwrap_or(0), (profile.gpu_slices() * 100 / 7).min(100))
        }
        Share::Part { memory, compute } => {
            let amount = match memory {
                Some(MemoryAsk::Amount(amount)) => amount.0,
                Some(MemoryAsk::Share(share)) => least * u64::from(share.0) / 1000,
                None => least,
            };
            // The book gives compute in proportion to memory where none is named.
            let proportion = || (amount * 100).checked_div(most).unwrap_or(0).min(100);
            (amount, compute.map_or_else(proportion, u64::from))
        }
    }
}
