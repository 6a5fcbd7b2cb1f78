//! One allocation: as long as was asked for, with host memory only behind the pages that were written to.
//!
//! A test may fill a simulated GPU of 141 GB; the machine it runs on has no such memory.

use std::collections::BTreeMap;

const PAGE: usize = 64 * 1024;

/// An allocation; what was never written reads as zero.
#[derive(Debug)]
pub(crate) struct Pages {
    length: u64,
    written: BTreeMap<u64, Box<[u8]>>,
}

impl Pages {
    /// So many bytes.
    pub(crate) fn new(length: u64) -> Self {
        Pages { length, written: BTreeMap::new() }
    }

    /// How many bytes were asked for.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Whether so many bytes from an offset on lie inside.
    pub(crate) fn holds(&self, offset: u64, length: usize) -> bool {
        offset.checked_add(length as u64).is_some_and(|end| end <= self.length)
    }

    /// Copies out. The caller has asked whether the allocation holds that much.
    pub(crate) fn read(&self, offset: u64, to: &mut [u8]) {
        let mut done = 0;
        while done < to.len() {
            let (page, start, length) = piece(offset + done as u64, to.len() - done);
            let target = &mut to[done..done + length];
            match self.written.get(&page) {
                Some(bytes) => target.copy_from_slice(&bytes[start..start + length]),
                None => target.fill(0),
            }
            done += length;
        }
    }

    /// Copies in. The caller has asked whether the allocation holds that much.
    pub(crate) fn write(&mut self, offset: u64, from: &[u8]) {
        let mut done = 0;
        while done < from.len() {
            let (page, start, length) = piece(offset + done as u64, from.len() - done);
            let bytes = self.written.entry(page).or_insert_with(|| vec![0; PAGE].into_boxed_slice());
            bytes[start..start + length].copy_from_slice(&from[done..done + length]);
            done += length;
        }
    }
}

/// The page an offset lies in, where in it, and how much of a length is on that page.
fn piece(offset: u64, length: usize) -> (u64, usize, usize) {
    let start = (offset % PAGE as u64) as usize;
    (offset / PAGE as u64, start, length.min(PAGE - start))
}

#[cfg(test)]
mod tests {
    use super::{PAGE, Pages};

    #[test]
    fn what_is_written_across_pages_is_read_again_and_the_rest_is_zero() {
        let mut pages = Pages::new(1 << 40);
        let text: Vec<u8> = (0..3 * PAGE).map(|at| (at % 251) as u8).collect();
        let offset = (1 << 39) - 7;
        pages.write(offset, &text);
        let mut found = vec![9; text.len() + 4];
        pages.read(offset - 2, &mut found);
        assert_eq!((&found[..2], &found[text.len() + 2..]), (&[0, 0][..], &[0, 0][..]));
        assert_eq!(&found[2..text.len() + 2], text);
        assert_eq!(pages.written.len(), 4);
        assert!(pages.holds((1 << 40) - 3, 3) && !pages.holds((1 << 40) - 3, 4) && !pages.holds(u64::MAX, 2));
    }
}
