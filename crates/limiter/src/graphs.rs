//! Memory that graphs allocate when they run: what a graph asks for is noted when it is made ready, and reserved before it is launched.
//!
//! The driver takes such memory at a launch or an upload, and keeps it until it is told to trim it. What a graph asks for can be read of its
//! nodes. What can not be read is counted right after the launch, and who has too much then starts no such graph until memory came back.

use crate::capture::Relaxed;
use crate::clock::nap;
use crate::driver::own::{cuCtxGetDevice, cuDeviceGetGraphMemAttribute, cuDeviceGraphMemTrim};
use crate::driver::{Code, OUT_OF_MEMORY, SUCCESS};
use crate::graph_level::{Ask, Level};
use crate::graph_walk::Demand;
use crate::ledger::{Entry, IS_GRAPH, may_be_noted};
use crate::memory::{READY, marked};
use crate::pools::{STEP, look_at_pools};
use crate::process::{PARTS, Part, Process};
use carve_limiter_abi::{Trouble, point};
use core::sync::atomic::Ordering;

const RESERVED_NOW: i32 = 2;
/// What is noted of a graph that asks for something that could not be read.
const UNKNOWN: u64 = u64::MAX;
/// How often launches of other threads are waited for that are only on their way.
const PATIENCE: u32 = 2_000;

/// What a graph asks for of each part that it asks anything of; [`UNKNOWN`] where that is not known.
pub(crate) type Asks = [Option<u64>; PARTS];

/// When a graph was last launched, for each part; see [`Ask::launched`].
pub(crate) type Marks = [u32; PARTS];

/// What is to be noted of a graph. Memory is taken in steps, as by pools.
pub(crate) fn asks(process: &Process, demand: &Demand) -> Asks {
    let mut asks = demand
        .bytes
        .map(|bytes| (bytes > 0).then(|| bytes.checked_next_multiple_of(STEP).unwrap_or(u64::MAX - 1)));
    let mut device = 0;
    // SAFETY: the driver writes one number.
    if demand.unknown && unsafe { cuCtxGetDevice::call(&mut device) } == SUCCESS {
        let number = process.part(device).map(|part| process.number(part) as usize);
        if let Some(ask) = number.and_then(|number| asks.get_mut(number)) {
            *ask = Some(UNKNOWN);
        }
    }
    asks
}

fn key(ready: usize, number: usize) -> u64 {
    marked(&[READY, ready as u64, number as u64])
}

/// What was noted of a graph that is ready. Nothing is locked for one that asks for nothing.
pub(crate) fn noted(process: &Process, ready: usize) -> Asks {
    let mut asks = Asks::default();
    for (number, ask) in asks.iter_mut().enumerate().take(process.part_count()) {
        let key = key(ready, number);
        if may_be_noted(key) {
            let mut ledger = process.ledger.take();
            *ask = ledger.find(key).map(|at| ledger.entries()[at].amount);
        }
    }
    asks
}

/// Notes what a graph that is ready asks for, and when it was uploaded, and no longer what another of the same name did; says whether there was
/// room to.
pub(crate) fn note(process: &Process, ready: usize, asks: &Asks, marks: &Marks) -> bool {
    forget(process, ready);
    let mut all = true;
    for (number, ask) in asks.iter().enumerate() {
        let Some(amount) = *ask else { continue };
        let entry = Entry {
            key: key(ready, number),
            amount,
            part: number as u32,
            kind: IS_GRAPH,
            kept: marks[number],
            ..Entry::default()
        };
        let put = process.ledger.take().put(entry);
        all &= put || process.parts[number].goes_on_after(Trouble::Ledger);
    }
    all
}

/// A graph that is ready is no more. Answers what was noted of it.
pub(crate) fn forget(process: &Process, ready: usize) -> Asks {
    let mut asks = Asks::default();
    for (number, ask) in asks.iter_mut().enumerate().take(process.part_count()) {
        let key = key(ready, number);
        if may_be_noted(key) {
            let mut ledger = process.ledger.take();
            *ask = ledger.find(key).map(|at| ledger.remove(at).amount);
        }
    }
    asks
}

/// When a graph was last launched.
fn launched(process: &Process, key: u64) -> u32 {
    let mut ledger = process.ledger.take();
    ledger.find(key).map_or(0, |at| ledger.entries()[at].kept)
}

/// Bytes that graphs of a part have; what is counted where the driver does not tell.
fn reserved(process: &Process, number: usize, level: &Level) -> u64 {
    let mut now = 0;
    let told = process.device_of(number).is_some_and(|device| {
        // SAFETY: the driver writes one number.
        unsafe { cuDeviceGetGraphMemAttribute::call(device, RESERVED_NOW, &mut now) == SUCCESS }
    });
    if told { now } else { level.counted() }
}

