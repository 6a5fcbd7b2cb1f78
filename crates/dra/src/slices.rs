//! Cuts a layout into ResourceSlices that the API server takes, in an order that the scheduler keeps.

use crate::{CounterSet, Device, Layout};

/// Counter sets in one slice.
const SETS: usize = 8;
/// Devices in one slice. Those that neither take from counters nor are tainted could be 128, but then a taint would cut a GPU's
/// devices anew, and every slice of the pool would change.
const DEVICES: usize = 64;

/// One ResourceSlice, without what only the cluster knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Its place in the pool. The scheduler looks at slices in the order of their names, which begin with it.
    pub index: usize,
    /// How many slices the pool has.
    pub of: usize,
    /// What is in it.
    pub content: SliceContent,
}

/// What is in a slice: never both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SliceContent {
    /// Counters.
    Sets(Vec<CounterSet>),
    /// Devices.
    Devices(Vec<Device>),
}

/// The slices of a layout. A node without GPUs has one that is empty, which says so.
pub fn slices(layout: &Layout) -> Vec<Slice> {
    let sets = layout.sets.chunks(SETS).map(|sets| SliceContent::Sets(sets.to_vec()));
    // A GPU's devices stay together unless they are too many: what changes about one GPU then changes one slice.
    let devices = layout.gpus.iter().flat_map(|devices| devices.chunks(DEVICES));
    let mut contents: Vec<SliceContent> =
        sets.chain(devices.map(|devices| SliceContent::Devices(devices.to_vec()))).collect();
    if contents.is_empty() {
        contents.push(SliceContent::Devices(Vec::new()));
    }
    let of = contents.len();
    contents.into_iter().enumerate().map(|(index, content)| Slice { index, of, content }).collect()
}
