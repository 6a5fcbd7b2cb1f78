//! Who has which memory: reserved before it is allocated, and given back when it is freed.
//!
//! Memory is counted as the driver takes it, in blocks of 2 MiB. Small allocations share blocks, so a block counts once for all of them.

use crate::driver::{Code, OUT_OF_MEMORY, SUCCESS};
use crate::graphs::look_at_graphs;
use crate::ledger::{Entry, IS_HOLD, IS_OBJECT, IS_SMALL, IS_VIEW, may_be_noted};
use crate::pools::{look_at_pools, look_at_pools_that_may_be_gone};
use crate::process::{Linux, Part, Process, process};
use carve_limiter_abi::{Trouble, point};

/// What the driver takes memory in.
pub(crate) const BLOCK: u64 = 2 << 20;
/// Smaller allocations share blocks.
const SMALL: u64 = 1 << 20;

impl Part {
    /// Reserves bytes, or says that there are none left.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        match self.region() {
            Some((region, slot)) => region.reserve(slot, bytes, self.room(), &Linux),
            None => !self.is_refused(),
        }
    }

    /// The same for who can do without.
    pub(crate) fn take_if_left(&self, bytes: u64) -> bool {
        match self.region() {
            Some((region, slot)) => region.reserve_if_left(slot, bytes, self.room(), &Linux),
            None => !self.is_refused(),
        }
    }

    pub(crate) fn give(&self, bytes: u64) {
        if bytes > 0
            && let Some((region, slot)) = self.region()
        {
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

/// Reserves bytes. Before that is refused, pools of this process give back what they keep and do not have.
pub(crate) fn take(process: &Process, part: &Part, bytes: u64) -> bool {
    part.take_if_left(bytes) || {
        look_at_pools(process);
        part.take(bytes)
    }
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

/// Allocates on a part: reserves, lets the driver allocate, and notes what came of it under its address or handle. What can not be noted
/// could never be given back, so `undo` frees it again, unless the limits say that the program goes on without them.
///
/// SAFETY: `result` must be where `allocate` makes the driver write an address or handle, or null.
pub(crate) unsafe fn allocate(
    part: Option<&Part>,
    bytes: u64,
    Packing { packed, goes_with_context }: Packing,
    result: *const u64,
    allocate: impl FnOnce() -> Code,
    undo: impl FnOnce(u64) -> Code,
) -> Code {
    let (Some(process), Some(part)) = (process(), part) else { return allocate() };
    let reserved = whole_blocks(bytes.max(1));
    if !take(process, part, reserved) {
        return OUT_OF_MEMORY;
    }
    point!(AllocationReserved);
    let answer = allocate();
    point!(AllocationMade);
    if answer != SUCCESS || result.is_null() {
        part.give(reserved);
        return answer;
    }
    // SAFETY: the driver has written there.
    let key = unsafe { result.read() };
    let context = if goes_with_context { current_context() } else { 0 };
    let small = packed && bytes < SMALL;
    let (amount, kind) = if small { (0, IS_SMALL) } else { (reserved, 0) };
    let entry = Entry { key, amount, context, part: process.number(part), kind, kept: 0 };
    let noted = process.ledger.take().note(entry, reserved);
    point!(AllocationNoted);
    let answer = match noted {
        Some(_) => SUCCESS,
        None if part.goes_on_after(Trouble::Ledger) => SUCCESS,
        None => {
            undo(key);
            OUT_OF_MEMORY
        }
    };
    part.give(noted.unwrap_or(reserved));
    answer
}

/// Frees what was noted under an address or handle, and gives it back if the driver did so too.
#[inline]
pub(crate) fn free(key: u64, free: impl FnOnce() -> Code) -> Code {
    if !may_be_noted(key) {
        return free();
    }
    free_noted(key, free)
}

fn free_noted(key: u64, free: impl FnOnce() -> Code) -> Code {
    let Some(process) = process().filter(|process| process.is_limited()) else { return free() };
    // Taken out before, because another thread may get the same address the moment it is free.
    let noted = {
        let mut ledger = process.ledger.take();
        ledger.find(key).map(|at| ledger.remove(at))
    };
    point!(FreeUnnoted);
    let answer = free();
    point!(FreeDone);
    let Some(entry) = noted else { return answer };
    let Some(part) = process.parts.get(entry.part as usize) else { return answer };
    if answer != SUCCESS {
        process.ledger.take().put(entry);
        return answer;
    }
    let back = if entry.kind == IS_SMALL {
        if process.ledger.take().leave(key) { BLOCK } else { 0 }
    } else {
        entry.amount
    };
    part.give(back);
    if entry.kind == IS_OBJECT {
        unbind_all(key);
    }
    answer
}

/// Notes a context that takes memory; says whether there was room to.
pub(crate) fn note_context(part: &Part, context: u64, bytes: u64) -> bool {
    let Some(process) = process() else { return true };
    let part = process.number(part);
    process.ledger.take().put(Entry { key: context, amount: bytes, context, part, ..Entry::default() })
}

/// What keeps memory could not be noted, so it will count for longer than it is there.
fn say_unnoted(process: &Process, part: u32) {
    if let Some(part) = process.parts.get(part as usize) {
        part.goes_on_after(Trouble::Ledger);
    }
}

/// Notes a green context: its handle as a context is another view of a primary one, and ends with it.
pub(crate) fn note_view(green: u64, view: u64, device: i32, primary: u64) {
    let Some(process) = process().filter(|process| process.is_limited()) else { return };
    let entry = |key, context| Entry { key, context, amount: view, kind: IS_VIEW, ..Entry::default() };
    let mut ledger = process.ledger.take();
    ledger.put(entry(marked(&[VIEW, view]), primary));
    ledger.put(Entry { kept: device as u32, ..entry(marked(&[GREEN, green]), 0) });
}

/// What a green context is as a context, and on which device.
pub(crate) fn green(green: u64) -> Option<(u64, i32)> {
    let process = process().filter(|process| process.is_limited())?;
    let mut ledger = process.ledger.take();
    let at = ledger.find(marked(&[GREEN, green]))?;
    let entry = ledger.entries()[at];
    Some((entry.amount, entry.kept as i32))
}

/// A green context is gone. What was allocated in it is the primary context's, and stays as long as that.
pub(crate) fn forget_green(green: u64) {
    let Some(process) = process().filter(|process| process.is_limited()) else { return };
    let mut ledger = process.ledger.take();
    if let Some(at) = ledger.find(marked(&[GREEN, green])) {
        ledger.remove(at);
    }
}

/// One user of a context fewer; says whether that was the last one.
pub(crate) fn leave_context(context: u64) -> bool {
    let Some(process) = process().filter(|process| process.is_limited()) else { return false };
    let mut ledger = process.ledger.take();
    let Some(at) = ledger.find(context) else { return false };
    let kept = &mut ledger.entries()[at].kept;
    let was_last = *kept == 0;
    *kept = kept.saturating_sub(1);
    was_last
}

/// Takes out what goes with a context or an array, and says so of each.
fn take_all_of(process: &Process, owner: u64, mut took: impl FnMut(Entry)) {
    let (mut from, mut found) = (0, false);
    loop {
        let mut ledger = process.ledger.take();
        let belongs = |entry: &Entry| entry.key != 0 && entry.context == owner;
        let place = ledger.entries().iter().skip(from).position(belongs);
        let Some(at) = place.map(|place| from + place) else {
            // Taking one out moves others, perhaps past the place that is looked at; so until none is found.
            if !found {
                return;
            }
            (from, found) = (0, false);
            continue;
        };
        (from, found) = (at, true);
        let entry = ledger.remove(at);
        let back = match entry.kind {
            IS_SMALL => u64::from(ledger.leave(entry.key)) * BLOCK,
            IS_VIEW | IS_HOLD => 0,
            _ => entry.amount,
        };
        drop(ledger);
        point!(ContextEnding);
        if let Some(part) = process.parts.get(entry.part as usize) {
            part.give(back);
        }
        took(entry);
    }
}

/// A context is gone, and with it what was allocated in it or in another view of it.
pub(crate) fn end_context(context: u64) {
    let Some(process) = process().filter(|process| process.is_limited()) else { return };
    take_all_of(process, context, |entry| {
        if entry.kind == IS_VIEW && entry.amount != context {
            take_all_of(process, entry.amount, |_| ());
        }
    });
    look_at_pools_that_may_be_gone(process);
    look_at_graphs(process);
}

/// Something that no address or handle is: the highest bit is set.
pub(crate) fn marked(words: &[u64]) -> u64 {
    let mix = |hash: u64, word: &u64| (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    words.iter().fold(words.len() as u64, mix) | (1 << 63)
}

/// What entries are marked for.
const VIEW: u64 = 1;
const HOLD: u64 = 2;
const GROWTH: u64 = 3;
const GREEN: u64 = 4;
pub(crate) const READY: u64 = 5;

/// Physical memory was bound to a region of an array, and stays until the region is unbound or the array is gone.
pub(crate) fn bind(array: u64, region: &[u64], handle: u64) {
    let Some(process) = process().filter(|process| process.is_limited()) else { return };
    unbind(array, region);
    let mut ledger = process.ledger.take();
    if let Some(at) = ledger.find(handle) {
        ledger.entries()[at].kept += 1;
        let hold = Entry { key: hold(array, region), amount: handle, context: array, ..Entry::default() };
        let part = ledger.entries()[at].part;
        if !ledger.put(Entry { kind: IS_HOLD, ..hold }) {
            say_unnoted(process, part);
        }
    }
}

fn hold(array: u64, region: &[u64]) -> u64 {
    marked(&[HOLD, array, marked(region)])
}

/// A region of an array has no memory any more.
pub(crate) fn unbind(array: u64, region: &[u64]) {
    let Some(process) = process().filter(|process| process.is_limited()) else { return };
    let mut ledger = process.ledger.take();
    let Some(at) = ledger.find(hold(array, region)) else { return };
    let handle = ledger.remove(at).amount;
    drop(ledger);
    release(handle, || SUCCESS);
}

/// Notes a multicast object: as long as there are handles and mappings of it, it keeps what is bound to it.
pub(crate) fn note_object(object: u64) {
    let Some(process) = process().filter(|process| process.is_limited()) else { return };
    let mut ledger = process.ledger.take();
    if ledger.find(object).is_none() {
        ledger.put(Entry { key: object, kind: IS_OBJECT, ..Entry::default() });
    }
}

/// Physical memory was bound to a multicast object, in the place of its device.
pub(crate) fn bind_to_object(object: u64, offset: u64, handle: u64) {
    let Some(process) = process().filter(|process| process.is_limited()) else { return };
    // One that came from another process was not seen being made.
    note_object(object);
    let mut ledger = process.ledger.take();
    let Some(at) = ledger.find(handle) else { return };
    let part = ledger.entries()[at].part;
    drop(ledger);
    bind(object, &[u64::from(part), offset], handle);
}

/// A multicast object has no memory of a part at an offset any more.
pub(crate) fn unbind_from_object(object: u64, offset: u64, part: &Part) {
    if let Some(process) = process() {
        unbind(object, &[u64::from(process.number(part)), offset]);
    }
}

/// An array or an object is gone, and lets go of what was bound to it.
pub(crate) fn unbind_all(array: u64) {
    let Some(process) = process().filter(|process| process.is_limited()) else { return };
    take_all_of(process, array, |entry| {
        release(entry.amount, || SUCCESS);
    });
}

/// Lets a context take more or less for itself than before, under one of its limits. `grow` has the driver do so, `bytes` says how much it
/// takes then.
pub(crate) fn grow_context(
    part: &Part,
    limit: u64,
    (before, wanted): (u64, u64),
    grow: impl FnOnce() -> Code,
    bytes: impl FnOnce() -> u64,
) -> Code {
    let Some(process) = process() else { return grow() };
    let reserved = wanted.saturating_sub(before);
    if reserved > 0 && !take(process, part, reserved) {
        return OUT_OF_MEMORY;
    }
    point!(GrowthReserved);
    let answer = grow();
    point!(GrowthMade);
    let after = bytes();
    let context = current_context();
    let key = marked(&[GROWTH, context, limit]);
    let mut ledger = process.ledger.take();
    let known = ledger.find(key).map_or(0, |at| ledger.entries()[at].amount);
    // What it had from the start is no growth of it.
    let amount =
        if after >= before { known + (after - before) } else { known.saturating_sub(before - after) };
    let number = process.number(part);
    if !ledger.put(Entry { key, amount, context, part: number, ..Entry::default() }) {
        say_unnoted(process, number);
    }
    drop(ledger);
    point!(GrowthNoted);
    // Reserved was more than `known` so far.
    let (held, due) = (known.saturating_add(reserved), amount);
    if due > held {
        part.add(due - held);
    } else {
        part.give(held - due);
    }
    answer
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
        let part = ledger.entries()[at].part;
        if !ledger.put(Entry { key: mapping(address), amount: handle, ..Entry::default() }) {
            say_unnoted(process, part);
        }
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
