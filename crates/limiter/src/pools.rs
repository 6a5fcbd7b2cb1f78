//! What the driver's memory pools have reserved: it is counted before they grow, and given back when they shrink.
//!
//! What a pool has may lie in pieces, so it can grow at any allocation, by a [`STEP`] where the allocation is small. A large one is therefore
//! reserved first as if the pool had nothing. For small ones a few steps beyond what the pool has are reserved once and kept: until so many of
//! them came that it could grow by more, nobody has to look. Where there is no step left to keep, every allocation is looked at.

use crate::clock::nap;
use crate::driver::own::{cuDeviceGetDefaultMemPool, cuMemPoolGetAttribute, cuMemPoolTrimTo};
use crate::driver::{Code, OUT_OF_MEMORY, SUCCESS};
use crate::process::{Part, Process};
use carve_limiter_abi::{Trouble, point};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Pools that a process can have.
pub(crate) const POOLS: usize = 64;
/// What pools grow by.
pub(crate) const STEP: u64 = 32 << 20;
/// What allocations take multiples of.
const GRAIN: u64 = 512;
/// How often others that allocate at this moment are waited for, at first awake and then asleep, because a busy machine may keep them from running;
/// one that does not come back in a fifth of a second was ended inside the driver.
const AWAKE: u32 = 2_000;
const ASLEEP: u32 = 2_000;
const NAP: u64 = 100_000;

const RESERVED_NOW: i32 = 5;
const USED_NOW: i32 = 7;

/// Where no pool is: it was destroyed, and what was allocated from it is still there.
const GONE: usize = 1;

/// A pool. Zeros are none.
#[repr(C)]
pub(crate) struct Pool {
    handle: AtomicUsize,
    /// One more than the number of its part, or zero for one that takes nothing that is limited.
    part: AtomicU32,
    /// What can be allocated without a look, in grains, and in the lowest bits how many threads do so now.
    spare: AtomicU64,
    /// Bytes that are counted for it. Changed only under the lock.
    counted: AtomicU64,
}

/// Bits for threads in `spare`.
const THREADS: u32 = 16;
const A_THREAD: u64 = 1;
const ALL_THREADS: u64 = (1 << THREADS) - 1;

/// What is larger is always looked at. Of smaller ones at least this much fits into what a pool grows by, and for each step that is kept this much may
/// be allocated without a look.
const SMALL: u64 = STEP / 2;
/// A step is kept where it is no more than this part of the limit, and more of them where they are as much less.
const LITTLE: u64 = 16;
const LESS: u64 = 64;
const STEPS: u64 = 4;

/// What the driver tells about a pool, if it does.
fn ask(pool: usize, attribute: i32) -> Option<u64> {
    let mut value = 0;
    // SAFETY: the driver writes one number for these attributes.
    let told = unsafe { cuMemPoolGetAttribute::call(pool, attribute, &mut value) };
    (told == SUCCESS).then_some(value)
}

fn to_grains(bytes: u64) -> u64 {
    bytes.div_ceil(GRAIN)
}

impl Pool {
    /// Takes from what it has to spare, until [`Pool::leave`].
    #[inline]
    fn enter(&self, grains: u64) -> bool {
        let mut word = self.spare.load(Ordering::Relaxed);
        while grains <= word >> THREADS && word & ALL_THREADS < ALL_THREADS {
            let new = word - (grains << THREADS) + A_THREAD;
            match self.spare.compare_exchange_weak(word, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(found) => word = found,
            }
        }
        false
    }

    #[inline]
    pub(crate) fn leave(&self) {
        // Whoever was not waited for any longer is not counted any more.
        let fewer = |word: u64| (word & ALL_THREADS != 0).then(|| word - A_THREAD);
        let _ = self.spare.fetch_update(Ordering::Release, Ordering::Relaxed, fewer);
    }

