//! What comes next, and what it does to the fleet.

use super::mig::{AskIndex, Begun, Migs};
use super::{Happened, History, Moment, Settings, What};
use crate::trace::{Trace, TraceError, why_not};
use carve_placement::{Claim, Dice, Fleet, NodeIndex, NodeShape, Placer, Policy, Spot, WHOLE};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Something that will happen. Of what happens in the same second, what gives room comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// A change of a GPU is done, if it was not lost with its node.
    Step(Begun),
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
    /// What each pod asks for that asks for MIG devices.
    asks: Vec<Option<AskIndex>>,
    mig: Migs,
    /// What is added.
    like: Option<NodeShape>,
    agenda: BinaryHeap<Reverse<(u64, Due)>>,
    now: u64,
    last_arrival: u64,
    /// Pods that wait, by when they came first.
    waiting: BTreeSet<(u64, usize)>,
    /// Pods that have a place, and on how many of its GPUs they wait for changes.
    preparing: BTreeMap<usize, (Spot, usize)>,
    running: BTreeMap<usize, Spot>,
    /// How often each pod has begun to run or to wait, so that what was foreseen for an earlier turn is passed over.
    turns: Vec<u32>,
    /// Pods on each node, with those that have a place there and do not run yet.
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
        let mig = Migs::new(trace, &fleet, settings.mig)?;
        let mut engine = Engine {
            trace,
            settings,
            placer,
            claims,
            asks: (0..trace.pods.len()).map(|pod| mig.ask(trace, pod)).collect(),
            mig,
            like,
            agenda: BinaryHeap::new(),
            now: 0,
            last_arrival: ms(trace.pods.iter().filter_map(|pod| pod.created).max().unwrap_or(0)),
            waiting: BTreeSet::new(),
            preparing: BTreeMap::new(),
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
            engine.has(pod, spot);
            engine.began(pod, spot);
        }
        for pod in 0..trace.pods.len() {
            if let (Some(node), Some(ask)) = (&trace.pods[pod].node, engine.asks[pod]) {
                engine.occupied(pod, node, ask)?;
            }
        }
        let arriving = (0..trace.pods.len()).filter(|pod| trace.pods[*pod].node.is_none());
        engine.agenda.extend(arriving.map(|pod| Reverse((arrival(trace, pod), Due::Arrive { pod }))));
        for outage in &settings.outages {
            let node = trace.nodes.get(outage.node).and_then(|node| engine.fleet.named(&node.name));
            let fail =
                |node| Reverse((ms(outage.from), Due::Fail { node, lasting: outage.lasting, random: false }));
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
            Due::Step(begun) => self.stepped(begun),
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
                self.foresee(ms(lasting), Due::Return { node, random });
            }
            Due::Arrive { pod } => self.arrived(pod),
            Due::Grow { pod, turn } if self.turns[pod] == turn => self.grow(pod)?,
            Due::Shrink { node, touched }
                if self.touched[node.0 as usize] == touched && self.is_idle(node) =>
            {
                self.mig.lose(&mut self.fleet, node, true);
                self.left(node);
            }
            // What was foreseen did not come to be.
            Due::Finish { .. } | Due::Grow { .. } | Due::Shrink { .. } => {}
        }
        Ok(())
    }

    fn arrived(&mut self, pod: usize) {
        self.tell(What::Arrived(pod));
        let fits = |(_, class): (_, &carve_placement::Class)| {
            fits_empty(&mut self.mig, &class.shape, &self.claims[pod], self.asks[pod])
        };
        if !self.fleet.classes().any(fits) && !self.could_be_added_for(pod) {
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
            self.foresee(ms(growth.after), Due::Grow { pod, turn: self.turns[pod] });
        }
    }

    fn give_up(&mut self, pod: usize) {
        self.waiting.remove(&(arrival(self.trace, pod), pod));
        self.turns[pod] += 1;
        self.tell(What::TurnedAway(pod));
    }

    fn try_to_start(&mut self, pod: usize) -> bool {
        let found = match self.asks[pod] {
            Some(ask) => self.take_devices(pod, ask),
            None => self.take_gpus(pod),
        };
        let Some((spot, changing)) = found else { return false };
        self.waiting.remove(&(arrival(self.trace, pod), pod));
        self.has(pod, spot);
        if changing == 0 {
            self.began(pod, spot);
        } else {
            self.preparing.insert(pod, (spot, changing));
            self.tell(What::Placed(pod, spot));
        }
        self.foresee_steps();
        true
    }

    /// Takes whole GPUs, a part of one, or none; says where, and how many of them are being changed.
    fn take_gpus(&mut self, pod: usize) -> Option<(Spot, usize)> {
        let claim = self.claims[pod];
        let at_once = self.placer.decide(&self.fleet, &claim);
        let spot = at_once.or_else(|| self.mig.give_back(&mut self.fleet, &self.placer, &claim, pod))?;
        self.fleet.place(&claim, spot);
        let changing = spot.gpus.iter().filter(|gpu| self.mig.wait(spot.node, *gpu, pod)).count();
        Some((spot, changing))
    }

    /// Takes MIG devices, on GPUs that are divided for them; says the same.
    fn take_devices(&mut self, pod: usize, ask: AskIndex) -> Option<(Spot, usize)> {
        let claim = self.claims[pod];
        let place = self.mig.find(&self.fleet, &claim, ask)?;
        self.fleet.place(&claim, Spot { gpus: Default::default(), ..place.spot });
        let changing = self.mig.take(&mut self.fleet, &place, pod);
        Some((place.spot, changing))
    }

    /// A pod has MIG devices on a node from the beginning.
    fn occupied(&mut self, pod: usize, name: &str, ask: AskIndex) -> Result<(), TraceError> {
        let refuse = |why: &str| TraceError::Running {
            pod: self.trace.pods[pod].name.clone(),
            node: name.to_owned(),
            why: why.to_owned(),
        };
        let claim = self.claims[pod];
        let node = self.fleet.named(name).ok_or_else(|| refuse("the trace has no such node"))?;
        self.fleet.fits(node, &claim).map_err(|misfit| refuse(why_not(misfit)))?;
        let found = self.mig.find_on(&self.fleet, node, &claim, ask);
        let place = found.ok_or_else(|| refuse("its GPUs have no room for such MIG devices"))?;
        self.fleet.place(&claim, Spot { gpus: Default::default(), ..place.spot });
        self.mig.occupy(&mut self.fleet, &place, pod);
        self.tell(What::Arrived(pod));
        self.has(pod, place.spot);
        self.began(pod, place.spot);
        Ok(())
    }

    /// A change of a GPU is done; whoever has waited for it begins, unless other GPUs are still being changed.
    fn stepped(&mut self, begun: Begun) {
        let Some((step, ready)) = self.mig.done(begun) else { return };
        self.tell(What::Mig(step));
        for pod in ready {
            let Some((spot, changing)) = self.preparing.get_mut(&pod) else { continue };
            *changing -= 1;
            let (spot, changing) = (*spot, *changing);
            if changing == 0 {
                self.preparing.remove(&pod);
                self.began(pod, spot);
            }
        }
        self.foresee_steps();
    }

    fn foresee_steps(&mut self) {
        for begun in self.mig.begun() {
            self.foresee(begun.takes_ms, Due::Step(begun));
        }
    }

    /// Notes that a pod has a spot, which is taken.
    fn has(&mut self, pod: usize, spot: Spot) {
        self.turns[pod] += 1;
        self.on[spot.node.0 as usize].insert(pod);
        self.touched[spot.node.0 as usize] += 1;
    }

    /// Notes that a pod runs on a spot that it has.
    fn began(&mut self, pod: usize, spot: Spot) {
        self.used += self.claims[pod].total();
        self.running.insert(pod, spot);
        if self.asks[pod].is_some() {
            for device in self.mig.devices(spot, pod) {
                let (gpu, placed, reused) = (device.gpu, device.placed, device.reused);
                self.tell(What::Given { pod, gpu, placed, reused });
            }
            self.mig.count(spot, pod, true);
        }
        self.tell(What::Started(pod, spot));
        if let Some(lasting) = duration(self.trace, pod) {
            self.foresee(lasting, Due::Finish { pod, turn: self.turns[pod] });
        }
    }

    /// Gives back what a pod had, whether it ran or was about to.
    fn ended(&mut self, pod: usize) {
        let ran = self.running.remove(&pod);
        let Some(spot) = ran.or_else(|| self.preparing.remove(&pod).map(|(spot, _)| spot)) else { return };
        self.turns[pod] += 1;
        if ran.is_some() {
            self.used -= self.claims[pod].total();
        }
        self.on[spot.node.0 as usize].remove(&pod);
        if self.asks[pod].is_none() {
            self.fleet.release(&self.claims[pod], spot);
        } else {
            if ran.is_some() {
                self.mig.count(spot, pod, false);
            }
            self.mig.release(spot, pod);
            self.fleet.release(&self.claims[pod], Spot { gpus: Default::default(), ..spot });
        }
        if self.is_idle(spot.node) {
            self.foresee_shrinking(spot.node);
        }
    }

    /// Whether a node is there and nobody has anything on it.
    fn is_idle(&self, node: NodeIndex) -> bool {
        let only_mig = || self.fleet.is_in_use(node) && self.mig.is_all_that_is_on(node);
        self.fleet.is_untouched(node) || (self.on[node.0 as usize].is_empty() && only_mig())
    }

    /// Goes through those who wait, in their order; whoever fits begins.
    fn serve(&mut self) {
        let mut in_vain: BTreeSet<(Claim, Option<AskIndex>)> = BTreeSet::new();
        let waiting: Vec<(u64, usize)> = self.waiting.iter().copied().collect();
        for (_, pod) in waiting {
            // Nothing gives room meanwhile, so the like of somebody who did not fit does not fit either.
            let kind = (self.claims[pod], self.asks[pod]);
            if in_vain.contains(&kind) || self.try_to_start(pod) {
                continue;
            }
            in_vain.insert(kind);
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
        self.mig.lose(&mut self.fleet, node, false);
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

    fn could_be_added_for(&mut self, pod: usize) -> bool {
        let (claim, ask) = (&self.claims[pod], self.asks[pod]);
        self.like.as_ref().is_some_and(|like| fits_empty(&mut self.mig, like, claim, ask))
    }

    /// Adds a node for a pod that has waited long enough.
    fn grow(&mut self, pod: usize) -> Result<(), TraceError> {
        let (Some(growth), Some(like)) = (&self.settings.growth, self.like.clone()) else { return Ok(()) };
        if !self.could_be_added_for(pod) {
            return Ok(());
        }
        let added = || (self.added_from..self.fleet.len()).map(|node| NodeIndex(node as u32));
        let there = |node: &NodeIndex| self.fleet.is_untouched(*node) || self.fleet.is_in_use(*node);
        if added().filter(there).count() >= growth.most {
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
                self.mig.add(&self.fleet, node);
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
        self.foresee(ms(growth.after.max(1)), Due::Grow { pod, turn: self.turns[pod] });
        Ok(())
    }

    fn foresee_shrinking(&mut self, node: NodeIndex) {
        if let Some(growth) = self.settings.growth.as_ref().filter(|_| node.0 as usize >= self.added_from) {
            self.foresee(ms(growth.idle), Due::Shrink { node, touched: self.touched[node.0 as usize] });
        }
    }

    fn foresee_failure(&mut self, node: NodeIndex) {
        let Some(failures) = self.settings.failures else { return };
        let Some(dice) = self.dice.get_mut(node.0 as usize) else { return };
        // Failures without memory: the times between them are exponential.
        let after = ms((-(1.0 - dice.fraction()).ln() * failures.every as f64).ceil() as u64);
        if self.now.saturating_add(after) <= self.last_arrival {
            self.foresee(after, Due::Fail { node, lasting: failures.lasting, random: true });
        }
    }

    /// Something comes after so many milliseconds.
    fn foresee(&mut self, after_ms: u64, due: Due) {
        self.agenda.push(Reverse((self.now.saturating_add(after_ms), due)));
    }

    fn tell(&mut self, what: What) {
        self.happened.push(Happened { at_ms: self.now, what });
    }

    /// Writes down how things stand, before time goes on.
    fn note(&mut self) {
        self.moments.push(Moment {
            at_ms: self.now,
            used: self.used + self.mig.used(),
            capacity: self.fleet.gpus() * u64::from(WHOLE.0),
            nodes: self.present,
            waiting: (self.waiting.len() + self.preparing.len()) as u64,
        });
    }
}

/// Whether a claim, with the MIG devices it asks for, fits on a node that nothing runs on.
fn fits_empty(mig: &mut Migs, shape: &NodeShape, claim: &Claim, ask: Option<AskIndex>) -> bool {
    let devices = |mig: &mut Migs, ask| {
        claim.models.contains(shape.model) && mig.fits_empty(ask, shape.model, shape.gpus)
    };
    shape.fits(&shape.untouched(), claim).is_ok() && ask.is_none_or(|ask| devices(mig, ask))
}

/// When a pod comes, in milliseconds; where the trace does not say, at the beginning.
pub(super) fn arrival(trace: &Trace, pod: usize) -> u64 {
    ms(trace.pods[pod].created.unwrap_or(0))
}

/// How long a pod runs, in milliseconds; where the trace does not say, for ever.
fn duration(trace: &Trace, pod: usize) -> Option<u64> {
    let created = trace.pods[pod].created.unwrap_or(0);
    trace.pods[pod].deleted.map(|deleted| ms(deleted.saturating_sub(created)))
}

/// Seconds in the unit of the agenda: instances of MIG are made within parts of a second.
fn ms(seconds: u64) -> u64 {
    seconds.saturating_mul(1000)
}
