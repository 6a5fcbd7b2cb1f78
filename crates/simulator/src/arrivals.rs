//! In which order pods arrive and which node comes first among equals: from a file, or from a seed by the published method.

use crate::trace::{Trace, TraceError};
use carve_placement::{Dice, WHOLE};

/// One run of an experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    /// Its seed.
    pub seed: u64,
    /// The pods that arrive, by their place in the trace.
    pub pods: Vec<usize>,
    /// The nodes, by their place in the trace, the one that is taken first among equals at the front.
    pub nodes: Vec<usize>,
}

/// Sequences from a file: for each seed a line `SEED,pods,…` with the rows of the pod list in their order of arrival, and a line
/// `SEED,nodeperm,…` with the rank of each node.
pub fn read(text: &str, trace: &Trace) -> Result<Vec<Sequence>, TraceError> {
    let wrong = |line: usize, what: String| Err(TraceError::Line { line: line + 1, what });
    let mut sequences = Vec::new();
    let mut arriving: Option<(u64, Vec<usize>)> = None;
    for (line, text) in
        text.lines().enumerate().filter(|(_, text)| !text.is_empty() && !text.starts_with('#'))
    {
        let mut cells = text.split(',');
        let seed = cells.next().and_then(|cell| cell.parse::<u64>().ok());
        let (Some(seed), Some(what)) = (seed, cells.next()) else {
            return wrong(line, "a line begins with a seed and 'pods' or 'nodeperm'".to_owned());
        };
        let numbers: Result<Vec<usize>, _> = cells.map(str::parse::<usize>).collect();
        let Ok(numbers) = numbers else {
            return wrong(line, "after the first two values there are only whole numbers".to_owned());
        };
        match what {
            "pods" => {
                if let Some(pod) = numbers.iter().find(|pod| **pod >= trace.pods.len()) {
                    return wrong(line, format!("pod {pod} of a trace with {} pods", trace.pods.len()));
                }
                arriving = Some((seed, numbers));
            }
            "nodeperm" => {
                let Some((of, pods)) = arriving.take().filter(|(of, _)| *of == seed) else {
                    return wrong(line, format!("the pods of seed {seed} should be in the line before"));
                };
                let mut nodes: Vec<usize> = (0..numbers.len()).collect();
                nodes.sort_by_key(|node| numbers[*node]);
                let distinct = nodes.windows(2).all(|pair| numbers[pair[0]] != numbers[pair[1]]);
                if numbers.len() != trace.nodes.len() || !distinct {
                    let has = trace.nodes.len();
                    return wrong(
                        line,
                        format!("{} ranks, which must be different, for {has} nodes", numbers.len()),
                    );
                }
                sequences.push(Sequence { seed: of, pods, nodes });
            }
            other => return wrong(line, format!("'{other}' is neither 'pods' nor 'nodeperm'")),
        }
    }
    Ok(sequences)
}

/// More arrivals than any experiment needs; keeps a trace that hardly asks for GPUs from going on for ever.
const MOST_ARRIVALS: usize = 10_000_000;

/// A sequence by the published method: all pods in random order, then pods drawn at random until they ask for `percent` of all
/// GPUs (or pods removed at random if they ask for more); nodes in random order.
pub fn generate(trace: &Trace, seed: u64, percent: u64) -> Sequence {
    let mut dice = Dice::new(seed);
    // What runs already does not arrive, but it counts, and more of its kind may come.
    let runs = |pod: &usize| trace.pods[*pod].node.is_some();
    let mut pods: Vec<usize> = (0..trace.pods.len()).filter(|pod| !runs(pod)).collect();
    dice.shuffle(&mut pods);
    let gpus: u64 = trace.nodes.iter().map(|node| u64::from(node.gpus)).sum();
    let most = gpus * u64::from(WHOLE.0) * percent / 100;
    let asks = |pod: usize| trace.pods[pod].claim.total();
    let mut sum: u64 = (0..trace.pods.len()).map(asks).sum();
    if sum == 0 {
        let mut nodes: Vec<usize> = (0..trace.nodes.len()).collect();
        dice.shuffle(&mut nodes);
        return Sequence { seed, pods, nodes };
    }
    while sum > most && !pods.is_empty() {
        sum -= asks(pods.remove(dice.below(pods.len())));
    }
    while pods.len() < MOST_ARRIVALS {
        let drawn = dice.below(trace.pods.len());
        // As published: the draw that ends it is measured by one of its GPUs.
        if sum + u64::from(trace.pods[drawn].claim.compute.0) > most {
            break;
        }
        sum += asks(drawn);
        pods.push(drawn);
    }
    let mut nodes: Vec<usize> = (0..trace.nodes.len()).collect();
    dice.shuffle(&mut nodes);
    Sequence { seed, pods, nodes }
}
