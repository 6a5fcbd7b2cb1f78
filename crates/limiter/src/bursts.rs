//! Bursts of work, and the events with which they are measured.

use crate::costs::Kind;
use crate::driver::own::{cuEventCreate, cuStreamQuery};
use crate::driver::{NOT_READY, SUCCESS};
use crate::events::record;

const LANES: usize = 8;
pub(crate) const SAMPLES: usize = 16;
pub(crate) const ENDED: usize = 8;
const SPARE: usize = 64;

/// So often in a row a program must be late before it counts as one that always is.
const ALWAYS_LATE: u32 = 16;
/// So many pieces are started behind one of which it is not known yet that it has ended: what a kind takes may have changed a thousandfold.
const BLIND: u32 = 8;
/// More where they take less than this together, so that the GPU does not run out of work meanwhile.
const BLIND_TIME: u64 = 200_000;
/// So often that time is doubled where estimates held so often in a row: programs prepare some of their work faster than the GPU does it, and
/// must be ahead then so that they may be slower elsewhere.
const TRUST: u32 = 4;
/// A piece is looked at so often, in time that was started, to know that all is as expected.
const LOOKOUT: u64 = 500_000;

/// Events around one piece of work. Zeros are none.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Sample {
    pub(crate) stage: u32,
    /// Whether its kind was never measured before: one, or zero.
    pub(crate) first: u16,
    /// Whether it was looked out for: one, or zero.
    pub(crate) lookout: u16,
    pub(crate) before: usize,
    pub(crate) after: usize,
    /// Recorded right behind, for the first few: what lies between two events that have nothing between them.
    pub(crate) beyond: usize,
    pub(crate) kind: Kind,
    pub(crate) charged: u64,
    /// The burst that it is in.
    pub(crate) burst: u64,
    /// All work that was started up to it.
    pub(crate) started: u64,
}

/// The piece of work is about to start.
pub(crate) const STARTING: u32 = 1;
/// It was started, and the event behind it was recorded.
pub(crate) const STARTED: u32 = 2;

/// Work from when the GPU was let go until it is left idle.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Burst {
    /// Counted up; zero for none.
    pub(crate) number: u64,
    pub(crate) start: usize,
    pub(crate) ends: [usize; LANES],
    pub(crate) streams: [usize; LANES],
    pub(crate) lanes: usize,
    /// What its pieces take one by one.
    pub(crate) charged: u64,
    /// Whether more streams were used than there are lanes, so that its end is not known.
    pub(crate) crowded: bool,
    /// Whether the GPU had nothing to do for a while in it, so that its length says less than its pieces.
    pub(crate) gaps: bool,
    /// How many pieces were started.
    pub(crate) pieces: u32,
    /// Whether a piece that was looked out for has not ended yet.
    pub(crate) blind: bool,
    /// Pieces that were started behind it.
    pub(crate) behind: u32,
    /// What they take.
    pub(crate) ahead: u64,
    /// Whether it was started while the limit was lifted, so that nothing is to be paid for it.
    pub(crate) free: bool,
    /// Whether it was started although earlier work does not end: nothing more is to join it.
    pub(crate) alone: bool,
}

impl Burst {
    /// Whether too much was started on an estimate that nothing has confirmed of late.
    pub(crate) fn is_blind(&self, trust: u32) -> bool {
        self.blind && self.behind >= BLIND && self.ahead >= BLIND_TIME << trust.min(TRUST)
    }

    /// Whether the piece that is started now should be looked out for. Not the first: the GPU waits for it, and that would be measured too.
    pub(crate) fn wants_lookout(&self) -> bool {
        !self.blind && (self.pieces == 2 || (self.behind >= BLIND && self.ahead >= LOOKOUT))
    }
}

/// Work of one context.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Context {
    pub(crate) handle: usize,
    pub(crate) device: i32,
    pub(crate) open: Burst,
    pub(crate) ended: [Burst; ENDED],
    pub(crate) samples: [Sample; SAMPLES],
    pub(crate) spare: [usize; SPARE],
    pub(crate) spares: usize,
    pub(crate) bursts: u64,
    /// All work that was ever started, in nanoseconds that it takes.
    pub(crate) started: u64,
    /// How often in a row the GPU had run out of work.
    pub(crate) late: u32,
    /// How often in a row a piece that was looked out for took about what it was expected to.
    pub(crate) trust: u32,
    /// The kind of which the longest piece of late was.
    pub(crate) longest_kind: Kind,
    /// When to look at what has ended again: asking the driver after every launch would cost more than the launch.
    pub(crate) look: u64,
}

