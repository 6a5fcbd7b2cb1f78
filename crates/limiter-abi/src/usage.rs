//! What the processes of a container use, in memory that they all share and the agent reads.
//!
//! Every process has a slot. What it holds stands in its slot alone, so whoever dies takes nothing with it that another would have to put
//! right: a slot whose owner is dead no longer counts.

use crate::point;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Where a container finds the memory for its use: a folder for each part, in it a file for each share.
pub const USAGE_FOLDER: &str = "/run/carve/usage";

/// How many processes of a container can use a part at a time.
pub const SLOTS: usize = 1_024;

const MAGIC: u64 = u64::from_le_bytes(*b"CARVEUSE");
const VERSION: u32 = 1;

/// How often a process asks again while others ask at the same time.
const PATIENCE: u32 = 2_000;

/// After how many times it looks whether one of those who ask is dead.
const OVERDUE: u32 = 20;

/// What the memory needs to know about the machine.
pub trait Host {
    /// Whether the owner of a slot lives.
    fn lives(&self, owner: Owner) -> bool;
    /// Waits a moment, longer the more often it was in vain.
    fn pause(&self, times: u32);
}

/// A process, by its number and the moment of its start, so that another with the same number is not taken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner(u64);

impl Owner {
    const PID_BITS: u32 = 22;
    /// Set while a process takes a free slot: whose pid namespace stands there is not said yet.
    const CLAIMING: u64 = 1 << 63;

    /// The process with a number, started so many ticks after the machine.
    pub fn new(pid: u32, start: u64) -> Self {
        let word = (start << Self::PID_BITS) | u64::from(pid & ((1 << Self::PID_BITS) - 1));
        Owner(word & !Self::CLAIMING)
    }

    /// As one word.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// Its number.
    pub fn pid(self) -> u32 {
        (self.0 & ((1 << Self::PID_BITS) - 1)) as u32
    }

    /// Whether this is a process, and one that has its slot.
    fn is_settled(self) -> bool {
        self.0 != 0 && self.0 & Self::CLAIMING == 0
    }

    /// When it was started.
    pub fn start(self) -> u64 {
        self.0 >> Self::PID_BITS
    }
}

/// What keeps the limiter from its work in a process. It says so once, where the agent reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// More processes than there are slots.
    Slots,
    /// No memory to note what was allocated, so it is not counted.
    Ledger,
    /// The driver gives no events, so time is not measured.
    Events,
    /// More contexts than are watched, so time in some is not limited.
    Contexts,
    /// One that a later limiter has.
    Other(u64),
}

impl Trouble {
    /// As it is written down.
    pub fn code(self) -> u64 {
        match self {
            Trouble::Slots => 1,
            Trouble::Ledger => 2,
            Trouble::Events => 3,
            Trouble::Contexts => 4,
            Trouble::Other(code) => code,
        }
    }

    /// From what was written down; zero is none.
    pub fn from_code(code: u64) -> Option<Self> {
        match code {
            0 => None,
            1 => Some(Trouble::Slots),
            2 => Some(Trouble::Ledger),
            3 => Some(Trouble::Events),
            4 => Some(Trouble::Contexts),
            code => Some(Trouble::Other(code)),
        }
    }
}

impl core::fmt::Display for Trouble {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Trouble::Slots => write!(f, "more than {SLOTS} processes use the share"),
            Trouble::Ledger => f.write_str("there is no memory to note allocations in"),
            Trouble::Events => f.write_str("the driver gives no events to measure time with"),
            Trouble::Contexts => f.write_str("a process has more contexts than are watched"),
            Trouble::Other(code) => write!(f, "trouble {code}, of a later limiter"),
        }
    }
}

/// What the whole container has in common.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Head {
    magic: AtomicU64,
    version: AtomicU32,
    /// Slots that were ever used; those behind them need not be looked at.
    reached: AtomicU32,
    /// When the container's work so far is paid for at its rate; see [`crate::Pace`].
    pub paid: AtomicU64,
    /// When the work that was started is expected to be over.
    pub busy: AtomicU64,
    /// Processes that found no slot.
    turned_away: AtomicU64,
    spare: [AtomicU64; 3],
}

