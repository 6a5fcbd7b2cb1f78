//! Who has which memory: reserved before it is allocated, and given back when it is freed.
//!
//! Memory is counted as the driver takes it, in blocks of 2 MiB. Small allocations share blocks, so a block counts once for all of them.

use crate::driver::{Code, OUT_OF_MEMORY, SUCCESS};
use crate::pages::fresh;
use crate::process::{Linux, Part, Process, process};

/// What the driver takes memory in.
pub(crate) const BLOCK: u64 = 2 << 20;
/// Smaller allocations share blocks.
const SMALL: u64 = 1 << 20;
/// What pools grow by.
const POOL_STEP: u64 = 32 << 20;

/// An entry of the ledger: an allocation by its address or handle, or a block of small ones.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct Entry {
    /// Zero for one that is free; blocks have the lowest bit set, which no address has.
    key: u64,
    /// Bytes reserved for it; of a block, how many small allocations are in it.
    amount: u64,
    /// The context that it goes with; zero where it outlives all.
    context: u64,
    /// Which part, by its number.
    part: u32,
    small: u32,
    /// Of physical memory: handles and mappings that keep it, beside the first handle.
    kept: u32,
}

/// Every allocation of the process. Zeros are an empty one.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Ledger {
    entries: *mut Entry,
    /// How many there is room for: a power of two, or zero.
    room: usize,
    used: usize,
    pools: [Pool; POOLS],
}

// SAFETY: its memory is its own.
unsafe impl Send for Ledger {}

const POOLS: usize = 32;

/// What a pool of the driver has reserved, as far as it is counted.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Pool {
    handle: usize,
    counted: u64,
    /// What is certainly free of it.
    spare: u64,
    part: u32,
}

fn spread(key: u64) -> usize {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) as usize
}

impl Ledger {
    fn entries(&mut self) -> &mut [Entry] {
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
                self.put(*entry);
            }
            // SAFETY: nobody knows of the old ones any more.
            let _ = unsafe { rustix::mm::munmap(old.cast(), before * size_of::<Entry>()) };
        }
        Some(())
    }

    fn put(&mut self, new: Entry) -> bool {
        if self.used * 2 >= self.room && self.grow().is_none() {
            return false;
        }
        let mask = self.room - 1;
        let entries = self.entries();
        let mut at = spread(new.key) & mask;
        while entries[at].key != 0 && entries[at].key != new.key {
            at = (at + 1) & mask;
        }
        let fresh = entries[at].key == 0;
        entries[at] = new;
        self.used += usize::from(fresh);
        true
    }

    fn find(&mut self, key: u64) -> Option<usize> {
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

    fn remove(&mut self, at: usize) -> Entry {
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
        removed
    }

    /// One more small allocation in its block; says whether the block is new.
    fn enter(&mut self, address: u64, part: u32) -> bool {
        let key = (address & !(BLOCK - 1)) | 1;
        match self.find(key) {
            Some(at) => {
                self.entries()[at].amount += 1;
                false
            }
            None => self.put(Entry { key, amount: 1, part, ..Entry::default() }),
        }
    }

    /// One fewer; says whether the block is empty now.
    fn leave(&mut self, address: u64) -> bool {
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

impl Part {
    /// Reserves bytes, or says that there are none left.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        match self.region() {
            Some((region, slot)) => region.reserve(slot, bytes, self.memory(), &Linux),
            None => !self.is_refused(),
        }
    }

    pub(crate) fn give(&self, bytes: u64) {
        if let Some((region, slot)) = self.region() {
            region.release(slot, bytes);
        }
    }

    /// Counts bytes that are there already and can not be refused.
    pub(crate) fn add(&self, bytes: u64) {
        if let Some((region, slot)) = self.region() {
            region.add(slot, bytes);
        }
    }

    /// Bytes that the whole container holds.
    pub(crate) fn held(&self) -> u64 {
        self.region().map_or(0, |(region, _)| region.usage().held)
    }
}

fn number(process: &Process, part: &Part) -> u32 {
    process.parts.iter().position(|one| core::ptr::eq(one, part)).unwrap_or(0) as u32
}

pub(crate) fn whole_blocks(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX)
}

/// How memory lies on the device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packing {
    /// Whether small pieces share blocks.
    packed: bool,
    /// Whether the driver frees it with the context in which it was made.
    goes_with_context: bool,
}

impl Packing {
    pub(crate) const SHARED: Packing = Packing { packed: true, goes_with_context: true };
    pub(crate) const WHOLE: Packing = Packing { packed: false, goes_with_context: true };
    pub(crate) const PHYSICAL: Packing = Packing { packed: false, goes_with_context: false };
}

fn current_context() -> u64 {
    let mut context = 0;
    // SAFETY: the driver writes one handle.
    unsafe { crate::driver::own::cuCtxGetCurrent::call(&mut context) };
    context as u64
}