impl Context {
    pub(crate) fn event(&mut self) -> Option<usize> {
        if self.spares > 0 {
            self.spares -= 1;
            return self.spare.get(self.spares).copied();
        }
        let mut event = 0;
        // SAFETY: the driver writes one handle.
        (unsafe { cuEventCreate::call(&mut event, 0) } == SUCCESS).then_some(event)
    }

    pub(crate) fn keep(&mut self, event: usize) {
        if let Some(place) = self.spare.get_mut(self.spares) {
            *place = event;
            self.spares += 1;
        }
    }

    /// Begins a burst in a stream.
    pub(crate) fn begin(&mut self, stream: usize, free: bool) {
        let Some(start) = self.event() else { return };
        if !record(start, stream) {
            self.keep(start);
            return;
        }
        self.bursts += 1;
        self.open = Burst { number: self.bursts, start, free, ..NO_BURST };
    }

    /// Notes a stream of the open burst.
    pub(crate) fn lane(&mut self, stream: usize) {
        let burst = &mut self.open;
        if burst.streams.iter().take(burst.lanes).any(|&known| known == stream) {
            return;
        }
        match burst.streams.get_mut(burst.lanes) {
            Some(lane) => {
                *lane = stream;
                burst.lanes += 1;
            }
            None => burst.crowded = true,
        }
    }

    /// Ends the open burst: its end is when everything that was started so far is over.
    pub(crate) fn end(&mut self) {
        let mut burst = core::mem::replace(&mut self.open, NO_BURST);
        if burst.number == 0 {
            return;
        }
        let mut ends = 0;
        for lane in 0..burst.lanes {
            let Some(event) = self.event() else { break };
            if !record(event, burst.streams[lane]) {
                self.keep(event);
                break;
            }
            burst.ends[lane] = event;
            ends += 1;
        }
        burst.crowded |= ends < burst.lanes;
        burst.lanes = ends;
        match self.ended.iter_mut().find(|ended| ended.number == 0) {
            Some(free) => *free = burst,
            // It stays charged what its pieces take one by one.
            None => {
                self.keep(burst.start);
                burst.ends.iter().take(ends).for_each(|&end| self.keep(end));
            }
        }
    }

    /// A piece that was looked out for has ended.
    pub(crate) fn note_lookout(&mut self, charged: u64, took: u64) {
        // Short ones vary by what the GPU needs to begin with them.
        let held = took <= charged.saturating_mul(2).saturating_add(10_000);
        self.trust = if held { (self.trust + 1).min(TRUST) } else { 0 };
    }

    pub(crate) fn is_waiting_for_first(&self) -> bool {
        self.samples.iter().any(|sample| sample.stage != 0 && sample.first == 1)
    }

    pub(crate) fn is_waiting_for_bursts(&self) -> bool {
        self.ended.iter().any(|burst| burst.number != 0)
    }

    /// Finds out whether the GPU has run out of work, where it should have by now, and ends the burst there. A program that always is late is
    /// not asked every time; once it has started enough ahead again, a burst begins whose length can be trusted.
    pub(crate) fn notice_gap(&mut self, busy: u64, time: u64) {
        if self.open.number == 0 {
            return;
        }
        if self.open.gaps {
            if busy > time + BLIND_TIME {
                self.late = 0;
                self.end();
            }
            return;
        }
        if busy > time {
            return;
        }
        self.late = self.late.saturating_add(1);
        if self.late > ALWAYS_LATE && !self.late.is_multiple_of(64) {
            self.open.gaps = true;
            return;
        }
        let burst = &self.open;
        // SAFETY: streams that the program uses.
        let idle = burst
            .streams
            .iter()
            .take(burst.lanes)
            .all(|&stream| unsafe { cuStreamQuery::call(stream) } != NOT_READY);
        if !idle {
            self.late = 0;
            return;
        }
        self.open.gaps = true;
        if self.late <= ALWAYS_LATE {
            self.end();
        }
    }
}

pub(crate) const NO_BURST: Burst = Burst {
    number: 0,
    start: 0,
    ends: [0; LANES],
    streams: [0; LANES],
    lanes: 0,
    charged: 0,
    crowded: false,
    gaps: false,
    pieces: 0,
    blind: false,
    behind: 0,
    ahead: 0,
    free: false,
    alone: false,
};
