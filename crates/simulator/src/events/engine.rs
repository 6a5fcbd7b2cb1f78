//! What comes next, and what it does to the fleet.

use super::{Happened, History, Moment, Settings, What};
use crate::trace::{Trace, TraceError};
use carve_placement::{Claim, Dice, Fleet, NodeIndex, NodeShape, Placer, Policy, Spot, WHOLE};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Something that will happen. Of what happens in the same second, what gives room comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// A pod is done, if it still runs as it did when this was foreseen.
    Finish {
        pod: usize,
        turn: u32,
    },
    Return {
        node: NodeIndex,
        random: bool,
    },
    Fail {
        node: NodeIndex,
        lasting: u64,
        random: bool,
    },
    Arrive {
        pod: usize,
    },
    /// A pod has waited long enough, if it still waits.
    Grow {
        pod: usize,
        turn: u32,
    },
    /// A node has been idle long enough, if nothing has run on it since.
    Shrink {
        node: NodeIndex,
        touched: u64,
    },
}

pub(super) struct Engine<'a> {
    trace: &'a Trace,
    settings: &'a Settings,
    fleet: Fleet,
    placer: Placer,
    claims: Vec<Claim>,
    /// What is added.
    like: Option<NodeShape>,
    agenda: BinaryHeap<Reverse<(u64, Due)>>,
    now: u64,
    last_arrival: u64,
    /// Pods that wait, by when they came first.
    waiting: BTreeSet<(u64, usize)>,
    running: BTreeMap<usize, Spot>,
    /// How often each pod has begun to run or to wait, so that what was foreseen for an earlier turn is passed over.
    turns: Vec<u32>,
    /// Pods on each node.
    on: Vec<BTreeSet<usize>>,
    /// How many reasons keep a node away.
    away: Vec<u32>,
    /// How often something began to run on a node.
    touched: Vec<u64>,
    /// Nodes from this number on were added.
    added_from: usize,
    dice: Vec<Dice>,
    /// Whether there is room, or somebody to serve, that has not been looked at.
    unserved: bool,
    used: u64,
    present: u64,
    happened: Vec<Happened>,
    moments: Vec<Moment>,
}

impl<'a> Engine<'a> {
    pub(super) fn new(trace: &'a Trace, settings: &'a Settings) -> Result<Self, TraceError> {
        let mut order: Vec<usize> = (0..trace.nodes.len()).collect();
        Dice::new(settings.seed).shuffle(&mut order);
        let mut fleet = trace.fleet(order)?;
        let workload = trace.workload(&fleet);
        let placer = Placer::new(settings.policy, &fleet, &workload, settings.seed);
        let tight = Placer::new(Policy::FirstFit, &fleet, &workload, 0);
        let started = trace.start_running(&mut fleet, &tight)?;
        let nodes = fleet.len();
        let growth = settings.growth.as_ref().filter(|growth| growth.most > 0);
        let like = growth.map(|growth| Trace::shape(&growth.like, &mut fleet)).transpose()?;
        // After the models of added nodes are known, so that claims may ask for them.
        let claims = trace.claims(&fleet);
        let mut engine = Engine {
            trace,
            settings,
            placer,
            claims,
            like,
            agenda: BinaryHeap::new(),
            now: 0,
            last_arrival: trace.pods.iter().filter_map(|pod| pod.created).max().unwrap_or(0),
            waiting: BTreeSet::new(),
            running: BTreeMap::new(),
            turns: vec![0; trace.pods.len()],
            on: vec![BTreeSet::new(); nodes],
            away: vec![0; nodes],
            touched: vec![0; nodes],
            added_from: nodes,
            dice: (0..nodes as u64)
                .map(|node| Dice::new(settings.seed.wrapping_add((node + 1) << 32)))
                .collect(),
            unserved: false,
            used: 0,
            present: nodes as u64,
            happened: Vec::new(),
            moments: Vec::new(),
            fleet,
        };
        for (pod, spot) in started {
            engine.tell(What::Arrived(pod));
            engine.began(pod, spot);
        }
        let arriving = (0..trace.pods.len()).filter(|pod| trace.pods[*pod].node.is_none());
        engine.agenda.extend(arriving.map(|pod| Reverse((arrival(trace, pod), Due::Arrive { pod }))));
        for outage in &settings.outages {
            let node = trace.nodes.get(outage.node).and_then(|node| engine.fleet.named(&node.name));
            let fail =
                |node| Reverse((outage.from, Due::Fail { node, lasting: outage.lasting, random: false }));
            engine.agenda.extend(node.map(fail));
        }
        for node in 0..nodes {
            engine.foresee_failure(NodeIndex(node as u32));
        }
        Ok(engine)
    }