/// Allocates on a part: reserves, lets the driver allocate, and notes what came of it under its address or handle.
///
/// SAFETY: `result` must be where `allocate` makes the driver write an address or handle, or null.
pub(crate) unsafe fn allocate(
    part: Option<&Part>,
    bytes: u64,
    Packing { packed, goes_with_context }: Packing,
    result: *const u64,
    allocate: impl FnOnce() -> Code,
) -> Code {
    let (Some(process), Some(part)) = (process(), part) else { return allocate() };
    let reserved = whole_blocks(bytes.max(1));
    if !part.take(reserved) {
        return OUT_OF_MEMORY;
    }
    let answer = allocate();
    if answer != SUCCESS || result.is_null() {
        part.give(reserved);
        return answer;
    }
    // SAFETY: the driver has written there.
    let key = unsafe { result.read() };
    let context = if goes_with_context { current_context() } else { 0 };
    let part_number = number(process, part);
    let small = packed && bytes < SMALL;
    let mut ledger = process.ledger.take();
    ledger.put(Entry {
        key,
        amount: if small { 0 } else { reserved },
        context,
        part: part_number,
        small: u32::from(small),
        kept: 0,
    });
    let known_block = small && !ledger.enter(key, part_number);
    drop(ledger);
    if known_block {
        part.give(reserved);
    }
    SUCCESS
}

/// Frees what was noted under an address or handle, and gives it back if the driver did so too.
pub(crate) fn free(key: u64, free: impl FnOnce() -> Code) -> Code {
    let Some(process) = process().filter(|process| process.is_limited()) else { return free() };
    // Taken out before, because another thread may get the same address the moment it is free.
    let noted = {
        let mut ledger = process.ledger.take();
        ledger.find(key).map(|at| ledger.remove(at))
    };
    let answer = free();
    let Some(entry) = noted else { return answer };
    let Some(part) = process.parts.get(entry.part as usize) else { return answer };
    if answer != SUCCESS {
        process.ledger.take().put(entry);
        return answer;
    }
    let back = if entry.small == 1 {
        if process.ledger.take().leave(key) { BLOCK } else { 0 }
    } else {
        entry.amount
    };
    part.give(back);
    answer
}

/// Notes a context that takes memory.
pub(crate) fn note_context(part: &Part, context: u64, bytes: u64) {
    let Some(process) = process() else { return };
    let part = number(process, part);
    process.ledger.take().put(Entry { key: context, amount: bytes, context, part, ..Entry::default() });
}

/// A context is gone, and with it what was allocated in it.
pub(crate) fn end_context(context: u64) {
    let Some(process) = process().filter(|process| process.is_limited()) else { return };
    let mut ledger = process.ledger.take();
    // Taking one out moves others, perhaps past the place that is looked at; so until none is found.
    loop {
        let mut found = false;
        for at in 0..ledger.room {
            while ledger.entries()[at].context == context && ledger.entries()[at].key != 0 {
                found = true;
                let entry = ledger.remove(at);
                let back = match entry.small {
                    0 => entry.amount,
                    _ => u64::from(ledger.leave(entry.key)) * BLOCK,
                };
                if let Some(part) = process.parts.get(entry.part as usize) {
                    part.give(back);
                }
            }
        }
        if !found {
            break;
        }
    }
    drop(ledger);
    look_at_pools(process);
}

/// Lets go of physical memory, which stays as long as other handles or mappings keep it.
pub(crate) fn release(handle: u64, release: impl FnOnce() -> Code) -> Code {
    let Some(process) = process().filter(|process| process.is_limited()) else { return release() };
    let mut ledger = process.ledger.take();
    let kept = match ledger.find(handle) {
        Some(at) => &mut ledger.entries()[at].kept,
        None => &mut 0,
    };
    if *kept == 0 {
        drop(ledger);
        return free(handle, release);
    }
    *kept -= 1;
    drop(ledger);
    let answer = release();
    if answer != SUCCESS {
        keep(handle);
    }
    answer
}

/// One more handle or mapping keeps physical memory.
pub(crate) fn keep(handle: u64) {
    let Some(process) = process().filter(|process| process.is_limited()) else { return };
    let mut ledger = process.ledger.take();
    if let Some(at) = ledger.find(handle) {
        ledger.entries()[at].kept += 1;
    }
}

/// Physical memory was mapped at an address.
pub(crate) fn map(address: u64, handle: u64) {
    let Some(process) = process().filter(|process| process.is_limited()) else { return };
    let mut ledger = process.ledger.take();
    if let Some(at) = ledger.find(handle) {
        ledger.entries()[at].kept += 1;
        ledger.put(Entry { key: mapping(address), amount: handle, ..Entry::default() });
    }
}

