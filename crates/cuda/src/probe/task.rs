//! The probes themselves, in the process that has the context.
#![allow(unsafe_code, reason = "starting a kernel: only who wrote it knows its parameters")]

use super::DeviceChoice;
use crate::device::{Attribute, Device};
use crate::error::CudaError;
use crate::open::OpenError;
use crate::uuid::DeviceUuid;
use carve_gpu_model::Bytes;
use serde::{Deserialize, Serialize};
use std::ptr::from_mut;
use std::time::Instant;
use thiserror::Error;

/// The kernel; it takes three addresses and a count of 32 bits.
const VECTOR_ADD: &str = include_str!("vector_add.ptx");

/// How many sums are made: enough to keep every multiprocessor of the largest GPU busy, little enough for the
/// smallest slice (12 MiB).
const ELEMENTS: u32 = 1 << 20;

/// Threads of a block.
const THREADS: u32 = 256;

/// What a client of a device sees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// What the driver calls the device.
    pub name: String,
    /// Its identity.
    pub uuid: DeviceUuid,
    /// What the client can allocate, its own context already paid for.
    pub free: Bytes,
    /// All memory of the device; a memory limit of MPS does not show here.
    pub total: Bytes,
    /// Multiprocessors that the client may use.
    pub multiprocessors: u32,
}

/// A device added two vectors, and every sum was right.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VectorAdd {
    /// What the driver calls the device.
    pub device: String,
    /// Its identity.
    pub uuid: DeviceUuid,
    /// How many sums were checked.
    pub elements: u32,
    /// From the start of the kernel until it was known to be done.
    pub milliseconds: f64,
}

/// Why a probe did not succeed.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// CUDA can not be used here at all.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// CUDA refused something.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// The device is not among those that this process sees.
    #[error(
        "device {wanted} is not among the {count} that CUDA shows to this process ({list}); look at \
         CUDA_VISIBLE_DEVICES, and whether the MIG device still exists",
        count = seen.len(),
        list = seen.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    DeviceNotSeen {
        /// What was asked for.
        wanted: DeviceChoice,
        /// What is there.
        seen: Vec<DeviceUuid>,
    },
    /// The device calculates wrongly.
    #[error(
        "{device} gave {wrong} wrong sums of {ELEMENTS}; the first at element {element}: {found} instead of \
         {expected}. Do not use this GPU: drain the node, look for XIDs in dmesg, and have the board tested"
    )]
    WrongSum {
        /// What the driver calls the device.
        device: String,
        /// How many sums are wrong.
        wrong: usize,
        /// The first of them.
        element: usize,
        /// What it is.
        found: f32,
        /// What it should be.
        expected: f32,
    },
    /// The command line of the probe makes no sense.
    #[error("{0}; usage: look|vector-add [--device NUMBER|UUID] [--library PATH]")]
    Usage(String),
}

impl ProbeError {
    /// A short word for metrics and events.
    pub fn reason(&self) -> &'static str {
        match self {
            ProbeError::Open(OpenError::LibraryNotFound { .. }) => "library-not-found",
            ProbeError::Open(OpenError::SymbolMissing { .. }) => "symbol-missing",
            ProbeError::Open(OpenError::NoDevice) => "no-device",
            ProbeError::Open(OpenError::Refused(_)) => "cuda-does-not-start",
            ProbeError::Cuda(_) => "cuda-refused",
            ProbeError::DeviceNotSeen { .. } => "device-not-seen",
            ProbeError::WrongSum { .. } => "wrong-sum",
            ProbeError::Usage(_) => "usage",
        }
    }
}

/// What a client of the device sees. Makes a context, because only a context knows the limits it is under.
pub fn look(device: Device<'_>) -> Result<Seen, ProbeError> {
    let context = device.context()?;
    let memory = context.memory()?;
    Ok(Seen {
        name: device.name()?,
        uuid: device.uuid()?,
        free: memory.free,
        total: memory.total,
        multiprocessors: device.attribute(Attribute::Multiprocessors)?,
    })
}

