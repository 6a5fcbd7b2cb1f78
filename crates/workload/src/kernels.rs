//! The kernels, each as a function that takes what the kernel takes; all that is unsafe about launching them is here.
#![allow(unsafe_code, reason = "a launch is unsafe, because only its caller knows the kernel's parameters")]

use crate::work::Place;
use carve_cuda::{Attribute, Buffer, Context, CudaError, Device, Function, Module, Stream};
use std::ffi::c_void;
use std::ptr::from_mut;

/// For compute capability 7.0 and later; made of `kernels/tenants.cu`, as is the next.
const TENANTS: &str = include_str!("../kernels/tenants.ptx");
/// For 8.0 and later.
const BURN: &str = include_str!("../kernels/burn.ptx");

/// Threads of a block, in every kernel.
const THREADS: u32 = 256;
/// Rows of a layer that a block makes.
const ROWS: u32 = 8;
/// Samples that a block of `layer_many` looks at.
pub(crate) const SAMPLES: u32 = 8;
/// Both sides of a tile of a product.
const TILE: u32 = 16;

/// The programs.
#[derive(Debug)]
pub(crate) struct Programs<'x> {
    tenants: Module<'x>,
    burn: Option<Module<'x>>,
}

impl<'x> Programs<'x> {
    pub(crate) fn load(context: &'x Context<'x>, device: Device<'_>) -> Result<Self, CudaError> {
        let has_bfloat = device.attribute(Attribute::ComputeCapabilityMajor)? >= 8;
        let burn = if has_bfloat { Some(context.load_ptx(BURN)?) } else { None };
        Ok(Programs { tenants: context.load_ptx(TENANTS)?, burn })
    }
}

/// The kernels.
#[derive(Debug)]
pub(crate) struct Kernels<'x> {
    empty: Function<'x>,
    fill_halves: Function<'x>,
    fill_random: Function<'x>,
    layer_one: Function<'x>,
    layer_many: Function<'x>,
    normalise: Function<'x>,
    product: Function<'x>,
    copy: Function<'x>,
    fault: Function<'x>,
    /// In the tensor cores where there are such, and how many operations each thread does in a round.
    burn: (Function<'x>, u64),
}

/// Pointers to arguments, as a launch takes them.
macro_rules! arguments {
    ($($argument:expr),*) => { [$(from_mut(&mut $argument).cast::<c_void>()),*] };
}

impl<'x> Kernels<'x> {
    pub(crate) fn find(programs: &'x Programs<'x>) -> Result<Self, CudaError> {
        let find = |name| programs.tenants.function(name);
        Ok(Kernels {
            empty: find("empty")?,
            fill_halves: find("fill_halves")?,
            fill_random: find("fill_random")?,
            layer_one: find("layer_one")?,
            layer_many: find("layer_many")?,
            normalise: find("normalise")?,
            product: find("product")?,
            copy: find("copy")?,
            fault: find("fault")?,
            burn: match &programs.burn {
                // Eight products of 16 by 8 by 16 for each 32 threads.
                Some(burn) => (burn.function("burn")?, 8 * 2 * 16 * 8 * 16 / 32),
                None => (find("burn_scalar")?, 16 * 2),
            },
        })
    }

    /// A kernel that does nothing.
    pub(crate) fn empty(&self, stream: &Stream<'_>) -> Result<(), CudaError> {
        // SAFETY: the kernel takes nothing.
        unsafe { stream.launch(&self.empty, (1, 1), 32, &mut []) }
    }

    /// Random bfloat16 all over a buffer.
    pub(crate) fn fill_halves(
        &self,
        place: &Place<'_>,
        to: &Buffer<'_>,
        mut seed: u32,
    ) -> Result<(), CudaError> {
        let (mut address, mut count) = (to.address(), (to.bytes() / 4) as u64);
        let mut arguments = arguments![address, count, seed];
        let blocks = (place.multiprocessors * 8, 1);
        // SAFETY: an address, 64 and 32 bits; it writes so many words of 4 bytes, which the buffer has.
        unsafe { place.stream.launch(&self.fill_halves, blocks, THREADS, &mut arguments) }
    }

    /// Random numbers between 0 and 1 all over a buffer.
    pub(crate) fn fill_random(
        &self,
        stream: &Stream<'_>,
        to: &Buffer<'_>,
        mut seed: u32,
    ) -> Result<(), CudaError> {
        let (mut address, mut count) = (to.address(), (to.bytes() / 4) as u32);
        let mut arguments = arguments![address, count, seed];
        // SAFETY: an address and twice 32 bits; it writes so many words of 4 bytes, which the buffer has.
        unsafe { stream.launch(&self.fill_random, (count.div_ceil(THREADS), 1), THREADS, &mut arguments) }
    }

