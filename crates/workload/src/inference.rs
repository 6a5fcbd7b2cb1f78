//! A server: requests go through twelve layers, one after the other.

use crate::pace::wait_until;
use crate::work::{Place, Work};
use carve_cuda::{Buffer, CudaError, HostBuffer};
use std::time::{Duration, Instant};

/// Numbers of a sample between layers.
const WIDTH: u32 = 1024;
/// Twelve of them, as in a small encoder.
const LAYERS: u64 = 12;
/// What a layer does: from so many numbers into so many, in multiples of [`WIDTH`].
const STEPS: [(u32, u32); 4] = [(1, 3), (3, 1), (1, 4), (4, 1)];
/// What a request takes and gives back where it takes memory.
const SCRATCH: usize = 64 << 20;

/// How much a server has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    /// Samples in a request.
    samples: u32,
    /// What else a request takes, while the GPU has nothing of it to do: reading, tokenising, answering.
    host: Duration,
}

impl Load {
    /// One sample at a time; most of the time goes by outside of the GPU.
    pub(crate) const LIGHT: Load = Load { samples: 1, host: Duration::from_micros(800) };
    /// A batch in each request, and the next one waits already.
    pub(crate) const HEAVY: Load = Load { samples: 32, host: Duration::ZERO };
}

/// A server.
#[derive(Debug)]
pub(crate) struct Inference<'x> {
    place: &'x Place<'x>,
    load: Load,
    takes_memory: bool,
    weights: Buffer<'x>,
    /// What layers read and write in turns.
    values: [Buffer<'x>; 2],
    question: HostBuffer<'x>,
    answer: HostBuffer<'x>,
}

impl<'x> Inference<'x> {
    pub(crate) fn new(place: &'x Place<'x>, load: Load, takes_memory: bool) -> Result<Self, CudaError> {
        let square = u64::from(WIDTH) * u64::from(WIDTH) * 2;
        let of_layer: u64 = STEPS.iter().map(|(from, into)| u64::from(from * into) * square).sum();
        let widest = WIDTH * 4 * 4 * load.samples;
        let weights = place.context.allocate((of_layer * LAYERS) as usize)?;
        let values = [place.context.allocate(widest as usize)?, place.context.allocate(widest as usize)?];
        let message = (WIDTH * 4 * load.samples) as usize;
        let (question, answer) =
            (place.context.allocate_host(message)?, place.context.allocate_host(message)?);
        place.kernels.fill_halves(place, &weights, 1)?;
        place.stream.fill(&values[0], 0)?;
        place.stream.synchronise()?;
        Ok(Inference { place, load, takes_memory, weights, values, question, answer })
    }
}

impl Work for Inference<'_> {
    fn piece(&mut self) -> Result<f64, CudaError> {
        let Place { context, stream, kernels, .. } = self.place;
        if !self.load.host.is_zero() {
            wait_until(Instant::now() + self.load.host);
        }
        let scratch = if self.takes_memory { Some(context.allocate(SCRATCH)?) } else { None };
        stream.send(&self.values[0], &self.question)?;
        let (mut at, mut skip) = (0, 0);
        for _ in 0..LAYERS {
            for (step, (from, into)) in STEPS.into_iter().enumerate() {
                if step % 2 == 0 {
                    kernels.normalise(stream, &self.values[at], WIDTH * from, self.load.samples)?;
                }
                let between = (&self.values[at], &self.values[1 - at]);
                let sizes = (WIDTH * from, WIDTH * into);
                kernels.layer(stream, (&self.weights, skip), between, sizes, self.load.samples)?;
                skip += u64::from(sizes.0) * u64::from(sizes.1) * 2;
                at = 1 - at;
            }
        }
        stream.fetch(&mut self.answer, &self.values[at])?;
        stream.synchronise()?;
        drop(scratch);
        Ok(1.0)
    }

    fn memory(&self) -> u64 {
        (self.weights.bytes() + self.values.iter().map(Buffer::bytes).sum::<usize>()) as u64
    }
}
