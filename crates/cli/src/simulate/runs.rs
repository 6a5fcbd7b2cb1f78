//! Runs every policy on every sequence, on all cores, with a bar on a terminal.

use crate::failure::Failure;
use carve_gpu_model::Mebibytes;
use carve_placement::{Claim, Policy, WHOLE, bounds};
use carve_simulator::arrivals::Sequence;
use carve_simulator::measured::{Measured, measure};
use carve_simulator::{Trace, TraceError, filling};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// A run, measured and timed.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) figures: Measured,
    /// Decisions in a second, the preparation left out.
    pub(crate) speed: f64,
}

/// What no policy can beat, for one sequence, in percent of all GPUs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) seed: u64,
    /// Where a policy that turns nobody away must end.
    pub(crate) accepting_all: Option<f64>,
    /// How full a policy that chooses can get.
    pub(crate) choosing: Option<f64>,
}

/// A bar on stderr where that is a terminal; silence elsewhere.
fn bar(steps: usize) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(steps as u64), target);
    match ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Does `count` things, on as many threads as there are cores; the answers in the order of the things.
pub(crate) fn all<T: Send>(count: usize, work: impl Fn(usize) -> (T, String) + Sync) -> Vec<T> {
    let bar = bar(count);
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::with_capacity(count));
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get()).min(count);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        break;
                    }
                    let (answer, message) = work(index);
                    // A thread that panicked ends the scope with its panic; what it held is whole.
                    done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((index, answer));
                    bar.set_message(message);
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, answer)| answer).collect()
}

/// Every policy on every sequence; the runs of the first policy first.
pub(crate) fn runs(
    trace: &Trace,
    sequences: &[Sequence],
    policies: &[Policy],
) -> Result<Vec<Run>, TraceError> {
    let done = all(policies.len() * sequences.len(), |index| {
        let (policy, sequence) = (policies[index / sequences.len()], &sequences[index % sequences.len()]);
        (one(trace, sequence, policy), format!("{policy}, seed {}", sequence.seed))
    });
    done.into_iter().collect()
}

fn one(trace: &Trace, sequence: &Sequence, policy: Policy) -> Result<Run, TraceError> {
    let (fleet, placer) = filling::prepare(trace, sequence, policy)?;
    let start = Instant::now();
    let filled = filling::fill_with(trace, sequence, fleet, placer);
    let speed = filled.decisions.len() as f64 / start.elapsed().as_secs_f64().max(1e-9);
    Ok(Run { figures: measure(trace, policy, sequence.seed, &filled)?, speed })
}

/// With more different claims than this the programme takes too long.
const MOST_KINDS: usize = 400;

/// The bounds for a sequence.
pub(crate) fn bounds(trace: &Trace, sequence: &Sequence) -> Result<Bounds, Failure> {
    let fleet = trace.fleet(sequence.nodes.iter().copied()).map_err(|error| Failure::of(&error))?;
    let claims = trace.claims(&fleet);
    // What runs from the beginning could have been placed better too, so it counts as the first to arrive.
    let running = (0..claims.len()).filter(|pod| trace.pods[*pod].node.is_some());
    let arriving = running.chain(sequence.pods.iter().copied()).map(|pod| claims[pod]);
    let possible = |claim: &Claim| {
        fleet.classes().any(|(_, class)| class.shape.fits(&class.shape.untouched(), claim).is_ok())
    };
    // The programme rounds GPU memory up. Without it the bound may be higher, and stays true.
    let arriving: Vec<Claim> =
        arriving.filter(possible).map(|claim| Claim { gpu_memory: Mebibytes(0), ..claim }).collect();
    let capacity = (fleet.gpus() * u64::from(WHOLE.0)).max(1) as f64;
    // Nor would a bound be true for parts that are no hundredths of a GPU, which it rounds up as well.
    let coarse = arriving.iter().all(|claim| claim.compute.0.is_multiple_of(10));
    let kinds: BTreeSet<Claim> =
        arriving.iter().map(|claim| Claim { memory: Mebibytes(0), ..*claim }).collect();
    if !coarse || kinds.len() > MOST_KINDS {
        return Ok(Bounds { seed: sequence.seed, accepting_all: None, choosing: None });
    }
    let asked = |count: usize| arriving[..count].iter().map(Claim::total).sum::<u64>() as f64;
    let all = bounds::accepting_all(&fleet, &arriving, 1).map(|mut count| {
        // The programme may serve a claim by half; nobody asks for more than there is and gets it.
        while asked(count) > capacity {
            count -= 1;
        }
        100.0 * asked(count) / capacity
    });
    let choosing = bounds::selective(&fleet, &arriving);
    Ok(Bounds {
        seed: sequence.seed,
        accepting_all: all,
        choosing: choosing.map(|gpus| 100.0 * gpus * f64::from(WHOLE.0) / capacity),
    })
}
