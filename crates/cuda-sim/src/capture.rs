//! Captures: streams whose work goes into a graph instead of running, and what nobody may do meanwhile.

use crate::error::{Answer, Code};
use crate::handle::{Handle, Thing};
use crate::session::Session;
use crate::stream::{Zero, thread};
use crate::work::Work;
use std::cell::Cell;
use std::collections::VecDeque;
use std::ffi::c_uint;

/// How strict a capture is, or a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Global,
    ThreadLocal,
    Relaxed,
}

impl Mode {
    /// As C writes it.
    pub(crate) fn read(number: c_uint) -> Answer<Self> {
        match number {
            0 => Ok(Mode::Global),
            1 => Ok(Mode::ThreadLocal),
            2 => Ok(Mode::Relaxed),
            _ => Err(Code::INVALID_VALUE),
        }
    }
}

thread_local! {
    /// How strict this thread is about what it may call.
    static STRICTNESS: Cell<Mode> = const { Cell::new(Mode::Global) };
}

/// Where what is captured goes.
#[derive(Debug)]
pub(crate) enum Target {
    /// Into a graph of its own.
    NewGraph,
    /// Into a graph that is there, after some of its nodes.
    Graph(Handle, Vec<u32>),
    /// Into the nodes that a graph has, one after the other.
    SameGraph(Handle),
    /// Into a command list of a graphics library, which runs it. Nobody sees it again.
    CommandList,
}

/// A capture that has begun and not ended.
#[derive(Debug)]
pub(crate) struct Capture {
    origin: u32,
    graph: u32,
    mode: Mode,
    thread: u32,
    /// The nodes that are still to be captured again, in a capture into the same graph.
    again: Option<VecDeque<u32>>,
    into_list: bool,
    /// Something was done that can not be captured; all that is left is to end it.
    invalid: bool,
}

/// Where a stream stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CaptureInfo {
    /// 0 not captured, 1 captured, 2 spoilt.
    pub(crate) status: c_uint,
    pub(crate) id: u64,
    pub(crate) graph: Option<u32>,
    pub(crate) last_nodes: Vec<u32>,
}

/// Changes how strict the thread is and answers how strict it was.
pub(crate) fn exchange_mode(mode: c_uint) -> Answer<c_uint> {
    Ok(STRICTNESS.replace(Mode::read(mode)?) as c_uint)
}

impl Session {
    /// Begins to capture a stream.
    pub(crate) fn begin_capture(&mut self, stream: Handle, zero: Zero, mode: Mode, target: Target) -> Answer {
        let number = self.stream(stream, zero)?;
        if self.streams.get(number)?.capture.is_some() {
            return Err(Code::ILLEGAL_STATE);
        }
        let is_legacy = self.stream(Handle::NULL, Zero::Legacy)? == number;
        if is_legacy {
            return Err(Code::CAPTURE_UNSUPPORTED);
        }
        let into_list = matches!(target, Target::CommandList);
        let context = self.streams.get(number)?.context;
        if into_list && !self.is_in_graphics(context)? {
            return Err(Code::INVALID_CONTEXT);
        }
        let (graph, nodes, again) = match target {
            Target::NewGraph | Target::CommandList => (self.graphs.add_graph(), Vec::new(), None),
            Target::Graph(graph, nodes) => (self.graph_number(graph)?, nodes, None),
            Target::SameGraph(graph) => {
                let number = self.graph_number(graph)?;
                (number, Vec::new(), Some(self.graphs.nodes_of(number)?.into()))
            }
        };
        let capture =
            Capture { origin: number, graph, mode, thread: thread(), again, into_list, invalid: false };
        let capture = self.captures.add(capture);
        let stream = self.streams.get_mut(number)?;
        (stream.capture, stream.last_nodes) = (Some(capture), nodes);
        Ok(())
    }

    /// Ends a capture and answers its graph, if it was not spoilt.
    pub(crate) fn end_capture(&mut self, stream: Handle, zero: Zero) -> Answer<Handle> {
        let graph = self.finish_capture(stream, zero, false)?;
        Ok(Handle::of(Thing::Graph(graph)))
    }

    /// Ends a capture into a command list.
    pub(crate) fn end_capture_to_list(&mut self, stream: Handle, zero: Zero) -> Answer {
        let recorded = self.finish_capture(stream, zero, true)?;
        self.graphs.remove_graph(recorded)
    }

