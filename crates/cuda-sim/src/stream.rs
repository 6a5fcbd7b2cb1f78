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

    /// What was given to a stream so far; for the legacy one, to all that it waits for.
    fn given(&self, number: u32) -> Answer<Given> {
        let is_legacy = self.all.get(number)?.kind == Kind::Legacy;
        let streams = self.before(number)?.filter(|(other, _)| is_legacy || *other == number);
        Ok(Given(streams.map(|(number, stream)| (number, stream.ready, stream.host_calls)).collect()))
    }

    /// What was given to a context so far.
    fn given_to_context(&self, context: u32) -> Given {
        let own = self.all.iter().filter(|(_, stream)| stream.context == context);
        Given(own.map(|(number, stream)| (number, stream.ready, stream.host_calls)).collect())
    }

    /// When it is done. When a function of the host is, nobody knows before; a stream that was destroyed has none.
    fn done(&self, given: &Given) -> Moment {
        let done = given.0.iter().map(|(number, ready, host_calls)| {
            let waits = self.all.get(*number).is_ok_and(|stream| stream.host_calls_done < *host_calls);
            if waits { (*ready).max(now() + HOST_PATIENCE) } else { *ready }
        });
        done.fold(0, Moment::max)
    }
}

/// Work that somebody may wait for: what comes later is not waited for. Streams, when they are ready, and how many
/// functions of the host they were given.
#[derive(Debug)]
struct Given(Vec<(u32, Moment, u64)>);

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

    /// Makes a stream in a green context.
    pub(crate) fn create_green_stream(&mut self, green: Handle, priority: c_int) -> Answer<Handle> {
        let view = self.context_of_green(green)?;
        let here = self.in_context(view)?;
        let number = self.streams.all.add(Stream::new(here.context, Kind::NonBlocking, priority));
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
                return self.alive(context).map(|_| number);
            }
        };
        let here = self.here()?;
        Ok(self.streams.implicit(here.context, zero))
    }

    /// The same where one that nobody created is none.
    pub(crate) fn created_stream(&mut self, stream: Handle) -> Answer<u32> {
        match stream.thing()? {
            Thing::Stream(_) => self.stream(stream, Zero::Legacy),
            _ => Err(Code::INVALID_HANDLE),
        }
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
        let given = self.streams.given(number)?;
        if self.streams.done(&given) <= now() { Ok(()) } else { Err(Code::NOT_READY) }
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

/// Waits for everything that a context was given; NULL is the current one.
pub(crate) fn synchronise_context(context: Handle) -> Answer {
    let given = with(|session| {
        let here = session.in_context(context)?;
        let captured =
            |(_, stream): &(u32, &Stream)| stream.context == here.context && stream.capture.is_some();
        let captured = session.streams.all.iter().find(captured).map(|(number, _)| number);
        if let Some(number) = captured {
            session.invalidate_capture_of(number);
            return Err(Code::CAPTURE_UNSUPPORTED);
        }
        session.refuse_while_capturing()?;
        Ok(session.streams.given_to_context(here.context))
    })?;
    clock::wait(|| {
        with(|session| {
            // A kernel may have died meanwhile.
            session.in_context(context)?;
            Ok(session.streams.done(&given))
        })
    })
}

/// Waits for everything that a stream was given.
pub(crate) fn synchronise_stream(stream: Handle, zero: Zero) -> Answer {
    let given = with(|session| {
        let number = session.stream(stream, zero)?;
        session.may_wait_for(number)?;
        session.streams.given(number)
    })?;
    clock::wait(|| {
        with(|session| {
            // A kernel may have died meanwhile.
            session.stream(stream, zero)?;
            Ok(session.streams.done(&given))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{Kind, Stream, Streams, Zero};

    #[test]
    fn what_is_given_later_is_not_waited_for() {
        let mut streams = Streams::default();
        let (legacy, own) = (streams.implicit(1, Zero::Legacy), streams.implicit(1, Zero::PerThread));
        let apart = streams.all.add(Stream::new(1, Kind::NonBlocking, 0));
        for (number, ready) in [(legacy, 10), (own, 20), (apart, 30)] {
            streams.get_mut(number).unwrap().ready = ready;
        }
        let given = [legacy, own, apart].map(|number| streams.given(number).unwrap());
        let all = streams.given_to_context(1);
        for (_, stream) in streams.iter_mut() {
            stream.ready = 99;
        }
        assert_eq!(given.map(|given| streams.done(&given)), [20, 20, 30]);
        assert_eq!((streams.done(&all), streams.done(&streams.given_to_context(2))), (30, 0));
        assert_eq!(streams.can_begin(legacy), Ok(99));
    }

    #[test]
    fn streams_wait_for_the_legacy_one_unless_they_stand_apart() {
        let mut streams = Streams::default();
        let (legacy, own) = (streams.implicit(1, Zero::Legacy), streams.implicit(1, Zero::PerThread));
        let (apart, elsewhere) =
            (streams.all.add(Stream::new(1, Kind::NonBlocking, 0)), streams.implicit(2, Zero::Legacy));
        assert_eq!(streams.implicit(1, Zero::Legacy), legacy, "there is one of it");
        for (number, ready) in [(legacy, 10), (own, 5), (apart, 1), (elsewhere, 0)] {
            streams.get_mut(number).unwrap().ready = ready;
        }
        let begin = [legacy, own, apart, elsewhere].map(|number| streams.can_begin(number).unwrap());
        assert_eq!(begin, [10, 10, 1, 0]);
        streams.forget_context(1);
        assert!(streams.can_begin(legacy).is_err() && streams.can_begin(elsewhere).is_ok());
    }
}
