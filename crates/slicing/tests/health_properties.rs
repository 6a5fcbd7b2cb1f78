//! The health book under any sequence of inputs: what must hold after each of them.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

mod recorded;

use carve_gpu_host::GpuEvent;
use carve_gpu_model::{ComputeInstanceId, GpuIndex, GpuInstanceId, GpuUuid};
use carve_slicing::health::{Health, HealthBook, HealthNews, HealthSettings, MpsState, Probe, Seconds};
use carve_slicing::{NodeGpus, PartId};
use proptest::prelude::{Just, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Something the book is told. GPUs are 0 to 3, of which 3 is not there; a MIG device is one of its GPU or none.
#[derive(Debug, Clone)]
enum Input {
    Xid {
        gpu: usize,
        xid: u64,
        confined: Option<usize>,
    },
    Lost(usize),
    Found(usize),
    Probe {
        gpu: usize,
        good: bool,
    },
    Reset(usize),
    Recreated {
        gpu: usize,
        mig: usize,
    },
    Mps {
        gpu: usize,
        mig: Option<usize>,
        ready: bool,
    },
    /// A MIG device of GPU 0 comes or goes.
    Recut(usize),
    Restart,
}

const GPUS: usize = 3;

/// The machine at first. Made once: cutting simulated GPUs takes longer than everything that is tested here.
static FULL: LazyLock<NodeGpus> =
    LazyLock::new(|| recorded::machine("H200*2,L40S*1", "0=1g.18gb,1g.18gb,2g.35gb;1=3g.71gb,3g.71gb"));

fn input() -> impl Strategy<Value = Input> {
    let gpu = || 0..=GPUS;
    let xid = prop_oneof![Just(13), Just(48), Just(63), Just(79), Just(94), Just(95), Just(109), Just(4711)];
    prop_oneof![
        4 => (gpu(), xid, prop::option::of(0..4usize))
            .prop_map(|(gpu, xid, confined)| Input::Xid { gpu, xid, confined }),
        2 => gpu().prop_map(Input::Lost),
        2 => gpu().prop_map(Input::Found),
        6 => (gpu(), prop::bool::weighted(0.85)).prop_map(|(gpu, good)| Input::Probe { gpu, good }),
        1 => gpu().prop_map(Input::Reset),
        1 => (gpu(), 0..4usize).prop_map(|(gpu, mig)| Input::Recreated { gpu, mig }),
        2 => (gpu(), prop::option::of(0..4usize), any::<bool>())
            .prop_map(|(gpu, mig, ready)| Input::Mps { gpu, mig, ready }),
        1 => (0..3usize).prop_map(Input::Recut),
        1 => Just(Input::Restart),
    ]
}

fn settings() -> impl Strategy<Value = HealthSettings> {
    let choices = prop_oneof![
        4 => Just(("", "")),
        1 => Just(("all", "79")),
        1 => Just(("xids", "")),
        1 => Just(("48", "13")),
        1 => Just(("", "all")),
    ];
    choices.prop_map(|(disable, enable)| HealthSettings::parse(disable, enable, &mut Vec::new()))
}

/// A book and the machine it is about.
struct World {
    settings: HealthSettings,
    book: HealthBook,
    node: NodeGpus,
    now: u64,
    /// Whether a restart is one, or nothing at all.
    restarts: bool,
}

impl World {
    fn new(settings: HealthSettings, restarts: bool) -> Self {
        let node = FULL.clone();
        World { book: HealthBook::new(settings.clone(), &node), settings, node, now: 0, restarts }
    }

    fn uuid(&self, gpu: usize) -> GpuUuid {
        match self.node.gpus.get(gpu) {
            Some(node) => node.gpu.uuid.clone(),
            None => GpuUuid("GPU-none".to_owned()),
        }
    }

    fn part(&self, gpu: usize, mig: Option<usize>) -> PartId {
        let Some(node) = self.node.gpus.get(gpu) else { return PartId::new("GPU-none") };
        match mig {
            None => node.part(),
            Some(mig) => node.migs.get(mig).map_or_else(|| PartId::new("MIG-none"), |mig| mig.part()),
        }
    }

    /// Which GPU an input is about.
    fn about(input: &Input) -> Option<usize> {
        match input {
            Input::Xid { gpu, .. }
            | Input::Lost(gpu)
            | Input::Found(gpu)
            | Input::Probe { gpu, .. }
            | Input::Reset(gpu)
            | Input::Recreated { gpu, .. }
            | Input::Mps { gpu, .. } => Some(*gpu).filter(|gpu| *gpu < GPUS),
            Input::Recut(_) => Some(0),
            Input::Restart => None,
        }
    }

    fn tell(&mut self, input: &Input) -> HealthNews {
        self.now += 7;
        let at = Seconds(self.now);
        match *input {
            Input::Xid { gpu, xid, confined } => {
                // The fourth is an instance that does not exist.
                let place = |mig: usize| {
                    let device = self.node.gpus.get(gpu).and_then(|node| node.migs.get(mig));
                    device.map_or((GpuInstanceId(90), ComputeInstanceId(0)), |mig| {
                        (mig.device.gpu_instance, mig.device.compute_instance)
                    })
                };
                let place = confined.map(place);
                let event = GpuEvent {
                    gpu: GpuIndex(gpu as u32),
                    xid,
                    gpu_instance: place.map(|(instance, _)| instance),
                    compute_instance: place.map(|(_, compute)| compute),
                };
                self.book.xid(&event, at)
            }
            Input::Lost(gpu) => {
                if let Some(node) = self.node.gpus.get_mut(gpu) {
                    node.lost = true;
                }
                let gpu = self.uuid(gpu);
                self.book.lost(&gpu)
            }
            Input::Found(gpu) => {
                if let Some(node) = self.node.gpus.get_mut(gpu) {
                    node.lost = false;
                }
                let gpu = self.uuid(gpu);
                self.book.found(&gpu, at)
            }
            Input::Probe { gpu, good } => {
                let probe = if good { Probe::Good } else { Probe::Bad("no answer".to_owned()) };
                let gpu = self.uuid(gpu);
                self.book.probe(&gpu, probe, at)
            }
            Input::Reset(gpu) => {
                let gpu = self.uuid(gpu);
                self.book.reset(&gpu)
            }
            Input::Recreated { gpu, mig } => {
                let part = self.part(gpu, Some(mig));
                self.book.recreated(&part)
            }
            Input::Mps { gpu, mig, ready } => {
                let state =
                    if ready { MpsState::Ready } else { MpsState::NotReady("it does not answer".to_owned()) };
                let part = self.part(gpu, mig);
                self.book.mps(&part, state)
            }
            Input::Recut(mig) => {
                // A lost GPU can not be cut.
                if !self.node.gpus[0].lost {
                    let all = &FULL.gpus[0].migs;
                    let migs = &mut self.node.gpus[0].migs;
                    match migs.iter().position(|there| there.part() == all[mig].part()) {
                        Some(there) => drop(migs.remove(there)),
                        None => migs.push(all[mig].clone()),
                    }
                }
                self.book.node_changed(&self.node, at)
            }
            Input::Restart => {
                if self.restarts {
                    let records = self.book.to_records();
                    self.book = HealthBook::from_records(self.settings.clone(), &self.node, &records, at);
                }
                HealthNews::default()
            }
        }
    }

    fn health(&self, gpu: usize) -> BTreeMap<PartId, String> {
        let node = &self.node.gpus[gpu];
        let parts = node.migs.iter().map(|mig| mig.part()).chain([node.part()]);
        parts.map(|part| (part.clone(), format!("{:?}", self.book.health_of(&part)))).collect()
    }
}

proptest! {
    #[test]
    fn no_part_of_a_lost_gpu_is_healthy(settings in settings(), inputs in prop::collection::vec(input(), 0..60)) {
        let mut world = World::new(settings, true);
        for input in &inputs {
            world.tell(input);
            for node in world.node.gpus.iter().filter(|node| node.lost) {
                let mut parts = node.migs.iter().map(|mig| mig.part()).chain([node.part()]);
                prop_assert!(parts.all(|part| !world.book.health_of(&part).is_healthy()), "{input:?}");
            }
        }
    }

    #[test]
    fn what_happens_to_one_gpu_is_nothing_to_the_others(
        settings in settings(),
        inputs in prop::collection::vec(input(), 0..60),
    ) {
        let mut world = World::new(settings, true);
        for input in &inputs {
            let before: Vec<_> = (0..GPUS).map(|gpu| world.health(gpu)).collect();
            let news = world.tell(input);
            let about = World::about(input);
            for gpu in (0..GPUS).filter(|gpu| about != Some(*gpu)) {
                prop_assert_eq!(&world.health(gpu), &before[gpu], "{:?}", input);
            }
            let about = about.map(|gpu| world.uuid(gpu));
            prop_assert!(news.changes.iter().all(|change| Some(&change.gpu) == about.as_ref()));
        }
    }

    #[test]
    fn restarts_change_nothing_and_the_same_inputs_say_the_same(
        settings in settings(),
        inputs in prop::collection::vec(input(), 0..60),
    ) {
        let (mut restarted, mut steady) = (World::new(settings.clone(), true), World::new(settings, false));
        for input in &inputs {
            prop_assert_eq!(restarted.tell(input), steady.tell(input), "{:?}", input);
            prop_assert_eq!(&restarted.book, &steady.book, "{:?}", input);
        }
    }

    /// The changes are the whole difference between before and after, so that an agent may live on them alone.
    #[test]
    fn changes_are_complete(settings in settings(), inputs in prop::collection::vec(input(), 0..60)) {
        let mut world = World::new(settings, true);
        for input in &inputs {
            let before = world.book.all();
            let news = world.tell(input);
            let told: BTreeMap<_, _> =
                news.changes.iter().map(|change| (change.part.clone(), (&change.from, &change.to))).collect();
            let after = world.book.all();
            for (part, now) in &after {
                let Some(then) = before.get(part) else { continue };
                let expected = (then != now).then_some((then, now));
                prop_assert_eq!(told.get(part).copied(), expected, "{} at {:?}", part, input);
            }
            prop_assert!(told.keys().all(|part| after.contains_key(part)));
        }
    }

    /// Left alone and answering well, a GPU that is there and not fatally ill is offered again.
    #[test]
    fn what_can_heal_heals(inputs in prop::collection::vec(input(), 0..60)) {
        let mut world = World::new(HealthSettings::default(), true);
        inputs.iter().for_each(|input| drop(world.tell(input)));
        for gpu in 0..GPUS {
            world.tell(&Input::Lost(gpu));
            world.tell(&Input::Found(gpu));
            for mig in [None, Some(0), Some(1), Some(2)] {
                world.tell(&Input::Mps { gpu, mig, ready: true });
            }
            for _ in 0..8 {
                world.tell(&Input::Probe { gpu, good: true });
            }
        }
        prop_assert!(world.book.all().values().all(Health::is_healthy));
    }
}
