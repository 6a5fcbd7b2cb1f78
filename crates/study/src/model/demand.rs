//! What a piece of each workload asks of a card, in numbers that were fitted to a real H200.

use crate::{Card, Workload};

/// Multiprocessors of the card that the numbers below are for.
const REFERENCE_MULTIPROCESSORS: f64 = 132.0;

/// Mebibytes that the driver takes for each process on the card.
pub(super) const CONTEXT_MIB: u64 = 514;

/// Mebibytes that the driver keeps for itself.
pub(super) const RESERVED_MIB: u64 = 616;

/// What tenants have in common when they work at the same time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Resources {
    /// Part of the multiprocessors.
    pub(super) multiprocessors: f64,
    /// Part of the memory's bandwidth.
    pub(super) bandwidth: f64,
    /// Part of the power that the board may draw.
    pub(super) power: f64,
}

/// What one piece of a workload asks of a card that it has to itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Demand {
    /// Milliseconds on the host, in which the GPU is not needed.
    pub(super) host_ms: f64,
    /// Milliseconds on the GPU.
    pub(super) gpu_ms: f64,
    /// What it uses of the card in that time.
    pub(super) uses: Resources,
    /// Kernels that it launches one after the other.
    pub(super) kernels: f64,
    /// Milliseconds that one thread block of it holds its place.
    pub(super) block_ms: f64,
    /// Mebibytes that it allocates; none where it takes whatever is there.
    pub(super) memory_mib: Option<u64>,
    /// How much of the workload's unit one piece is.
    pub(super) amount: f64,
    /// Seconds to start its process without a card's part in it.
    pub(super) start_s: f64,
}

impl Demand {
    /// On a card: work that a smaller card has fewer multiprocessors for takes longer there.
    pub(super) fn on(workload: Workload, card: &Card) -> Demand {
        let mut demand = Demand::reference(workload);
        let size = f64::from(card.multiprocessors.max(1)) / REFERENCE_MULTIPROCESSORS;
        let uses = &mut demand.uses;
        let needed = [uses.multiprocessors, uses.bandwidth, uses.power].map(|part| part / size);
        let longer = needed.into_iter().fold(1.0, f64::max);
        *uses = Resources {
            multiprocessors: needed[0] / longer,
            bandwidth: needed[1] / longer,
            power: needed[2] / longer,
        };
        demand.gpu_ms *= longer;
        demand
    }

    /// On the card that the numbers were fitted to.
    fn reference(workload: Workload) -> Demand {
        let light = Demand {
            host_ms: 0.80,
            gpu_ms: 0.385,
            uses: Resources { multiprocessors: 0.3, bandwidth: 0.2, power: 0.22 },
            kernels: 72.0,
            block_ms: 0.019,
            memory_mib: Some(336),
            amount: 1.0,
            start_s: 0.25,
        };
        let heavy = Demand {
            host_ms: 0.045,
            gpu_ms: 1.80,
            uses: Resources { multiprocessors: 0.85, bandwidth: 0.15, power: 0.4 },
            block_ms: 0.001,
            ..light
        };
        let batch = Demand {
            host_ms: 1.94,
            gpu_ms: 0.667,
            uses: Resources { multiprocessors: 0.1, bandwidth: 0.02, power: 0.22 },
            kernels: 150.0,
            block_ms: 0.002,
            memory_mib: Some(1),
            amount: 50.0,
            ..light
        };
        let burn = Demand {
            host_ms: 0.01,
            gpu_ms: 3.82,
            uses: Resources { multiprocessors: 0.89, bandwidth: 0.05, power: 0.74 },
            kernels: 1.0,
            block_ms: 0.015,
            memory_mib: None,
            // 10^12 operations of 10,000 rounds on 132 multiprocessors.
            amount: 1.384,
            start_s: 0.3,
        };
        let encoder = Demand {
            host_ms: 2.61,
            gpu_ms: 0.95,
            uses: Resources { multiprocessors: 0.12, bandwidth: 0.15, power: 0.2 },
            kernels: 100.0,
            block_ms: 0.004,
            memory_mib: Some(900),
            amount: 1.0,
            start_s: 2.9,
        };
        let products = Demand {
            host_ms: 1.94,
            gpu_ms: 0.6,
            uses: Resources { multiprocessors: 0.1, bandwidth: 0.05, power: 0.12 },
            kernels: 50.0,
            block_ms: 0.002,
            memory_mib: Some(64),
            amount: 50.0,
            start_s: 2.7,
        };
        match workload {
            Workload::Empty => Demand {
                host_ms: 0.000_04,
                gpu_ms: 0.0,
                uses: Resources { multiprocessors: 0.0, bandwidth: 0.0, power: 0.0 },
                kernels: 0.0,
                block_ms: 0.0,
                memory_mib: Some(0),
                ..light
            },
            Workload::Light | Workload::LightOpen => light,
            Workload::Heavy | Workload::HeavyOpen => heavy,
            Workload::Batch => batch,
            Workload::Burn => burn,
            Workload::Bandwidth => Demand {
                host_ms: 0.01,
                gpu_ms: 1.104,
                uses: Resources { multiprocessors: 0.35, bandwidth: 1.0, power: 0.59 },
                kernels: 4.0,
                block_ms: 0.005,
                memory_mib: Some(1_024),
                // Four times half a gibibyte read and written, in 10^9 bytes.
                amount: 4.295,
                start_s: 0.25,
            },
            Workload::TorchLight => encoder,
            Workload::TorchHeavy => Demand {
                host_ms: 0.55,
                gpu_ms: 2.72,
                uses: Resources { multiprocessors: 0.88, bandwidth: 0.5, power: 0.8 },
                block_ms: 0.001,
                memory_mib: Some(1_800),
                ..encoder
            },
            Workload::TorchBatch => products,
            Workload::TorchBurn => Demand {
                host_ms: 0.01,
                gpu_ms: 1.663,
                // Power is what holds it back: on 71 of 100 multiprocessors it is as fast as on all of them.
                uses: Resources { multiprocessors: 0.71, bandwidth: 0.3, power: 1.0 },
                memory_mib: Some(1_200),
                start_s: 2.8,
                // 10^12 operations of a product of two matrices with 8,192 rows and columns.
                amount: 1.099_511_627_776,
                ..burn
            },
            Workload::CupyBatch => Demand { host_ms: 7.0, gpu_ms: 2.0, start_s: 1.6, ..products },
        }
    }
}
