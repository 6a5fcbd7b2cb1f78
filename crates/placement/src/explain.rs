//! Why here, and why not there: as data, and in words.

use crate::claim::{Claim, WHOLE};
use crate::fleet::{Fleet, NodeIndex, Spot};
use crate::node::Misfit;
use crate::placer::Placer;
use crate::policies::Policy;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Most alternatives that are named.
const ALTERNATIVES: usize = 3;

/// A node on which the claim fits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Where it would be served.
    pub spot: Spot,
    /// Its points under the policy; the highest wins, and of equals the first node.
    pub points: i32,
    /// What serving it there costs by the policy's own measure, before that is rounded; in GPUs where it is a price.
    pub cost: f64,
    /// Whether nothing runs there yet.
    pub untouched: bool,
}

/// Nodes that do not serve the claim for the same reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// Why not.
    pub misfit: Misfit,
    /// How many nodes.
    pub nodes: usize,
    /// The one that comes nearest.
    pub nearest: NodeIndex,
}

/// Why a claim goes where it goes, or nowhere.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The policy.
    pub policy: Policy,
    /// The claim.
    pub claim: Claim,
    /// The node that serves it, if any does.
    pub chosen: Option<Candidate>,
    /// How many nodes could.
    pub fitting: usize,
    /// How many of them have as many points.
    pub equal: usize,
    /// The next best.
    pub alternatives: Vec<Candidate>,
    /// Nodes that can not, by reason.
    pub refused: Vec<Refused>,
}

/// Looks at every node of the fleet for a claim. Changes nothing.
pub fn explain(placer: &mut Placer, fleet: &Fleet, claim: &Claim) -> Explanation {
    let chosen = placer.clone().decide(fleet, claim);
    let mut options = Vec::new();
    let mut refused: BTreeMap<Misfit, (usize, NodeIndex, u64)> = BTreeMap::new();
    for node in fleet.nodes() {
        match fleet.fits(node, claim) {
            Ok(()) => {
                let score = placer.score(fleet, node, claim);
                options.push(Candidate {
                    spot: Spot { node, gpus: score.gpus },
                    points: placer.points(fleet, node, claim),
                    cost: placer.cost(fleet, node, claim),
                    untouched: fleet.is_untouched(node),
                });
            }
            Err(misfit) => {
                let lacks = lacking(fleet, node, claim, misfit);
                let entry = refused.entry(misfit).or_insert((0, node, lacks));
                entry.0 += 1;
                if lacks < entry.2 {
                    (entry.1, entry.2) = (node, lacks);
                }
            }
        }
    }
    let fitting = options.len();
    options.sort_by_key(|option| (std::cmp::Reverse(option.points), option.spot.node));
    let position = options.iter().position(|option| Some(option.spot.node) == chosen.map(|spot| spot.node));
    let best = position.map(|position| options.remove(position));
    let best = best.zip(chosen).map(|(best, spot)| Candidate { spot, ..best });
    let equal = best.map_or(0, |best| options.iter().filter(|option| option.points == best.points).count());
    options.truncate(ALTERNATIVES);
    let refused =
        refused.into_iter().map(|(misfit, (nodes, nearest, _))| Refused { misfit, nodes, nearest }).collect();
    Explanation {
        policy: placer.policy(),
        claim: *claim,
        chosen: best,
        fitting,
        equal,
        alternatives: options,
        refused,
    }
}

/// How much is missing, in the unit of what is missing: for choosing the nearest of nodes that lack the same.
fn lacking(fleet: &Fleet, node: NodeIndex, claim: &Claim, misfit: Misfit) -> u64 {
    let room = fleet.room(node);
    match misfit {
        Misfit::Cpu => claim.cpu.0.saturating_sub(room.cpu.0),
        Misfit::Memory => claim.memory.0.saturating_sub(room.memory.0),
        Misfit::Gpus => {
            let most = room.compute().iter().copied().max().unwrap_or(0);
            let missing = usize::from(claim.gpus).saturating_sub(room.serving(claim).count()) as u64;
            missing * u64::from(WHOLE.0) - u64::from(most.min(WHOLE.0 - 1))
        }
        Misfit::Apart | Misfit::Model | Misfit::Mechanism | Misfit::Pods | Misfit::Away => 0,
    }
}

