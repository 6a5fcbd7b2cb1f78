//! How much memory and how many threads each MPS client of a part may use.
//!
//! MPS limits clients, not containers, and every client pays for its own CUDA context out of its own limit. A share
//! that cannot hold a context is therefore not a small share but a broken one: it is refused here, with numbers, before
//! any daemon is told of it.

use carve_gpu_model::{Bytes, Mebibytes};
use thiserror::Error;

/// What is known of a part that MPS is to share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MpsPart {
    /// All memory of the GPU or MIG device.
    pub memory: Bytes,
    /// What the driver keeps of it; zero for a MIG device, whose memory is told without it.
    pub reserved: Bytes,
    /// CUDA compute capability.
    pub compute_capability: (u32, u32),
}

/// What MPS itself costs on a part.
///
/// A context needs room for every multiprocessor it may run on, so its cost grows with the thread percentage: on an
/// H200 with driver 580 it was 514 MiB at 100 %, 271 at 50 %, 145 at 25 %, 72 at 10 % and 58 at 2 %, which is 29 MiB and
/// 3.68 MiB for each multiprocessor, of which a client has at least 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MpsOverhead {
    /// Held by the server as long as it runs, outside every client's limit.
    pub server: Mebibytes,
    /// Taken by a context out of its client's limit, however few threads it has.
    pub context_base: Mebibytes,
    /// Taken by a context that may use all threads, the base included.
    pub context_whole: Mebibytes,
    /// Below this percentage a context gets no cheaper: a client never has fewer multiprocessors.
    pub cheapest_percentage: u32,
    /// What a client must be able to allocate besides its context for a share to be worth offering.
    pub least_usable: Mebibytes,
}

impl Default for MpsOverhead {
    /// As measured on an H200, the GPU with the most memory and nearly the most multiprocessors; an operator who has
    /// measured another says so.
    fn default() -> Self {
        MpsOverhead {
            server: Mebibytes(80),
            context_base: Mebibytes(29),
            context_whole: Mebibytes(514),
            cheapest_percentage: 7,
            least_usable: Mebibytes(64),
        }
    }
}

impl MpsOverhead {
    /// What a context takes out of the limit of a client with this share of the threads.
    pub fn context(&self, percentage: u32) -> Mebibytes {
        let percentage = u64::from(percentage.clamp(self.cheapest_percentage.min(100), 100));
        let grown = self.context_whole.0.saturating_sub(self.context_base.0);
        Mebibytes(self.context_base.0.saturating_add((grown.saturating_mul(percentage)).div_ceil(100)))
    }

    /// The smallest limit under which a client with this share of the threads is of any use.
    pub fn least_share(&self, percentage: u32) -> Mebibytes {
        Mebibytes(self.context(percentage).0.saturating_add(self.least_usable.0))
    }
}

/// What each client of a part may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MpsLimits {
    /// Most memory of the part, its context included.
    pub pinned_memory: Mebibytes,
    /// Share of the part's threads in percent, from 1 to 100.
    pub active_thread_percentage: u32,
}

/// Why a part can not be shared so.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MpsLimitError {
    /// Shared among nobody.
    #[error("MPS replicas: found 0, expected 1 or more; set `replicas` or take the part out of sharing.mps")]
    NoReplicas,
    /// More than one server connects.
    #[error(
        "MPS replicas: found {replicas}, but an MPS server on compute capability {major}.{minor} takes {most} clients; \
         set `replicas` to {most} or less, or cut the GPU by MIG first"
    )]
    TooManyClients {
        /// Shares asked for.
        replicas: u64,
        /// The most there can be.
        most: u64,
        /// Compute capability before the dot.
        major: u32,
        /// Compute capability behind the dot.
        minor: u32,
    },
    /// A share would not hold a CUDA context.
    #[error(
        "MPS replicas: {replicas} shares of {usable} are {share} each, and a client needs {least} ({context} for its \
         CUDA context); {}",
        advice(*.most)
    )]
    ShareTooSmall {
        /// Shares asked for.
        replicas: u64,
        /// What there is to share.
        usable: Mebibytes,
        /// What each would get.
        share: Mebibytes,
        /// What each would need.
        least: Mebibytes,
        /// What a context takes of it.
        context: Mebibytes,
        /// The most shares that work; zero where not even one does.
        most: u64,
    },
}

/// Architecture from which every client has its own address space and a server takes more of them.
const VOLTA: (u32, u32) = (7, 0);

/// How many clients an MPS server takes. NVIDIA's plugin draws the line at 7.5 and so denies Volta its 48.
pub fn max_clients(compute_capability: (u32, u32)) -> u64 {
    if compute_capability >= VOLTA { 48 } else { 16 }
}

/// What each of `replicas` clients may use of a part.
pub fn limits(part: &MpsPart, overhead: &MpsOverhead, replicas: u64) -> Result<MpsLimits, MpsLimitError> {
    if replicas == 0 {
        return Err(MpsLimitError::NoReplicas);
    }
    let clients = max_clients(part.compute_capability);
    if replicas > clients {
        let (major, minor) = part.compute_capability;
        return Err(MpsLimitError::TooManyClients { replicas, most: clients, major, minor });
    }
    let taken = part.reserved.0.saturating_add(overhead.server.bytes().0);
    let usable = Bytes(part.memory.0.saturating_sub(taken));
    let at = |replicas: u64| {
        // At most 48 clients, so the quotient is 2 or more and fits.
        let percentage = u32::try_from(100 / replicas).unwrap_or(100);
        (Bytes(usable.0 / replicas).whole_mebibytes(), percentage)
    };
    let (share, percentage) = at(replicas);
    let least = overhead.least_share(percentage);
    if share < least {
        // Fewer shares are larger, but their contexts are too; so every number is tried, and there are few.
        let fits = |replicas: &u64| {
            let (share, percentage) = at(*replicas);
            share >= overhead.least_share(percentage)
        };
        return Err(MpsLimitError::ShareTooSmall {
            replicas,
            usable: usable.whole_mebibytes(),
            share,
            least,
            context: overhead.context(percentage),
            most: (1..replicas).rev().find(fits).unwrap_or(0),
        });
    }
    Ok(MpsLimits { pinned_memory: share, active_thread_percentage: percentage })
}

