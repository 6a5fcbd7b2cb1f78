//! A figure together with how we know it, so that an assumption never passes for a measurement.

use serde::{Deserialize, Serialize};

/// How a figure came to us, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// The driver of the GPU at hand says so. It wins over everything below.
    Reported,
    /// Read from a board of this product through NVML.
    Measured,
    /// Seen in published output of NVIDIA's own tools for this product.
    Logged,
    /// Printed in NVIDIA's documentation.
    Documented,
    /// Carried over from a sibling product; nobody has shown it for this one.
    Assumed,
}

impl Evidence {
    /// Whether a person should be told that the figure is not known for this product.
    pub const fn is_assumed(self) -> bool {
        matches!(self, Evidence::Assumed)
    }
}

/// A value with its [`Evidence`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fact<T> {
    /// The figure itself.
    pub value: T,
    /// How it is known.
    pub evidence: Evidence,
}

impl<T> Fact<T> {
    /// A figure with its evidence.
    pub const fn new(value: T, evidence: Evidence) -> Self {
        Fact { value, evidence }
    }
}