/// What one process uses. Counters go on from owner to owner, so that their sum never falls.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Slot {
    owner: AtomicU64,
    /// The pid namespace in which the owner's number means something.
    pub namespace: AtomicU64,
    /// Bytes that it has.
    held: AtomicU64,
    /// Bytes that it is asking for.
    asked: AtomicU64,
    /// Times that memory was refused.
    pub denials: AtomicU64,
    /// Nanoseconds of GPU time.
    pub busy: AtomicU64,
    /// Nanoseconds in which it was kept from starting work.
    pub throttled: AtomicU64,
    /// Pieces of work started.
    pub launches: AtomicU64,
    /// When it last wanted to start work, in nanoseconds of the monotonic clock.
    pub wanted: AtomicU64,
    /// Nanoseconds of the longest piece of work of late.
    pub longest: AtomicU64,
    /// The code of a [`Trouble`]; zero for none.
    trouble: AtomicU64,
    /// Nanoseconds that two events of the driver show which have nothing between them, as this process found.
    pub nothing: AtomicU64,
    spare: [AtomicU64; 4],
}

const _: () = assert!(size_of::<Head>() == 64 && size_of::<Slot>() == 128);

/// The memory itself.
#[derive(Debug)]
#[repr(C)]
pub struct Region {
    /// What is common.
    pub head: Head,
    slots: [Slot; SLOTS],
}

/// Sums over a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Processes.
    pub processes: u32,
    /// Bytes held.
    pub held: u64,
    /// Times that memory was refused.
    pub denials: u64,
    /// Nanoseconds of GPU time.
    pub busy: u64,
    /// Nanoseconds kept from work.
    pub throttled: u64,
    /// Pieces of work.
    pub launches: u64,
    /// When one last wanted to start work.
    pub wanted: u64,
    /// The longest piece of work of late.
    pub longest: u64,
    /// One of the troubles that processes have.
    pub trouble: Option<Trouble>,
    /// Processes that found no slot.
    pub turned_away: u64,
}

/// Processes of which everything that they hold can be added up twice before it would be less to ask first.
const FEW: usize = 16;

impl Slot {
    /// Whether its owner, as it was found there, is settled and of a pid namespace.
    fn is_of(&self, found: u64, namespace: u64) -> bool {
        Owner(found).is_settled() && self.namespace.load(Ordering::Relaxed) == namespace
    }

    /// Takes a free slot. What namespace stands there is its last owner's, so until that is changed nobody may ask whether the new one
    /// lives; one that dies here leaves a slot that nobody uses again, with nothing in it.
    fn take_free(&self, me: Owner, namespace: u64) -> bool {
        let claiming = me.0 | Owner::CLAIMING;
        if self.owner.compare_exchange(0, claiming, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return false;
        }
        point!(ClaimTaken);
        self.namespace.store(namespace, Ordering::Relaxed);
        point!(ClaimNamed);
        self.owner.store(me.0, Ordering::SeqCst);
        point!(ClaimOwned);
        true
    }

    /// Nothing is held or asked for in it any more. Its owner does that, and at each step stands still for tests.
    fn clear(&self, [asked, held]: [fn(); 2]) {
        self.asked.store(0, Ordering::SeqCst);
        asked();
        self.held.store(0, Ordering::SeqCst);
        held();
        self.trouble.store(0, Ordering::Relaxed);
    }

    /// Its owner empties it and lets go of it.
    fn free(&self, me: Owner) {
        self.clear([|| point!(ReapAskedCleared), || point!(ReapHeldCleared)]);
        let _ = self.owner.compare_exchange(me.0, 0, Ordering::SeqCst, Ordering::Relaxed);
    }

