//! When work may start, and how long it took: the gate before every launch.
//!
//! Work comes in *bursts*, between which the GPU is left idle to keep to the share. The driver's own events stand at both ends of a burst and
//! around a piece of work now and then, so what is charged is time of the GPU and not of this process. A burst in which the GPU
//! always had something to do is charged its length. Where the program was late with its work, it is charged what its pieces take
//! one by one, or its length where that is less, because pieces ran side by side. No thread of ours runs: whoever launches next looks at
//! what has ended.

use crate::bursts::{Context, ENDED, NO_BURST, SAMPLES, STARTED, STARTING, Sample};
use crate::capture::{Relaxed, is_captured};
use crate::clock::{nap, now, sleep_until};
use crate::costs::{Costs, Kind};
use crate::driver::own::{cuCtxGetCurrent, cuCtxGetDevice};
use crate::driver::{Code, NOT_PERMITTED, SUCCESS};
use crate::events::{between, has_ended, record};
use crate::lock::Taken;
use crate::process::{Process, process};
use carve_limiter_abi::{Pace, Rate, Region, Slot, Trouble, Turn, Verdict, point};
use core::sync::atomic::Ordering;

const CONTEXTS: usize = 16;

/// Whoever had to wait is let in when it can start this much at once, so that the GPU does not stop after every small piece.
const QUANTUM: u64 = 400_000;
/// A burst that goes on and on is looked at when so much was started in it.
const LONG_BURST: u64 = 50_000_000;
/// How often a process that need not wait looks at what has ended.
const LOOK: u64 = 100_000;
/// How long new work waits for earlier work that does not end. It may be waiting for the new one.
const PATIENCE: u64 = 2_000_000_000;
/// How long it waits for work of a kind that was never measured.
const FIRST_PATIENCE: u64 = 200_000_000;

/// Work of the process. Zeros are none.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Work {
    contexts: [Context; CONTEXTS],
    costs: Costs,
    /// Time that two events show which have nothing between them.
    nothing: u64,
    /// How often that was looked at.
    gaps: u32,
}

/// How often it is looked at.
const GAPS: u32 = 8;

// SAFETY: events and contexts are used by whichever thread launches.
unsafe impl Send for Work {}

/// What is to be done after a launch.
#[derive(Debug, Default)]
pub(crate) struct Ticket {
    context: usize,
    stream: usize,
    sample: Option<usize>,
}

impl Work {
    /// The context that this thread uses, known from now on. No number where there is no room for it.
    fn context(&mut self, process: &Process) -> Result<Option<usize>, Code> {
        let mut handle = 0;
        // SAFETY: the driver writes one handle.
        if unsafe { cuCtxGetCurrent::call(&mut handle) } != SUCCESS || handle == 0 {
            return Ok(None);
        }
        if let Some(known) = self.contexts.iter().position(|context| context.handle == handle) {
            return Ok(Some(known));
        }
        let mut device = 0;
        // SAFETY: the driver writes one number.
        if unsafe { cuCtxGetDevice::call(&mut device) } != SUCCESS {
            return Ok(None);
        }
        let Some(free) = self.contexts.iter().position(|context| context.handle == 0) else {
            let Some(part) = process.part(device).filter(|part| part.is_timed()) else { return Ok(None) };
            return if part.goes_on_after(Trouble::Contexts) { Ok(None) } else { Err(NOT_PERMITTED) };
        };
        let context = &mut self.contexts[free];
        (context.handle, context.device) = (handle, device);
        Ok(Some(free))
    }