    /// Lets nobody allocate without a look, and waits for those who do.
    fn close(&self) {
        self.spare.fetch_and(ALL_THREADS, Ordering::Acquire);
        for times in 0..AWAKE + ASLEEP {
            if self.spare.load(Ordering::Acquire) & ALL_THREADS == 0 {
                return;
            }
            if times < AWAKE {
                rustix::thread::sched_yield();
            } else {
                nap(NAP);
            }
        }
        self.spare.store(0, Ordering::Release);
    }

    fn counted(&self) -> u64 {
        self.counted.load(Ordering::Relaxed)
    }

    /// Bytes that it has reserved. One that does not tell is taken to have what it had.
    fn reserved(&self) -> u64 {
        ask(self.handle.load(Ordering::Relaxed), RESERVED_NOW).unwrap_or_else(|| self.counted())
    }

    /// Bytes of it that are in use: all where it does not tell.
    fn used(&self) -> u64 {
        ask(self.handle.load(Ordering::Relaxed), USED_NOW).unwrap_or(u64::MAX)
    }

    /// Keeps steps beyond what it has now, where there are any left, and lets so much be allocated without a look.
    fn open(&self, part: &Part, now: u64) {
        let steps = (part.memory() / LESS / STEP).clamp(1, STEPS);
        let (counted, wanted) = (self.counted(), now.saturating_add(steps * STEP));
        let keeps = part.memory() / LITTLE >= STEP
            && (counted >= wanted || part.take_if_left(wanted - counted.min(wanted)));
        if !keeps {
            return self.settle(part, now);
        }
        point!(PoolKept);
        part.give(counted.saturating_sub(wanted));
        self.counted.store(wanted, Ordering::Relaxed);
        self.spare.fetch_add((steps * SMALL / GRAIN) << THREADS, Ordering::Release);
    }

    /// Has so much counted as it could have after it has grown by some bytes more.
    fn reserve(&self, part: &Part, more: u64, take: impl FnOnce(u64) -> bool) -> bool {
        let wanted = self.reserved().saturating_add(more);
        let counted = self.counted();
        let reserved = counted >= wanted || take(wanted - counted);
        if reserved {
            point!(PoolReserved);
            part.give(counted.saturating_sub(wanted));
            self.counted.store(wanted, Ordering::Relaxed);
        }
        reserved
    }

    fn part<'a>(&self, process: &'a Process) -> Option<&'a Part> {
        let number = self.part.load(Ordering::Relaxed) as usize;
        process.parts.get(number.checked_sub(1)?)
    }

    /// Counts what it has now.
    fn settle(&self, part: &Part, now: u64) {
        let before = self.counted.swap(now, Ordering::Relaxed);
        point!(PoolSettling);
        if now > before {
            part.add(now - before);
        } else {
            part.give(before - now);
        }
    }
}

/// Takes from the pool of the only device, if there is one, it has enough to spare, and no capture goes on.
#[inline]
pub(crate) fn enter_only_pool(process: &Process, bytes: u64) -> Option<&Pool> {
    let number = process.only_pool.load(Ordering::Relaxed) as usize;
    let pool = process.pools.get(number.wrapping_sub(1))?;
    let can = bytes <= SMALL && process.captures.load(Ordering::Relaxed) == 0;
    (can && pool.enter(to_grains(bytes))).then_some(pool)
}

/// Notes that a pool is the one that the only device allocates from, if it still is.
pub(crate) fn note_only_pool(process: &Process, part: Option<&Part>, handle: usize) {
    let _held = process.pools_lock.take();
    let still = part.is_some_and(|part| part.pool.load(Ordering::Relaxed) == handle);
    let number = process.pools.iter().position(|pool| pool.handle.load(Ordering::Relaxed) == handle);
    // One that takes nothing that is limited has nothing to spare, so it is never entered.
    let word = number.filter(|_| still).map_or(0, |number| number as u32 + 1);
    process.only_pool.store(word, Ordering::Relaxed);
}

fn find(process: &Process, handle: usize) -> Option<&Pool> {
    process.pools.iter().find(|pool| pool.handle.load(Ordering::Acquire) == handle)
}