    /// Says what keeps the limiter from its work here. The first trouble stays.
    pub fn say(&self, trouble: Trouble) {
        let _ = self.trouble.compare_exchange(0, trouble.code(), Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl Region {
    /// Bytes of the file.
    pub const SIZE: usize = size_of::<Region>();

    /// Makes fresh memory ready: the agent does, before a container has it.
    pub fn prepare(&self) {
        self.head.version.store(VERSION, Ordering::Relaxed);
        self.head.magic.store(MAGIC, Ordering::Release);
    }

    /// Whether this is such memory, of a version that is understood.
    pub fn is_ready(&self) -> bool {
        self.head.magic.load(Ordering::Acquire) == MAGIC
            && self.head.version.load(Ordering::Relaxed) >= VERSION
    }

    /// A slot.
    pub fn slot(&self, number: usize) -> Option<&Slot> {
        self.slots.get(number)
    }

    fn used(&self) -> &[Slot] {
        let reached = self.head.reached.load(Ordering::Acquire) as usize;
        &self.slots[..reached.min(SLOTS)]
    }

    /// Takes a slot for a process: a free one, or that of a dead one. None where all are taken.
    ///
    /// Whoever dies on the way leaves nothing that counts: nothing stands in free slots, and those of the dead are taken by their own
    /// pid namespace alone, where the next one sees whether the taker lives.
    pub fn claim(&self, me: Owner, namespace: u64, host: &impl Host) -> Option<usize> {
        let free = |slot: &Slot| {
            let found = slot.owner.load(Ordering::Acquire);
            if found == 0 {
                return slot.take_free(me, namespace);
            }
            slot.is_of(found, namespace)
                && !host.lives(Owner(found))
                && slot.owner.compare_exchange(found, me.0, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        };
        // A process that became another program by `exec` is still the owner of what it held before, which is gone.
        let before = |slot: &Slot| slot.is_of(me.0, namespace) && slot.owner.load(Ordering::Acquire) == me.0;
        let found = self.used().iter().position(before).or_else(|| self.slots.iter().position(free));
        let Some(number) = found else {
            self.head.turned_away.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        point!(ClaimInherited);
        self.head.reached.fetch_max(number as u32 + 1, Ordering::AcqRel);
        self.slots[number].clear([|| point!(ClaimAskedCleared), || point!(ClaimHeldCleared)]);
        // One of its threads may have been freeing that of another when it became another program.
        for slot in self.used().iter().skip(number + 1).filter(|slot| before(slot)) {
            slot.free(me);
        }
        Some(number)
    }

    /// Whether a slot is still a process's own.
    pub fn is_mine(&self, number: usize, me: Owner) -> bool {
        self.slot(number).is_some_and(|slot| slot.owner.load(Ordering::Relaxed) == me.0)
    }

    /// Frees slots of dead processes of a pid namespace; says whether there were any that held something. Who does so has them for a
    /// moment, so that nothing stands in a slot that is free.
    pub fn reap(&self, me: Owner, namespace: u64, host: &impl Host) -> bool {
        let mut freed = false;
        // Who has lost its own slot has none to keep another's with.
        for slot in self.used().iter().filter(|_| me.is_settled()) {
            let found = slot.owner.load(Ordering::Acquire);
            if found == 0 || !slot.is_of(found, namespace) || host.lives(Owner(found)) {
                continue;
            }
            // A container can write anything here.
            let held = slot.held.load(Ordering::Relaxed).saturating_add(slot.asked.load(Ordering::Relaxed));
            if slot.owner.compare_exchange(found, me.0, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                point!(ReapTaken);
                slot.free(me);
                freed |= held > 0;
            }
        }
        freed
    }

    /// Every process that has a slot, with the pid namespace in which its number means something.
    pub fn owners(&self) -> impl Iterator<Item = (Owner, u64)> + '_ {
        self.used().iter().filter_map(|slot| {
            let owner = slot.owner.load(Ordering::Acquire);
            Owner(owner).is_settled().then(|| (Owner(owner), slot.namespace.load(Ordering::Relaxed)))
        })
    }

    /// Bytes that processes hold, and that they hold or ask for.
    fn held(&self) -> (u64, u64) {
        let (mut held, mut all) = (0u64, 0u64);
        for slot in self.used() {
            if slot.owner.load(Ordering::SeqCst) == 0 {
                continue;
            }
            // In this order: what is granted is added to one before it is taken from the other, so it is never missed.
            let asked = slot.asked.load(Ordering::SeqCst);
            let has = slot.held.load(Ordering::SeqCst);
            held = held.saturating_add(has);
            all = all.saturating_add(has).saturating_add(asked);
        }
        (held, all)
    }

    /// Reserves bytes for a process before they are allocated, if the container has them left under its limit. A refusal is counted.
    pub fn reserve(&self, number: usize, bytes: u64, limit: u64, host: &impl Host) -> bool {
        let granted = self.reserve_if_left(number, bytes, limit, host);
        if let Some(mine) = self.slot(number).filter(|_| !granted) {
            point!(Refused);
            mine.denials.fetch_add(1, Ordering::Relaxed);
        }
        granted
    }

    /// The same for who can do without: nobody is refused anything.
    ///
    /// Everybody first says what they ask for and then looks at what all have and ask for. Of two who ask at once at least one sees
    /// the other, so together they never pass the limit; who was in the way only by asking is waited for.
    pub fn reserve_if_left(&self, number: usize, bytes: u64, limit: u64, host: &impl Host) -> bool {
        let Some(mine) = self.slot(number) else { return false };
        if self.reserve_at_once(mine, bytes, limit) {
            return true;
        }
        let (me, namespace) =
            (Owner(mine.owner.load(Ordering::Relaxed)), mine.namespace.load(Ordering::Relaxed));
        let mut looked = false;
        let mut times = 0;
        while bytes <= limit && times < PATIENCE {
            mine.asked.fetch_add(bytes, Ordering::SeqCst);
            point!(Asked);
            let (held, all) = self.held();
            if all <= limit {
                mine.held.fetch_add(bytes, Ordering::SeqCst);
                point!(Granted);
                mine.asked.fetch_sub(bytes, Ordering::SeqCst);
                return true;
            }
            mine.asked.fetch_sub(bytes, Ordering::SeqCst);
            point!(Withdrawn);
            if held.saturating_add(bytes) > limit {
                if looked || !self.reap(me, namespace, host) {
                    break;
                }
                looked = true;
            } else if times == OVERDUE {
                // Nobody asks for so long: it may have died while it asked.
                self.reap(me, namespace, host);
            }
            times += 1;
            host.pause(times);
        }
        false
    }

    /// The same in one step, for little where much is left: it is taken without asking and put back if that was wrong. Others could be
    /// refused for what is put back a moment later, but not before a great many do so at once.
    fn reserve_at_once(&self, mine: &Slot, bytes: u64, limit: u64) -> bool {
        let much = limit - limit / 16;
        if self.used().len() > FEW || bytes > limit / 1024 || self.held().1.saturating_add(bytes) > much {
            return false;
        }
        mine.held.fetch_add(bytes, Ordering::SeqCst);
        point!(TakenAtOnce);
        let fits = self.held().1 <= limit;
        if !fits {
            mine.held.fetch_sub(bytes, Ordering::SeqCst);
        }
        fits
    }

    /// Adds bytes that are there already and can not be refused, such as those of a context.
    pub fn add(&self, number: usize, bytes: u64) {
        if let Some(mine) = self.slot(number) {
            mine.held.fetch_add(bytes, Ordering::SeqCst);
            point!(Added);
        }
    }

    /// Gives bytes back.
    pub fn release(&self, number: usize, bytes: u64) {
        let Some(mine) = self.slot(number) else { return };
        let take = |held: u64| Some(held.saturating_sub(bytes));
        let _ = mine.held.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take);
        point!(Released);
    }

    /// Sums of everything.
    pub fn usage(&self) -> Usage {
        let turned_away = self.head.turned_away.load(Ordering::Relaxed);
        let mut sum = Usage { turned_away, ..Usage::default() };
        for slot in self.used() {
            if Owner(slot.owner.load(Ordering::Acquire)).is_settled() {
                sum.processes += 1;
                sum.held = sum.held.saturating_add(slot.held.load(Ordering::Relaxed));
                sum.longest = sum.longest.max(slot.longest.load(Ordering::Relaxed));
                sum.trouble = sum.trouble.or(Trouble::from_code(slot.trouble.load(Ordering::Relaxed)));
            }
            sum.denials = sum.denials.wrapping_add(slot.denials.load(Ordering::Relaxed));
            sum.busy = sum.busy.wrapping_add(slot.busy.load(Ordering::Relaxed));
            sum.throttled = sum.throttled.wrapping_add(slot.throttled.load(Ordering::Relaxed));
            sum.launches = sum.launches.wrapping_add(slot.launches.load(Ordering::Relaxed));
            sum.wanted = sum.wanted.max(slot.wanted.load(Ordering::Relaxed));
        }
        if turned_away > 0 {
            sum.trouble = sum.trouble.or(Some(Trouble::Slots));
        }
        sum
    }
}

#[cfg(test)]
mod tests;
