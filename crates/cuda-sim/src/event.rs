//! Events: marks in streams that tell when what was before them is done.

use crate::clock::{self, Moment, now};
use crate::error::{Answer, Code};
use crate::handle::{Handle, Thing};
use crate::session::{Session, with};
use crate::stream::Zero;
use crate::work::Work;
use std::ffi::c_uint;

/// Flag of events that can not be measured with.
const DISABLE_TIMING: c_uint = 2;

/// All flags of events there are.
const FLAGS: c_uint = 7;

/// Flag of records and waits in a capture that become nodes instead of order.
const EXTERNAL: c_uint = 1;

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) context: u32,
    flags: c_uint,
    pub(crate) mark: Mark,
}

/// Where an event was recorded last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Nowhere.
    Never,
    /// In a stream; done at a moment.
    At(Moment),
    /// In a capture, after some of its nodes.
    Captured { capture: u32, nodes: Vec<u32> },
}

impl Session {
    /// Makes an event in the current context.
    pub(crate) fn create_event(&mut self, flags: c_uint) -> Answer<Handle> {
        let here = self.here()?;
        if flags & !FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let event = Event { context: here.context, flags, mark: Mark::Never };
        Ok(Handle::of(Thing::Event(self.events.add(event))))
    }

    /// The event that a handle means.
    pub(crate) fn event_number(&self, event: Handle) -> Answer<u32> {
        let Thing::Event(number) = event.thing()? else { return Err(Code::INVALID_HANDLE) };
        self.events.get(number).map(|_| number)
    }

    /// Ends an event.
    pub(crate) fn destroy_event(&mut self, event: Handle) -> Answer {
        let number = self.event_number(event)?;
        self.events.remove(number).map(drop)
    }

    /// Marks how far a stream has come.
    pub(crate) fn record(&mut self, event: Handle, stream: Handle, zero: Zero, flags: c_uint) -> Answer {
        let (event, stream) = (self.event_number(event)?, self.stream(stream, zero)?);
        if flags & !EXTERNAL != 0 {
            return Err(Code::INVALID_VALUE);
        }
        match self.capture_for(stream)? {
            Some(_) if flags == EXTERNAL => self.submit(stream, Work::Record(event)),
            Some(capture) => {
                let nodes = self.streams.get(stream)?.last_nodes.clone();
                self.events.get_mut(event)?.mark = Mark::Captured { capture, nodes };
                Ok(())
            }
            None => self.mark(event, stream),
        }
    }

    /// The same in a stream that is not captured.
    pub(crate) fn mark(&mut self, event: u32, stream: u32) -> Answer {
        let moment = self.streams.can_begin(stream)?.max(now());
        self.events.get_mut(event)?.mark = Mark::At(moment);
        Ok(())
    }

    /// Lets a stream wait for what an event marks. One that was never recorded marks nothing.
    pub(crate) fn wait_event(&mut self, stream: Handle, zero: Zero, event: Handle, flags: c_uint) -> Answer {
        let (event, stream) = (self.event_number(event)?, self.stream(stream, zero)?);
        if flags & !EXTERNAL != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let capture = self.capture_for(stream)?;
        match (self.events.get(event)?.mark.clone(), capture) {
            (_, Some(_)) if flags == EXTERNAL => self.submit(stream, Work::Wait(event)),
            (Mark::Never, _) => Ok(()),
            (Mark::At(_), Some(_)) => {
                self.invalidate_capture_of(stream);
                Err(Code::CAPTURE_ISOLATION)
            }
            (Mark::At(_), None) => self.hold_back(stream, event),
            (Mark::Captured { capture: of_event, nodes }, capture) => {
                if self.captures.get(of_event).is_err() {
                    return Err(Code::CAPTURED_EVENT);
                }
                if capture.is_some_and(|capture| capture != of_event) {
                    return Err(Code::CAPTURE_MERGE);
                }
                let stream = self.streams.get_mut(stream)?;
                stream.capture = Some(of_event);
                stream.last_nodes.extend(nodes);
                stream.last_nodes.sort_unstable();
                stream.last_nodes.dedup();
                Ok(())
            }
        }
    }

    /// The same in a stream that is not captured.
    pub(crate) fn hold_back(&mut self, stream: u32, event: u32) -> Answer {
        if let Mark::At(moment) = self.events.get(event)?.mark {
            let stream = self.streams.get_mut(stream)?;
            stream.ready = stream.ready.max(moment);
        }
        Ok(())
    }

    /// When what an event marks is done.
    fn moment(&self, event: u32) -> Answer<Moment> {
        match self.events.get(event)?.mark {
            Mark::Never => Ok(0),
            Mark::At(moment) => Ok(moment),
            Mark::Captured { .. } => Err(Code::CAPTURED_EVENT),
        }
    }

    /// Whether what an event marks is done.
    pub(crate) fn query_event(&mut self, event: Handle) -> Answer {
        let number = self.event_number(event)?;
        let moment = self.moment(number)?;
        self.refuse_while_capturing()?;
        let context = self.events.get(number)?.context;
        self.alive(context)?;
        if moment <= now() { Ok(()) } else { Err(Code::NOT_READY) }
    }

    /// Milliseconds between two events.
    pub(crate) fn elapsed(&self, start: Handle, end: Handle) -> Answer<f32> {
        let mut moments = [0; 2];
        for (handle, moment) in [start, end].into_iter().zip(&mut moments) {
            let event = self.events.get(self.event_number(handle)?)?;
            match event.mark {
                _ if event.flags & DISABLE_TIMING != 0 => return Err(Code::INVALID_HANDLE),
                Mark::Never => return Err(Code::INVALID_HANDLE),
                Mark::Captured { .. } => return Err(Code::CAPTURED_EVENT),
                Mark::At(at) => *moment = at,
            }
        }
        if moments.into_iter().any(|moment| moment > now()) {
            return Err(Code::NOT_READY);
        }
        let [start, end] = moments.map(|moment| moment as i128);
        Ok(((end - start) as f64 / 1e6) as f32)
    }
}

/// Waits for what an event marks.
pub(crate) fn synchronise_event(event: Handle) -> Answer {
    let ask = |session: &mut Session| {
        let number = session.event_number(event)?;
        session.moment(number)
    };
    with(|session| ask(session).and_then(|_| session.refuse_while_capturing()))?;
    clock::wait(|| with(ask))
}
