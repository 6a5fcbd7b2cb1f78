//! A job of small pieces: two random matrices and their product, again and again, from a program that is slower than the GPU.

use crate::pace::wait_until;
use crate::work::{Place, Work};
use carve_cuda::{Buffer, CudaError, HostBuffer};
use std::time::{Duration, Instant};

/// Rows and columns.
const SIDE: u32 = 256;
/// Products until a result is fetched.
const ROUND: u32 = 50;
/// What the program does for each product, as an interpreter does: most of the time goes by outside of the GPU.
const HOST: Duration = Duration::from_micros(40);

/// The job.
#[derive(Debug)]
pub(crate) struct Batch<'x> {
    place: &'x Place<'x>,
    left: Buffer<'x>,
    right: Buffer<'x>,
    result: Buffer<'x>,
    answer: HostBuffer<'x>,
    seed: u32,
}

impl<'x> Batch<'x> {
    pub(crate) fn new(place: &'x Place<'x>, seed: u32) -> Result<Self, CudaError> {
        let bytes = (SIDE * SIDE * 4) as usize;
        let matrix = || place.context.allocate(bytes);
        let (left, right, result) = (matrix()?, matrix()?, matrix()?);
        Ok(Batch { place, left, right, result, answer: place.context.allocate_host(bytes)?, seed })
    }
}

impl Work for Batch<'_> {
    fn piece(&mut self) -> Result<f64, CudaError> {
        let Place { stream, kernels, .. } = self.place;
        for _ in 0..ROUND {
            self.seed = self.seed.wrapping_add(2);
            kernels.fill_random(stream, &self.left, self.seed)?;
            kernels.fill_random(stream, &self.right, self.seed.wrapping_add(1))?;
            kernels.product(stream, (&self.left, &self.right), &self.result, SIDE)?;
            // Work of a processor takes its time whether the GPU is quick or not.
            wait_until(Instant::now() + HOST);
        }
        stream.fetch(&mut self.answer, &self.result)?;
        stream.synchronise()?;
        Ok(f64::from(ROUND))
    }

    fn memory(&self) -> u64 {
        (self.left.bytes() * 3) as u64
    }
}
