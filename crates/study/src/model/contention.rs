//! How fast tenants are that want the same card: a fixed point between how long each stays on it and how often the
//! others are there.

use super::demand::{Demand, Resources};

/// Rounds after which it ends in any case.
const ROUNDS: u32 = 400;

/// Where nobody's presence moves by more than this, nothing will.
const STILL: f64 = 1e-12;

/// What multiprocessors give of themselves when several processes run on them at once.
const PACKING: f64 = 0.98;

/// How tenants meet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Meeting {
    /// One after the other, in turns of so many milliseconds.
    InTurns {
        /// Milliseconds.
        turn_ms: f64,
    },
    /// At the same time.
    AtOnce,
}

/// One tenant, as contention sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Player {
    /// What a piece of its work asks of the part of the card that it has.
    pub(super) demand: Demand,
    /// The most of the GPU's time that it is let have.
    pub(super) time: Option<f64>,
    /// Pieces a millisecond that come, where they come when they like.
    pub(super) arrivals: Option<f64>,
    /// Whether its multiprocessors are its own, so that only bandwidth and power are shared.
    pub(super) apart: bool,
}

/// Where a tenant settles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Settled {
    /// Pieces a millisecond.
    pub(super) rate: f64,
    /// Pieces a millisecond that it could do if there always was one.
    pub(super) capacity: f64,
    /// Milliseconds that a piece is on the GPU or waits for it.
    pub(super) gpu_ms: f64,
    /// Part of the time in which it is there.
    pub(super) presence: f64,
}

impl Player {
    /// One that may have all of the card.
    pub(super) fn free(demand: Demand) -> Self {
        Player { demand, time: None, arrivals: None, apart: false }
    }

    /// One that has a part of the multiprocessors, and of the bandwidth where that is divided too.
    pub(super) fn confined(mut demand: Demand, multiprocessors: f64, bandwidth: Option<f64>) -> Self {
        let uses = demand.uses;
        let by_bandwidth = bandwidth.map_or(1.0, |part| uses.bandwidth / part);
        let longer = (uses.multiprocessors / multiprocessors).max(by_bandwidth).max(1.0);
        demand.gpu_ms *= longer;
        demand.uses = Resources {
            multiprocessors: uses.multiprocessors / longer,
            bandwidth: if bandwidth.is_some() { 0.0 } else { uses.bandwidth / longer },
            power: uses.power / longer,
        };
        Player { demand, time: None, arrivals: None, apart: true }
    }

    /// How long a piece is on the GPU, or waits for it, while the others are there as often as said.
    fn stay(&self, place: usize, players: &[Player], presence: &[f64], meeting: Meeting) -> f64 {
        let others = || {
            players
                .iter()
                .zip(presence)
                .enumerate()
                .filter(move |(other, _)| *other != place)
                .map(|(_, pair)| pair)
        };
        let own = self.demand.gpu_ms;
        match meeting {
            Meeting::InTurns { turn_ms } => {
                let company: f64 = others().map(|(_, presence)| presence).sum();
                // Who is short waits for the end of a longer neighbour's turn first.
                let until_turn: f64 = others()
                    .map(|(other, presence)| {
                        presence * (other.demand.gpu_ms.min(turn_ms) - own).max(0.0) / 2.0
                    })
                    .sum();
                if own == 0.0 { 0.0 } else { own * (1.0 + company) + until_turn }
            }
            Meeting::AtOnce => {
                let asked = |part: fn(&Resources) -> f64, of_all: f64| {
                    let others: f64 =
                        others().map(|(other, presence)| presence * part(&other.demand.uses)).sum();
                    (part(&self.demand.uses) + others) / of_all
                };
                let packing = if players.len() > 1 { PACKING } else { 1.0 };
                let on_multiprocessors =
                    if self.apart { 1.0 } else { asked(|uses| uses.multiprocessors, packing) };
                let longer = on_multiprocessors
                    .max(asked(|uses| uses.bandwidth, 1.0))
                    .max(asked(|uses| uses.power, 1.0))
                    .max(1.0);
                // A kernel starts when blocks of neighbours make room; small kernels wait for that again and again.
                let room: f64 = others()
                    .filter(|_| !self.apart)
                    .map(|(other, presence)| {
                        presence * other.demand.block_ms * other.demand.uses.multiprocessors.powi(2)
                    })
                    .sum();
                own * longer + self.demand.kernels * room
            }
        }
    }
}

/// Where tenants settle that share a card.
pub(super) fn settle(players: &[Player], meeting: Meeting) -> Vec<Settled> {
    let mut presence = vec![0.0; players.len()];
    let mut settled = Vec::new();
    for _ in 0..ROUNDS {
        settled = players
            .iter()
            .enumerate()
            .map(|(place, player)| {
                let gpu_ms = player.stay(place, players, &presence, meeting);
                let held = match player.time {
                    Some(part) if player.demand.gpu_ms > 0.0 => part / player.demand.gpu_ms,
                    _ => f64::INFINITY,
                };
                let capacity = (1.0 / (player.demand.host_ms + gpu_ms)).min(held);
                let rate = player.arrivals.map_or(capacity, |arrivals| arrivals.min(capacity));
                Settled { rate, capacity, gpu_ms, presence: (rate * gpu_ms).min(1.0) }
            })
            .collect();
        let mut moved = 0.0_f64;
        for (before, now) in presence.iter_mut().zip(&settled) {
            moved = moved.max((*before - now.presence).abs());
            *before = f64::midpoint(*before, now.presence);
        }
        if moved < STILL {
            break;
        }
    }
    settled
}