    pub(super) fn run(mut self) -> Result<History, TraceError> {
        while let Some(Reverse((at, due))) = self.agenda.pop() {
            if at > self.now {
                self.note();
                self.now = at;
            }
            self.happen(due)?;
            // Everything that gives room in one second does so before anybody is served with it.
            let more = |next: &Reverse<(u64, Due)>| {
                let Reverse((next, due)) = next;
                *next == at && matches!(due, Due::Finish { .. } | Due::Return { .. } | Due::Fail { .. })
            };
            if self.unserved && !self.agenda.peek().is_some_and(more) {
                self.unserved = false;
                self.serve();
            }
        }
        self.note();
        Ok(History { happened: self.happened, moments: self.moments, fleet: self.fleet })
    }

    fn happen(&mut self, due: Due) -> Result<(), TraceError> {
        match due {
            Due::Finish { pod, turn } if self.turns[pod] == turn => {
                self.ended(pod);
                self.tell(What::Finished(pod));
                self.unserved = true;
            }
            Due::Return { node, random } => {
                self.away[node.0 as usize] -= 1;
                if self.away[node.0 as usize] == 0 {
                    self.came(node);
                }
                if random {
                    self.foresee_failure(node);
                }
            }
            Due::Fail { node, lasting, random } => {
                self.away[node.0 as usize] += 1;
                if self.away[node.0 as usize] == 1 {
                    self.failed(node);
                }
                self.foresee(lasting, Due::Return { node, random });
            }
            Due::Arrive { pod } => self.arrived(pod),
            Due::Grow { pod, turn } if self.turns[pod] == turn => self.grow(pod)?,
            Due::Shrink { node, touched }
                if self.touched[node.0 as usize] == touched && self.fleet.is_untouched(node) =>
            {
                self.left(node);
            }
            // What was foreseen did not come to be.
            Due::Finish { .. } | Due::Grow { .. } | Due::Shrink { .. } => {}
        }
        Ok(())
    }

    fn arrived(&mut self, pod: usize) {
        self.tell(What::Arrived(pod));
        let claim = self.claims[pod];
        let like = |(_, class): (_, &carve_placement::Class)| {
            class.shape.fits(&class.shape.untouched(), &claim).is_ok()
        };
        if !self.fleet.classes().any(like) && !self.could_be_added_for(&claim) {
            self.tell(What::TurnedAway(pod));
            return;
        }
        self.waits(pod);
        // Who waits already does not fit, and nothing has given room since.
        if !self.try_to_start(pod) && !self.settings.queue {
            self.give_up(pod);
        }
    }

    fn waits(&mut self, pod: usize) {
        self.waiting.insert((arrival(self.trace, pod), pod));
        self.turns[pod] += 1;
        if let Some(growth) = self.settings.growth.as_ref().filter(|_| self.settings.queue) {
            self.foresee(growth.after, Due::Grow { pod, turn: self.turns[pod] });
        }
    }

    fn give_up(&mut self, pod: usize) {
        self.waiting.remove(&(arrival(self.trace, pod), pod));
        self.turns[pod] += 1;
        self.tell(What::TurnedAway(pod));
    }

    fn try_to_start(&mut self, pod: usize) -> bool {
        let claim = self.claims[pod];
        let Some(spot) = self.placer.decide(&self.fleet, &claim) else { return false };
        self.fleet.place(&claim, spot);
        self.waiting.remove(&(arrival(self.trace, pod), pod));
        self.began(pod, spot);
        true
    }

    /// Notes that a pod runs on a spot that is taken.
    fn began(&mut self, pod: usize, spot: Spot) {
        self.turns[pod] += 1;
        self.used += self.claims[pod].total();
        self.running.insert(pod, spot);
        self.on[spot.node.0 as usize].insert(pod);
        self.touched[spot.node.0 as usize] += 1;
        self.tell(What::Started(pod, spot));
        if let Some(lasting) = duration(self.trace, pod) {
            self.foresee(lasting, Due::Finish { pod, turn: self.turns[pod] });
        }
    }

    /// Gives back what a pod had.
    fn ended(&mut self, pod: usize) {
        let Some(spot) = self.running.remove(&pod) else { return };
        self.turns[pod] += 1;
        self.used -= self.claims[pod].total();
        self.on[spot.node.0 as usize].remove(&pod);
        self.fleet.release(&self.claims[pod], spot);
        if self.fleet.is_untouched(spot.node) {
            self.foresee_shrinking(spot.node);
        }
    }

