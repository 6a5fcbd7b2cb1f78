//! Where an instance sits: a run of memory slots on its GPU.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A run of memory slots, the axis that `nvidia-smi mig -lgipp` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Placement {
    /// First slot.
    pub start: u8,
    /// Number of slots.
    pub size: u8,
}

impl Placement {
    /// A run of `size` slots from `start`.
    pub const fn new(start: u8, size: u8) -> Self {
        Placement { start, size }
    }

    /// The slots as bits. Slots past the last bit can not occur: tables with so many are refused at their door.
    pub const fn mask(self) -> SlotMask {
        let ones = if self.size >= SlotMask::SLOTS { u32::MAX } else { (1 << self.size) - 1 };
        SlotMask(if self.start >= SlotMask::SLOTS { 0 } else { ones << self.start })
    }

    /// One past the last slot.
    pub const fn end(self) -> u16 {
        self.start as u16 + self.size as u16
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.start, self.size)
    }
}

/// A set of memory slots of one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SlotMask(pub(crate) u32);

impl SlotMask {
    /// How many slots a GPU may have at the most. The largest known has 12.
    pub const SLOTS: u8 = 32;

    /// No slot.
    pub const EMPTY: SlotMask = SlotMask(0);

    /// Whether the two sets share a slot.
    pub const fn overlaps(self, other: SlotMask) -> bool {
        self.0 & other.0 != 0
    }

    /// Slots in either set.
    pub const fn union(self, other: SlotMask) -> SlotMask {
        SlotMask(self.0 | other.0)
    }

    /// Slots of this set that are not in the other.
    pub const fn without(self, other: SlotMask) -> SlotMask {
        SlotMask(self.0 & !other.0)
    }

    /// Number of slots in the set.
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether the slot is in the set.
    pub const fn contains(self, slot: u8) -> bool {
        slot < Self::SLOTS && self.0 & (1 << slot) != 0
    }
}
