//! GPUs that MIG divides while a fleet runs: what each has on it, what is being changed, and for whom.
//!
//! ```text
//!                 switched on                made, destroyed
//!   whole GPU ──────────────────► MIG mode ◄────────────────►
//!        ▲        switched off       │
//!        └───────────────────────────┘  when somebody needs it whole and nothing on it is in use
//! ```
//!
//! A place is promised at once and made ready after: the changes of one GPU happen one after another in the order of the promises,
//! those of different GPUs at the same time. An instance whose pod is done stays, for the next that asks for its profile, until its
//! place is needed. A GPU that is promised to MIG is set aside in the fleet, so that nobody else gets any of it.

mod places;
mod products;

use super::{MigChange, MigStep, MigTimes};
use crate::trace::{Trace, TraceError};
use carve_gpu_model::{ModeSwitch, Placed};
use carve_placement::{Claim, Fleet, GpuSet, NodeIndex, Placer, Spot, WHOLE};
use places::{Candidate, Give, Places, Price};
use products::{KindIndex, Products};
use std::collections::{BTreeMap, VecDeque};

pub(super) use products::AskIndex;

/// An instance that is there, or will be.
#[derive(Debug)]
struct Instance {
    placed: Placed,
    /// Whom it is promised to.
    pod: Option<usize>,
    /// Whether it has been made.
    made: bool,
    /// Whether it is to be destroyed, or is being so.
    going: bool,
    /// Whether nobody had it before.
    fresh: bool,
}

impl Instance {
    fn new(placed: Placed, pod: usize, made: bool) -> Self {
        Instance { placed, pod: Some(pod), made, going: false, fresh: true }
    }
}

/// A change that is due on a GPU, and for whom.
#[derive(Debug, Clone, Copy)]
struct Step {
    what: Todo,
    pod: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Todo {
    On,
    Off,
    Make(Placed),
    Destroy(Placed),
    /// Everything that the pod waited for on this GPU is done.
    Ready,
}

#[derive(Debug, Default)]
struct Gpu {
    /// Whether it is in MIG mode now.
    on: bool,
    /// Whether it is promised to MIG.
    aside: bool,
    instances: Vec<Instance>,
    steps: VecDeque<Step>,
}

impl Gpu {
    /// Whether nobody has or waits for anything of its MIG side, so that it can be given back.
    fn is_idle(&self) -> bool {
        self.aside && self.steps.is_empty() && self.instances.iter().all(|instance| instance.pod.is_none())
    }

    /// What it will look like when all steps are done.
    fn layout(&self) -> Vec<(Placed, bool)> {
        let stays = self.instances.iter().filter(|instance| !instance.going);
        stays.map(|instance| (instance.placed, instance.pod.is_some())).collect()
    }
}

#[derive(Debug)]
struct Node {
    kind: KindIndex,
    gpus: Vec<Gpu>,
    /// How often everything on it was lost, so that what was foreseen before is passed over.
    lives: u32,
}

/// A step that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Begun {
    pub(super) node: NodeIndex,
    pub(super) gpu: u8,
    pub(super) lives: u32,
    pub(super) takes_ms: u64,
}

/// A place for all MIG devices of a pod, on one node.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) spot: Spot,
    price: Price,
    gives: Vec<Give>,
}

/// A MIG device of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) gpu: u8,
    pub(super) placed: Placed,
    pub(super) reused: bool,
}

/// All GPUs that MIG can divide, in a trace that asks for it.
#[derive(Debug)]
pub(super) struct Migs {
    times: MigTimes,
    products: Products,
    places: Places,
    nodes: Vec<Option<Node>>,
    begun: Vec<Begun>,
    /// Whether an ask fits on so many GPUs of a kind that nothing is on.
    on_empty: BTreeMap<(AskIndex, KindIndex, u8), bool>,
    /// Slices in use, by how many a GPU of that kind has.
    slices: BTreeMap<u8, u64>,
}

impl Migs {
    /// The GPUs of a fleet. All models that will ever be in it are known.
    pub(super) fn new(trace: &Trace, fleet: &Fleet, times: MigTimes) -> Result<Self, TraceError> {
        let mut migs = Migs {
            times,
            products: Products::new(trace, fleet)?,
            places: Places::default(),
            nodes: Vec::new(),
            begun: Vec::new(),
            on_empty: BTreeMap::new(),
            slices: BTreeMap::new(),
        };
        fleet.nodes().for_each(|node| migs.add(fleet, node));
        Ok(migs)
    }

    /// A node joins the fleet.
    pub(super) fn add(&mut self, fleet: &Fleet, node: NodeIndex) {
        let shape = fleet.shape(node);
        let kind = self.products.kind(shape.model).filter(|_| shape.gpus > 0);
        let gpus = || (0..shape.gpus).map(|_| Gpu::default()).collect();
        self.nodes.push(kind.map(|kind| Node { kind, gpus: gpus(), lives: 0 }));
    }

