//! GPU after GPU: which choice each makes, so that all together are worth the most.
//!
//! After some GPUs it matters only how many claims of each kind are served; of all ways to get there the worthiest is kept. That is exact.
//! Prices ([`super::bound`]) say what can still be reached from there, so what can not become the best any more is dropped, which stays
//! exact. Only where more is left than may be remembered, the least promising go, and the result says so.

use super::bound::{CLAIM, Prices};
use super::cuts::{Cuts, Worth, add};
use std::collections::HashMap;

/// What was found.
#[derive(Debug)]
pub(super) struct Found {
    /// For each GPU the position of its choice.
    pub(super) choices: Vec<usize>,
    pub(super) worth: Worth,
    /// No choices serve more claims than this.
    pub(super) at_most: i64,
    /// Whether nothing was dropped that could have been the best.
    pub(super) exhaustive: bool,
}

/// How many claims of each kind are served so far, and what that is worth.
struct State {
    served: Box<[u32]>,
    worth: Worth,
    /// The state before, and the choice that led here.
    from: (u32, u32),
}

/// What one pass needs to know.
struct Pass<'a> {
    waiting: &'a [u32],
    cuts: &'a [Cuts],
    kind_of: &'a [usize],
    prices: &'a Prices,
    /// For each GPU, what it and those behind it can gain at most.
    gains: Vec<i64>,
    /// For each GPU, the room that it and those behind it can have at most.
    rooms: Vec<i64>,
}

/// The best choices for all GPUs.
pub(super) fn search(waiting: &[u32], cuts: &[Cuts], kind_of: &[usize], states: usize) -> Found {
    let mut numbers = vec![0; cuts.len()];
    for kind in kind_of {
        numbers[*kind] += 1;
    }
    let kinds: Vec<(&Cuts, usize)> = cuts.iter().zip(numbers).collect();
    let prices = Prices::find(waiting, &kinds);
    let at_most = prices.claims(waiting, &kinds);
    let suffix = |each: &dyn Fn(&Cuts) -> i64| {
        let of_kind: Vec<i64> = cuts.iter().map(each).collect();
        let mut sums = vec![0; kind_of.len() + 1];
        for gpu in (0..kind_of.len()).rev() {
            sums[gpu] = sums[gpu + 1] + of_kind[kind_of[gpu]];
        }
        sums
    };
    let room = |cuts: &Cuts| cuts.choices.iter().map(|choice| choice.worth[2]).max().unwrap_or(0);
    let pass = Pass {
        waiting,
        cuts,
        kind_of,
        prices: &prices,
        gains: suffix(&|cuts| prices.best_gain(cuts)),
        rooms: suffix(&room),
    };
    // A quick pass first: what it finds tells the thorough one what is not worth following.
    let quick = pass.run(states.min(64), None, at_most);
    if quick.exhaustive || states <= 64 {
        return quick;
    }
    let thorough = pass.run(states, Some(quick.worth), at_most);
    if thorough.worth >= quick.worth { thorough } else { Found { exhaustive: thorough.exhaustive, ..quick } }
}

impl Pass<'_> {
    /// The most that can come of a state before GPU `gpu`, in units of [`CLAIM`].
    fn hope(&self, gpu: usize, served: &[u32], worth: &Worth) -> i64 {
        let left = self.waiting.iter().zip(served).map(|(all, served)| all - served);
        worth[0] * CLAIM + self.prices.of_waiting(left) + self.gains[gpu]
    }

    /// Whether a state can not become better than what is known.
    fn is_lost(&self, gpu: usize, served: &[u32], worth: &Worth, known: Option<Worth>) -> bool {
        let Some(known) = known else { return false };
        let most = [self.hope(gpu, served, worth) / CLAIM, worth[1], worth[2] + self.rooms[gpu]];
        most[..] < known[..3]
    }

    fn run(&self, states: usize, known: Option<Worth>, at_most: i64) -> Found {
        let none = vec![0u32; self.waiting.len()].into_boxed_slice();
        let mut layers = vec![vec![State { served: none, worth: [0; 5], from: (0, 0) }]];
        let mut exhaustive = true;
        for (gpu, kind) in self.kind_of.iter().enumerate() {
            let before = &layers[gpu];
            let mut found: HashMap<Box<[u32]>, usize> = HashMap::new();
            let mut after: Vec<State> = Vec::new();
            let mut sum = vec![0u32; self.waiting.len()];
            for (parent, state) in before.iter().enumerate() {
                'choices: for (position, choice) in self.cuts[*kind].choices.iter().enumerate() {
                    for (place, sum) in sum.iter_mut().enumerate() {
                        *sum = state.served[place] + choice.served[place];
                        if *sum > self.waiting[place] {
                            continue 'choices;
                        }
                    }
                    let worth = add(state.worth, choice.worth);
                    if self.is_lost(gpu + 1, &sum, &worth, known) {
                        continue;
                    }
                    let from = (parent as u32, position as u32);
                    match found.get(&sum[..]) {
                        Some(at) if after[*at].worth >= worth => {}
                        Some(at) => (after[*at].worth, after[*at].from) = (worth, from),
                        None => {
                            found.insert(sum.clone().into(), after.len());
                            after.push(State { served: sum.clone().into(), worth, from });
                        }
                    }
                }
            }
            if after.len() > states {
                exhaustive = false;
                after.sort_by_cached_key(|state| {
                    std::cmp::Reverse((self.hope(gpu + 1, &state.served, &state.worth), state.worth))
                });
                after.truncate(states);
            }
            layers.push(after);
        }
        let last = layers.last().map_or(&[][..], Vec::as_slice);
        let best = (0..last.len()).max_by_key(|at| (last[*at].worth, std::cmp::Reverse(*at)));
        let Some(mut at) = best else {
            return Found { choices: Vec::new(), worth: [i64::MIN / 2; 5], at_most, exhaustive };
        };
        let worth = last[at].worth;
        let mut choices = vec![0; self.kind_of.len()];
        for gpu in (0..self.kind_of.len()).rev() {
            let (parent, choice) = layers[gpu + 1][at].from;
            (choices[gpu], at) = (choice as usize, parent as usize);
        }
        Found { choices, worth, at_most, exhaustive }
    }
}