    /// A layer from one buffer to another: `weights` has `into` rows of `from` bfloat16, of which `skip` bytes are others'.
    pub(crate) fn layer(
        &self,
        stream: &Stream<'_>,
        (weights, skip): (&Buffer<'_>, u64),
        (inputs, outputs): (&Buffer<'_>, &Buffer<'_>),
        (mut from, mut into): (u32, u32),
        samples: u32,
    ) -> Result<(), CudaError> {
        let (mut weights, mut inputs, mut outputs) =
            (weights.address() + skip, inputs.address(), outputs.address());
        let mut arguments = arguments![weights, inputs, outputs, from, into];
        let rows = into.div_ceil(ROWS);
        let (kernel, blocks) = match samples {
            1 => (&self.layer_one, (rows, 1)),
            many => (&self.layer_many, (rows, many / SAMPLES)),
        };
        // SAFETY: three addresses and twice 32 bits. `Inference` has buffers for the largest layer and all samples, whose number is one or
        // a multiple of `SAMPLES`, and weights from `skip` on for a layer of this size.
        unsafe { stream.launch(kernel, blocks, THREADS, &mut arguments) }
    }

    /// Brings the numbers of each sample to the same size.
    pub(crate) fn normalise(
        &self,
        stream: &Stream<'_>,
        values: &Buffer<'_>,
        mut width: u32,
        samples: u32,
    ) -> Result<(), CudaError> {
        let mut address = values.address();
        let mut arguments = arguments![address, width];
        // SAFETY: an address and 32 bits; a block reads and writes `width` numbers for each sample, which `Inference` has room for.
        unsafe { stream.launch(&self.normalise, (samples, 1), THREADS, &mut arguments) }
    }

    /// The product of two square matrices, whose side is a multiple of a tile's.
    pub(crate) fn product(
        &self,
        stream: &Stream<'_>,
        (left, right): (&Buffer<'_>, &Buffer<'_>),
        result: &Buffer<'_>,
        mut side: u32,
    ) -> Result<(), CudaError> {
        let (mut left, mut right, mut result) = (left.address(), right.address(), result.address());
        let mut arguments = arguments![left, right, result, side];
        let tiles = side / TILE;
        // SAFETY: three addresses and 32 bits; `Batch` has `side` times `side` numbers in each buffer.
        unsafe { stream.launch(&self.product, (tiles, tiles), THREADS, &mut arguments) }
    }

    /// Copies one buffer into another of the same length.
    pub(crate) fn copy(
        &self,
        place: &Place<'_>,
        to: &Buffer<'_>,
        from: &Buffer<'_>,
    ) -> Result<(), CudaError> {
        let (mut target, mut source) = (to.address(), from.address());
        let mut count = (to.bytes().min(from.bytes()) / 16) as u64;
        let mut arguments = arguments![target, source, count];
        let blocks = (place.multiprocessors * 8, 1);
        // SAFETY: two addresses and 64 bits; so many pieces of 16 bytes are in both buffers.
        unsafe { place.stream.launch(&self.copy, blocks, THREADS, &mut arguments) }
    }

    /// So many rounds of arithmetic on all multiprocessors; answers how many operations that is.
    pub(crate) fn burn(
        &self,
        place: &Place<'_>,
        memory: &Buffer<'_>,
        out: &Buffer<'_>,
        mut rounds: u32,
        mut seed: u32,
    ) -> Result<u64, CudaError> {
        let (kernel, operations) = (&self.burn.0, self.burn.1);
        let (mut address, mut target) = (memory.address(), out.address());
        let mut words = (memory.bytes() / 16) as u64;
        let mut arguments = arguments![address, words, target, rounds, seed];
        let blocks = place.multiprocessors * 4;
        // SAFETY: an address, 64 bits, an address, twice 32 bits; it reads words of 16 bytes (or of 4, of as many) of the memory, of which
        // `Burn` has at least 64 MiB, and writes one number at most.
        unsafe { place.stream.launch(kernel, (blocks, 1), THREADS, &mut arguments) }?;
        Ok(u64::from(blocks) * u64::from(THREADS) * operations * u64::from(rounds))
    }

    /// Writes where nothing is. Waiting for the stream tells what came of it.
    pub(crate) fn fault(&self, stream: &Stream<'_>) -> Result<(), CudaError> {
        let mut nowhere: u64 = 16;
        let mut arguments = arguments![nowhere];
        // SAFETY: an address. That nothing is there is what this is for: the device stops the kernel and ends the context, and no memory
        // of anybody is touched.
        unsafe { stream.launch(&self.fault, (1, 1), 32, &mut arguments) }
    }
}
