//! Who gets what of a card under a strategy: multiprocessors, turns, memory; or why it can not be done there.

use super::contention::{Meeting, Player};
use super::demand::{CONTEXT_MIB, Demand, RESERVED_MIB};
use crate::{Card, Strategy, Workload};
use carve_gpu_model::Product;

/// What switching between processes costs, in milliseconds.
const SWITCH_MS: f64 = 0.05;

/// Milliseconds of a turn: what the driver takes by itself, its shortest and its longest. Assumed.
const TURN_MS: f64 = 2.0;
const SHORT_TURN_MS: f64 = 1.0;
const LONG_TURN_MS: f64 = 6.0;

/// What is left of a part of the multiprocessors under MPS' limits.
const LIMITED: f64 = 0.96;

/// Multiprocessors that green contexts are made of.
const GREEN_GROUP: u32 = 8;

/// Of the memory that is left, what a tenant takes that takes all.
const ALL_MEMORY: f64 = 0.9;

/// Tenants on a card.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    /// How they meet.
    pub(super) meeting: Meeting,
    /// Who they are.
    pub(super) players: Vec<Player>,
    /// Mebibytes that each allocates.
    pub(super) memory_mib: Vec<u64>,
    /// Mebibytes in use on the whole card.
    pub(super) board_mib: u64,
}

/// A MIG device.
struct Instance {
    multiprocessors: u32,
    memory_mib: u64,
    bandwidth: f64,
}

/// The largest MIG device of which a card holds so many.
fn instance(card: &Card, count: u8) -> Result<Instance, String> {
    if card.mig.is_none() {
        return Err("this card has no MIG".to_owned());
    }
    if count > 7 {
        return Err(format!("a card holds at most 7 MIG devices, and {count} are needed"));
    }
    if let Some(table) = Product::by_name(&card.name).and_then(Product::profile_table) {
        let best = table
            .profiles()
            .iter()
            .filter(|profile| profile.max_instances >= count && profile.name.attributes().is_empty())
            .filter_map(|profile| {
                Some(Instance {
                    multiprocessors: u32::from(profile.multiprocessors.as_ref()?.value),
                    memory_mib: profile.memory.as_ref()?.value.0,
                    bandwidth: f64::from(profile.size()) / f64::from(table.slots().max(1)),
                })
            })
            .max_by_key(|instance| instance.multiprocessors);
        return best.ok_or_else(|| format!("{count} MIG devices do not fit on this card"));
    }
    // A card that is not in the table: seven parts of the multiprocessors and eight of the memory.
    Ok(Instance {
        multiprocessors: card.multiprocessors * u32::from(7 / count) / 7,
        memory_mib: card.memory_mib * u64::from(8 / count) / 8,
        bandwidth: f64::from(8 / count) / 8.0,
    })
}

