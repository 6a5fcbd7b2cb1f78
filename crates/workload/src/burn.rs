//! A job that a GPU is hardly enough for: arithmetic without end, and nine tenths of the memory that it finds.

use crate::work::{Place, Work};
use carve_cuda::{Buffer, CudaCode, CudaError};

/// Less than this is no memory to work with.
const LEAST: usize = 64 << 20;
/// Rounds of a kernel: some milliseconds, so that a launch is nothing beside it. The same for all, because whose kernels are longer gets
/// more of a GPU that takes turns.
const ROUNDS: u32 = 10_000;

/// The job.
#[derive(Debug)]
pub(crate) struct Burn<'x> {
    place: &'x Place<'x>,
    memory: Buffer<'x>,
    out: Buffer<'x>,
    seed: u32,
}

impl<'x> Burn<'x> {
    /// Takes nine tenths of what is free, or of the room that it was told of.
    pub(crate) fn new(place: &'x Place<'x>, room: Option<u64>) -> Result<Self, CudaError> {
        let out = place.context.allocate(256)?;
        let free = place.context.memory()?.free.0;
        let memory = most(place, room.map_or(free, |room| room.min(free)))?;
        place.kernels.fill_halves(place, &memory, 1)?;
        place.stream.synchronise()?;
        Ok(Burn { place, memory, out, seed: 0 })
    }
}

/// Others take memory at the same moment, so what was free may be free no more.
fn most<'x>(place: &'x Place<'x>, room: u64) -> Result<Buffer<'x>, CudaError> {
    let mut bytes = (room / 10 * 9) as usize & !0xfffff;
    loop {
        match place.context.allocate(bytes.max(LEAST)) {
            Err(error) if error.code == CudaCode::OUT_OF_MEMORY && bytes > LEAST => bytes = bytes / 10 * 9,
            taken => return taken,
        }
    }
}

impl Work for Burn<'_> {
    fn piece(&mut self) -> Result<f64, CudaError> {
        self.seed = self.seed.wrapping_add(1);
        let operations = self.place.kernels.burn(self.place, &self.memory, &self.out, ROUNDS, self.seed)?;
        self.place.stream.synchronise()?;
        Ok(operations as f64 / 1e12)
    }

    fn memory(&self) -> u64 {
        self.memory.bytes() as u64
    }
}
