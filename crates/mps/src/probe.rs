//! The seam through which a CUDA client looks whether the limits of a daemon hold.

use carve_gpu_model::{Bytes, Mebibytes};
use carve_slicing::PartId;
use carve_slicing::mps::MpsLimits;
use std::error::Error;
use std::fmt;
use std::path::Path;
use thiserror::Error;

/// What a client of a daemon sees of its part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Memory it can still allocate, its own context already paid for.
    pub free: Bytes,
}

/// Why a client could not look.
#[derive(Debug, Error)]
#[error("a CUDA client could not look at {part}: is the driver loaded, and does the MPS log tell more?")]
pub struct ProbeError {
    /// The part.
    pub part: PartId,
    /// What went wrong.
    #[source]
    pub source: Box<dyn Error + Send + Sync>,
}

/// Somebody who can become a client for a moment.
///
/// A CUDA process is tied to the daemon it first met, so an implementation starts a process of its own for each look.
pub trait ClientProbe: Send + Sync + fmt::Debug {
    /// Connects through a pipe directory and says what it sees. Called where blocking is allowed.
    fn look(&self, pipe: &Path, part: &PartId) -> Result<Seen, ProbeError>;
}

/// A client that sees more than its limit, or nothing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "a client of {part} sees {} free under a limit of {limit}; expected more than none and no more than the limit",
    free.whole_mebibytes()
)]
pub struct LimitNotHeld {
    /// The part.
    pub part: PartId,
    /// What the client saw.
    pub free: Bytes,
    /// What it may have.
    pub limit: Mebibytes,
}

/// Whether what a client sees is within its limits.
///
/// Only free memory tells: the total that a client is told stays that of the whole part.
pub fn verdict(part: &PartId, seen: &Seen, limits: &MpsLimits) -> Result<(), LimitNotHeld> {
    if seen.free > Bytes(0) && seen.free <= limits.pinned_memory.bytes() {
        return Ok(());
    }
    Err(LimitNotHeld { part: part.clone(), free: seen.free, limit: limits.pinned_memory })
}

#[cfg(test)]
mod tests {
    use super::{Seen, verdict};
    use carve_gpu_model::{Bytes, Mebibytes};
    use carve_slicing::PartId;
    use carve_slicing::mps::MpsLimits;

    #[test]
    fn only_free_memory_within_the_limit_is_right() {
        let limits = MpsLimits { pinned_memory: Mebibytes(4_096), active_thread_percentage: 25 };
        let part = PartId::new("GPU-1");
        for (free, right) in [(3_951, true), (4_096, true), (4_097, false), (142_565, false), (0, false)] {
            let seen = Seen { free: Mebibytes(free).bytes() };
            assert_eq!(verdict(&part, &seen, &limits).is_ok(), right, "{free}");
        }
        let error = verdict(&part, &Seen { free: Bytes(5 << 30) }, &limits).unwrap_err();
        assert!(error.to_string().contains("sees 5120 MiB free under a limit of 4096 MiB"), "{error}");
    }
}
