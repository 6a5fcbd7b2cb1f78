//! What has to be written so that the API server keeps exactly the wanted slices of a pool.
//!
//! A scheduler uses the slices of the newest generation, and only once there are as many as each of them says. So what changes in one slice
//! changes at once and may keep its generation; what changes in several, or how many there are, takes a new one, and until the last
//! is written nothing of the pool is given away.

use crate::Slice;
use std::collections::{BTreeMap, BTreeSet};

/// A slice that the API server keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Existing {
    /// Its name.
    pub name: String,
    /// Its place in the pool, where its name is the one it would be given there.
    pub index: Option<usize>,
    /// Its generation.
    pub generation: i64,
    /// How many slices it says the pool has.
    pub of: usize,
    /// Whether it says what the wanted slice of that place says, apart from generation and number.
    pub current: bool,
}

/// What to do, in this order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Publication {
    /// Which slices to delete, by name: before anything else, because they would be counted.
    pub delete: Vec<String>,
    /// Which slices to write, by their place in the pool.
    pub write: Vec<usize>,
    /// The generation of the whole pool.
    pub generation: i64,
}

impl Publication {
    /// Whether nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.delete.is_empty() && self.write.is_empty()
    }
}

/// Compares what there is with what is wanted. `published` is the newest generation that was ever written, 0 where none is known: a pool
/// that was deleted does not begin again at an old one.
pub fn publication(existing: &[Existing], wanted: &[Slice], published: i64) -> Publication {
    let places: BTreeSet<usize> = wanted.iter().map(|slice| slice.index).collect();
    let mut delete = Vec::new();
    let mut kept: BTreeMap<usize, &Existing> = BTreeMap::new();
    for slice in existing {
        match slice.index.filter(|index| places.contains(index) && !kept.contains_key(index)) {
            Some(index) => drop(kept.insert(index, slice)),
            None => delete.push(slice.name.clone()),
        }
    }
    let newest = existing.iter().map(|slice| slice.generation).max().unwrap_or(0).max(published);
    let of = wanted.len();
    // Those that could stay as they are if the pool kept its newest generation.
    let stays = |index: &usize| {
        kept.get(index).is_some_and(|slice| slice.current && slice.generation == newest && slice.of == of)
    };
    let changed: Vec<usize> = places.iter().copied().filter(|index| !stays(index)).collect();
    // One may change within a generation that others show to be the pool's: those that stay, or the only one itself.
    let within = match &changed[..] {
        [] => true,
        [_] if of > 1 => true,
        [index] => kept.get(index).is_some_and(|slice| slice.generation == newest && slice.of == of),
        _ => false,
    };
    if delete.is_empty() && within {
        return Publication { delete, write: changed, generation: newest };
    }
    Publication { delete, write: places.into_iter().collect(), generation: newest.saturating_add(1) }
}
