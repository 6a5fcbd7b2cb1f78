//! What the limiter knows about the process that it is in: who it is, which parts it may use, and how much of them.
//!
//! It lies in memory that the kernel empties in a child after `fork`, so a child begins anew by itself.

use crate::graph_level::Level;
use crate::ledger::Ledger;
use crate::lock::Lock;
use crate::pages::fresh;
use crate::pools::{POOLS, Pool};
use crate::work::Work;
use crate::{elf, files};
use carve_limiter_abi::{Host, Limits, Owner, Rate, Region, Trouble, Turn, TurnCell};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use rustix::mm::Advice;

/// Parts that one container can have.
pub(crate) const PARTS: usize = 16;
/// Shares of one part that one container can have.
pub(crate) const SHARES: usize = 4;
/// Devices that CUDA can show to a process.
const DEVICES: usize = 64;

/// Everything about this process. Zeros are a process that was not looked at yet.
#[repr(C)]
pub(crate) struct Process {
    stage: AtomicU32,
    /// How many parts are limited.
    count: AtomicU32,
    /// Whether time of any of them is.
    timed: AtomicU32,
    owner: AtomicU64,
    namespace: AtomicU64,
    pub(crate) parts: [Part; PARTS],
    /// Which part each device of CUDA is: one more than its number, or [`NO_PART`].
    devices: [AtomicU32; DEVICES],
    /// Allocations.
    pub(crate) ledger: Lock<Ledger>,
    /// The driver's pools of memory.
    pub(crate) pools: [Pool; POOLS],
    pub(crate) pools_lock: Lock<()>,
    /// One more than the number of the pool that the only device allocates from; zero where there are several, or nobody has asked yet.
    pub(crate) only_pool: AtomicU32,
    /// How many devices CUDA shows, once it was asked.
    device_count: AtomicU32,
    /// Work in flight.
    pub(crate) work: Lock<Work>,
    /// Stream captures that go on.
    pub(crate) captures: AtomicU32,
    /// Whether graphs may allocate: one, or zero.
    pub(crate) graphs_allocate: AtomicU32,
}

/// A GPU or MIG device of which this container has a share.
#[repr(C)]
pub(crate) struct Part {
    uuid: [AtomicU64; 2],
    memory: AtomicU64,
    compute: AtomicU32,
    /// Whether it runs without limits where they can not be held.
    pass: AtomicU32,
    /// Whether MPS holds its time, and it is only counted.
    mps: AtomicU32,
    context: AtomicU64,
    /// The pool that its device allocates from, once it was asked.
    pub(crate) pool: AtomicUsize,
    /// What graphs have.
    pub(crate) graphs: Lock<Level>,
    region: AtomicPtr<Region>,
    slot: AtomicUsize,
    turns: [AtomicPtr<TurnCell>; SHARES],
}

const LOOKING: u32 = 1;
const KNOWN: u32 = 2;
const NO_PART: u32 = u32::MAX;

static PROCESS: AtomicPtr<Process> = AtomicPtr::new(core::ptr::null_mut());

/// This process, looked at on the first call.
#[inline]
pub(crate) fn process() -> Option<&'static Process> {
    let mut found = PROCESS.load(Ordering::Acquire);
    if found.is_null() {
        found = map()?;
    }
    // SAFETY: it was mapped for good, and zeros are a `Process`.
    let process = unsafe { &*found };
    if process.stage.load(Ordering::Acquire) != KNOWN {
        process.look();
    }
    Some(process)
}

/// This process, if it was looked at before: for what happens all the time.
#[inline]
pub(crate) fn known_process() -> Option<&'static Process> {
    // SAFETY: it was mapped for good, and zeros are a `Process`.
    let process = unsafe { PROCESS.load(Ordering::Acquire).as_ref() };
    process.filter(|process| process.stage.load(Ordering::Acquire) == KNOWN)
}

/// Memory for the process, emptied by the kernel in a child.
#[cold]
fn map() -> Option<*mut Process> {
    let new = fresh(size_of::<Process>())?;
    // SAFETY: the memory is ours. A kernel that does not know this lets a child go on with its parent's slot.
    let _ = unsafe { rustix::mm::madvise(new, size_of::<Process>(), Advice::LinuxWipeOnFork) };
    let new = new.cast::<Process>();
    match PROCESS.compare_exchange(core::ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(new),
        Err(other) => {
            // SAFETY: another thread was quicker, and nobody knows of this one.
            let _ = unsafe { rustix::mm::munmap(new.cast(), size_of::<Process>()) };
            Some(other)
        }
    }
}

/// Who lives, and how long a moment is.
pub(crate) struct Linux;

impl Host for Linux {
    fn lives(&self, owner: Owner) -> bool {
        match files::start_of(Some(owner.pid())) {
            Some(start) => Owner::new(owner.pid(), start) == owner,
            None => files::is_hidden(owner.pid()),
        }
    }

    fn pause(&self, times: u32) {
        crate::clock::nap(u64::from(times.min(50)) * 2_000);
    }
}

