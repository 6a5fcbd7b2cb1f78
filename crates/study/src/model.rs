//! A model of a card that is shared, so that there is a study where there is no GPU.
//!
//! Every tenant does pieces of work, one after the other: so long on the host, so long on the GPU, with so much of the
//! multiprocessors, the memory's bandwidth and the board's power. In turns, a piece stays on the GPU for as long as it
//! takes alone, once more for each neighbour that is there, and what switching costs. At once, it stays longer only
//! where more is asked of something than there is. How long everybody stays and how often everybody is there are
//! brought to agree ([`contention`]). The numbers of workloads ([`demand`]) were fitted to an H200 with CUDA 13; the tests
//! name twelve rates of PyTorch that the model meets within 7 %, and fifteen of carve's own workloads within 12 %. Turns,
//! start-up times and watts are assumed. Other cards are that one with fewer or more
//! multiprocessors.
//!
//! It shows the directions that were measured there: small jobs lose a quarter in turns and nothing at once, light
//! inference gains most at once, heavy inference little in any way, burning nothing. It is no prediction for a card:
//! caches, clocks, drivers' schedulers and the kernels of a real program are not in it. One thing that was measured it
//! does not show: light tenants and small jobs under MPS were each faster than one alone without MPS, light ones by
//! a third; here nobody gains by a neighbour. What a mishap does to neighbours is put in as it was seen there.
//! What it says of mishaps, start-up and watts is what went in, and shows nothing about a card. A study that it gives is marked as simulated, and so is what follows from it.

mod contention;
mod demand;
mod noise;
mod setting;

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::h200;

use crate::{
    Beside, Board, Card, Cell, Figures, Happened, Mishap, Outcome, Overhead, Scope, Shared, Spread, Strategy,
    Study, Tenant, Timing, Victim, Workload,
};
use contention::{Meeting, Player, Settled, settle};
use noise::{Noise, short, spread};
use setting::Setting;

/// Where requests come when they like: as a part of what one tenant can do that has the card to itself.
const ARRIVALS: f64 = 0.3;

/// Products in a job, as in the talk.
const JOB: u64 = 100_000;

/// Watts of a board with as many multiprocessors as the one that the model was fitted to, and what of it idles away.
const WATTS: f64 = 700.0;
const IDLE: f64 = 0.12;

/// A model of a card.
#[derive(Debug, Clone)]
pub struct Model {
    card: Card,
    timing: Timing,
    seed: u64,
}

/// A study of a card that is only described. It is the same for the same arguments.
pub fn simulate(card: Card, scope: Scope, seed: u64, begun: String, carve: &str) -> Study {
    let model = Model::new(card, scope.timing(), seed);
    let mut study = Study::new(carve, begun, model.card.clone(), scope, scope.timing());
    for cell in scope.cells() {
        let outcome = model.outcome(&cell);
        study.put(cell, outcome);
    }
    study
}

impl Model {
    /// Of a card, which is marked as simulated.
    pub fn new(card: Card, timing: Timing, seed: u64) -> Self {
        Model { card: Card { simulated: true, ..card }, timing, seed }
    }

    /// What comes of a cell.
    pub fn outcome(&self, cell: &Cell) -> Outcome {
        let mut noise = Noise::of(self.seed, &cell.to_string());
        let figures = match *cell {
            Cell::Overhead => Ok(Figures::Overhead(Overhead {
                round_ns: noise.spread(40.0, self.times()),
                launch_us: noise.spread(6.0, self.times()),
            })),
            Cell::Share { workload, strategy, tenants } => {
                self.shared(workload, strategy, tenants, &mut noise).map(Figures::Shared)
            }
            Cell::Beside { victim, aggressor, strategy } => {
                self.beside(victim, aggressor, strategy, &mut noise).map(Figures::Beside)
            }
            Cell::Mishap { mishap, strategy } => {
                self.happened(mishap, strategy, &mut noise).map(Figures::Happened)
            }
        };
        match figures {
            Ok(figures) => Outcome::Measured(figures),
            Err(why) => Outcome::Skipped(why),
        }
    }

    fn times(&self) -> u32 {
        (self.timing.windows * self.timing.passes).max(1)
    }

    /// Pieces a millisecond that come for a tenant, where they come when they like.
    fn arrivals(&self, workload: Workload) -> Option<f64> {
        let alone = demand::Demand::on(workload.closed()?, &self.card);
        Some(ARRIVALS / (alone.host_ms + alone.gpu_ms))
    }