impl Setting {
    /// Workloads that share a card as a strategy says. The card is divided for as many as `parts` says, also where
    /// fewer are there.
    pub(super) fn of(
        card: &Card,
        strategy: Strategy,
        workloads: &[Workload],
        parts: u8,
    ) -> Result<Setting, String> {
        let share = 1.0 / f64::from(parts.max(1));
        let hosts = host_factor(card, workloads.len());
        let demand = |workload: &Workload, card: &Card| {
            let mut demand = Demand::on(*workload, card);
            demand.host_ms *= hosts;
            demand
        };
        let free =
            |card: &Card| workloads.iter().map(|one| Player::free(demand(one, card))).collect::<Vec<_>>();
        let confined = |part: f64, bandwidth: Option<f64>| {
            workloads
                .iter()
                .map(|one| Player::confined(demand(one, card), part, bandwidth))
                .collect::<Vec<_>>()
        };
        let mut meeting = Meeting::AtOnce;
        let mut pool = Pool::Common(card.memory_mib);
        let mut players = match strategy {
            Strategy::Dedicated => free(card),
            Strategy::TimeSlicing | Strategy::TimeSlicingShort | Strategy::TimeSlicingLong => {
                meeting = Meeting::InTurns { turn_ms: turn(strategy) };
                free(card)
            }
            Strategy::Mps => free(card),
            Strategy::MpsLimits => {
                pool = Pool::Each(card.memory_mib / u64::from(parts.max(1)));
                confined(share * LIMITED, None)
            }
            Strategy::Limiter => {
                meeting = Meeting::InTurns { turn_ms: TURN_MS };
                pool = Pool::Each(card.memory_mib / u64::from(parts.max(1)));
                let mut players = free(card);
                players.iter_mut().for_each(|player| player.time = Some(share));
                players
            }
            Strategy::Streams => {
                let mut players = free(card);
                // Threads of one process wait for each other's launches now and then.
                let crowd = 1.0 + 0.03 * (workloads.len().saturating_sub(1)) as f64;
                players.iter_mut().for_each(|player| player.demand.host_ms *= crowd);
                players
            }
            Strategy::GreenContexts => {
                let groups = card.multiprocessors / u32::from(parts.max(1)) / GREEN_GROUP;
                if groups == 0 {
                    return Err(format!(
                        "{parts} parts of {} multiprocessors are smaller than the {GREEN_GROUP} that a green \
                         context has at least",
                        card.multiprocessors
                    ));
                }
                confined(f64::from(groups * GREEN_GROUP) / f64::from(card.multiprocessors), None)
            }
            Strategy::Mig => {
                let instance = instance(card, parts)?;
                pool = Pool::Each(instance.memory_mib);
                let part = f64::from(instance.multiprocessors) / f64::from(card.multiprocessors.max(1));
                confined(part, Some(instance.bandwidth))
            }
            Strategy::MigTimeSlicing | Strategy::MigMps => {
                // One of the two largest devices of which a card holds two; the other is left to others.
                let instance = instance(card, 2)?;
                if strategy == Strategy::MigTimeSlicing {
                    meeting = Meeting::InTurns { turn_ms: turn(strategy) };
                }
                pool = Pool::Common(instance.memory_mib);
                free(&Card {
                    multiprocessors: instance.multiprocessors,
                    memory_mib: instance.memory_mib,
                    ..card.clone()
                })
            }
        };
        if let (Meeting::InTurns { turn_ms }, true) = (meeting, players.len() > 1) {
            for player in &mut players {
                let gpu_ms = player.demand.gpu_ms;
                player.demand.gpu_ms += SWITCH_MS * (gpu_ms / turn_ms).max(1.0);
            }
        }
        let demands: Vec<Option<u64>> = players.iter().map(|player| player.demand.memory_mib).collect();
        let memory_mib = pool.divide(&demands, strategy.is_one_process())?;
        let contexts = if strategy.is_one_process() { 1 } else { players.len() as u64 };
        let board_mib = memory_mib.iter().sum::<u64>() + contexts * CONTEXT_MIB + RESERVED_MIB;
        Ok(Setting { meeting, players, memory_mib, board_mib })
    }
}

/// Milliseconds of a turn.
fn turn(strategy: Strategy) -> f64 {
    match strategy {
        Strategy::TimeSlicingShort => SHORT_TURN_MS,
        Strategy::TimeSlicingLong => LONG_TURN_MS,
        _ => TURN_MS,
    }
}

/// How much longer work on the host takes where tenants outnumber processors.
fn host_factor(card: &Card, tenants: usize) -> f64 {
    (tenants as f64 / f64::from(card.processors.max(1))).max(1.0)
}

/// Memory that tenants allocate from.
enum Pool {
    /// One for all, first come, first served.
    Common(u64),
    /// So much for each.
    Each(u64),
}

impl Pool {
    fn divide(&self, demands: &[Option<u64>], one_process: bool) -> Result<Vec<u64>, String> {
        let mut given = Vec::new();
        let mut left = match self {
            Pool::Common(all) => {
                let contexts = if one_process { 1 } else { demands.len() as u64 };
                all.saturating_sub(RESERVED_MIB + contexts * CONTEXT_MIB)
            }
            Pool::Each(_) => 0,
        };
        for demand in demands {
            let room = match self {
                Pool::Common(_) => left,
                Pool::Each(part) => part.saturating_sub(CONTEXT_MIB),
            };
            let taken = demand.unwrap_or((room as f64 * ALL_MEMORY) as u64);
            if taken > room {
                return Err(format!("a tenant needs {taken} MiB of memory, and {room} MiB are left to it"));
            }
            left = left.saturating_sub(taken);
            given.push(taken);
        }
        Ok(given)
    }
}

#[cfg(test)]
mod tests {
    use super::Pool;

    #[test]
    fn who_comes_first_takes_most_unless_each_has_a_part() {
        let burning = [None, None];
        let common = Pool::Common(24_564).divide(&burning, false).unwrap();
        assert!(common[0] > 8 * common[1], "{common:?}");
        let each = Pool::Each(12_000).divide(&burning, false).unwrap();
        assert_eq!(each[0], each[1]);
        assert!(Pool::Each(1_000).divide(&[Some(700)], false).is_err());
        assert_eq!(Pool::Common(4_000).divide(&[Some(700), Some(700)], true), Ok(vec![700, 700]));
    }
}
