//! What the process has allocated, by address or handle: a table in memory of its own, because there is no heap.

use crate::memory::BLOCK;
use crate::pages::fresh;
use core::sync::atomic::{AtomicU32, Ordering};

/// An entry of the ledger: an allocation by its address or handle, or a block of small ones.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Entry {
    /// Zero for one that is free; blocks have the lowest bit set, which no address has.
    pub(crate) key: u64,
    /// Bytes reserved for it; of a block, how many small allocations are in it.
    pub(crate) amount: u64,
    /// The context that it goes with; zero where it outlives all.
    pub(crate) context: u64,
    /// Which part, by its number.
    pub(crate) part: u32,
    /// One of the kinds below.
    pub(crate) kind: u32,
    /// Of physical memory: handles and mappings that keep it, beside the first handle.
    pub(crate) kept: u32,
}

/// An allocation that shares its block.
pub(crate) const IS_SMALL: u32 = 1;
/// Another context's handle for a context; `amount` is the handle.
pub(crate) const IS_VIEW: u32 = 2;
/// What keeps physical memory beside its handles; `amount` is the first handle.
pub(crate) const IS_HOLD: u32 = 3;
/// An object that takes nothing and keeps what is bound to it.
pub(crate) const IS_OBJECT: u32 = 5;
/// A graph that is ready; `amount` is what it asks for, `kept` when it was last launched.
pub(crate) const IS_GRAPH: u32 = 6;
/// A block of small allocations; `amount` is how many.
const IS_BLOCK: u32 = 4;

/// Every allocation of the process. Zeros are an empty one.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Ledger {
    entries: *mut Entry,
    /// How many there is room for: a power of two, or zero.
    room: usize,
    used: usize,
}

// SAFETY: its memory is its own.
unsafe impl Send for Ledger {}

fn spread(key: u64) -> usize {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) as usize
}

/// How many entries there are, by a few bits of their keys: where there are none, a key is in no ledger, and nobody needs the lock to see it.
/// Memory of pools is not in it, and programs that allocate and free all the time take it from there. What a child inherits from its parent
/// makes it look in vain at times, and nothing worse.
static TRACES: [AtomicU32; 4_096] = [const { AtomicU32::new(0) }; 4_096];

fn traces(key: u64) -> &'static AtomicU32 {
    &TRACES[spread(key) % TRACES.len()]
}

/// Counts an entry more or less. Whoever changes the ledger has its lock, so nobody else counts meanwhile.
fn count(key: u64, change: i32) {
    let traces = traces(key);
    traces.store(traces.load(Ordering::Relaxed).wrapping_add_signed(change), Ordering::Relaxed);
}

/// Whether something may be noted under a key. What another thread has just noted is seen by whoever it told of it.
#[inline]
pub(crate) fn may_be_noted(key: u64) -> bool {
    traces(key).load(Ordering::Relaxed) != 0
}

impl Ledger {
    pub(crate) fn entries(&mut self) -> &mut [Entry] {
        if self.room == 0 {
            return &mut [];
        }
        // SAFETY: that many were mapped.
        unsafe { core::slice::from_raw_parts_mut(self.entries, self.room) }
    }

    fn grow(&mut self) -> Option<()> {
        let room = (self.room * 2).max(1_024);
        let size = room * size_of::<Entry>();
        let new = fresh(size)?;
        let (old, before) = (self.entries, self.room);
        (self.entries, self.room, self.used) = (new.cast(), room, 0);
        if before > 0 {
            // SAFETY: that many entries were mapped there.
            let all = unsafe { core::slice::from_raw_parts(old, before) };
            for entry in all.iter().filter(|entry| entry.key != 0) {
                self.place(*entry);
            }
            // SAFETY: nobody knows of the old ones any more.
            let _ = unsafe { rustix::mm::munmap(old.cast(), before * size_of::<Entry>()) };
        }
        Some(())
    }

    pub(crate) fn put(&mut self, new: Entry) -> bool {
        if self.used * 2 >= self.room && self.grow().is_none() {
            return false;
        }
        let used = self.used;
        self.place(new);
        if self.used > used && new.kind != IS_BLOCK {
            count(new.key, 1);
        }
        true
    }

    /// Puts an entry where there is room for it.
    fn place(&mut self, new: Entry) {
        let mask = self.room - 1;
        let entries = self.entries();
        let mut at = spread(new.key) & mask;
        while entries[at].key != 0 && entries[at].key != new.key {
            at = (at + 1) & mask;
        }
        let fresh = entries[at].key == 0;
        entries[at] = new;
        self.used += usize::from(fresh);
    }