fn advice(most: u64) -> String {
    match most {
        0 => "this part is too small for MPS; share it by time-slicing".to_owned(),
        most => format!("set `replicas` to {most} or less"),
    }
}

#[cfg(test)]
mod tests {
    use super::{MpsLimitError, MpsLimits, MpsOverhead, MpsPart, limits, max_clients};
    use carve_gpu_model::Mebibytes;

    /// The cost of nothing, to see the plain division.
    const FREE: MpsOverhead = MpsOverhead {
        server: Mebibytes(0),
        context_base: Mebibytes(0),
        context_whole: Mebibytes(0),
        cheapest_percentage: 0,
        least_usable: Mebibytes(0),
    };

    fn part(memory: u64, reserved: u64, compute_capability: (u32, u32)) -> MpsPart {
        MpsPart {
            memory: Mebibytes(memory).bytes(),
            reserved: Mebibytes(reserved).bytes(),
            compute_capability,
        }
    }

    /// The cases NVIDIA's daemon is tested with: capability, replicas, its most clients, whether it refuses. The three
    /// with 7.0 differ on purpose: 7.0 is Volta, and Volta takes 48.
    #[test]
    fn nvidias_cases_hold_but_for_volta() {
        let cases = [
            ((7, 5), None, 48, false),
            ((7, 5), None, 48, false),
            ((7, 0), None, 16, false),
            ((9, 0), None, 48, false),
            ((7, 0), Some(29), 16, true),
            ((9, 0), Some(49), 48, true),
            ((7, 0), Some(16), 16, false),
            ((9, 0), Some(48), 48, false),
        ];
        for (capability, replicas, nvidia_most, nvidia_refuses) in cases {
            let volta = capability == (7, 0);
            assert_eq!(max_clients(capability), if volta { 48 } else { nvidia_most }, "{capability:?}");
            let Some(replicas) = replicas else { continue };
            let refused = matches!(
                limits(&part(81_920, 0, capability), &FREE, replicas),
                Err(MpsLimitError::TooManyClients { .. })
            );
            assert_eq!(refused, nvidia_refuses && !volta, "{capability:?} x{replicas}");
        }
        assert_eq!(max_clients((6, 1)), 16);
        assert!(limits(&part(81_920, 0, (6, 1)), &FREE, 17).is_err());
    }

    #[test]
    fn without_overhead_the_numbers_are_nvidias() {
        for (replicas, memory, percentage) in
            [(1, 143_771, 100), (3, 47_923, 33), (4, 35_942, 25), (48, 2_995, 2)]
        {
            let expected =
                MpsLimits { pinned_memory: Mebibytes(memory), active_thread_percentage: percentage };
            assert_eq!(limits(&part(143_771, 0, (9, 0)), &FREE, replicas), Ok(expected));
        }
        // NVIDIA divides what the driver keeps as well; here it is no one's.
        let kept = limits(&part(143_771, 616, (9, 0)), &FREE, 4).unwrap();
        assert_eq!(kept.pinned_memory, Mebibytes(35_788));
    }

    #[test]
    fn shares_leave_room_for_driver_and_server() {
        let overhead = MpsOverhead::default();
        for replicas in 1..=48 {
            let limits = limits(&part(143_771, 616, (9, 0)), &overhead, replicas).unwrap();
            assert!(limits.pinned_memory.0 * replicas + 616 + 80 <= 143_771);
            assert!((limits.pinned_memory.0 + 1) * replicas + 616 + 80 > 143_771, "nothing is given away");
            assert!(u64::from(limits.active_thread_percentage) * replicas <= 100);
        }
    }

    /// Limit less free memory, as clients saw it on an H200 under 4096 MiB.
    #[test]
    fn a_context_costs_what_it_was_measured_to_cost() {
        for (percentage, measured) in [(100, 514), (50, 271), (25, 145), (10, 72), (2, 58)] {
            let told = MpsOverhead::default().context(percentage).0;
            assert!((measured..=measured + 8).contains(&told), "{percentage} %: {told}, measured {measured}");
        }
    }

    #[test]
    fn a_share_that_cannot_hold_a_context_is_refused_with_numbers() {
        let small = part(4_864, 0, (8, 0));
        let refused = limits(&small, &MpsOverhead::default(), 48).unwrap_err();
        let MpsLimitError::ShareTooSmall { most, share, least, .. } = refused else { panic!("{refused}") };
        assert_eq!((share, least), (Mebibytes(99), Mebibytes(127)));
        assert!(limits(&small, &MpsOverhead::default(), most).is_ok(), "the advice is good");
        assert!(limits(&small, &MpsOverhead::default(), most + 1).is_err(), "and the best there is");
        let text = refused.to_string();
        assert!(text.contains(&format!("set `replicas` to {most} or less")), "{text}");

        let tiny = limits(&part(100, 0, (8, 0)), &MpsOverhead::default(), 2).unwrap_err();
        assert!(tiny.to_string().contains("too small for MPS"), "{tiny}");
        assert_eq!(limits(&small, &MpsOverhead::default(), 0), Err(MpsLimitError::NoReplicas));
        // More reserved than there is must not wrap round to a huge share.
        assert!(limits(&part(100, 200, (8, 0)), &MpsOverhead::default(), 1).is_err());
    }
}