/// Notes a pool and whose memory it takes.
pub(crate) fn note<'a>(process: &'a Process, handle: usize, part: Option<&Part>) -> Option<&'a Pool> {
    let _held = process.pools_lock.take();
    if let Some(known) = find(process, handle) {
        return Some(known);
    }
    let free = find(process, 0)?;
    free.part.store(part.map_or(0, |part| process.number(part) + 1), Ordering::Relaxed);
    free.spare.store(0, Ordering::Relaxed);
    free.counted.store(0, Ordering::Relaxed);
    free.handle.store(handle, Ordering::Release);
    Some(free)
}

/// Notes a pool that nobody saw being made: one that a device has from the start, or else one of the current device.
fn note_unseen<'a>(process: &'a Process, handle: usize, current: Option<&Part>) -> Option<&'a Pool> {
    let mut owner = None;
    for device in 0..process.device_count() {
        let mut own = 0;
        // SAFETY: the driver writes one handle.
        if unsafe { cuDeviceGetDefaultMemPool::call(&mut own, device) } == SUCCESS && own == handle {
            owner = Some(device);
        }
    }
    note(process, handle, owner.map_or(current, |device| process.part(device)))
}

/// Allocates from a pool. What counts is what the pool has reserved, not what is in use of it.
pub(crate) fn allocate_from_pool(
    process: &Process,
    current: Option<&Part>,
    handle: usize,
    bytes: u64,
    allocate: impl FnOnce() -> Code,
    undo: impl FnOnce(),
) -> Code {
    let Some(pool) = find(process, handle).or_else(|| note_unseen(process, handle, current)) else {
        return match current {
            Some(part) if !part.goes_on_after(Trouble::Ledger) => OUT_OF_MEMORY,
            _ => allocate(),
        };
    };
    let Some(part) = pool.part(process) else { return allocate() };
    if bytes <= SMALL && pool.enter(to_grains(bytes)) {
        point!(PoolEntered);
        let answer = allocate();
        pool.leave();
        return answer;
    }
    allocate_with_a_look(process, part, pool, bytes, allocate, undo)
}

#[cold]
fn allocate_with_a_look(
    process: &Process,
    part: &Part,
    pool: &Pool,
    bytes: u64,
    allocate: impl FnOnce() -> Code,
    undo: impl FnOnce(),
) -> Code {
    let _held = process.pools_lock.take();
    let handle = pool.handle.load(Ordering::Relaxed);
    pool.close();
    let most = bytes.checked_next_multiple_of(STEP).unwrap_or(u64::MAX);
    if !pool.reserve(part, most, |bytes| part.take_if_left(bytes)) {
        // What nobody uses goes back first: others of the container may have taken what it could have grown by.
        // SAFETY: a pool that the program allocates from.
        unsafe { cuMemPoolTrimTo::call(handle, 0) };
        // And what other pools keep without having it.
        settle_all(process, Pool::reserved);
        let has = || pool.reserved().saturating_sub(pool.used()) >= bytes;
        let can = pool.reserve(part, most, |bytes| part.take_if_left(bytes)) || (bytes <= SMALL && has());
        // Asked for once more, so that the refusal is counted.
        if !can && !pool.reserve(part, most, |bytes| part.take(bytes)) {
            pool.settle(part, pool.reserved());
            return OUT_OF_MEMORY;
        }
    }
    let answer = allocate();
    point!(PoolGrown);
    let mut now = pool.reserved();
    let mut more = now.saturating_sub(pool.counted());
    // It grew although it seemed to have enough.
    let refused = more > 0 && !part.take(more);
    if refused {
        if answer == SUCCESS {
            undo();
        }
        // SAFETY: a pool that the program allocates from.
        unsafe { cuMemPoolTrimTo::call(handle, 0) };
        // What the driver does not give back before the stream has come so far counts all the same.
        now = pool.reserved();
        more = now.saturating_sub(pool.counted());
        part.add(more);
    }
    pool.counted.fetch_add(more, Ordering::Relaxed);
    pool.open(part, now);
    if refused { OUT_OF_MEMORY } else { answer }
}