    /// Looks at what has ended, learns from it and charges it.
    fn collect(&mut self, number: usize, pace: Option<&Pace<'_>>, region: &Region, slot: Option<&Slot>) {
        let Work { contexts, costs, nothing, gaps } = self;
        let context = &mut contexts[number];
        for place in 0..SAMPLES {
            let sample = context.samples[place];
            if sample.stage != STARTED
                || !has_ended(if sample.beyond != 0 { sample.beyond } else { sample.after })
            {
                continue;
            }
            context.samples[place].stage = 0;
            if sample.beyond != 0
                && let Some(gap) = between(sample.after, sample.beyond)
            {
                *nothing = if *gaps == 0 { gap } else { gap.min(*nothing) };
                *gaps += 1;
            }
            if let Some(took) = between(sample.before, sample.after) {
                let took = took.saturating_sub(*nothing);
                // What was started behind it is all that the GPU can still have to do.
                let behind = now().saturating_add(context.started.wrapping_sub(sample.started));
                region.head.busy.fetch_min(behind, Ordering::Relaxed);
                point!(WorkMeasured);
                costs.learn(sample.kind, took);
                if sample.lookout == 1 {
                    context.note_lookout(sample.charged, took);
                }
                let burst = match context.open.number == sample.burst {
                    true => Some(&mut context.open),
                    false => context.ended.iter_mut().find(|ended| ended.number == sample.burst),
                };
                // A burst that is gone was charged as a whole.
                if let Some(burst) = burst {
                    // Those behind one that took far longer were started on the same wrong estimate.
                    let wrong = sample.lookout == 1 && took > 4 * sample.charged;
                    let pieces = 1 + if wrong { u64::from(burst.behind) } else { 0 };
                    let (charged, took) =
                        (sample.charged.saturating_mul(pieces), took.saturating_mul(pieces));
                    burst.charged = burst.charged.saturating_add(took).saturating_sub(charged);
                    burst.blind &= sample.lookout == 0;
                    if let Some(pace) = pace.filter(|_| !burst.free) {
                        pace.correct(charged, took);
                        point!(WorkCorrected);
                    }
                }
                if let Some(slot) = slot {
                    slot.nothing.store(*nothing, Ordering::Relaxed);
                    let longest = slot.longest.load(Ordering::Relaxed);
                    // What its kind usually takes: one that others held up is not a long one. It is forgotten slowly, so that what
                    // counts is what ran of late; at once where it was of this kind and was wrong.
                    let usual = costs.known(sample.kind).unwrap_or(took).min(took);
                    let before = if sample.kind == context.longest_kind { 0 } else { longest - longest / 64 };
                    if usual >= before {
                        context.longest_kind = sample.kind;
                    }
                    slot.longest.store(usual.max(before), Ordering::Relaxed);
                }
            }
            context.keep(sample.before);
            context.keep(sample.after);
            if sample.beyond != 0 {
                context.keep(sample.beyond);
            }
        }
        for place in 0..ENDED {
            let burst = context.ended[place];
            if burst.number == 0 || !burst.ends.iter().take(burst.lanes).all(|&end| has_ended(end)) {
                continue;
            }
            context.ended[place] = NO_BURST;
            let ends = burst.ends.iter().take(burst.lanes);
            let whole = ends.clone().filter_map(|&end| between(burst.start, end)).max();
            let took = match whole {
                Some(whole) if !burst.crowded && !burst.gaps => whole,
                Some(whole) if !burst.crowded => whole.min(burst.charged),
                _ => burst.charged,
            };
            if let Some(pace) = pace.filter(|_| !burst.free) {
                pace.correct(burst.charged, took);
                point!(BurstPaid);
            }
            if let Some(slot) = slot {
                slot.busy.fetch_add(took, Ordering::Relaxed);
            }
            for &end in ends {
                context.keep(end);
            }
            context.keep(burst.start);
        }
    }
}