/// Lets the device add two vectors and checks every element of the sum.
pub fn vector_add(device: Device<'_>) -> Result<VectorAdd, ProbeError> {
    let (name, uuid) = (device.name()?, device.uuid()?);
    let context = device.context()?;
    let bytes = ELEMENTS as usize * size_of::<f32>();
    let mut left = context.allocate(bytes)?;
    let mut right = context.allocate(bytes)?;
    let mut sum = context.allocate(bytes)?;
    left.write(&to_bytes(addend))?;
    right.write(&to_bytes(other_addend))?;
    // Memory may hold the sums of a probe before this one; a kernel that writes nothing must not pass.
    sum.write(&to_bytes(|_| f32::NAN))?;

    let module = context.load_ptx(VECTOR_ADD)?;
    let kernel = module.function("vector_add")?;
    let (mut a, mut b, mut s, mut count) = (left.address(), right.address(), sum.address(), ELEMENTS);
    let mut arguments = [
        from_mut(&mut a).cast(),
        from_mut(&mut b).cast(),
        from_mut(&mut s).cast(),
        from_mut(&mut count).cast(),
    ];
    let started = Instant::now();
    // SAFETY: the kernel takes three addresses and a count of 32 bits, which is what `arguments` points to. It touches
    // `ELEMENTS` numbers of 4 bytes from each address, the length of the buffers; those live until the end of this
    // function, and the work is finished before it.
    unsafe { kernel.launch(ELEMENTS.div_ceil(THREADS), THREADS, &mut arguments) }?;
    context.synchronise()?;
    let milliseconds = started.elapsed().as_secs_f64() * 1e3;

    let mut found = vec![0; bytes];
    sum.read(&mut found)?;
    check(&name, &found)?;
    Ok(VectorAdd { device: name, uuid, elements: ELEMENTS, milliseconds })
}

/// Addends whose sums are whole numbers below 2^24, so that there is exactly one right answer in `f32`.
fn addend(element: u32) -> f32 {
    element as f32
}

/// Differs between neighbours and between multiprocessors, so that a sum at the wrong place is noticed.
fn other_addend(element: u32) -> f32 {
    (element.wrapping_mul(7919) % 10_007) as f32
}

fn to_bytes(value: impl Fn(u32) -> f32) -> Vec<u8> {
    (0..ELEMENTS).flat_map(|element| value(element).to_ne_bytes()).collect()
}

fn check(device: &str, found: &[u8]) -> Result<(), ProbeError> {
    let (numbers, _) = found.as_chunks::<4>();
    let sums = (0..ELEMENTS).map(|element| addend(element) + other_addend(element));
    let pairs = numbers.iter().map(|bytes| f32::from_ne_bytes(*bytes)).zip(sums).enumerate();
    // Bits are compared, so that NaN is as wrong as any other number.
    let mut wrong = pairs.filter(|(_, (found, expected))| found.to_bits() != expected.to_bits());
    let Some((element, (found, expected))) = wrong.next() else { return Ok(()) };
    let wrong = 1 + wrong.count();
    Err(ProbeError::WrongSum { device: device.to_owned(), wrong, element, found, expected })
}

#[cfg(test)]
mod tests {
    use super::{ELEMENTS, ProbeError, addend, check, other_addend, to_bytes};

    #[test]
    fn one_wrong_sum_of_a_million_is_found_wherever_it_is() {
        let right = |element: u32| addend(element) + other_addend(element);
        assert!(check("GPU", &to_bytes(right)).is_ok());
        for (place, off) in
            [(0, -0.0), (255, f32::NAN), (524_289, -1.0), (ELEMENTS - 1, right(ELEMENTS - 1) + 1.0)]
        {
            let bytes = to_bytes(|element| if element == place { off } else { right(element) });
            let Err(ProbeError::WrongSum { wrong: 1, element, .. }) = check("GPU", &bytes) else {
                panic!("{off} at {place} was not found");
            };
            assert_eq!(element, place as usize);
        }
        // Sums that a kernel wrote one place too far.
        let shifted = check("GPU", &to_bytes(|element| right(element.saturating_sub(1))));
        assert!(
            matches!(shifted, Err(ProbeError::WrongSum { wrong, element: 1, .. }) if wrong + 1 == ELEMENTS as usize)
        );
    }

    #[test]
    fn every_sum_is_exact() {
        for element in 0..ELEMENTS {
            let exact = u64::from(element) + u64::from(element.wrapping_mul(7919) % 10_007);
            assert!(
                exact < 1 << 24 && (addend(element) + other_addend(element)) as u64 == exact,
                "{element}"
            );
        }
    }
}