    /// What a pod of the trace asks for, if it is MIG devices.
    pub(super) fn ask(&self, trace: &Trace, pod: usize) -> Option<AskIndex> {
        self.products.ask(&trace.pods[pod].mig)
    }

    /// Whether so many GPUs of a model can hold what is asked for, if nothing else is on them.
    pub(super) fn fits_empty(&mut self, ask: AskIndex, model: carve_placement::ModelId, gpus: u8) -> bool {
        let Some(kind) = self.products.kind(model) else { return false };
        if let Some(known) = self.on_empty.get(&(ask, kind, gpus)) {
            return *known;
        }
        let layout = self.places.layout(kind, Vec::new());
        let empty = vec![Some(Candidate { layout, switch: true }); usize::from(gpus)];
        let fits = self
            .products
            .wanted(ask, kind)
            .is_some_and(|wanted| self.places.find(&self.products.kinds[kind.0], wanted, &empty).is_some());
        self.on_empty.insert((ask, kind, gpus), fits);
        fits
    }

    /// The best place for a pod's MIG devices in the whole fleet.
    pub(super) fn find(&mut self, fleet: &Fleet, claim: &Claim, ask: AskIndex) -> Option<Place> {
        let mut best: Option<Place> = None;
        for node in fleet.nodes() {
            let Some(place) = self.find_on(fleet, node, claim, ask) else { continue };
            if best.as_ref().is_none_or(|least| place.price < least.price) {
                best = Some(place);
            }
        }
        best
    }

    /// The best place on one node.
    pub(super) fn find_on(
        &mut self,
        fleet: &Fleet,
        node: NodeIndex,
        claim: &Claim,
        ask: AskIndex,
    ) -> Option<Place> {
        let own = self.nodes.get(node.0 as usize)?.as_ref()?;
        let wanted = self.products.wanted(ask, own.kind)?;
        if !claim.models.contains(fleet.shape(node).model) || fleet.fits(node, claim).is_err() {
            return None;
        }
        let compute = fleet.room(node).compute();
        let mut candidates = Vec::with_capacity(own.gpus.len());
        let mut bare = Vec::new();
        for (gpu, state) in own.gpus.iter().enumerate() {
            let layout = state.layout();
            let free = state.aside || compute[gpu] == WHOLE.0;
            let used = layout.iter().filter(|(_, used)| *used).copied().collect();
            let candidate = |places: &mut Places, layout| {
                free.then(|| Candidate { layout: places.layout(own.kind, layout), switch: !state.aside })
            };
            bare.push(candidate(&mut self.places, used));
            candidates.push(candidate(&mut self.places, layout));
        }
        let kind = &self.products.kinds[own.kind.0];
        let found = self.places.find(kind, wanted, &candidates).or_else(|| {
            // Idle instances can lead a search so far astray that it gives up; without them it finds what an empty node has room for.
            let (price, mut gives) = self.places.find(kind, wanted, &bare)?;
            let mut cleared = GpuSet::default();
            for give in &mut gives {
                let first = !cleared.iter().any(|gpu| gpu == give.gpu);
                cleared = cleared.with(give.gpu);
                let idle = own.gpus[give.gpu].layout().into_iter().filter(|(_, used)| !*used && first);
                give.destroyed = idle.map(|(placed, _)| placed).collect();
            }
            Some((price, gives))
        });
        let (price, gives) = found?;
        let gpus = gives.iter().fold(GpuSet::default(), |gpus, give| gpus.with(give.gpu));
        Some(Place { spot: Spot { node, gpus }, price, gives })
    }

    /// Promises a place to a pod and begins to make it ready; says on how many GPUs it has to wait for that.
    pub(super) fn take(&mut self, fleet: &mut Fleet, place: &Place, pod: usize) -> usize {
        let node = place.spot.node;
        for give in &place.gives {
            let Some(state) = self.gpu(node, give.gpu) else { continue };
            let mut steps = Vec::new();
            if !state.aside {
                state.aside = true;
                steps.push(Todo::On);
                fleet.set_aside(node, give.gpu, true);
            }
            let mut steps_for = |state: &mut Gpu, gone: &Placed| {
                let idle = state.instances.iter_mut().find(|other| other.placed == *gone && !other.going);
                if let Some(idle) = idle {
                    idle.going = true;
                    steps.push(Todo::Destroy(*gone));
                }
            };
            give.destroyed.iter().for_each(|gone| steps_for(state, gone));
            let there = state.instances.iter_mut().find(|other| other.placed == give.placed && !other.going);
            match there.filter(|_| give.reused) {
                Some(there) => there.pod = Some(pod),
                None => {
                    state.instances.push(Instance::new(give.placed, pod, false));
                    steps.push(Todo::Make(give.placed));
                }
            }
            steps.into_iter().for_each(|what| self.step(node, give.gpu, Step { what, pod }));
        }
        let made = |gpu: &usize| place.gives.iter().any(|give| give.gpu == *gpu && !give.reused);
        let gpus: Vec<usize> = place.spot.gpus.iter().filter(made).collect();
        gpus.into_iter().filter(|gpu| self.wait(node, *gpu, pod)).count()
    }

