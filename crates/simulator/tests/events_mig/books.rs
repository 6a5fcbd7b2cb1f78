//! Books that are kept beside a history: they know legality from the GPU's table and nothing of how places were chosen.

use carve_gpu_model::{Geometry, ModeSwitch, Placed, Product, ProfileTable};
use carve_simulator::Trace;
use carve_simulator::events::{History, MigChange, MigStep, Settings, What};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, PartialEq)]
enum Pod {
    Waiting,
    Placed { since: u64, node: u32 },
    Running { since: u64, node: u32, gpus: Vec<usize> },
    Gone,
}

#[derive(Debug, Default)]
struct Gpu {
    on: bool,
    /// Instances that are there, and whether somebody had each before.
    instances: BTreeMap<Placed, bool>,
    /// When its last change was done.
    changed: u64,
}

struct Books<'a> {
    trace: &'a Trace,
    settings: &'a Settings,
    history: &'a History,
    pods: BTreeMap<usize, Pod>,
    gpus: BTreeMap<(u32, u8), Gpu>,
    /// Who has which instance.
    devices: BTreeMap<(u32, u8, Placed), usize>,
    absent: BTreeSet<u32>,
    steps: Vec<MigStep>,
    reused: usize,
    now: u64,
    last_step: u64,
}

/// Goes through a history, event by event.
pub(super) fn check(trace: &Trace, settings: &Settings, history: &History) {
    let mut books = Books {
        trace,
        settings,
        history,
        pods: BTreeMap::new(),
        gpus: BTreeMap::new(),
        devices: BTreeMap::new(),
        absent: (trace.nodes.len() as u32..history.fleet.len() as u32).collect(),
        steps: Vec::new(),
        reused: 0,
        now: 0,
        last_step: 0,
    };
    for (index, pod) in trace.pods.iter().enumerate() {
        // What is there from the beginning was made before it.
        if let (Some(name), false) = (&pod.node, pod.mig.is_empty()) {
            let node = history.fleet.named(name).unwrap().0;
            for one in &history.happened {
                if let What::Given { pod, gpu, placed, .. } = one.what
                    && pod == index
                {
                    let state = books.gpus.entry((node, gpu)).or_default();
                    state.on = true;
                    state.instances.insert(placed, false);
                }
            }
        }
    }
    for one in &history.happened {
        assert!(one.at_ms >= books.now, "time goes on");
        books.now = one.at_ms;
        books.enter(one.what);
    }
    books.close();
}

