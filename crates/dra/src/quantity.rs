//! Amounts as Kubernetes writes them, and how much of a shared device a claim may ask for.

use carve_gpu_model::Mebibytes;
use std::fmt;

/// An amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quantity {
    /// So many of something.
    Count(u64),
    /// Memory.
    Memory(Mebibytes),
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantity::Count(count) => count.fmt(f),
            // As the API server would write it, so that a slice reads back as it was sent.
            Quantity::Memory(Mebibytes(mebibytes)) if *mebibytes > 0 && mebibytes % 1024 == 0 => {
                write!(f, "{}Gi", mebibytes / 1024)
            }
            Quantity::Memory(Mebibytes(0)) => f.write_str("0"),
            Quantity::Memory(Mebibytes(mebibytes)) => write!(f, "{mebibytes}Mi"),
        }
    }
}

/// How much a device has of something, and how much of it one claim may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// All of it.
    pub value: Quantity,
    /// What claims may ask for, where several share the device.
    pub policy: Option<RequestPolicy>,
}

/// What a claim may ask for: anything from `least` on in steps, up to all that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestPolicy {
    /// What a claim gets that asks for nothing.
    pub default: Quantity,
    /// The least.
    pub least: Quantity,
    /// The most.
    pub most: Quantity,
    /// What amounts are rounded up to.
    pub step: Quantity,
}

impl Capacity {
    /// All of it goes to one claim.
    pub fn whole(value: Quantity) -> Self {
        Capacity { value, policy: None }
    }

    /// Memory that claims share. What is less than a step is left over: the API server wants whole steps.
    pub fn shared_memory(memory: Mebibytes) -> Self {
        let step = Mebibytes(256);
        let value = Quantity::Memory(Mebibytes(memory.0 / step.0 * step.0));
        let least = Quantity::Memory(step);
        let policy = RequestPolicy { default: value, least, most: value, step: least };
        Capacity { value, policy: Some(policy) }
    }

    /// Compute that claims share, in percent. None at all may be asked for: such a claim only holds memory.
    pub fn shared_compute() -> Self {
        let all = Quantity::Count(100);
        let policy =
            RequestPolicy { default: all, least: Quantity::Count(0), most: all, step: Quantity::Count(1) };
        Capacity { value: all, policy: Some(policy) }
    }

    /// So many seats, of which a claim takes one unless it asks for more.
    pub fn seats(seats: u64) -> Self {
        let (all, one) = (Quantity::Count(seats), Quantity::Count(1));
        Capacity {
            value: all,
            policy: Some(RequestPolicy { default: one, least: one, most: all, step: one }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Capacity, Quantity};
    use carve_gpu_model::Mebibytes;

    #[test]
    fn memory_is_written_as_the_api_server_does() {
        for (mebibytes, text) in
            [(0, "0"), (256, "256Mi"), (1024, "1Gi"), (81_152, "81152Mi"), (40_960, "40Gi")]
        {
            assert_eq!(Quantity::Memory(Mebibytes(mebibytes)).to_string(), text);
        }
    }

    #[test]
    fn shared_memory_is_a_number_of_steps() {
        let capacity = Capacity::shared_memory(Mebibytes(143_771));
        assert_eq!(capacity.value, Quantity::Memory(Mebibytes(143_616)));
        assert_eq!(143_616 % 256, 0);
        assert_eq!(capacity.policy.expect("a policy").most, capacity.value);
    }
}