    fn settled(
        &self,
        strategy: Strategy,
        workloads: &[Workload],
        parts: u8,
    ) -> Result<(Setting, Vec<Settled>), String> {
        let mut setting = Setting::of(&self.card, strategy, workloads, parts)?;
        for (player, workload) in setting.players.iter_mut().zip(workloads) {
            player.arrivals = self.arrivals(*workload);
        }
        let settled = settle(&setting.players, setting.meeting);
        Ok((setting, settled))
    }

    fn shared(
        &self,
        workload: Workload,
        strategy: Strategy,
        tenants: u8,
        noise: &mut Noise,
    ) -> Result<Shared, String> {
        let workloads = vec![workload; usize::from(tenants)];
        let (setting, settled) = self.settled(strategy, &workloads, tenants)?;
        let times = self.times();
        let mut total = vec![0.0; times as usize];
        let mut all = Vec::new();
        for (place, (player, settled)) in setting.players.iter().zip(&settled).enumerate() {
            let rate = settled.rate * 1000.0 * player.demand.amount;
            // Tenants that do the same differ a little, and go on doing so.
            let rates = noise.windows(rate, times).into_iter().map(|one| one * 0.999).collect::<Vec<f64>>();
            total.iter_mut().zip(&rates).for_each(|(sum, rate)| *sum += rate);
            let latency = workload.is_inference().then(|| self.latency(place, &setting, settled));
            let mut of =
                |pick: fn(&Latency) -> f64| latency.as_ref().map(|one| noise.spread(pick(one), times));
            let (p50_ms, p95_ms, p99_ms) = (of(|one| one.p50), of(|one| one.p95), of(|one| one.p99));
            let job = workload.is_job().then_some(JOB);
            let seconds: Vec<f64> = rates.iter().map(|rate| JOB as f64 / rate).collect();
            all.push(Tenant {
                rate: spread(&rates),
                p50_ms,
                p95_ms,
                p99_ms,
                completion_s: job.map(|_| spread(&seconds)),
                job,
                arrivals: player.arrivals.map(|each_ms| short(each_ms * 1000.0)),
                start_up_s: noise.spread(start_up(strategy, place, player), self.timing.passes),
                memory_mib: setting.memory_mib[place],
            });
        }
        Ok(Shared {
            tenants: all,
            total: spread(&total),
            daemon_s: None,
            board: Some(self.board(&setting, &settled)),
        })
    }

    fn board(&self, setting: &Setting, settled: &[Settled]) -> Board {
        let idle: f64 = settled.iter().map(|one| 1.0 - one.presence).product();
        // In turns, the driver's own figure reads full as soon as two processes have work now and then.
        let in_turns = matches!(setting.meeting, Meeting::InTurns { .. }) && settled.len() > 1;
        let busy = if in_turns { 100.0 } else { (1.0 - idle) * 100.0 };
        let drawn: f64 = setting
            .players
            .iter()
            .zip(settled)
            .map(|(player, one)| one.rate * player.demand.gpu_ms * player.demand.uses.power)
            .sum();
        let most = WATTS * f64::from(self.card.multiprocessors) / 132.0;
        Board {
            busy_percent: Some(busy.round()),
            watts: Some((most * (IDLE + (1.0 - IDLE) * drawn.min(1.0))).round()),
            memory_mib: Some(setting.board_mib),
        }
    }

    fn latency(&self, place: usize, setting: &Setting, settled: &Settled) -> Latency {
        let player = &setting.players[place];
        let demand = &player.demand;
        let alone = demand.host_ms + demand.gpu_ms;
        let service = (demand.host_ms + settled.gpu_ms).max(1.0 / settled.capacity);
        let waiting = 1.0 - alone / service;
        let mut latency = Latency {
            p50: service * 0.98,
            p95: service * (1.04 + 0.15 * waiting),
            p99: service * (1.08 + 0.3 * waiting),
        };
        if let Meeting::InTurns { turn_ms } = setting.meeting {
            let others = setting.players.iter().enumerate().filter(|(other, _)| *other != place);
            let a_turn_of_each: f64 = others.map(|(_, other)| other.demand.gpu_ms.min(turn_ms)).sum();
            latency.p99 = latency.p99.max(alone + a_turn_of_each * (demand.gpu_ms / turn_ms).max(1.0));
        }
        if let Some(arrivals) = player.arrivals {
            // A queue in front of one server; what can not be served any more piles up for half a window.
            let load = (arrivals * service).min(0.97);
            let queue = load / (1.0 - load) * service / 2.0;
            let behind = (1.0 - settled.capacity / arrivals).max(0.0) * self.timing.window * 1000.0 / 2.0;
            latency.p50 += 0.7 * queue + behind;
            latency.p95 += 3.0 * queue + 1.9 * behind;
            latency.p99 += 4.6 * queue + 2.0 * behind;
        }
        latency
    }

