//! Work that streams are given: it runs, or becomes a node of the graph that captures the stream.

use crate::abi::HostCall;
use crate::copy::Place;
use crate::error::{Answer, Code};
use crate::launch::Call;
use crate::session::Session;
use std::ffi::c_uint;

/// One piece of work.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    /// A kernel.
    Kernel(Call),
    /// A copy.
    Copy { to: Place, from: Place, bytes: u64 },
    /// Rows filled with a value of so many bytes.
    Fill { to: u64, pitch: u64, value: u32, size: usize, width: u64, height: u64 },
    /// An allocation at an address that is promised.
    Allocate { device: u32, address: u64, bytes: u64 },
    /// Its end.
    Free(u64),
    /// A function of the program.
    Host(HostCall),
    /// An event is recorded.
    Record(u32),
    /// An event is waited for.
    Wait(u32),
    /// A whole graph, and its steps as they were when it became one.
    Steps { graph: u32, steps: Vec<Work> },
    /// Nothing; only order.
    Nothing,
}

impl Work {
    /// What CUDA calls a node that does this.
    pub(crate) fn node_type(&self) -> c_uint {
        match self {
            Work::Kernel(_) => 0,
            Work::Copy { .. } => 1,
            Work::Fill { .. } => 2,
            Work::Host(_) => 3,
            Work::Steps { .. } => 4,
            Work::Nothing => 5,
            Work::Wait(_) => 6,
            Work::Record(_) => 7,
            Work::Allocate { .. } => 10,
            Work::Free(_) => 11,
        }
    }

    /// Whether a node that does this can do something else instead: of the same kind, and memory stays as it is.
    pub(crate) fn is_like(&self, other: &Work) -> bool {
        let same_memory = match (self, other) {
            (
                Work::Allocate { device: before, address: there, bytes: so_many },
                Work::Allocate { device, address, bytes },
            ) => (before, there, so_many) == (device, address, bytes),
            (Work::Free(before), Work::Free(now)) => before == now,
            _ => true,
        };
        self.node_type() == other.node_type() && same_memory
    }
}

impl Session {
    /// Gives work to a stream.
    pub(crate) fn submit(&mut self, stream: u32, work: Work) -> Answer {
        let Some(capture) = self.capture_for(stream)? else { return self.perform(stream, &work) };
        self.note_down(capture, stream, work)
    }

    /// Does it: what takes time is over at a moment that the stream knows from now on.
    fn perform(&mut self, stream: u32, work: &Work) -> Answer {
        match work {
            Work::Kernel(call) => self.run(stream, call),
            Work::Copy { to, from, bytes } => self.copy(*to, *from, *bytes),
            Work::Fill { to, pitch, value, size, width, height } => {
                let value = value.to_le_bytes();
                let value = value.get(..*size).ok_or(Code::INVALID_VALUE)?;
                (0..*height).try_for_each(|row| self.fill(to + row * pitch, value, *width))
            }
            Work::Allocate { device, address, bytes } => {
                let context = self.streams.get(stream)?.context;
                self.allocate_for_graph(context, *device, *address, *bytes)
            }
            Work::Free(address) => self.take_back(*address),
            Work::Host(call) => self.call_host(stream, *call),
            Work::Record(event) => self.mark(*event, stream),
            Work::Wait(event) => self.hold_back(stream, *event),
            Work::Steps { steps, .. } => steps.iter().try_for_each(|step| self.perform(stream, step)),
            Work::Nothing => Ok(()),
        }
    }
}
