//! Launches: what a kernel is called with, its place on the device, and what it leaves behind or dies of.

use crate::abi::Arguments;
use crate::clock::NEVER;
use crate::error::{Answer, Code};
use crate::handle::Handle;
use crate::kernels::Effect;
use crate::module::kernel;
use crate::session::Session;
use crate::settings::Fault;
use crate::work::Work;

/// The shape of a launch: blocks, and threads of a block.
pub(crate) type Shape = ([u32; 3], [u32; 3]);

/// A block has no more threads than this.
const MOST_THREADS: u64 = 1024;

/// A kernel with what it is called with.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Call {
    VectorAdd(VectorAdd),
    /// Takes so many nanoseconds.
    Takes(u64),
    /// Writes where nothing is.
    Fault,
}

/// What `vector_add` is called with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VectorAdd {
    left: u64,
    right: u64,
    sum: u64,
    elements: u32,
    /// Threads in the first dimension, which is the only one that the kernel looks at.
    reached: u64,
}

/// What was set for a kernel before a launch that says the number of blocks alone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prepared {
    pub(crate) threads: [u32; 3],
    pub(crate) arguments: Vec<u8>,
}

impl Session {
    /// Launches a kernel with what was set for it before.
    pub(crate) fn launch_prepared(&mut self, stream: u32, function: Handle, blocks: [u32; 3]) -> Answer {
        let prepared = self.prepared.get(&function.value()).cloned().unwrap_or_default();
        let call = Arguments::in_bytes(&prepared.arguments, |arguments| {
            self.call(function, (blocks, prepared.threads), arguments)
        })?;
        self.submit(stream, Work::Kernel(call))
    }

    /// Launches a kernel in a stream. A kernel that goes wrong is no failure of the launch: waiting tells.
    pub(crate) fn launch(
        &mut self,
        stream: u32,
        function: Handle,
        shape: Shape,
        arguments: Arguments,
    ) -> Answer {
        let call = self.call(function, shape, arguments)?;
        self.submit(stream, Work::Kernel(call))
    }

    /// The kernel that a launch or a node means.
    pub(crate) fn call(
        &mut self,
        function: Handle,
        (blocks, threads): Shape,
        arguments: Arguments,
    ) -> Answer<Call> {
        let here = self.here()?;
        self.call_in(here.context, function, (blocks, threads), arguments)
    }

    /// The same of a kernel in a context that need not be current.
    pub(crate) fn call_in(
        &mut self,
        context: u32,
        function: Handle,
        (blocks, threads): Shape,
        arguments: Arguments,
    ) -> Answer<Call> {
        let kernel = kernel(function)?;
        let effect = kernel.effect().filter(|_| self.modules.has(kernel.module, context));
        let effect = effect.ok_or(Code::INVALID_HANDLE)?;
        let product = |shape: [u32; 3]| shape.into_iter().map(u64::from).product::<u64>();
        let of_block = product(threads);
        if of_block == 0 || of_block > MOST_THREADS || product(blocks) == 0 {
            return Err(Code::INVALID_VALUE);
        }
        Ok(match effect {
            Effect::Spin => Call::Takes(arguments.at(0, 0)?),
            Effect::Takes { always, of_block } => {
                Call::Takes(product(blocks).saturating_mul(of_block).saturating_add(always))
            }
            Effect::Fault => Call::Fault,
            Effect::VectorAdd => Call::VectorAdd(VectorAdd {
                left: arguments.at(0, 0)?,
                right: arguments.at(1, 8)?,
                sum: arguments.at(2, 16)?,
                elements: arguments.at(3, 24)?,
                reached: u64::from(blocks[0]) * u64::from(threads[0]),
            }),
        })
    }

    /// Lets a kernel take its place on the device, after what the stream and the device were given before.
    pub(crate) fn run(&mut self, stream: u32, call: &Call) -> Answer {
        let not_before = self.streams.can_begin(stream)?;
        let context = self.streams.get(stream)?.context;
        let device = self.contexts.get_mut(context)?.device;
        let key = self.devices.get(device as usize).ok_or(Code::INVALID_DEVICE)?.key();
        let nanoseconds = match call {
            Call::Takes(nanoseconds) => *nanoseconds,
            Call::VectorAdd(_) | Call::Fault => 0,
        };
        let end = match self.fault {
            Some(Fault::Hang) => NEVER,
            _ => self.board.occupy(key, not_before, nanoseconds),
        };
        self.streams.get_mut(stream)?.ready = end;
        let died_of = match (self.fault, call) {
            (Some(Fault::LaunchFails), _) => Some(Code::LAUNCH_FAILED),
            (Some(Fault::Hang), _) | (_, Call::Takes(_)) => None,
            (_, Call::Fault) => Some(Code::ILLEGAL_ADDRESS),
            (fault, Call::VectorAdd(call)) => {
                let calculated = self.vector_add(*call, fault == Some(Fault::WrongSum));
                calculated.is_err().then_some(Code::ILLEGAL_ADDRESS)
            }
        };
        if died_of.is_some() {
            self.contexts.get_mut(context)?.died_of = died_of;
            if let Some(client) = &self.mps_client {
                client.die(self.board);
            }
        }
        Ok(())
    }

    /// The kernel. Fails if it touches memory that is not there.
    fn vector_add(&mut self, call: VectorAdd, wrong: bool) -> Answer {
        let elements = u64::from(call.elements).min(call.reached) as usize;
        if elements == 0 {
            return Ok(());
        }
        let bytes = elements * size_of::<f32>();
        let (mut left, mut right) = (vec![0; bytes], vec![0; bytes]);
        self.read(call.left, &mut left)?;
        self.read(call.right, &mut right)?;
        let numbers = |bytes: &[u8]| -> Vec<f32> {
            bytes.as_chunks::<4>().0.iter().map(|number| f32::from_ne_bytes(*number)).collect()
        };
        let mut sums: Vec<f32> =
            numbers(&left).iter().zip(numbers(&right)).map(|(left, right)| left + right).collect();
        if wrong && let Some(one) = sums.get_mut(elements / 2) {
            *one += 1.0;
        }
        let sums: Vec<u8> = sums.into_iter().flat_map(f32::to_ne_bytes).collect();
        self.write(call.sum, &sums)
    }
}
