//! A block of 2 MiB that small allocations share.

use std::collections::BTreeMap;

/// How large a block is.
pub(crate) const SIZE: u64 = 2 << 20;

/// Allocations begin at multiples of this and take up multiples of it, as the driver's do at the least.
const GRAIN: u64 = 512;

/// What lies in the block: offset and length with the gap behind it.
#[derive(Debug, Default)]
pub(crate) struct Block(BTreeMap<u64, u64>);

impl Block {
    /// The first place where so many bytes fit. One grain stays free behind them, so that what runs over the end of an
    /// allocation hits nothing.
    pub(crate) fn place(&mut self, bytes: u64) -> Option<u64> {
        let length = bytes.checked_next_multiple_of(GRAIN)?.checked_add(GRAIN)?;
        let mut offset = 0;
        for (start, taken) in &self.0 {
            if start - offset >= length {
                break;
            }
            offset = start + taken;
        }
        (offset + length <= SIZE).then(|| {
            self.0.insert(offset, length);
            offset
        })
    }

    /// What lies at an offset goes.
    pub(crate) fn take_back(&mut self, offset: u64) {
        self.0.remove(&offset);
    }

    /// Whether nothing lies in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{Block, GRAIN, SIZE};

    #[test]
    fn places_are_reused_and_a_full_block_refuses() {
        let mut block = Block::default();
        assert_eq!(block.place(1), Some(0));
        assert_eq!(block.place(GRAIN), Some(2 * GRAIN), "a grain and a gap");
        assert_eq!(block.place(1), Some(4 * GRAIN));
        block.take_back(2 * GRAIN);
        assert_eq!(block.place(GRAIN + 1), Some(6 * GRAIN), "the hole is too small");
        assert_eq!(block.place(7), Some(2 * GRAIN));
        assert_eq!(block.place(SIZE - 9 * GRAIN), None);
        assert_eq!(block.place(SIZE - 10 * GRAIN), Some(9 * GRAIN));
        for offset in [0, 2, 4, 6, 9] {
            assert!(!block.is_empty());
            block.take_back(offset * GRAIN);
        }
        assert!(block.is_empty());
    }
}