    /// The same for a pod that has run there since before the beginning: its devices are there.
    pub(super) fn occupy(&mut self, fleet: &mut Fleet, place: &Place, pod: usize) {
        for give in &place.gives {
            let node = place.spot.node;
            let Some(state) = self.gpu(node, give.gpu) else { continue };
            if !state.aside {
                (state.aside, state.on) = (true, true);
                fleet.set_aside(node, give.gpu, true);
            }
            state.instances.push(Instance::new(give.placed, pod, true));
        }
    }

    /// A pod has been promised something on a GPU; whether it has to wait for changes there.
    pub(super) fn wait(&mut self, node: NodeIndex, gpu: usize, pod: usize) -> bool {
        let Some(state) = self.gpu(node, gpu).filter(|state| !state.steps.is_empty()) else { return false };
        state.steps.push_back(Step { what: Todo::Ready, pod });
        true
    }

    /// Gives GPUs that MIG does not need back to a claim that fits nowhere else: on the node where the fewest are needed. Says where the
    /// claim fits then; it has to wait for them.
    pub(super) fn give_back(
        &mut self,
        fleet: &mut Fleet,
        placer: &Placer,
        claim: &Claim,
        pod: usize,
    ) -> Option<Spot> {
        if claim.gpus == 0 {
            return None;
        }
        let mut best: Option<(NodeIndex, Vec<usize>)> = None;
        for node in fleet.nodes().filter(|node| fleet.is_in_use(*node)) {
            let Some(own) = self.nodes.get(node.0 as usize).and_then(Option::as_ref) else { continue };
            let mut idle: Vec<usize> = (0..own.gpus.len()).filter(|gpu| own.gpus[*gpu].is_idle()).collect();
            idle.sort_by_key(|gpu| own.gpus[*gpu].instances.len());
            let shape = fleet.shape(node);
            let mut room = *fleet.room(node);
            let enough = (1..=idle.len()).find(|count| {
                room = room.with_whole(idle[count - 1], shape);
                shape.fits(&room, claim).is_ok()
            });
            let Some(count) = enough else { continue };
            if best.as_ref().is_none_or(|(_, least)| count < least.len()) {
                idle.truncate(count);
                best = Some((node, idle));
            }
        }
        let (node, gpus) = best?;
        for gpu in gpus {
            fleet.set_aside(node, gpu, false);
            let Some(state) = self.gpu(node, gpu) else { continue };
            state.aside = false;
            state.instances.iter_mut().for_each(|instance| instance.going = true);
            let gone: Vec<Todo> =
                state.instances.iter().map(|instance| Todo::Destroy(instance.placed)).collect();
            gone.into_iter().chain([Todo::Off]).for_each(|what| self.step(node, gpu, Step { what, pod }));
        }
        Some(Spot { node, gpus: placer.score(fleet, node, claim).gpus })
    }

    /// Steps that have begun since this was last asked.
    pub(super) fn begun(&mut self) -> Vec<Begun> {
        std::mem::take(&mut self.begun)
    }

    /// The step of a GPU that has begun is done. Says what it was, and which pods need not wait for this GPU any more; nothing, if the
    /// step was lost with its node.
    pub(super) fn done(&mut self, begun: Begun) -> Option<(MigStep, Vec<usize>)> {
        let Begun { node, gpu, lives, takes_ms: took_ms } = begun;
        self.nodes.get(node.0 as usize)?.as_ref().filter(|own| own.lives == lives)?;
        let state = self.gpu(node, usize::from(gpu))?;
        let Step { what, pod } = state.steps.pop_front()?;
        let change = match what {
            Todo::On => {
                state.on = true;
                MigChange::On
            }
            Todo::Off => {
                state.on = false;
                MigChange::Off
            }
            Todo::Make(placed) => {
                let made = state.instances.iter_mut().find(|other| other.placed == placed && !other.made);
                if let Some(made) = made {
                    made.made = true;
                }
                MigChange::Made(placed)
            }
            Todo::Destroy(placed) => {
                state.instances.retain(|other| other.placed != placed || !other.going);
                MigChange::Destroyed(placed)
            }
            // Nobody waits for this: it is taken away with the step before it.
            Todo::Ready => return None,
        };
        let mut ready = Vec::new();
        while let Some(next) = state.steps.pop_front_if(|next| next.what == Todo::Ready) {
            ready.push(next.pod);
        }
        if let Some(next) = state.steps.front().copied() {
            self.begin(node, usize::from(gpu), next);
        }
        Some((MigStep { node, gpu, pod, change, took_ms }, ready))
    }