/// Waits until a piece of work may start in a stream. `Err` where nothing may.
pub(crate) fn enter(stream: usize, kind: impl FnOnce() -> Kind) -> Result<Option<Ticket>, Code> {
    let Some(process) = process().filter(|process| process.is_timed()) else { return Ok(None) };
    if process.captures.load(Ordering::Relaxed) > 0 && is_captured(stream) {
        return Ok(None);
    }
    let mut work = process.work.take();
    let Some(number) = work.context(process)? else { return Ok(None) };
    let Some(part) = process.part(work.contexts[number].device) else { return Ok(None) };
    if part.is_refused() {
        return Err(NOT_PERMITTED);
    }
    let Some((region, slot)) = part.region().filter(|_| part.is_timed()) else { return Ok(None) };
    let slot = region.slot(slot);
    let kind = kind();
    let came = now();
    if let Some(slot) = slot {
        slot.wanted.store(came, Ordering::Relaxed);
        slot.launches.fetch_add(1, Ordering::Relaxed);
    }
    point!(WorkWanted);
    let _relaxed = Relaxed::enter(process);
    let mut time = came;
    let (pace, rate, alone) = loop {
        let Some((rate, turns)) = part.rate(time) else {
            // The limit is lifted; what is used counts all the same.
            if !work.contexts[number].open.free {
                work.contexts[number].end();
            }
            if time >= work.contexts[number].look {
                work.collect(number, None, region, slot);
                work.contexts[number].look = time + LOOK;
            }
            break (Pace::new(&region.head.paid, Rate::ALL), Rate::ALL, false);
        };
        if work.contexts[number].open.free {
            // The limit is back: what was started without one is nothing to pay for, and is waited for.
            work.contexts[number].end();
        }
        let period = turns.iter().map(|turn| turn.period).max().unwrap_or(0);
        let pace = Pace::new(&region.head.paid, rate).in_turns(period);
        if time >= work.contexts[number].look {
            work.collect(number, Some(&pace), region, slot);
            work.contexts[number].look = time + LOOK;
        }
        let waited = time.saturating_sub(came);
        let known = work.costs.known(kind);
        let context = &mut work.contexts[number];
        if context.open.alone {
            context.end();
        }
        let first = known.is_none() && context.is_waiting_for_first() && waited < FIRST_PATIENCE;
        let earlier = context.open.number == 0 && context.is_waiting_for_bursts();
        let blind = context.open.is_blind(context.trust);
        // Where nothing ends, one piece after the other is let in, each after it has waited so long.
        if first || ((earlier || blind) && waited < PATIENCE) {
            work.contexts[number].look = 0;
            work = pause(process, work, 15_000);
            time = now();
            continue;
        }
        let cost = known.unwrap_or(0);
        let open = work.contexts[number].open.number != 0;
        // Turns alone hold short pieces to the share; the rate is there for what reaches over their end.
        let short = turns.iter().any(|turn| turn.length > 4 * cost);
        let pace = if short { pace.at(Rate(rate.0 + rate.0 / 10)) } else { pace };
        let verdict = pace.verdict(time, cost, if open { 0 } else { QUANTUM });
        let busy = region.head.busy.load(Ordering::Relaxed).max(time);
        let allowed = turns_allow(&turns, time, busy, cost);
        let when = match (verdict, allowed) {
            (Verdict::Go, None) => break (pace, rate, earlier),
            (Verdict::Go, Some(when)) => when,
            (Verdict::At(when), None) => when,
            (Verdict::At(one), Some(other)) => one.max(other),
        };
        // The GPU has enough to do until then: the burst goes on.
        let goes_on = open && busy > when && allowed.is_none();
        work.contexts[number].look = 0;
        if open && !goes_on {
            work.contexts[number].end();
            continue;
        }
        drop(work);
        // Not all at once: the agent may change its mind, and lent time may come back.
        sleep_until(when.min(time + 20_000_000));
        work = process.work.take();
        time = now();
        // Whoever waits still wants to work; its time is not to be lent to others.
        if let Some(slot) = slot {
            slot.wanted.store(time, Ordering::Relaxed);
        }
        point!(WorkWaiting);
    };
    point!(WorkAllowed);
    // Whoever waited trusted an estimate that the GPU has enough to do meanwhile.
    let busy = if time == came { region.head.busy.load(Ordering::Relaxed) } else { 0 };
    work.contexts[number].notice_gap(busy, time);
    if let Some(slot) = slot {
        let waited = time.saturating_sub(came);
        if waited > 1_000 {
            slot.throttled.fetch_add(waited, Ordering::Relaxed);
        }
    }
    let pace = (rate < Rate::ALL).then_some(pace);
    let ticket = start(&mut work, number, stream, kind, pace, region, time);
    let burst = &mut work.contexts[number].open;
    burst.alone = alone;
    if let Some(slot) = slot.filter(|_| burst.number == 0) {
        slot.say(Trouble::Events);
    }
    Ok(Some(ticket))
}