    fn finish_capture(&mut self, stream: Handle, zero: Zero, into_list: bool) -> Answer<u32> {
        let number = self.stream(stream, zero)?;
        let capture = self.streams.get(number)?.capture.ok_or(Code::ILLEGAL_STATE)?;
        let found = self.captures.get(capture)?;
        if found.into_list != into_list {
            return Err(Code::INVALID_VALUE);
        }
        if found.mode != Mode::Relaxed && found.thread != thread() {
            return Err(Code::CAPTURE_WRONG_THREAD);
        }
        if found.origin != number {
            self.invalidate_capture_of(number);
            return Err(Code::CAPTURE_UNMATCHED);
        }
        let last = self.streams.get(number)?.last_nodes.clone();
        let found = self.captures.remove(capture)?;
        let mut unjoined = false;
        for (other, stream) in self.streams.iter_mut().filter(|(_, stream)| stream.capture == Some(capture)) {
            // What another stream did last must come before something in the one that began.
            unjoined |= other != number && !self.graphs.all_before(&stream.last_nodes, &last);
            (stream.capture, stream.last_nodes) = (None, Vec::new());
        }
        if let Some(missing) = found.again {
            // Whatever went wrong, the graph is still the program's to destroy.
            return match found.invalid || unjoined || !missing.is_empty() {
                true => Err(Code::GRAPH_RECAPTURE_FAILURE),
                false => Ok(found.graph),
            };
        }
        if found.invalid || unjoined {
            self.graphs.remove_graph(found.graph)?;
            return Err(if found.invalid { Code::CAPTURE_INVALIDATED } else { Code::CAPTURE_UNJOINED });
        }
        Ok(found.graph)
    }

    /// Makes work that a stream was given part of the capture that takes it.
    pub(crate) fn note_down(&mut self, capture: u32, stream: u32, work: Work) -> Answer {
        let after = self.streams.get(stream)?.last_nodes.clone();
        let found = self.captures.get_mut(capture)?;
        let graph = found.graph;
        // A command list can do nothing of this.
        if found.into_list && matches!(work, Work::Allocate { .. } | Work::Free(_) | Work::Host(_)) {
            found.invalid = true;
            return Err(Code::CAPTURE_UNSUPPORTED);
        }
        let node = match &mut found.again {
            None => self.graphs.add_node(graph, after, work)?,
            Some(again) => {
                let same = again.pop_front().filter(|node| self.graphs.is_like(*node, &after, &work));
                let Some(node) = same else {
                    found.invalid = true;
                    return Err(Code::GRAPH_RECAPTURE_FAILURE);
                };
                self.graphs.set_work(node, work)?;
                node
            }
        };
        self.streams.get_mut(stream)?.last_nodes = vec![node];
        Ok(())
    }

    /// The allocation that a capture into the same graph comes to next: its address is settled.
    pub(crate) fn allocation_again(&self, capture: u32) -> Option<Work> {
        let node = self.captures.get(capture).ok()?.again.as_ref()?.front()?;
        self.graphs.work(*node).filter(|work| matches!(work, Work::Allocate { .. })).cloned()
    }

    /// Where a stream stands.
    pub(crate) fn capture_info(&mut self, stream: Handle, zero: Zero) -> Answer<CaptureInfo> {
        let number = self.stream(stream, zero)?;
        let stream = self.streams.get(number)?;
        let Some(capture) = stream.capture else {
            // What the legacy stream would do can not be told, but asking spoils nothing.
            if self.streams.captured_before(number)?.is_some() {
                return Err(Code::CAPTURE_IMPLICIT);
            }
            return Ok(CaptureInfo { status: 0, id: 0, graph: None, last_nodes: Vec::new() });
        };
        let last_nodes = stream.last_nodes.clone();
        let found = self.captures.get(capture)?;
        let status = if found.invalid { 2 } else { 1 };
        Ok(CaptureInfo { status, id: u64::from(capture), graph: Some(found.graph), last_nodes })
    }

    /// The capture that takes a stream's work, if there is one. The work of the legacy stream would have to wait for a
    /// captured one and so can not be given.
    pub(crate) fn capture_for(&mut self, number: u32) -> Answer<Option<u32>> {
        if let Some(captured) = self.streams.captured_before(number)? {
            self.invalidate_capture_of(captured);
            return Err(Code::CAPTURE_IMPLICIT);
        }
        let Some(capture) = self.streams.get(number)?.capture else { return Ok(None) };
        if self.captures.get(capture)?.invalid { Err(Code::CAPTURE_INVALIDATED) } else { Ok(Some(capture)) }
    }

    /// Spoils the capture of a stream.
    pub(crate) fn invalidate_capture_of(&mut self, number: u32) {
        let capture = self.streams.get(number).ok().and_then(|stream| stream.capture);
        if let Some(capture) = capture.and_then(|capture| self.captures.get_mut(capture).ok()) {
            capture.invalid = true;
        }
    }

    /// Refuses what is unsafe during a capture, as far as this thread must care, and spoils the captures it would hurt.
    pub(crate) fn refuse_while_capturing(&mut self) -> Answer {
        let (strictness, thread) = (STRICTNESS.get(), thread());
        let hurt = |capture: &Capture| match strictness {
            Mode::Relaxed => false,
            _ if capture.thread == thread => capture.mode != Mode::Relaxed,
            Mode::Global => capture.mode == Mode::Global,
            Mode::ThreadLocal => false,
        };
        let mut refused = false;
        for (_, capture) in self.captures.iter_mut().filter(|(_, capture)| hurt(capture)) {
            capture.invalid = true;
            refused = true;
        }
        if refused { Err(Code::CAPTURE_UNSUPPORTED) } else { Ok(()) }
    }
}
