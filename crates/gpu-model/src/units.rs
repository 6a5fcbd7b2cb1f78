//! Amounts of memory as types, so that bytes and mebibytes cannot be confused.

use serde::{Deserialize, Serialize};
use std::fmt;

const BYTES_PER_MEBIBYTE: u64 = 1024 * 1024;

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A number of mebibytes (2^20 bytes), the unit NVML and `nvidia-smi` speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Mebibytes(pub u64);

impl Bytes {
    /// Whole mebibytes in this amount; the rest is dropped, as `nvidia-smi` does.
    pub const fn whole_mebibytes(self) -> Mebibytes {
        Mebibytes(self.0 / BYTES_PER_MEBIBYTE)
    }
}

impl Mebibytes {
    /// The same amount in bytes.
    pub const fn bytes(self) -> Bytes {
        Bytes(self.0 * BYTES_PER_MEBIBYTE)
    }

    /// The amount in gibibytes, for people.
    pub fn gibibytes(self) -> f64 {
        self.0 as f64 / 1024.0
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}

impl fmt::Display for Mebibytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MiB", self.0)
    }
}
