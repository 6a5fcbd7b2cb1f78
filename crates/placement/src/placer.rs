//! One decision after another: where the next claim goes, looking only at what has changed since its like was last placed.

use crate::claim::Claim;
use crate::dice::Dice;
use crate::fleet::{ClassIndex, Fleet, NodeIndex, Spot};
use crate::policies::{BidPrice, Policy, Score, Scorer, View};
use crate::tournament::{OUT, Tournament};
use crate::workload::Workload;
use std::collections::HashMap;

/// What is remembered for claims of one kind.
#[derive(Debug, Clone)]
struct Kind {
    /// Up to where changes of the fleet have been looked at.
    generation: usize,
    /// Points of nodes in use.
    in_use: Tournament,
    /// Points of an untouched node of each class, if the claim fits.
    untouched: Vec<Option<f64>>,
}

/// Chooses nodes and GPUs by a policy. It belongs to one fleet and must see all its changes in their order.
#[derive(Debug, Clone)]
pub struct Placer {
    policy: Policy,
    scorer: Scorer,
    kinds: HashMap<Claim, Kind>,
    dice: Dice,
    /// What starting on an untouched node costs, for each class, at a generation.
    opening: Vec<f64>,
    opening_at: usize,
    seen: Vec<u64>,
    round: u64,
}

impl Placer {
    /// A placer for a fleet and what it is usually asked for. The seed matters to the random policy alone.
    pub fn new(policy: Policy, fleet: &Fleet, workload: &Workload, seed: u64) -> Self {
        Placer::with(policy, Scorer::new(policy, fleet, workload), seed)
    }

    /// A placer by prices that were found before.
    pub fn bid_price(prices: BidPrice) -> Self {
        Placer::with(Policy::BidPrice, Scorer::BidPrice(Box::new(prices)), 0)
    }

    fn with(policy: Policy, scorer: Scorer, seed: u64) -> Self {
        Placer {
            policy,
            scorer,
            kinds: HashMap::new(),
            dice: Dice::new(seed),
            opening: Vec::new(),
            opening_at: usize::MAX,
            seen: Vec::new(),
            round: 0,
        }
    }

    /// The policy.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// The best spot for a claim, or none if it fits nowhere.
    pub fn decide(&mut self, fleet: &Fleet, claim: &Claim) -> Option<Spot> {
        if self.policy == Policy::Random {
            return self.any(fleet, claim);
        }
        self.look(fleet, claim);
        self.price_opening(fleet);
        let kind = self.kinds.get(claim)?;
        let mut best = kind.in_use.winner().map(|(node, points)| (points, NodeIndex(node as u32)));
        for ((index, class), points) in fleet.classes().zip(&kind.untouched) {
            let (Some(points), Some(node)) = (points, class.first_untouched()) else { continue };
            let points = self.scorer.rounded(points - self.opening[usize::from(index.0)]);
            if best.is_none_or(|(most, first)| points > most || (points == most && node < first)) {
                best = Some((points, node));
            }
        }
        let (_, node) = best?;
        Some(Spot { node, gpus: self.score(fleet, node, claim).gpus })
    }

    /// How good a node on which the claim fits is for it.
    pub fn score(&self, fleet: &Fleet, node: NodeIndex, claim: &Claim) -> Score {
        let view = View { shape: fleet.shape(node), room: fleet.room(node), affinity: fleet.affinity(node) };
        self.scorer.score(view, claim)
    }

    /// The points of a node as they are compared with those of others, with what an untouched node costs.
    pub fn points(&mut self, fleet: &Fleet, node: NodeIndex, claim: &Claim) -> i32 {
        self.price_opening(fleet);
        let points = self.score(fleet, node, claim).points;
        let opening =
            if fleet.is_untouched(node) { self.opening[usize::from(fleet.class_of(node).0)] } else { 0.0 };
        self.scorer.rounded(points - opening)
    }

    /// What serving a claim on a node costs, in GPUs, by the policy's own measure.
    pub(crate) fn cost(&self, fleet: &Fleet, node: NodeIndex, claim: &Claim) -> f64 {
        let points = self.score(fleet, node, claim).points;
        match &self.scorer {
            Scorer::BidPrice(prices) => -points / prices.whole(fleet.shape(node).model).max(f64::EPSILON),
            _ => -points,
        }
    }

    /// Brings what is remembered for a kind of claim up to date.
    fn look(&mut self, fleet: &Fleet, claim: &Claim) {
        let mut kind = self.kinds.remove(claim).filter(|kind| kind.in_use.width() >= fleet.len());
        let changes = kind.as_ref().and_then(|kind| fleet.changes_since(kind.generation));
        let known = changes.is_some();
        self.round += 1;
        self.seen.resize(fleet.len(), 0);
        let changed: Vec<NodeIndex> = match changes {
            Some(changes) => {
                let round = self.round;
                let seen = &mut self.seen;
                let first = |node: &&NodeIndex| std::mem::replace(&mut seen[node.0 as usize], round) != round;
                changes.iter().filter(first).copied().collect()
            }
            None => fleet.nodes().filter(|node| fleet.is_in_use(*node)).collect(),
        };
        let mut entry = match kind.take() {
            Some(kind) if known => kind,
            _ => Kind { generation: 0, in_use: Tournament::new(fleet.len()), untouched: Vec::new() },
        };
        for node in changed {
            let points = if fleet.is_in_use(node) && fleet.fits(node, claim).is_ok() {
                self.scorer.rounded(self.score(fleet, node, claim).points)
            } else {
                OUT
            };
            entry.in_use.set(node.0 as usize, points);
        }
        for (_, class) in fleet.classes().skip(entry.untouched.len()) {
            let room = class.shape.untouched();
            let view = View { shape: &class.shape, room: &room, affinity: Default::default() };
            let fits = class.shape.fits(&room, claim).is_ok();
            entry.untouched.push(fits.then(|| self.scorer.score(view, claim).points));
        }
        entry.generation = fleet.generation();
        self.kinds.insert(*claim, entry);
    }

    fn price_opening(&mut self, fleet: &Fleet) {
        if self.opening_at != fleet.openings() || self.opening.len() != fleet.classes().len() {
            self.opening_at = fleet.openings();
            self.opening = fleet.classes().map(|(_, class)| self.scorer.opening(fleet, class)).collect();
        }
    }

    fn any(&mut self, fleet: &Fleet, claim: &Claim) -> Option<Spot> {
        let fitting: Vec<NodeIndex> = fleet.nodes().filter(|node| fleet.fits(*node, claim).is_ok()).collect();
        if fitting.is_empty() {
            return None;
        }
        let node = fitting[self.dice.below(fitting.len())];
        let gpus = if claim.is_part() {
            let serving: Vec<usize> = fleet.room(node).serving(claim).collect();
            crate::node::GpuSet::one(serving[self.dice.below(serving.len())])
        } else {
            fleet.shape(node).first_free(fleet.room(node), claim)?
        };
        Some(Spot { node, gpus })
    }

    /// What starting on an untouched node of a class costs now.
    pub fn opening(&mut self, fleet: &Fleet, class: ClassIndex) -> f64 {
        self.price_opening(fleet);
        self.opening[usize::from(class.0)]
    }
}
