//! The free blocks of an H100 that jobs of different sizes compete for, and what a place breaks of them.
//!
//! Eight memory slots make two halves. A 3g takes a half, a 2g an aligned pair of slots, a 1g one slot; slot 7 serves no 1g or 2g. The
//! left half is worth four slices to small jobs and the right half three, so a 3g on the right wastes nothing.

/// What is taken on a GPU, in memory slots, one bit each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Occupied {
    /// By jobs that run.
    pub(super) before: u8,
    /// By the instance that is to be made, which overlaps none of them.
    pub(super) by: u8,
}

const LEFT: u8 = 0b0000_1111;
const RIGHT: u8 = 0b1111_0000;
const PAIRS: [u8; 3] = [0b0000_0011, 0b0000_1100, 0b0011_0000];

impl Occupied {
    /// Whether a block that was free as a whole is taken in part.
    fn breaks(self, block: u8) -> bool {
        self.before & block == 0 && self.by & block != 0 && self.by & block != block
    }

    fn breaks_a_pair(self) -> bool {
        PAIRS.into_iter().any(|pair| self.breaks(pair))
    }

    /// Whether a 1g job should rather wait than take this place: it would break a right half, the room where a 3g wastes nothing, or a pair
    /// that a 2g job waits for. Larger jobs break neither lightly: a 2g fills most of a right half.
    pub(super) fn worth_waiting(self, twos_wait: bool) -> bool {
        self.by.count_ones() == 1 && (self.breaks(RIGHT) || twos_wait && self.breaks_a_pair())
    }

    /// What is lost, smaller is better: the largest block broken; a pair broken with it, or a half whose last slice a 3g can not use; what
    /// is left free in the same half.
    pub(super) fn cost(self) -> [usize; 3] {
        let largest = if self.breaks(LEFT | RIGHT) {
            4
        } else if self.breaks(RIGHT) {
            3
        } else if self.breaks(LEFT) {
            2
        } else {
            usize::from(self.breaks_a_pair())
        };
        let wastes_a_slice = self.by == LEFT;
        let half = if self.by & LEFT != 0 { LEFT } else { RIGHT & 0b0111_1111 };
        let free = half & !(self.before | self.by);
        [largest, usize::from(self.breaks_a_pair() || wastes_a_slice), free.count_ones() as usize]
    }
}