    /// The MIG devices of a pod.
    pub(super) fn devices(&self, spot: Spot, pod: usize) -> Vec<Device> {
        let Some(own) = self.nodes.get(spot.node.0 as usize).and_then(Option::as_ref) else {
            return Vec::new();
        };
        let on = |gpu: usize| {
            let own = own.gpus[gpu].instances.iter().filter(move |instance| instance.pod == Some(pod));
            own.map(move |instance| Device {
                gpu: gpu as u8,
                placed: instance.placed,
                reused: !instance.fresh,
            })
        };
        spot.gpus.iter().flat_map(on).collect()
    }

    /// A pod begins to use its devices, or ends.
    pub(super) fn count(&mut self, spot: Spot, pod: usize, begins: bool) {
        let Some(own) = self.nodes.get(spot.node.0 as usize).and_then(Option::as_ref) else { return };
        let table = &self.products.kinds[own.kind.0].table;
        for device in self.devices(spot, pod) {
            let slices = table.get(device.placed.profile).map_or(0, |profile| u64::from(profile.slices));
            let sum = self.slices.entry(table.compute_slices()).or_default();
            *sum = if begins { *sum + slices } else { sum.saturating_sub(slices) };
        }
    }

    /// A pod does not need its devices any more; they stay for others.
    pub(super) fn release(&mut self, spot: Spot, pod: usize) {
        for gpu in spot.gpus.iter() {
            let Some(state) = self.gpu(spot.node, gpu) else { continue };
            let own = state.instances.iter_mut().filter(|instance| instance.pod == Some(pod));
            own.for_each(|instance| (instance.pod, instance.fresh) = (None, false));
        }
    }

    /// Everything on a node is lost. Where the GPU's mode survives a reboot, it is still in it, unless the machine is gone for good.
    pub(super) fn lose(&mut self, fleet: &mut Fleet, node: NodeIndex, for_good: bool) {
        let Some(own) = self.nodes.get_mut(node.0 as usize).and_then(Option::as_mut) else { return };
        own.lives += 1;
        let survives = self.products.kinds[own.kind.0].switch == ModeSwitch::NeedsReset && !for_good;
        for (gpu, state) in own.gpus.iter_mut().enumerate() {
            let on = state.on && survives;
            if state.aside != on {
                fleet.set_aside(node, gpu, on);
            }
            *state = Gpu { on, aside: on, ..Gpu::default() };
        }
    }

    /// Whether GPUs of a node are promised to MIG and none of them is in use.
    pub(super) fn is_all_that_is_on(&self, node: NodeIndex) -> bool {
        let own = self.nodes.get(node.0 as usize).and_then(Option::as_ref);
        own.is_some_and(|own| own.gpus.iter().any(|gpu| gpu.aside))
    }

    /// Thousandths of GPUs in use through MIG devices, by their slices.
    pub(super) fn used(&self) -> u64 {
        self.slices.iter().map(|(of, sum)| sum * u64::from(WHOLE.0) / u64::from(*of).max(1)).sum()
    }

    fn gpu(&mut self, node: NodeIndex, gpu: usize) -> Option<&mut Gpu> {
        self.nodes.get_mut(node.0 as usize)?.as_mut()?.gpus.get_mut(gpu)
    }

    fn step(&mut self, node: NodeIndex, gpu: usize, step: Step) {
        let Some(state) = self.gpu(node, gpu) else { return };
        state.steps.push_back(step);
        if state.steps.len() == 1 {
            self.begin(node, gpu, step);
        }
    }

    fn begin(&mut self, node: NodeIndex, gpu: usize, step: Step) {
        let Some(own) = self.nodes.get(node.0 as usize).and_then(Option::as_ref) else { return };
        let takes_ms = match step.what {
            Todo::On | Todo::Off => match self.products.kinds[own.kind.0].switch {
                ModeSwitch::NeedsReset => self.times.reset_ms,
                ModeSwitch::Immediate => self.times.mode_ms,
            },
            Todo::Make(_) => self.times.create_ms,
            Todo::Destroy(_) => self.times.destroy_ms,
            Todo::Ready => 0,
        };
        self.begun.push(Begun { node, gpu: gpu as u8, lives: own.lives, takes_ms });
    }
}