/// Notes a piece of work that starts now.
fn start(
    work: &mut Work,
    number: usize,
    stream: usize,
    kind: Kind,
    pace: Option<Pace<'_>>,
    region: &Region,
    time: u64,
) -> Ticket {
    let (known, measure) = work.costs.start(kind);
    let cost = known.unwrap_or(0);
    if let Some(pace) = pace {
        pace.charge(time, cost);
    }
    point!(WorkCharged);
    let moved = |busy: u64| Some(busy.max(time) + cost);
    let _ = region.head.busy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, moved);
    point!(WorkNoted);
    let context = &mut work.contexts[number];
    if context.open.charged > LONG_BURST {
        context.end();
    }
    if context.open.number == 0 {
        context.begin(stream, pace.is_none());
    }
    context.lane(stream);
    context.open.charged += cost;
    context.open.pieces += 1;
    context.open.behind += 1;
    context.open.ahead += cost;
    context.started = context.started.wrapping_add(cost);
    let mut ticket = Ticket { context: number, stream, sample: None };
    let lookout = context.open.wants_lookout();
    if (measure || lookout)
        && let Some(place) = context.samples.iter().position(|sample| sample.stage == 0)
        && let Some(before) = context.event()
    {
        match context.event() {
            Some(after) if record(before, stream) => {
                let (burst, first) = (context.open.number, u16::from(known.is_none()));
                context.samples[place] = Sample {
                    stage: STARTING,
                    first,
                    lookout: u16::from(lookout),
                    before,
                    after,
                    beyond: 0,
                    kind,
                    charged: cost,
                    burst,
                    started: context.started,
                };
                if lookout {
                    (context.open.blind, context.open.behind, context.open.ahead) = (true, 0, 0);
                }
                ticket.sample = Some(place);
            }
            other => {
                context.keep(before);
                if let Some(after) = other {
                    context.keep(after);
                }
            }
        }
    }
    ticket
}

/// After the driver has taken the work.
pub(crate) fn leave(ticket: Option<Ticket>) {
    let Some((ticket, process)) = ticket.zip(process()) else { return };
    point!(WorkStarted);
    let Some(place) = ticket.sample else { return };
    let mut work = process.work.take();
    let _relaxed = Relaxed::enter(process);
    let few = work.gaps < GAPS;
    let Some(context) = work.contexts.get_mut(ticket.context) else { return };
    let beyond = if few { context.event() } else { None };
    if let Some(sample) = context.samples.get_mut(place).filter(|sample| sample.stage == STARTING) {
        sample.stage = if record(sample.after, ticket.stream) { STARTED } else { 0 };
        if let Some(beyond) = beyond.filter(|&beyond| record(beyond, ticket.stream)) {
            sample.beyond = beyond;
        }
    }
}

fn pause<'a>(process: &'a Process, work: Taken<'a, Work>, nanoseconds: u64) -> Taken<'a, Work> {
    drop(work);
    nap(nanoseconds);
    process.work.take()
}

/// When turns let a piece of work start, if not now.
fn turns_allow(turns: &[Turn], time: u64, busy: u64, cost: u64) -> Option<u64> {
    let mut earliest = None::<u64>;
    for turn in turns.iter().filter(|turn| turn.period != 0) {
        let (begin, end) = turn.next(time);
        let fits = cost > turn.length || busy.saturating_add(cost / 2) <= end;
        if begin == time && fits {
            return None;
        }
        let next = if begin == time { turn.next(end).0 } else { begin };
        earliest = Some(earliest.map_or(next, |known| known.min(next)));
    }
    earliest
}

/// A context is gone, and its events with it.
pub(crate) fn forget_context(handle: usize) {
    let Some(process) = process().filter(|process| process.is_timed() && handle != 0) else { return };
    let mut work = process.work.take();
    for context in work.contexts.iter_mut().filter(|context| context.handle == handle) {
        // SAFETY: zeros are a context that is not there.
        *context = unsafe { core::mem::zeroed() };
    }
}

/// A stream is about to go; nothing can be recorded in it afterwards.
pub(crate) fn forget_stream(stream: usize) {
    let Some(process) = process().filter(|process| process.is_timed()) else { return };
    let mut work = process.work.take();
    let _relaxed = Relaxed::enter(process);
    for context in &mut work.contexts {
        let lanes = context.open.lanes;
        if context.open.streams.iter().take(lanes).any(|&lane| lane == stream) {
            context.end();
        }
    }
}
