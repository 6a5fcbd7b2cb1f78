//! A job that does nothing but move memory.

use crate::work::{Place, Work};
use carve_cuda::{Buffer, CudaError};

/// More than any cache holds, less than most slices have.
const MOST: u64 = 512 << 20;

/// The job.
#[derive(Debug)]
pub(crate) struct Bandwidth<'x> {
    place: &'x Place<'x>,
    from: Buffer<'x>,
    to: Buffer<'x>,
}

impl<'x> Bandwidth<'x> {
    pub(crate) fn new(place: &'x Place<'x>) -> Result<Self, CudaError> {
        let bytes = (place.context.memory()?.free.0 / 8).min(MOST) as usize & !0xfffff;
        let (from, to) = (place.context.allocate(bytes)?, place.context.allocate(bytes)?);
        place.kernels.fill_halves(place, &from, 1)?;
        place.stream.synchronise()?;
        Ok(Bandwidth { place, from, to })
    }
}

impl Work for Bandwidth<'_> {
    fn piece(&mut self) -> Result<f64, CudaError> {
        let mut bytes = 0;
        // Several at a time, so that the device never waits for the next.
        for _ in 0..4 {
            self.place.kernels.copy(self.place, &self.to, &self.from)?;
            bytes += self.from.bytes() * 2;
        }
        self.place.stream.synchronise()?;
        Ok(bytes as f64 / 1e9)
    }

    fn memory(&self) -> u64 {
        (self.from.bytes() + self.to.bytes()) as u64
    }
}