/// Looks at pools again: the driver gives memory back when it likes to.
pub(crate) fn look_at_pools(process: &Process) {
    look(process, Pool::reserved);
}

/// The same after the end of a context. One that does not tell may have gone with it.
pub(crate) fn look_at_pools_that_may_be_gone(process: &Process) {
    look(process, |pool| ask(pool.handle.load(Ordering::Relaxed), RESERVED_NOW).unwrap_or(0));
}

fn look(process: &Process, reserved: impl Fn(&Pool) -> u64) {
    let _held = process.pools_lock.take();
    settle_all(process, reserved);
}

/// Counts what pools have now. The lock is held.
fn settle_all(process: &Process, reserved: impl Fn(&Pool) -> u64) {
    for pool in &process.pools {
        let handle = pool.handle.load(Ordering::Relaxed);
        if handle > GONE
            && let Some(part) = pool.part(process)
        {
            pool.close();
            pool.settle(part, reserved(pool));
        }
    }
}

/// Destroys a pool. What is still allocated from it stays until it is freed, and whose memory that was is not known then: it counts until
/// the process ends.
pub(crate) fn destroy_pool(process: &Process, handle: usize, destroy: impl FnOnce() -> Code) -> Code {
    let _held = process.pools_lock.take();
    let Some(pool) = find(process, handle) else { return destroy() };
    let Some(part) = pool.part(process) else {
        pool.handle.store(0, Ordering::Release);
        return destroy();
    };
    pool.close();
    let used = ask(handle, USED_NOW).unwrap_or(pool.counted());
    let answer = destroy();
    if answer != SUCCESS {
        return answer;
    }
    point!(PoolDestroyed);
    pool.settle(part, used);
    pool.handle.store(0, Ordering::Release);
    if used > 0 {
        let same = |other: &&Pool| {
            other.handle.load(Ordering::Relaxed) == GONE
                && other.part.load(Ordering::Relaxed) == pool.part.load(Ordering::Relaxed)
        };
        match process.pools.iter().find(same) {
            Some(gone) => {
                gone.counted.fetch_add(used, Ordering::Relaxed);
            }
            None => pool.handle.store(GONE, Ordering::Release),
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::{GRAIN, Pool, THREADS};
    use core::sync::atomic::Ordering;
    extern crate std;

    /// A pool whose last look showed so much to spare.
    fn pool(bytes: u64) -> Pool {
        let pool = Pool {
            handle: Default::default(),
            part: Default::default(),
            spare: Default::default(),
            counted: Default::default(),
        };
        pool.spare.store((bytes / GRAIN) << THREADS, Ordering::Relaxed);
        pool
    }

    #[test]
    fn no_more_is_handed_out_than_there_is_to_spare() {
        let pool = pool(100 * GRAIN);
        let got = std::sync::atomic::AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    while pool.enter(3) {
                        got.fetch_add(3, Ordering::Relaxed);
                        pool.leave();
                    }
                });
            }
        });
        assert_eq!(got.load(Ordering::Relaxed), 99);
        assert!(pool.enter(1) && !pool.enter(1));
    }

    #[test]
    fn whoever_closes_a_pool_waits_for_those_who_allocate() {
        let pool = pool(10 * GRAIN);
        assert!(pool.enter(1));
        let left = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(5));
                left.store(true, Ordering::SeqCst);
                pool.leave();
            });
            pool.close();
            assert!(left.load(Ordering::SeqCst), "somebody was still allocating");
        });
        assert!(!pool.enter(1), "it is closed");
    }

    #[test]
    fn whoever_comes_back_too_late_leaves_nothing_behind() {
        let pool = pool(10 * GRAIN);
        assert!(pool.enter(1));
        pool.close();
        pool.leave();
        assert!(!pool.enter(1), "it is closed");
    }
}
