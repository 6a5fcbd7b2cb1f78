//! Kernels, run on the CPU when they are launched, and waiting for them.

use crate::abi::Arguments;
use crate::error::{Answer, Code};
use crate::handle::{Handle, Thing};
use crate::memory::Memory;
use crate::session::{self, Session};
use crate::settings::Fault;
use std::time::Duration;

/// The shape of a launch: blocks, and threads of a block.
pub(crate) type Shape = ([u32; 3], [u32; 3]);

/// A block has no more threads than this.
const MOST_THREADS: u64 = 1024;

/// What `vector_add` is called with.
#[derive(Debug, Clone, Copy)]
struct VectorAdd {
    left: u64,
    right: u64,
    sum: u64,
    elements: u32,
}

impl Session {
    /// Runs a kernel in the current context. A kernel that goes wrong is no failure of the launch: waiting tells.
    pub(crate) fn launch(
        &mut self,
        function: Handle,
        (blocks, threads): Shape,
        arguments: Arguments,
    ) -> Answer {
        let fault = self.fault;
        let Thing::VectorAdd(module) = function.thing()? else { return Err(Code::INVALID_HANDLE) };
        let (ordinal, _) = self.current()?;
        if !self.modules.has(module, ordinal) {
            return Err(Code::INVALID_HANDLE);
        }
        let product = |shape: [u32; 3]| shape.into_iter().map(u64::from).product::<u64>();
        let of_block = product(threads);
        if of_block == 0 || of_block > MOST_THREADS || product(blocks) == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let call = VectorAdd {
            left: arguments.at(0)?,
            right: arguments.at(1)?,
            sum: arguments.at(2)?,
            elements: arguments.at(3)?,
        };
        // The kernel looks at the first dimension alone.
        let reached = u64::from(blocks[0]) * u64::from(threads[0]);
        let (_, context) = self.current()?;
        match fault {
            Some(Fault::LaunchFails) => context.died_of = Some(Code::LAUNCH_FAILED),
            Some(Fault::Hang) => context.hangs = true,
            Some(Fault::WrongSum) | None => {
                let wrong = fault == Some(Fault::WrongSum);
                if vector_add(&mut context.memory, call, reached, wrong).is_none() {
                    context.died_of = Some(Code::ILLEGAL_ADDRESS);
                }
            }
        }
        Ok(())
    }
}

/// The kernel. `None` if it touches memory that is not there.
fn vector_add(memory: &mut Memory, call: VectorAdd, reached: u64, wrong: bool) -> Option<()> {
    let elements = u64::from(call.elements).min(reached) as usize;
    if elements == 0 {
        return Some(());
    }
    let bytes = elements * size_of::<f32>();
    let (mut left, mut right) = (vec![0; bytes], vec![0; bytes]);
    memory.read(call.left, &mut left)?;
    memory.read(call.right, &mut right)?;
    let numbers = |bytes: &[u8]| -> Vec<f32> {
        bytes.as_chunks::<4>().0.iter().map(|number| f32::from_ne_bytes(*number)).collect()
    };
    let mut sums: Vec<f32> =
        numbers(&left).iter().zip(numbers(&right)).map(|(left, right)| left + right).collect();
    if wrong && let Some(one) = sums.get_mut(elements / 2) {
        *one += 1.0;
    }
    let sums: Vec<u8> = sums.into_iter().flat_map(f32::to_ne_bytes).collect();
    memory.write(call.sum, &sums)
}

/// Waits for the current context. Does not hold the session while it does: other threads go on.
pub(crate) fn synchronise() -> Answer {
    while session::with(|session| Ok(session.current()?.1.hangs))? {
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}
