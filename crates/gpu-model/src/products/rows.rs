//! The shape of a table row, and the sets of first slots that rows share.

use crate::{Engines, Evidence, Fact, GpuProfile, Mebibytes, Placement, ProfileId, ProfileIndex};

/// First slots of one-slot instances on 8-slot parts (slot 7 takes none).
pub(super) const SEVEN: &[u8] = &[0, 1, 2, 3, 4, 5, 6];
/// First slots of two-slot, one-slice instances on 8-slot parts.
pub(super) const EVEN: &[u8] = &[0, 2, 4, 6];
/// First slots of two-slot, two-slice instances on 8-slot parts.
pub(super) const EVEN_LOW: &[u8] = &[0, 2, 4];
/// First slots of half-GPU instances on 8-slot parts.
pub(super) const HALVES: &[u8] = &[0, 4];
/// The only first slot of the largest instances.
pub(super) const WHOLE: &[u8] = &[0];
/// First slots of quarter instances on the A30.
pub(super) const QUARTERS: &[u8] = &[0, 1, 2, 3];
/// First slots of half instances on the A30.
pub(super) const A30_HALVES: &[u8] = &[0, 2];
/// First slots of quarter instances on 12-slot parts.
pub(super) const QUARTERS_OF_TWELVE: &[u8] = &[0, 3, 6, 9];
/// First slots of half instances on 12-slot parts.
pub(super) const HALVES_OF_TWELVE: &[u8] = &[0, 6];

/// One profile of one product.
#[derive(Debug)]
pub(super) struct Row {
    name: &'static str,
    id: u32,
    index: u32,
    slices: u8,
    max_instances: u8,
    memory: Option<u64>,
    multiprocessors: Option<u16>,
    engines: [u8; 5],
    starts: &'static [u8],
    size: u8,
}

/// A row, so that the tables read as tables.
#[allow(clippy::too_many_arguments, reason = "a table row has as many columns as the table")]
pub(super) const fn row(
    name: &'static str,
    id: u32,
    index: u32,
    slices: u8,
    max_instances: u8,
    memory: Option<u64>,
    multiprocessors: Option<u16>,
    engines: [u8; 5],
    starts: &'static [u8],
    size: u8,
) -> Row {
    Row { name, id, index, slices, max_instances, memory, multiprocessors, engines, starts, size }
}

impl Row {
    /// The profile this row describes, or `None` if its name is no profile name (a test holds that none is).
    pub(super) fn profile(&self, figures: Evidence, placements: Evidence) -> Option<GpuProfile> {
        let [copy, decoder, encoder, jpeg, ofa] = self.engines;
        Some(GpuProfile {
            name: self.name.parse().ok()?,
            id: ProfileId(self.id),
            index: ProfileIndex(self.index),
            slices: self.slices,
            max_instances: self.max_instances,
            memory: self.memory.map(|mebibytes| Fact::new(Mebibytes(mebibytes), figures)),
            multiprocessors: self.multiprocessors.map(|number| Fact::new(number, figures)),
            engines: Engines { copy, decoder, encoder, jpeg, ofa },
            placements: self.starts.iter().map(|start| Placement::new(*start, self.size)).collect(),
            placement_evidence: placements,
        })
    }
}