impl Process {
    fn look(&self) {
        let begun = self.stage.compare_exchange(0, LOOKING, Ordering::AcqRel, Ordering::Acquire);
        if begun.is_err() {
            while self.stage.load(Ordering::Acquire) == LOOKING {
                crate::clock::nap(20_000);
            }
            return;
        }
        #[cfg(feature = "fault-points")]
        crate::faults::arm();
        let pid = rustix::process::getpid().as_raw_nonzero().get() as u32;
        let owner = Owner::new(pid, files::start_of(None).unwrap_or(0));
        let namespace = files::pid_namespace();
        self.owner.store(owner.to_bits(), Ordering::Relaxed);
        self.namespace.store(namespace, Ordering::Relaxed);
        let ourselves = Process::look as *const () as usize;
        let mut folder = files::Path::new(b"");
        elf::each(|library| {
            let found = library.contains(ourselves);
            if found {
                folder = files::Path::new(library.path()).parent();
            }
            found
        });
        files::shares(&folder, |share| self.add(share, owner, namespace));
        self.stage.store(KNOWN, Ordering::Release);
    }

    /// A share that was found.
    fn add(&self, share: &files::Share, owner: Owner, namespace: u64) {
        let count = self.count.load(Ordering::Relaxed) as usize;
        let uuid = [0, 8].map(|at| u64::from_le_bytes(share.uuid[at..at + 8].try_into().unwrap_or_default()));
        let same = |part: &&Part| {
            part.uuid[0].load(Ordering::Relaxed) == uuid[0] && part.uuid[1].load(Ordering::Relaxed) == uuid[1]
        };
        let known = self.parts[..count.min(PARTS)].iter().find(same);
        let part = match known {
            Some(part) => part,
            None => {
                let Some(part) = self.parts.get(count) else { return };
                part.uuid[0].store(uuid[0], Ordering::Relaxed);
                part.uuid[1].store(uuid[1], Ordering::Relaxed);
                self.count.store(count as u32 + 1, Ordering::Relaxed);
                part
            }
        };
        part.join(share, owner, namespace);
        if part.is_timed() || part.is_refused() {
            self.timed.store(1, Ordering::Relaxed);
        }
    }

    /// Whether work has to be looked at.
    pub(crate) fn is_timed(&self) -> bool {
        self.timed.load(Ordering::Relaxed) != 0
    }

    /// Whether anything is limited at all.
    pub(crate) fn is_limited(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// The part that a device of CUDA is, if it is limited.
    pub(crate) fn part(&self, device: i32) -> Option<&Part> {
        if !self.is_limited() {
            return None;
        }
        let place = self.devices.get(usize::try_from(device).ok()?)?;
        match place.load(Ordering::Relaxed) {
            NO_PART => None,
            0 => {
                let number = self.identify(device)?;
                let word = number.map_or(NO_PART, |number| number as u32 + 1);
                place.store(word, Ordering::Relaxed);
                number.and_then(|number| self.parts.get(number))
            }
            number => self.parts.get(number as usize - 1),
        }
    }

    /// Which part a device is; nothing at all while the driver does not tell.
    fn identify(&self, device: i32) -> Option<Option<usize>> {
        let mut uuid = [0u8; 16];
        // SAFETY: the driver writes 16 bytes.
        let told = unsafe {
            match crate::driver::own::cuDeviceGetUuid_v2::call(&mut uuid, device) {
                crate::driver::NOT_FOUND => crate::driver::own::cuDeviceGetUuid::call(&mut uuid, device),
                told => told,
            }
        };
        if told != crate::driver::SUCCESS {
            return None;
        }
        Some(self.part_of_uuid(&uuid))
    }

    /// The part with a UUID.
    pub(crate) fn part_of_uuid(&self, uuid: &[u8; 16]) -> Option<usize> {
        let words = [0, 8].map(|at| u64::from_le_bytes(uuid[at..at + 8].try_into().unwrap_or_default()));
        self.parts[..self.part_count()].iter().position(|part| {
            part.uuid[0].load(Ordering::Relaxed) == words[0]
                && part.uuid[1].load(Ordering::Relaxed) == words[1]
        })
    }

    /// The part of the device whose context this thread uses.
    pub(crate) fn current(&self) -> Option<&Part> {
        if !self.is_limited() {
            return None;
        }
        // Where there is one device, it is the current one: a question less before every allocation.
        if self.device_count() == 1 {
            return self.part(0);
        }
        let mut device = 0;
        // SAFETY: the driver writes one number.
        let told = unsafe { crate::driver::own::cuCtxGetDevice::call(&mut device) };
        if told == crate::driver::SUCCESS { self.part(device) } else { None }
    }

    /// How many devices CUDA shows; none while the driver does not tell.
    pub(crate) fn device_count(&self) -> i32 {
        let known = self.device_count.load(Ordering::Relaxed);
        if known > 0 {
            return known as i32;
        }
        let mut count = 0;
        // SAFETY: the driver writes one number.
        if unsafe { crate::driver::own::cuDeviceGetCount::call(&mut count) } != crate::driver::SUCCESS {
            return 0;
        }
        self.device_count.store(count.max(0) as u32, Ordering::Relaxed);
        count
    }

    /// How many parts are limited.
    pub(crate) fn part_count(&self) -> usize {
        (self.count.load(Ordering::Relaxed) as usize).min(PARTS)
    }

    /// The device of CUDA that a part is, once one was looked for.
    pub(crate) fn device_of(&self, number: usize) -> Option<i32> {
        let word = u32::try_from(number).ok()? + 1;
        self.devices
            .iter()
            .position(|place| place.load(Ordering::Relaxed) == word)
            .map(|device| device as i32)
    }

    /// The number of one of its parts.
    pub(crate) fn number(&self, part: &Part) -> u32 {
        self.parts.iter().position(|one| core::ptr::eq(one, part)).unwrap_or(0) as u32
    }
}

impl Part {
    fn join(&self, share: &files::Share, owner: Owner, namespace: u64) {
        let Limits { memory, compute, context, pass, mps, .. } = share.limits;
        self.memory.fetch_add(memory, Ordering::Relaxed);
        self.compute.fetch_add(compute, Ordering::Relaxed);
        self.context.fetch_max(context, Ordering::Relaxed);
        self.pass.fetch_or(u32::from(pass), Ordering::Relaxed);
        self.mps.fetch_or(u32::from(mps), Ordering::Relaxed);
        if let Some(free) = self.turns.iter().find(|turn| turn.load(Ordering::Relaxed).is_null()) {
            free.store(share.turn.cast_mut(), Ordering::Relaxed);
        }
        // One share's memory is enough to count in, as long as all processes take the same: they find them in the same order.
        if !self.region.load(Ordering::Relaxed).is_null() || share.region.is_null() {
            return;
        }
        // SAFETY: it was mapped with the size of a region, for good.
        let region = unsafe { &*share.region };
        if region.is_ready()
            && let Some(slot) = region.claim(owner, namespace, &Linux)
        {
            self.slot.store(slot, Ordering::Relaxed);
            self.region.store(share.region.cast_mut(), Ordering::Relaxed);
        }
    }

