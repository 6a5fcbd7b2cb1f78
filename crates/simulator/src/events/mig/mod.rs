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

mod changes;
mod choice;
mod places;
mod products;

use super::MigTimes;
use crate::trace::{Trace, TraceError};
use carve_gpu_model::{ModeSwitch, Placed};
use carve_placement::{Fleet, NodeIndex, Spot, WHOLE};
use places::{Give, LayoutIndex, Places, Price};
use products::{KindIndex, Products};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

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
    /// What it will look like when all steps are done, while it is promised to MIG.
    layout: Option<LayoutIndex>,
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
    /// The GPUs that are promised to MIG, by what they look like.
    alike: BTreeMap<LayoutIndex, BTreeSet<(NodeIndex, u8)>>,
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
            alike: BTreeMap::new(),
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
            self.look(spot.node, gpu);
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
            *state = Gpu { on, aside: on, layout: state.layout, ..Gpu::default() };
        }
        for gpu in 0..own.gpus.len() {
            self.look(node, gpu);
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

    /// Notes what a GPU looks like after a change of its instances or promises.
    fn look(&mut self, node: NodeIndex, gpu: usize) {
        let Some(own) = self.nodes.get_mut(node.0 as usize).and_then(Option::as_mut) else { return };
        let Some(state) = own.gpus.get_mut(gpu) else { return };
        let layout = state.aside.then(|| self.places.layout(own.kind, state.layout()));
        let before = std::mem::replace(&mut state.layout, layout);
        if before == layout {
            return;
        }
        let entry = (node, gpu as u8);
        if let Some(before) = before
            && let Some(alike) = self.alike.get_mut(&before)
        {
            alike.remove(&entry);
            if alike.is_empty() {
                self.alike.remove(&before);
            }
        }
        if let Some(layout) = layout {
            self.alike.entry(layout).or_default().insert(entry);
        }
    }
}