    pub(crate) fn find(&mut self, key: u64) -> Option<usize> {
        let mask = self.room.wrapping_sub(1);
        let entries = self.entries();
        let mut at = spread(key) & mask;
        while let Some(entry) = entries.get(at).filter(|entry| entry.key != 0) {
            if entry.key == key {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
        None
    }

    pub(crate) fn remove(&mut self, at: usize) -> Entry {
        let mask = self.room - 1;
        let entries = self.entries();
        let removed = entries[at];
        // Those behind it move up, so that none is cut off from where it is looked for.
        let (mut hole, mut next) = (at, (at + 1) & mask);
        while entries[next].key != 0 {
            let home = spread(entries[next].key) & mask;
            if (next.wrapping_sub(home) & mask) >= (next.wrapping_sub(hole) & mask) {
                entries[hole] = entries[next];
                hole = next;
            }
            next = (next + 1) & mask;
        }
        entries[hole] = Entry::default();
        self.used -= 1;
        if removed.kind != IS_BLOCK {
            count(removed.key, -1);
        }
        removed
    }

    /// One more small allocation in its block; says whether the block is new, or nothing where there is no room to note it.
    fn enter(&mut self, address: u64, part: u32) -> Option<bool> {
        let key = (address & !(BLOCK - 1)) | 1;
        match self.find(key) {
            Some(at) => {
                self.entries()[at].amount += 1;
                Some(false)
            }
            None => {
                self.put(Entry { key, amount: 1, part, kind: IS_BLOCK, ..Entry::default() }).then_some(true)
            }
        }
    }

    /// Notes an allocation; says how many bytes of what was reserved for it are to be given back, or nothing where there is no room.
    pub(crate) fn note(&mut self, entry: Entry, reserved: u64) -> Option<u64> {
        if !self.put(entry) {
            return None;
        }
        if entry.kind != IS_SMALL {
            return Some(0);
        }
        let entered = self.enter(entry.key, entry.part);
        if entered.is_none()
            && let Some(at) = self.find(entry.key)
        {
            self.remove(at);
        }
        entered.map(|is_new| if is_new { 0 } else { reserved })
    }

    /// One fewer; says whether the block is empty now.
    pub(crate) fn leave(&mut self, address: u64) -> bool {
        let key = (address & !(BLOCK - 1)) | 1;
        let Some(at) = self.find(key) else { return false };
        self.entries()[at].amount -= 1;
        let empty = self.entries()[at].amount == 0;
        if empty {
            self.remove(at);
        }
        empty
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, Ledger};
    use crate::memory::BLOCK;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    extern crate std;

    fn ledger() -> Ledger {
        Ledger { entries: core::ptr::null_mut(), room: 0, used: 0 }
    }

    proptest! {
        #[test]
        fn a_ledger_knows_what_a_map_knows(steps in prop::collection::vec((any::<bool>(), 1u64..400), 1..3_000)) {
            let (mut ledger, mut map) = (ledger(), BTreeMap::new());
            for (insert, name) in steps {
                let key = name * 512;
                if insert {
                    let put = ledger.put(Entry { key, amount: name, ..Entry::default() });
                    prop_assert!(put);
                    map.insert(key, name);
                } else {
                    let removed = ledger.find(key).map(|at| ledger.remove(at).amount);
                    prop_assert_eq!(removed, map.remove(&key));
                }
                prop_assert_eq!(ledger.used, map.len());
                prop_assert!(super::may_be_noted(key) || !map.contains_key(&key));
            }
            for (key, amount) in map {
                let at = ledger.find(key).expect("it is there");
                prop_assert_eq!(ledger.entries()[at].amount, amount);
            }
        }

        #[test]
        fn blocks_count_once(addresses in prop::collection::vec(0u64..64, 1..200)) {
            let mut ledger = ledger();
            let mut blocks = 0i64;
            for address in &addresses {
                blocks += i64::from(ledger.enter(BLOCK + address * (BLOCK / 4), 0) == Some(true));
            }
            let distinct: std::collections::BTreeSet<u64> = addresses.iter().map(|address| address / 4).collect();
            prop_assert_eq!(blocks, distinct.len() as i64);
            for address in &addresses {
                blocks -= i64::from(ledger.leave(BLOCK + address * (BLOCK / 4)));
            }
            prop_assert_eq!((blocks, ledger.used), (0, 0));
        }
    }
}