/// Counts so much instead of what was counted. It is there, so it can not be refused.
fn count(part: &Part, before: u64, now: u64) {
    point!(GraphSettling);
    if now > before {
        part.add(now - before);
    } else {
        part.give(before - now);
    }
}

/// Launches a graph, uploads it or makes it ready, if there is room for what it asks for. `ready` is its name, if it has one yet. Answers also
/// when that was.
pub(crate) fn launch(
    process: &Process,
    ready: Option<usize>,
    asks: &Asks,
    launch: impl FnOnce() -> Code,
) -> (Code, Marks) {
    let mut marks = Marks::default();
    let asked = || asks.iter().enumerate().filter_map(|(number, ask)| ask.map(|bytes| (number, bytes)));
    for (begun, (number, bytes)) in asked().enumerate() {
        let Some(mark) = begin(process, number, ready.map(|ready| key(ready, number)), bytes) else {
            asked().take(begun).for_each(|(number, _)| end(process, number));
            return (OUT_OF_MEMORY, marks);
        };
        marks[number] = mark;
    }
    point!(GraphBegun);
    let answer = launch();
    point!(GraphLaunched);
    asked().for_each(|(number, _)| end(process, number));
    (answer, marks)
}

/// Reserves what a launch could take, and says when that was; nothing where it is too much.
fn begin(process: &Process, number: usize, key: Option<u64>, bytes: u64) -> Option<u32> {
    let _relaxed = Relaxed::enter(process);
    let part = &process.parts[number];
    if bytes == UNKNOWN {
        return begin_unknown(process, number);
    }
    let mut times = 0;
    loop {
        let mut level = part.graphs.take();
        let now = reserved(process, number, &level);
        let ask = Ask { bytes, launched: key.map_or(0, |key| launched(process, key)) };
        let (counted, wanted) = (level.counted(), level.wanted(now, ask));
        let is_last = times > 0 && (times == PATIENCE || !level.is_flying());
        let more = wanted.saturating_sub(counted);
        // A refusal is counted once.
        if more == 0 || if is_last { part.take(more) } else { part.take_if_left(more) } {
            point!(GraphReserved);
            part.give(counted.saturating_sub(wanted));
            level.begin(wanted, now, ask);
            if let Some(key) = key {
                note_launch(process, key, level.mark());
            }
            return Some(level.mark());
        }
        if is_last {
            return None;
        }
        if times == 0 {
            trim(process, number, &mut level);
        }
        drop(level);
        if times == 0 {
            look_at_pools(process);
        } else {
            // Others are on their way, and may not need what they reserved.
            nap(u64::from(times.min(50)) * 2_000);
        }
        times += 1;
    }
}

/// The same for a graph of which is not known what it asks for: if there is not too much already.
fn begin_unknown(process: &Process, number: usize) -> Option<u32> {
    let part = &process.parts[number];
    let mut level = part.graphs.take();
    let now = settle(process, number, &mut level);
    // Nothing is asked for, but so the dead are noticed, and a refusal is counted.
    let begins = part.held() <= part.room() || part.take(0);
    begins.then(|| {
        let counted = level.counted();
        level.begin(counted, now, Ask { bytes: 0, launched: 0 });
        level.mark()
    })
}

/// A launch is over, or came to nothing: what graphs have now is counted, and no longer what it could have taken.
fn end(process: &Process, number: usize) {
    let _relaxed = Relaxed::enter(process);
    let part = &process.parts[number];
    let mut level = part.graphs.take();
    let (before, now) = (level.counted(), reserved(process, number, &level));
    count(part, before, level.end(now));
}

/// Counts what graphs of a part have; answers what the driver says.
fn settle(process: &Process, number: usize, level: &mut Level) -> u64 {
    let (before, now) = (level.counted(), reserved(process, number, level));
    count(&process.parts[number], before, level.settle(now));
    now
}

/// What graphs keep and do not use goes back to the device.
fn trim(process: &Process, number: usize, level: &mut Level) {
    if let Some(device) = process.device_of(number) {
        // SAFETY: a device that the driver has named.
        unsafe { cuDeviceGraphMemTrim::call(device) };
        point!(GraphTrimmed);
        settle(process, number, level);
    }
}

/// Counts what graphs have now, of all parts: a context is gone, or somebody has trimmed it.
pub(crate) fn look_at_graphs(process: &Process) {
    if process.graphs_allocate.load(Ordering::Relaxed) == 0 {
        return;
    }
    for number in 0..process.part_count() {
        let mut level = process.parts[number].graphs.take();
        settle(process, number, &mut level);
    }
}

fn note_launch(process: &Process, key: u64, mark: u32) {
    let mut ledger = process.ledger.take();
    if let Some(at) = ledger.find(key) {
        ledger.entries()[at].kept = mark;
    }
}
