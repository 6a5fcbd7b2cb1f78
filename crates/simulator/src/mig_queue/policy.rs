//! Who is next in the queue, where it goes, and what may be moved for it.

/// Who is asked first whether it fits. Who does not fit is passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// First come, first asked.
    Arrival,
    /// The smallest profile first, among equals first come. Knows no run times: a small instance leaves more to the others, however long
    /// it runs.
    Small,
    /// The shortest run time first. Knows run times before jobs have run.
    Short,
}

/// Where a job goes if there are several places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placing {
    /// The first GPU that has room, the lowest slot there.
    FirstFit,
    /// Of all places on all GPUs the one that closes the fewest other places.
    FewestClosed,
    /// Of all places the one that breaks the smallest free block (pair, half, GPU), and there the half with the least left free.
    SmallestBlock,
}

/// What may be moved while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moves {
    /// Nothing.
    None,
    /// Instances within their GPU, at no cost. No GPU can do that today; it says what it would be worth.
    WithinGpus,
    /// Instances between all GPUs, at no cost. It says what checkpoint and restore could be worth at the most.
    BetweenGpus,
}

/// How jobs are queued and placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Who is next.
    pub order: Order,
    /// Where it goes.
    pub placing: Placing,
    /// What may be moved.
    pub moves: Moves,
    /// Whether an instance whose job has ended stays until somebody needs its place, so that the next job of its profile can have it.
    pub reuse: bool,
    /// How long, in milliseconds, a 1g job waits for a hole of its own size before it breaks an empty right half, or a pair that a 2g job
    /// waits for. A broken block stays broken until all its pieces are free at once, which costs more than this wait.
    pub patience_ms: u64,
}

impl Policy {
    /// First come, first asked; first GPU, lowest slot.
    pub const FIRST_FIT: Policy = Policy {
        order: Order::Arrival,
        placing: Placing::FirstFit,
        moves: Moves::None,
        reuse: false,
        patience_ms: 0,
    };
    /// The same queue, with the best slot by a score.
    pub const BEST_SLOT: Policy = Policy { placing: Placing::FewestClosed, ..Policy::FIRST_FIT };
    /// The same queue; places that break the smallest block; 1g jobs that leave larger ones alone for a quarter of an hour; idle
    /// instances stay for the next job. Knows no run times, moves nothing.
    pub const OURS: Policy =
        Policy { placing: Placing::SmallestBlock, reuse: true, patience_ms: 900_000, ..Policy::FIRST_FIT };

    /// Everything that is compared, with what each knows or does that the others do not.
    pub const ALL: [(&'static str, Policy); 10] = [
        ("first-fit", Policy::FIRST_FIT),
        ("best slot by score", Policy::BEST_SLOT),
        ("ours", Policy::OURS),
        ("ours without patience", Policy { patience_ms: 0, ..Policy::OURS }),
        ("small profiles first", Policy { order: Order::Small, ..Policy::OURS }),
        ("moves within GPUs, free", Policy { moves: Moves::WithinGpus, ..Policy::FIRST_FIT }),
        ("moves between GPUs, free", Policy { moves: Moves::BetweenGpus, ..Policy::FIRST_FIT }),
        ("run times known, first-fit", Policy { order: Order::Short, ..Policy::FIRST_FIT }),
        ("run times known, ours", Policy { order: Order::Short, ..Policy::OURS }),
        (
            "run times known, moves between GPUs, free",
            Policy { order: Order::Short, moves: Moves::BetweenGpus, ..Policy::FIRST_FIT },
        ),
    ];
}
