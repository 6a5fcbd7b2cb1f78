//! Streams: work in the order it was given, and when the last of it is done.
//!
//! Besides those that are created, every context has a legacy stream and one for each thread. What is given to the
//! legacy stream comes after everything in blocking streams, and they wait for it; non-blocking ones stand apart.

use crate::abi::HostCall;
use crate::clock::{self, Moment, now};
use crate::error::{Answer, Code};
use crate::handle::{Handle, Numbered, Thing};
use crate::session::{Session, with};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicU32, Ordering};

/// How soon somebody who waits for a function of the host looks again.
const HOST_PATIENCE: u64 = 1_000_000;

/// Flag of streams that do not wait for the legacy one.
const NON_BLOCKING: c_uint = 1;

/// What stream 0 means to a function: the plain names take it for the legacy stream, those that end in `_ptsz` or
/// `_ptds` for the thread's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zero {
    Legacy,
    PerThread,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Legacy,
    Blocking,
    NonBlocking,
}

/// A stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) context: u32,
    kind: Kind,
    pub(crate) priority: c_int,
    pub(crate) ready: Moment,
    /// The capture that takes its work.
    pub(crate) capture: Option<u32>,
    /// The nodes that come before what is captured next.
    pub(crate) last_nodes: Vec<u32>,
    host_calls: u64,
    host_calls_done: u64,
}

impl Stream {
    fn new(context: u32, kind: Kind, priority: c_int) -> Self {
        Stream {
            context,
            kind,
            priority,
            ready: 0,
            capture: None,
            last_nodes: Vec::new(),
            host_calls: 0,
            host_calls_done: 0,
        }
    }

    /// The flags that it was created with.
    pub(crate) fn flags(&self) -> c_uint {
        if self.kind == Kind::NonBlocking { NON_BLOCKING } else { 0 }
    }

    fn host_is_due(&self) -> Moment {
        if self.host_calls_done < self.host_calls { now() + HOST_PATIENCE } else { 0 }
    }
}

/// All streams of the process.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    all: Numbered<Stream>,
    /// Those that nobody creates, by context and thread; the legacy one is that of thread 0.
    implicit: BTreeMap<(u32, u32), u32>,
}

static THREADS: AtomicU32 = AtomicU32::new(1);

thread_local! {
    static THREAD: u32 = THREADS.fetch_add(1, Ordering::Relaxed);
}

/// The number of this thread, from 1 on.
pub(crate) fn thread() -> u32 {
    THREAD.with(|number| *number)
}

impl Streams {
    /// A stream by its number.
    pub(crate) fn get(&self, number: u32) -> Answer<&Stream> {
        self.all.get(number)
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, number: u32) -> Answer<&mut Stream> {
        self.all.get_mut(number)
    }

    /// All of them, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Stream)> {
        self.all.iter_mut()
    }

    /// A context has ended.
    pub(crate) fn forget_context(&mut self, context: u32) {
        self.all.retain(|stream| stream.context != context);
        self.implicit.retain(|(owner, _), _| *owner != context);
    }

    fn implicit(&mut self, context: u32, zero: Zero) -> u32 {
        let (thread, kind) = match zero {
            Zero::Legacy => (0, Kind::Legacy),
            Zero::PerThread => (thread(), Kind::Blocking),
        };
        let all = &mut self.all;
        let make = || all.add(Stream::new(context, kind, 0));
        *self.implicit.entry((context, thread)).or_insert_with(make)
    }

    /// The stream and those whose work is before its own.
    fn before(&self, number: u32) -> Answer<impl Iterator<Item = (u32, &Stream)>> {
        let stream = self.all.get(number)?;
        let (context, kind) = (stream.context, stream.kind);
        Ok(self.all.iter().filter(move |(other, stream)| {
            let orders = match kind {
                Kind::Legacy => stream.kind != Kind::NonBlocking,
                Kind::Blocking => stream.kind == Kind::Legacy,
                Kind::NonBlocking => false,
            };
            *other == number || (orders && stream.context == context)
        }))
    }

    /// When work that is given to a stream now can begin, as far as streams are concerned.
    pub(crate) fn can_begin(&self, number: u32) -> Answer<Moment> {
        Ok(self.before(number)?.map(|(_, stream)| stream.ready).fold(0, Moment::max))
    }

    /// A stream that is captured and that the work of another would have to wait for.
    pub(crate) fn captured_before(&self, number: u32) -> Answer<Option<u32>> {
        let mut captured =
            self.before(number)?.filter(|(other, stream)| *other != number && stream.capture.is_some());
        Ok(captured.next().map(|(other, _)| other))
    }

    /// When everything that was given to a stream is done.
    fn done(&self, number: u32) -> Answer<Moment> {
        let stream = self.all.get(number)?;
        if stream.kind != Kind::Legacy {
            return Ok(stream.ready.max(stream.host_is_due()));
        }
        Ok(self
            .before(number)?
            .map(|(_, stream)| stream.ready.max(stream.host_is_due()))
            .fold(0, Moment::max))
    }

    /// When everything that was given to a context is done.
    fn all_done(&self, context: u32) -> Moment {
        let own = self.all.iter().filter(|(_, stream)| stream.context == context);
        own.map(|(_, stream)| stream.ready.max(stream.host_is_due())).fold(0, Moment::max)
    }
}