impl Explanation {
    /// In words, one sentence to a line.
    pub fn words(&self, fleet: &Fleet) -> String {
        let mut words = String::new();
        match &self.chosen {
            Some(chosen) => {
                let gpus: Vec<String> = chosen.spot.gpus.iter().map(|gpu| gpu.to_string()).collect();
                let on = match gpus.len() {
                    0 => String::new(),
                    1 => format!(", GPU {}", gpus[0]),
                    _ => format!(", GPUs {}", gpus.join(", ")),
                };
                let _ = writeln!(words, "{}{on}: {}.", fleet.name(chosen.spot.node), self.because(chosen));
                let others = self.fitting - 1;
                let _ = match (others, self.equal) {
                    (0, _) => writeln!(words, "No other node has room for it."),
                    (_, 0) => {
                        writeln!(words, "{} of {} nodes with room for it are worse.", others, self.fitting)
                    }
                    (_, equal) => writeln!(
                        words,
                        "{equal} of {others} other nodes with room for it are as good; of equals the first is taken, so that \
                         the others stay whole."
                    ),
                };
                for other in self.alternatives.iter().filter(|other| other.points < chosen.points).take(1) {
                    let _ = writeln!(
                        words,
                        "The next best is {}: {}.",
                        fleet.name(other.spot.node),
                        self.because(other)
                    );
                }
            }
            None => {
                let _ = writeln!(words, "No node has room for it.");
            }
        }
        for refused in &self.refused {
            let nodes =
                if refused.nodes == 1 { "1 node".to_owned() } else { format!("{} nodes", refused.nodes) };
            let _ = writeln!(words, "{nodes}: {}.", self.why_not(fleet, refused));
        }
        words
    }

    fn because(&self, option: &Candidate) -> String {
        let start = if option.untouched { ", and nothing runs there yet" } else { "" };
        match self.policy {
            Policy::BidPrice => format!(
                "the room it takes there is worth {:.2} GPUs to what is usually asked for{start}",
                option.cost.max(0.0)
            ),
            Policy::Fgd => format!("fragmentation there scores {} of 100{start}", option.points),
            Policy::FirstFit => format!("it is the first with room{start}"),
            Policy::Random => format!("any node with room will do{start}"),
            Policy::BestFit | Policy::DotProduct | Policy::Clustering | Policy::Packing | Policy::Spread => {
                format!("it scores {} under {}{start}", option.points, self.policy)
            }
        }
    }

    fn why_not(&self, fleet: &Fleet, refused: &Refused) -> String {
        let (room, name) = (fleet.room(refused.nearest), fleet.name(refused.nearest));
        let claim = &self.claim;
        match refused.misfit {
            Misfit::Model => {
                format!("another GPU model, such as {}", fleet.model_name(fleet.shape(refused.nearest).model))
            }
            Misfit::Mechanism => "none of the mechanisms that will do is offered".to_owned(),
            Misfit::Gpus if claim.is_part() => {
                let most = room.compute().iter().copied().max().unwrap_or(0);
                format!(
                    "no GPU with {} % left; the nearest is {name} with {} %",
                    f64::from(claim.compute.0) / 10.0,
                    f64::from(most) / 10.0
                )
            }
            Misfit::Gpus => format!(
                "fewer than {} free GPUs; the nearest is {name} with {}",
                claim.gpus,
                room.serving(claim).count()
            ),
            Misfit::Apart => format!("{} free GPUs, but not close enough to each other", claim.gpus),
            Misfit::Cpu => format!("less than {} left; the nearest is {name} with {}", claim.cpu, room.cpu),
            Misfit::Memory => format!(
                "less than {} of memory left; the nearest is {name} with {}",
                claim.memory, room.memory
            ),
            Misfit::Pods => "as many pods as the node takes".to_owned(),
            Misfit::Away => "not there now".to_owned(),
        }
    }
}
