//! What a container may use, as the agent writes it and the limiter reads it.

/// Where a container finds its limits: a folder for each part, in it a file for each share.
pub const LIMITS_FOLDER: &str = "/run/carve/limits";

/// The version of [`Limits`] written by this build. Later versions add fields at the end, and say so in `size`.
pub const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"CARVELIM";
const BURST: u32 = 1;
const PASS: u32 = 2;
const MPS: u32 = 4;

/// What a container may use of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Memory in bytes.
    pub memory: u64,
    /// Time of the part in hundredths of a percent; zero where it is not limited.
    pub compute: u32,
    /// Bytes that a process's context takes beside what the process allocates.
    pub context: u64,
    /// Whether time that nobody uses is lent to it.
    pub burst: bool,
    /// Whether CUDA works without limits where the limiter can not hold them; otherwise it is refused.
    pub pass: bool,
    /// Whether MPS holds its time, by multiprocessors; the limiter then only counts it.
    pub mps: bool,
}

/// Why bytes are no limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitsError {
    /// Fewer bytes than there should be.
    Short,
    /// Another kind of file.
    Foreign,
    /// A version that changed more than it added.
    Version(u32),
    /// More time than there is.
    Compute(u32),
}

impl core::fmt::Display for LimitsError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            LimitsError::Short => f.write_str("the file of limits ends too early"),
            LimitsError::Foreign => f.write_str("this is no file of limits"),
            LimitsError::Version(found) => {
                write!(f, "the file of limits has version {found}, and {VERSION} is the latest known here")
            }
            LimitsError::Compute(found) => {
                write!(f, "{found} hundredths of a percent are more than all of a GPU")
            }
        }
    }
}

impl core::error::Error for LimitsError {}

impl Limits {
    /// Bytes of the file: what is written once, and behind it the container's [`crate::TurnCell`], all zero at first.
    pub const SIZE: usize = 128;
    /// Where the turn is.
    pub const TURN: usize = 64;

    /// As the file holds them.
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let flags = [(self.burst, BURST), (self.pass, PASS), (self.mps, MPS)];
        let flags = flags.iter().filter(|(is_set, _)| *is_set).fold(0, |sum, (_, flag)| sum | flag);
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(Self::SIZE as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.memory.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.compute.to_le_bytes());
        bytes[28..32].copy_from_slice(&flags.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.context.to_le_bytes());
        bytes
    }

    /// From a file. A longer one of a later version is read as far as it is known.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, LimitsError> {
        let four = |at: usize| -> Result<[u8; 4], LimitsError> {
            bytes.get(at..at + 4).and_then(|found| found.try_into().ok()).ok_or(LimitsError::Short)
        };
        if bytes.get(..8).ok_or(LimitsError::Short)? != MAGIC {
            return Err(LimitsError::Foreign);
        }
        let version = u32::from_le_bytes(four(8)?);
        if version == 0 {
            return Err(LimitsError::Version(version));
        }
        let size = u32::from_le_bytes(four(12)?) as usize;
        // The reader may have taken no more than it knows.
        if size < Self::SIZE || bytes.len() < Self::SIZE {
            return Err(LimitsError::Short);
        }
        let eight = |at: usize| -> Result<u64, LimitsError> {
            let found = bytes.get(at..at + 8).and_then(|found| found.try_into().ok());
            found.map(u64::from_le_bytes).ok_or(LimitsError::Short)
        };
        let (memory, context) = (eight(16)?, eight(32)?);
        let compute = u32::from_le_bytes(four(24)?);
        if compute > 10_000 {
            return Err(LimitsError::Compute(compute));
        }
        let flags = u32::from_le_bytes(four(28)?);
        let has = |flag: u32| flags & flag != 0;
        Ok(Limits { memory, compute, context, burst: has(BURST), pass: has(PASS), mps: has(MPS) })
    }
}

#[cfg(test)]
mod tests {
    use super::{Limits, LimitsError};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn limits_are_read_as_they_are_written(memory: u64, compute in 0u32..=10_000, context: u64, burst: bool, pass: bool, mps: bool) {
            let limits = Limits { memory, compute, context, burst, pass, mps };
            prop_assert_eq!(Limits::from_bytes(&limits.to_bytes()), Ok(limits));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: [u8; 32], length in 0usize..128) {
            let _ = Limits::from_bytes(&bytes[..length % 32]);
            let mut near = Limits { memory: 1, compute: 2, context: 3, burst: true, pass: false, mps: false }.to_bytes();
            near[length] ^= bytes[0];
            let _ = Limits::from_bytes(&near);
        }
    }

    #[test]
    fn of_a_later_version_what_is_known_is_read() {
        let limits =
            Limits { memory: 5 << 30, compute: 2_500, context: 7, burst: true, pass: false, mps: false };
        let mut later = limits.to_bytes();
        later[8..12].copy_from_slice(&2u32.to_le_bytes());
        later[12..16].copy_from_slice(&192u32.to_le_bytes());
        assert_eq!(Limits::from_bytes(&later), Ok(limits));
    }

    #[test]
    fn what_is_no_file_of_limits_is_named() {
        let good =
            Limits { memory: 5 << 30, compute: 2_500, context: 0, burst: false, pass: false, mps: false }
                .to_bytes();
        assert_eq!(Limits::from_bytes(&good[..40]), Err(LimitsError::Short));
        assert_eq!(Limits::from_bytes(&[0; 128]), Err(LimitsError::Foreign));
        let mut more = good;
        more[24..28].copy_from_slice(&10_001u32.to_le_bytes());
        assert_eq!(Limits::from_bytes(&more), Err(LimitsError::Compute(10_001)));
    }
}