/// Whatever was mapped at these addresses no longer is.
pub(crate) fn unmap(address: u64, bytes: u64) {
    let Some(process) = process().filter(|process| process.is_limited()) else { return };
    for block in 0..bytes / BLOCK {
        let mut ledger = process.ledger.take();
        let Some(at) = ledger.find(mapping(address.wrapping_add(block * BLOCK))) else { continue };
        let handle = ledger.remove(at).amount;
        drop(ledger);
        release(handle, || SUCCESS);
    }
}

/// Under what a mapping is noted: addresses of it are multiples of far more than two.
fn mapping(address: u64) -> u64 {
    address | 2
}

const RESERVED_NOW: i32 = 5;
const USED_NOW: i32 = 7;

fn of_pool(pool: usize, attribute: i32) -> u64 {
    let mut value = 0;
    // SAFETY: the driver writes one number for these attributes.
    unsafe { crate::driver::own::cuMemPoolGetAttribute::call(pool, attribute, &mut value) };
    value
}

impl Ledger {
    fn pool(&mut self, handle: usize, part: u32) -> Option<&mut Pool> {
        let at = self.pools.iter().position(|pool| pool.handle == handle || pool.handle == 0)?;
        let pool = &mut self.pools[at];
        if pool.handle == 0 {
            *pool = Pool { handle, counted: 0, spare: 0, part };
        }
        Some(pool)
    }
}

/// Allocates from a pool of the driver. What counts is what the pool has reserved, not what is in use of it.
///
/// The pool is not asked every time: as long as all that was allocated since it was asked fits into what it had to spare then, it does not
/// grow, however much of that was freed again meanwhile.
pub(crate) fn allocate_from_pool(
    part: Option<&Part>,
    pool: usize,
    bytes: u64,
    allocate: impl FnOnce() -> Code,
    undo: impl FnOnce(),
) -> Code {
    let (Some(process), Some(part)) = (process(), part) else { return allocate() };
    let mut ledger = process.ledger.take();
    let Some(counted) = ledger.pool(pool, number(process, part)) else { return allocate() };
    // What the driver rounds up to.
    let room = bytes.checked_next_multiple_of(512).unwrap_or(u64::MAX);
    if room <= counted.spare {
        counted.spare -= room;
        drop(ledger);
        return allocate();
    }
    settle(part, counted, of_pool(pool, RESERVED_NOW));
    counted.spare = counted.counted.saturating_sub(of_pool(pool, USED_NOW));
    if room <= counted.spare {
        counted.spare -= room;
        drop(ledger);
        return allocate();
    }
    let ahead = bytes.checked_next_multiple_of(POOL_STEP).unwrap_or(u64::MAX);
    if !part.take(ahead) {
        return OUT_OF_MEMORY;
    }
    counted.counted = counted.counted.saturating_add(ahead);
    let answer = allocate();
    let now = of_pool(pool, RESERVED_NOW);
    if now > counted.counted {
        // It grew by more than was asked, because what it had was in pieces.
        let more = now - counted.counted;
        if !part.take(more) {
            if answer == SUCCESS {
                undo();
            }
            // It has it all the same until the driver trims it, and so it counts.
            part.add(more);
            counted.counted = now;
            return OUT_OF_MEMORY;
        }
        counted.counted = now;
    }
    settle(part, counted, now);
    counted.spare = now.saturating_sub(of_pool(pool, USED_NOW));
    answer
}

/// Counts what a pool has now.
fn settle(part: &Part, pool: &mut Pool, now: u64) {
    if now < pool.counted {
        part.give(pool.counted - now);
        pool.counted = now;
        pool.spare = 0;
    }
}

/// Looks at pools again: the driver gives memory back when it likes to.
pub(crate) fn look_at_pools(process: &Process) {
    let mut ledger = process.ledger.take();
    for pool in &mut ledger.pools {
        if pool.handle != 0
            && let Some(part) = process.parts.get(pool.part as usize)
        {
            settle(part, pool, of_pool(pool.handle, RESERVED_NOW));
        }
    }
}

/// A pool is gone, and what it had reserved.
pub(crate) fn end_pool(handle: usize) {
    let Some(process) = process() else { return };
    let mut ledger = process.ledger.take();
    if let Some(pool) = ledger.pools.iter_mut().find(|pool| pool.handle == handle) {
        if let Some(part) = process.parts.get(pool.part as usize) {
            part.give(pool.counted);
        }
        *pool = Pool { handle: 0, counted: 0, spare: 0, part: 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, Entry, Ledger, POOLS, Pool};
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    extern crate std;

    fn ledger() -> Ledger {
        let none = Pool { handle: 0, counted: 0, spare: 0, part: 0 };
        Ledger { entries: core::ptr::null_mut(), room: 0, used: 0, pools: [none; POOLS] }
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
                blocks += i64::from(ledger.enter(BLOCK + address * (BLOCK / 4), 0));
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