    /// Goes through those who wait, in their order; whoever fits begins.
    fn serve(&mut self) {
        let mut in_vain: BTreeSet<Claim> = BTreeSet::new();
        let waiting: Vec<(u64, usize)> = self.waiting.iter().copied().collect();
        for (_, pod) in waiting {
            // Nothing gives room meanwhile, so the like of somebody who did not fit does not fit either.
            if in_vain.contains(&self.claims[pod]) || self.try_to_start(pod) {
                continue;
            }
            in_vain.insert(self.claims[pod]);
        }
        if !self.settings.queue {
            for (_, pod) in std::mem::take(&mut self.waiting) {
                self.give_up(pod);
            }
        }
    }

    fn failed(&mut self, node: NodeIndex) {
        for pod in std::mem::take(&mut self.on[node.0 as usize]) {
            self.ended(pod);
            self.tell(What::Interrupted(pod));
            self.waits(pod);
        }
        self.left(node);
        self.unserved = true;
    }

    fn left(&mut self, node: NodeIndex) {
        self.fleet.set_present(node, false);
        self.present -= 1;
        self.tell(What::NodeLeft(node));
    }

    fn came(&mut self, node: NodeIndex) {
        self.fleet.set_present(node, true);
        self.present += 1;
        self.tell(What::NodeCame(node));
        self.unserved = true;
    }

    fn could_be_added_for(&self, claim: &Claim) -> bool {
        self.like.as_ref().is_some_and(|like| like.fits(&like.untouched(), claim).is_ok())
    }

    /// Adds a node for a pod that has waited long enough.
    fn grow(&mut self, pod: usize) -> Result<(), TraceError> {
        let (Some(growth), Some(like)) = (&self.settings.growth, self.like.clone()) else { return Ok(()) };
        let added = || (self.added_from..self.fleet.len()).map(|node| NodeIndex(node as u32));
        let there = |node: &NodeIndex| self.fleet.is_untouched(*node) || self.fleet.is_in_use(*node);
        let enough = added().filter(there).count() >= growth.most;
        if enough || !self.could_be_added_for(&self.claims[pod]) {
            return Ok(());
        }
        let node = match added().find(|node| !there(node)) {
            Some(node) => {
                self.came(node);
                node
            }
            None => {
                let name = format!("{} added {}", growth.like.name, self.fleet.len() - self.added_from + 1);
                let node = self.fleet.add(&name, like)?;
                self.on.push(BTreeSet::new());
                self.away.push(0);
                self.touched.push(0);
                self.present += 1;
                self.tell(What::NodeCame(node));
                self.unserved = true;
                node
            }
        };
        self.foresee_shrinking(node);
        // Somebody who has waited longer may take it.
        self.foresee(growth.after.max(1), Due::Grow { pod, turn: self.turns[pod] });
        Ok(())
    }

    fn foresee_shrinking(&mut self, node: NodeIndex) {
        if let Some(growth) = self.settings.growth.as_ref().filter(|_| node.0 as usize >= self.added_from) {
            self.foresee(growth.idle, Due::Shrink { node, touched: self.touched[node.0 as usize] });
        }
    }

    fn foresee_failure(&mut self, node: NodeIndex) {
        let Some(failures) = self.settings.failures else { return };
        let Some(dice) = self.dice.get_mut(node.0 as usize) else { return };
        // Failures without memory: the times between them are exponential.
        let after = (-(1.0 - dice.fraction()).ln() * failures.every as f64).ceil() as u64;
        if self.now.saturating_add(after) <= self.last_arrival {
            self.foresee(after, Due::Fail { node, lasting: failures.lasting, random: true });
        }
    }

    fn foresee(&mut self, after: u64, due: Due) {
        self.agenda.push(Reverse((self.now.saturating_add(after), due)));
    }

    fn tell(&mut self, what: What) {
        self.happened.push(Happened { at: self.now, what });
    }

    /// Writes down how things stand, before time goes on.
    fn note(&mut self) {
        self.moments.push(Moment {
            at: self.now,
            used: self.used,
            capacity: self.fleet.gpus() * u64::from(WHOLE.0),
            nodes: self.present,
            waiting: self.waiting.len() as u64,
        });
    }
}

/// When a pod comes; where the trace does not say, at the beginning.
pub(super) fn arrival(trace: &Trace, pod: usize) -> u64 {
    trace.pods[pod].created.unwrap_or(0)
}

/// How long a pod runs; where the trace does not say, for ever.
fn duration(trace: &Trace, pod: usize) -> Option<u64> {
    trace.pods[pod].deleted.map(|deleted| deleted.saturating_sub(arrival(trace, pod)))
}