    fn victim(
        &self,
        strategy: Strategy,
        workloads: &[Workload],
        noise: &mut Noise,
    ) -> Result<Victim, String> {
        let (setting, settled) = self.settled(strategy, workloads, 2)?;
        let (Some(player), Some(first), Some(workload)) =
            (setting.players.first(), settled.first(), workloads.first())
        else {
            return Err("there is nobody to look at".to_owned());
        };
        let p99 = workload.is_inference().then(|| self.latency(0, &setting, first).p99);
        Ok(Victim {
            rate: noise.spread(first.rate * 1000.0 * player.demand.amount, self.times()),
            p99_ms: p99.map(|value| noise.spread(value, self.times())),
        })
    }

    fn beside(
        &self,
        victim: Workload,
        aggressor: Workload,
        strategy: Strategy,
        noise: &mut Noise,
    ) -> Result<Beside, String> {
        Ok(Beside {
            alone: self.victim(strategy, &[victim], noise)?,
            beside: self.victim(strategy, &[victim, aggressor], noise)?,
        })
    }

    fn happened(&self, mishap: Mishap, strategy: Strategy, noise: &mut Noise) -> Result<Happened, String> {
        let before: Spread = self.victim(strategy, &[Workload::Light], noise)?.rate;
        let error = fate(mishap, strategy);
        let survived = error.is_none();
        let offender = match (mishap, strategy) {
            (Mishap::Fault, _) => "an illegal memory access was encountered (700)",
            (Mishap::OutOfMemory, Strategy::MpsLimits | Strategy::Limiter) => {
                "out of memory (2) at its limit"
            }
            (Mishap::OutOfMemory, Strategy::Mig) => "out of memory (2) on its own MIG device",
            (Mishap::OutOfMemory, _) => "out of memory (2)",
            (Mishap::Kill, _) => "ended by signal 9",
        };
        let gap = match (survived, mishap, strategy) {
            (_, Mishap::Fault, Strategy::TimeSlicing | Strategy::Limiter) => 40.0,
            _ => 1000.0 / before.median * 3.0,
        };
        Ok(Happened {
            offender: offender.to_owned(),
            survived,
            error: error.map(str::to_owned),
            before: before.median,
            after: if survived { short(before.median * noise.factor()) } else { 0.0 },
            longest_gap_ms: short(gap * noise.factor()),
            next_works: true,
        })
    }
}

/// Milliseconds that requests take.
struct Latency {
    p50: f64,
    p95: f64,
    p99: f64,
}

/// What a neighbour meets of a mishap, as it was seen on an H200 (and for MIG as NVIDIA's documentation has it); none where it works on.
const fn fate(mishap: Mishap, strategy: Strategy) -> Option<&'static str> {
    match (mishap, strategy) {
        (
            Mishap::OutOfMemory,
            Strategy::TimeSlicing
            | Strategy::TimeSlicingShort
            | Strategy::TimeSlicingLong
            | Strategy::Mps
            | Strategy::Streams
            | Strategy::GreenContexts
            | Strategy::MigTimeSlicing
            | Strategy::MigMps,
        ) => Some("no memory is left for a request that needs some (2)"),
        (Mishap::Fault, Strategy::Mps | Strategy::MpsLimits | Strategy::MigMps) => {
            Some("an illegal memory access was encountered (700): all clients of an MPS server have its fate")
        }
        (Mishap::Fault, Strategy::Streams | Strategy::GreenContexts) => {
            Some("an illegal memory access was encountered (700): all tenants have one context")
        }
        (Mishap::Kill, Strategy::Streams | Strategy::GreenContexts) => {
            Some("ended by signal 9: all tenants are one process")
        }
        _ => None,
    }
}

/// Seconds until a tenant is ready to work.
fn start_up(strategy: Strategy, place: usize, player: &Player) -> f64 {
    let more = match strategy {
        // The first client of a daemon waits for its server.
        Strategy::Mps | Strategy::MpsLimits | Strategy::MigMps => 0.03 + if place == 0 { 0.15 } else { 0.0 },
        Strategy::Limiter => 0.02,
        _ => 0.0,
    };
    player.demand.start_s + more
}