impl Books<'_> {
    fn product(&self, node: u32) -> Option<&'static Product> {
        let shape = self.history.fleet.shape(carve_placement::NodeIndex(node));
        let model = self.history.fleet.model_name(shape.model);
        let name = model.replace("NVIDIA-A100", "NVIDIA A100");
        Product::by_key(model).or_else(|| Product::by_name(&name))
    }

    fn table(&self, node: u32) -> ProfileTable {
        self.product(node).unwrap().profile_table().unwrap()
    }

    fn enter(&mut self, what: What) {
        match what {
            What::Arrived(pod) => {
                assert_eq!(self.now, self.trace.pods[pod].created.unwrap() * 1000);
                assert_eq!(self.pods.insert(pod, Pod::Waiting), None, "a pod arrives once");
            }
            What::Placed(pod, spot) => {
                let placed = Pod::Placed { since: self.now, node: spot.node.0 };
                assert!(!self.absent.contains(&spot.node.0));
                assert_eq!(self.pods.insert(pod, placed), Some(Pod::Waiting));
            }
            What::Given { pod, gpu, placed, reused } => {
                let device = self.device_node(pod);
                let state = self.gpus.get_mut(&(device, gpu)).expect("a GPU that was divided");
                let had = state.instances.insert(placed, true).expect("an instance that is there");
                assert_eq!(had, reused, "whether somebody had it before");
                self.reused += usize::from(reused);
                assert_eq!(self.devices.insert((device, gpu, placed), pod), None, "nobody else has it");
            }
            What::Mig(step) => self.stepped(step),
            What::Started(pod, spot) => self.started(pod, spot.node.0, spot.gpus.iter().collect()),
            What::Finished(pod) => {
                let lasts =
                    (self.trace.pods[pod].deleted.unwrap() - self.trace.pods[pod].created.unwrap()) * 1000;
                let before = self.pods.insert(pod, Pod::Gone).unwrap();
                assert!(matches!(before, Pod::Running { since, .. } if since + lasts == self.now));
                self.devices.retain(|_, other| *other != pod);
            }
            What::Interrupted(pod) => {
                let before = self.pods.insert(pod, Pod::Waiting).unwrap();
                assert!(matches!(before, Pod::Running { .. } | Pod::Placed { .. }));
                self.devices.retain(|_, other| *other != pod);
            }
            What::TurnedAway(pod) => assert_eq!(self.pods.insert(pod, Pod::Gone), Some(Pod::Waiting)),
            What::NodeLeft(node) => {
                assert!(self.absent.insert(node.0), "a node leaves once");
                let on = |state: &Pod| matches!(state, Pod::Running { node: on, .. } | Pod::Placed { node: on, .. } if *on == node.0);
                assert!(!self.pods.values().any(on), "nothing is on a node that leaves");
                let survives = self.product(node.0).and_then(Product::mode_switch)
                    == Some(ModeSwitch::NeedsReset)
                    && (node.0 as usize) < self.trace.nodes.len();
                for (_, gpu) in self.gpus.iter_mut().filter(|((on, _), _)| *on == node.0) {
                    *gpu = Gpu { on: gpu.on && survives, ..Gpu::default() };
                }
            }
            What::NodeCame(node) => assert!(self.absent.remove(&node.0), "a node comes once"),
        }
    }

    /// The node of a pod that is about to start: where it is placed, or where its start will be told.
    fn device_node(&self, pod: usize) -> u32 {
        if let Pod::Placed { node, .. } = self.pods[&pod] {
            return node;
        }
        let from = self.history.happened.iter().filter(|one| one.at_ms == self.now);
        let starts = from.filter_map(|one| match one.what {
            What::Started(other, spot) if other == pod => Some(spot.node.0),
            _ => None,
        });
        starts.into_iter().next_back().expect("who is given something starts")
    }

    fn stepped(&mut self, step: MigStep) {
        assert!(!self.absent.contains(&step.node.0), "on a node that is there");
        let times = self.settings.mig;
        let switch = match self.product(step.node.0).unwrap().mode_switch().unwrap() {
            ModeSwitch::NeedsReset => times.reset_ms,
            ModeSwitch::Immediate => times.mode_ms,
        };
        let takes = match step.change {
            MigChange::On | MigChange::Off => switch,
            MigChange::Made(_) => times.create_ms,
            MigChange::Destroyed(_) => times.destroy_ms,
        };
        let Pod::Placed { since, node } = self.pods[&step.pod] else { panic!("for a pod that waits for it") };
        assert_eq!((step.took_ms, node), (takes, step.node.0));
        let table = self.table(step.node.0);
        let whole = self.whole_users(step.node.0, step.gpu);
        let own = (step.node.0, step.gpu);
        let state = self.gpus.entry(own).or_default();
        // At once, or when the GPU's last change was done: no sooner and no later.
        assert_eq!(self.now - takes, since.max(state.changed), "time is spent as configured");
        state.changed = self.now;
        match step.change {
            MigChange::On => {
                assert!(!state.on && whole.is_empty(), "nobody has the GPU whole");
                state.on = true;
            }
            MigChange::Off => {
                assert!(state.on && state.instances.is_empty());
                state.on = false;
            }
            MigChange::Made(placed) => {
                assert!(state.on);
                assert_eq!(state.instances.insert(placed, false), None);
                let all: Vec<Placed> = state.instances.keys().copied().collect();
                assert_eq!(table.check(&all), Ok(()), "what is on a GPU may be there together");
            }
            MigChange::Destroyed(placed) => {
                assert!(state.on && state.instances.remove(&placed).is_some());
                assert!(!self.devices.contains_key(&(own.0, own.1, placed)), "nobody has it");
            }
        }
        self.last_step = self.now;
        self.steps.push(step);
    }

    /// Pods that run on a GPU without MIG.
    fn whole_users(&self, node: u32, gpu: u8) -> Vec<usize> {
        let runs = |(pod, state): (&usize, &Pod)| match state {
            Pod::Running { node: on, gpus, .. } if *on == node && gpus.contains(&usize::from(gpu)) => {
                self.trace.pods[*pod].mig.is_empty().then_some(*pod)
            }
            _ => None,
        };
        self.pods.iter().filter_map(runs).collect()
    }

    fn started(&mut self, pod: usize, node: u32, gpus: Vec<usize>) {
        assert!(!self.absent.contains(&node), "on a node that is there");
        let asked = &self.trace.pods[pod];
        match &self.pods[&pod] {
            Pod::Placed { node: on, .. } => {
                assert_eq!((*on, self.last_step), (node, self.now), "as soon as its GPUs are ready");
            }
            other => assert_eq!(*other, Pod::Waiting),
        }
        if asked.mig.is_empty() {
            assert_eq!(gpus.len(), usize::from(asked.claim.gpus));
            for gpu in &gpus {
                let state = self.gpus.get(&(node, *gpu as u8));
                assert!(
                    state.is_none_or(|state| !state.on && state.instances.is_empty()),
                    "not while it is in MIG mode"
                );
            }
        } else {
            let own: Vec<(u8, Placed)> = self
                .devices
                .iter()
                .filter(|(_, other)| **other == pod)
                .map(|((on, gpu, placed), _)| {
                    assert_eq!(*on, node, "all on one node");
                    (*gpu, *placed)
                })
                .collect();
            let given: Vec<Placed> = own.iter().map(|(_, placed)| *placed).collect();
            assert_eq!(Geometry::of(&self.table(node), &given), asked.mig, "what was asked for");
            let on: BTreeSet<usize> = own.iter().map(|(gpu, _)| usize::from(*gpu)).collect();
            assert_eq!(on.into_iter().collect::<Vec<_>>(), gpus);
        }
        self.pods.insert(pod, Pod::Running { since: self.now, node, gpus });
        self.nothing_is_given_twice(node);
    }

    fn nothing_is_given_twice(&self, node: u32) {
        let shape = self.history.fleet.shape(carve_placement::NodeIndex(node));
        let mut left = vec![1000_i64; usize::from(shape.gpus)];
        let (mut cpu, mut memory) = (shape.cpu.0 as i64, shape.memory.0 as i64);
        for (other, state) in &self.pods {
            let Pod::Running { node: on, gpus, .. } = state else { continue };
            if *on == node {
                let claim = &self.trace.pods[*other].claim;
                gpus.iter().for_each(|gpu| left[*gpu] -= i64::from(claim.compute.0));
                cpu -= claim.cpu.0 as i64;
                memory -= claim.memory.0 as i64;
            }
        }
        assert!(left.iter().all(|left| *left >= 0) && cpu >= 0 && memory >= 0, "no more than there is");
        for ((on, gpu), state) in &self.gpus {
            if *on == node && state.on {
                assert!(self.whole_users(node, *gpu).is_empty(), "MIG and other uses exclude each other");
            }
        }
    }

    fn close(self) {
        let (trace, history) = (self.trace, self.history);
        assert_eq!(self.pods.len(), trace.pods.len(), "everybody came");
        assert!(!self.pods.values().any(|pod| matches!(pod, Pod::Placed { .. })), "who has a place starts");
        let figures = history.figures(trace);
        let sum = figures.finished + figures.turned_away + figures.running + figures.waiting;
        assert_eq!(
            (figures.arrived, sum),
            (trace.pods.len(), trace.pods.len()),
            "nobody is lost: {figures:?}"
        );
        if trace.pods.iter().all(|pod| pod.deleted.is_some()) {
            assert_eq!((figures.waiting, figures.running), (0, 0), "whoever fits is served in the end");
            let last = history.moments.last().unwrap();
            assert_eq!((last.used, last.waiting), (0, 0));
        }
        assert!(history.moments.iter().all(|moment| moment.used <= moment.capacity));
        let Some(of) = figures.mig else {
            assert!(self.steps.is_empty());
            return;
        };
        let count =
            |wanted: fn(&MigChange) -> bool| self.steps.iter().filter(|step| wanted(&step.change)).count();
        assert_eq!(of.made, count(|change| matches!(change, MigChange::Made(_))));
        assert_eq!(of.destroyed, count(|change| matches!(change, MigChange::Destroyed(_))));
        assert_eq!(of.switched, count(|change| matches!(change, MigChange::On | MigChange::Off)));
        assert_eq!(of.spent_ms, self.steps.iter().map(|step| step.took_ms).sum::<u64>());
        assert_eq!(of.reused, self.reused);
        assert!(of.reconfigurations <= self.steps.len());
    }
}