    /// Where its use is counted; none where that was not possible.
    pub(crate) fn region(&self) -> Option<(&'static Region, usize)> {
        let region = self.region.load(Ordering::Relaxed);
        // SAFETY: it was mapped for good.
        (!region.is_null()).then(|| (unsafe { &*region }, self.slot.load(Ordering::Relaxed)))
    }

    /// Whether nothing may happen here, because limits can not be held and must be.
    pub(crate) fn is_refused(&self) -> bool {
        self.region.load(Ordering::Relaxed).is_null() && self.pass.load(Ordering::Relaxed) == 0
    }

    /// Says what keeps its limits from being held. Whether the program may go on all the same.
    pub(crate) fn goes_on_after(&self, trouble: Trouble) -> bool {
        if let Some(slot) = self.region().and_then(|(region, slot)| region.slot(slot)) {
            slot.say(trouble);
        }
        self.pass.load(Ordering::Relaxed) != 0
    }

    /// Bytes of the share.
    pub(crate) fn memory(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }

    /// Bytes that its processes have beyond what they count, as whoever watches them says.
    pub(crate) fn overhead(&self) -> u64 {
        let cells =
            self.turns.iter().map(|cell| cell.load(Ordering::Relaxed)).take_while(|cell| !cell.is_null());
        // SAFETY: the file of limits was mapped for good, with room for it.
        cells.fold(0, |sum, cell| sum.saturating_add(unsafe { &*cell }.overhead()))
    }

    /// Bytes of the share that can be allocated.
    pub(crate) fn room(&self) -> u64 {
        self.memory().saturating_sub(self.overhead())
    }

    /// Bytes that a context takes.
    pub(crate) fn context(&self) -> u64 {
        self.context.load(Ordering::Relaxed)
    }

    /// Whether time is limited; lent time or not.
    pub(crate) fn is_timed(&self) -> bool {
        self.compute.load(Ordering::Relaxed) != 0
    }

    /// The share of time that counts now, and the turns. No rate where it is not limited at the moment, or held by MPS.
    pub(crate) fn rate(&self, now: u64) -> Option<(Rate, [Turn; SHARES])> {
        if self.mps.load(Ordering::Relaxed) != 0 {
            return None;
        }
        let compute = self.compute.load(Ordering::Relaxed);
        let mut turns = [Turn::default(); SHARES];
        let mut lent = 0u32;
        for (cell, turn) in self.turns.iter().zip(&mut turns) {
            let cell = cell.load(Ordering::Relaxed);
            if cell.is_null() {
                break;
            }
            // SAFETY: the file of limits was mapped for good, with room for a turn.
            let said = unsafe { &*cell }.get().unwrap_or_default();
            if now.saturating_sub(said.said) < Turn::FRESH {
                *turn = said;
                lent = lent.saturating_add(said.lent);
            }
        }
        let rate = compute.saturating_add(lent);
        (rate < Rate::ALL.0).then_some((Rate(rate), turns))
    }
}