impl Session {
    /// Makes a stream in the current context.
    pub(crate) fn create_stream(&mut self, flags: c_uint, priority: c_int) -> Answer<Handle> {
        let here = self.here()?;
        let kind = match flags {
            0 => Kind::Blocking,
            NON_BLOCKING => Kind::NonBlocking,
            _ => return Err(Code::INVALID_VALUE),
        };
        let number = self.streams.all.add(Stream::new(here.context, kind, priority));
        Ok(Handle::of(Thing::Stream(number)))
    }

    /// The stream that a handle means.
    pub(crate) fn stream(&mut self, stream: Handle, zero: Zero) -> Answer<u32> {
        let zero = match stream.value() {
            0 => zero,
            1 => Zero::Legacy,
            2 => Zero::PerThread,
            _ => {
                let Thing::Stream(number) = stream.thing()? else { return Err(Code::INVALID_HANDLE) };
                let context = self.streams.all.get(number)?.context;
                return match self.contexts.get_mut(context)?.died_of {
                    Some(code) => Err(code),
                    None => Ok(number),
                };
            }
        };
        let here = self.here()?;
        Ok(self.streams.implicit(here.context, zero))
    }

    /// Ends a stream; what it was given still runs.
    pub(crate) fn destroy_stream(&mut self, stream: Handle) -> Answer {
        let Thing::Stream(number) = stream.thing()? else { return Err(Code::INVALID_HANDLE) };
        self.invalidate_capture_of(number);
        self.streams.all.remove(number).map(drop)
    }

    /// Whether a stream is done.
    pub(crate) fn query_stream(&mut self, stream: Handle, zero: Zero) -> Answer {
        let number = self.stream(stream, zero)?;
        self.may_wait_for(number)?;
        if self.streams.done(number)? <= now() { Ok(()) } else { Err(Code::NOT_READY) }
    }

    /// Refuses waiting for a stream whose work is captured and so never runs.
    fn may_wait_for(&mut self, number: u32) -> Answer {
        if self.streams.get(number)?.capture.is_some() {
            self.invalidate_capture_of(number);
            return Err(Code::CAPTURE_UNSUPPORTED);
        }
        if let Some(captured) = self.streams.captured_before(number)? {
            self.invalidate_capture_of(captured);
            return Err(Code::CAPTURE_IMPLICIT);
        }
        self.refuse_while_capturing()
    }

    /// Lets the host do something when a stream has come so far. Later waits for the stream wait for it too.
    pub(crate) fn call_host(&mut self, number: u32, call: HostCall) -> Answer {
        let due = self.streams.can_begin(number)?;
        let stream = self.streams.get_mut(number)?;
        let position = stream.host_calls;
        stream.host_calls += 1;
        let wait_for_turn = move || {
            with(|session| {
                let stream = session.streams.get(number)?;
                let turn = if stream.host_calls_done < position { now() + HOST_PATIENCE } else { 0 };
                Ok(due.max(turn))
            })
        };
        std::thread::spawn(move || {
            // A stream that was destroyed keeps no order any more; what it was given still runs.
            let _ = clock::wait(wait_for_turn);
            let _ = clock::wait(|| Ok(due));
            call.call();
            let _ = with(|session| {
                session.streams.get_mut(number)?.host_calls_done += 1;
                Ok(())
            });
        });
        Ok(())
    }
}

/// Waits for everything in a context; NULL is the current one.
pub(crate) fn synchronise_context(context: Handle) -> Answer {
    with(|session| {
        let here = session.in_context(context)?;
        let own = session
            .streams
            .iter_mut()
            .find(|(_, stream)| stream.context == here.context && stream.capture.is_some());
        if let Some((number, _)) = own {
            session.invalidate_capture_of(number);
            return Err(Code::CAPTURE_UNSUPPORTED);
        }
        session.refuse_while_capturing()
    })?;
    clock::wait(|| {
        with(|session| {
            let here = session.in_context(context)?;
            Ok(session.streams.all_done(here.context))
        })
    })
}

/// Waits for a stream.
pub(crate) fn synchronise_stream(stream: Handle, zero: Zero) -> Answer {
    with(|session| {
        let number = session.stream(stream, zero)?;
        session.may_wait_for(number)
    })?;
    clock::wait(|| {
        with(|session| {
            let number = session.stream(stream, zero)?;
            session.streams.done(number)
        })
    })
}
