//! Where on the GPUs an instance can be made, and which place is best.
//!
//! Nothing here sees a job's run time: a place is chosen for a [`Waiting`] job.

use super::blocks::Occupied;
use super::jobs::PROFILES;
use super::{Moves, Placing, Policy};
use carve_gpu_model::{Placed, Product, ProfileSlot, ProfileTable};
use std::collections::BTreeMap;

/// Identity of an instance during a simulation.
pub(super) type InstanceNumber = usize;

/// An instance on a GPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct OnGpu {
    pub(super) number: InstanceNumber,
    pub(super) profile: usize,
    pub(super) placed: Placed,
    /// Whether its job has ended and it waits for another.
    pub(super) idle: bool,
}

/// What is known of a job when a place is chosen for it: all but its run time, which nobody knows before it has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) profile: usize,
    pub(super) waited_ms: u64,
    /// How many jobs of each profile wait, this one included.
    pub(super) queue: [usize; PROFILES.len()],
}

/// A place for an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) gpu: usize,
    pub(super) placed: Placed,
    /// An idle instance of the same profile that is taken as it is.
    pub(super) taken: Option<InstanceNumber>,
    /// Idle instances that have to go.
    pub(super) destroyed: Vec<InstanceNumber>,
}

/// The GPUs and what is on them.
#[derive(Debug)]
pub(super) struct Gpus {
    table: ProfileTable,
    slots: Vec<ProfileSlot>,
    on: Vec<Vec<OnGpu>>,
    arranged: BTreeMap<[u32; 4], Option<Vec<Placed>>>,
}

impl Gpus {
    /// So many empty H100s, or nothing where the table lacks a profile of the benchmark.
    pub(super) fn new(gpus: usize) -> Option<Self> {
        let table = Product::by_key("h100-sxm-80gb")?.profile_table()?;
        let slot = |name: &str| Some(table.by_name(&name.parse().ok()?).ok()?.0);
        let slots = PROFILES.iter().map(|profile| slot(profile.name)).collect::<Option<Vec<_>>>()?;
        Some(Gpus { table, slots, on: vec![Vec::new(); gpus], arranged: BTreeMap::new() })
    }

    pub(super) fn get_mut(&mut self, number: InstanceNumber) -> Option<&mut OnGpu> {
        self.on.iter_mut().flatten().find(|instance| instance.number == number)
    }

    pub(super) fn remove(&mut self, number: InstanceNumber) {
        for gpu in &mut self.on {
            gpu.retain(|instance| instance.number != number);
        }
    }

    pub(super) fn add(&mut self, gpu: usize, instance: OnGpu) {
        self.on[gpu].push(instance);
    }

    /// The best place for a job, moving what may be moved.
    pub(super) fn find(&mut self, job: Waiting, policy: Policy) -> Option<Place> {
        match policy.moves {
            Moves::None => {
                let mut places = self.places(job.profile);
                if job.waited_ms < policy.patience_ms {
                    let twos_wait = job.queue[1] > 0;
                    places.retain(|place| !self.around(place).worth_waiting(twos_wait));
                }
                places.into_iter().min_by_key(|place| self.score(place, policy.placing))
            }
            Moves::WithinGpus => (0..self.on.len()).find_map(|gpu| self.make_room_within(gpu, job.profile)),
            Moves::BetweenGpus => self.make_room_between(job.profile),
        }
    }

    /// What runs on a place's GPU, and the place itself, in memory slots.
    fn around(&self, place: &Place) -> Occupied {
        let slots = |placed: Placed| {
            self.table.placement(placed).map_or(0, |at| (((1u16 << at.size) - 1) << at.start) as u8)
        };
        let running = self.on[place.gpu].iter().filter(|instance| !instance.idle);
        Occupied {
            before: running.fold(0, |all, instance| all | slots(instance.placed)),
            by: slots(place.placed),
        }
    }

    /// All places for a profile: idle instances of it, and places where nothing but idle instances is.
    fn places(&self, profile: usize) -> Vec<Place> {
        let slot = self.slots[profile];
        let starts: Vec<u8> = self.table.get(slot).map_or(Vec::new(), |profile| {
            profile.placements.iter().map(|placement| placement.start).collect()
        });
        let mut places = Vec::new();
        for (gpu, on) in self.on.iter().enumerate() {
            for start in &starts {
                let placed = Placed { profile: slot, start: *start };
                if let Some(same) = on.iter().find(|instance| instance.idle && instance.placed == placed) {
                    places.push(Place { gpu, placed, taken: Some(same.number), destroyed: Vec::new() });
                    continue;
                }
                let clash = |instance: &&OnGpu| self.table.check(&[instance.placed, placed]).is_err();
                let (gone, kept): (Vec<&OnGpu>, Vec<&OnGpu>) = on.iter().partition(clash);
                let mut state: Vec<Placed> = kept.iter().map(|instance| instance.placed).collect();
                state.push(placed);
                if gone.iter().all(|instance| instance.idle) && self.table.check(&state).is_ok() {
                    let destroyed = gone.iter().map(|instance| instance.number).collect();
                    places.push(Place { gpu, placed, taken: None, destroyed });
                }
            }
        }
        places
    }

    /// Smaller is better.
    fn score(&self, place: &Place, placing: Placing) -> ([usize; 3], usize, usize, u8) {
        let score = match placing {
            Placing::FirstFit => [0; 3],
            Placing::FewestClosed => [self.closed(place), 0, 0],
            Placing::SmallestBlock => self.around(place).cost(),
        };
        (score, place.destroyed.len(), place.gpu, place.placed.start)
    }

    /// How many places of all profiles a place closes.
    fn closed(&self, place: &Place) -> usize {
        let running = self.on[place.gpu].iter().filter(|instance| !instance.idle);
        let before: Vec<Placed> = running.map(|instance| instance.placed).collect();
        let mut after = before.clone();
        after.push(place.placed);
        let open = |state: &[Placed]| -> usize {
            self.slots.iter().map(|slot| self.table.open_starts(state, *slot).len()).sum()
        };
        open(&before) - open(&after)
    }

    fn counts(on: &[OnGpu]) -> [u32; 4] {
        let mut counts = [0; 4];
        for instance in on {
            counts[instance.profile] += 1;
        }
        counts
    }

    /// A place on a GPU if what is on it may be put anywhere on it.
    fn make_room_within(&mut self, gpu: usize, profile: usize) -> Option<Place> {
        let mut counts = Self::counts(&self.on[gpu]);
        counts[profile] += 1;
        let (table, slots) = (&self.table, &self.slots);
        let arranged = self.arranged.entry(counts).or_insert_with(|| {
            let mut wanted = vec![0; table.profiles().len()];
            for (slot, count) in slots.iter().zip(counts) {
                wanted[usize::from(slot.0)] = count;
            }
            let mut found = None;
            table.visit_arrangements(&[], &wanted, |places| {
                found = Some(places.to_vec());
                false
            });
            found
        });
        let mut places = arranged.clone()?;
        let mut take = |slot: ProfileSlot| {
            let at = places.iter().position(|placed| placed.profile == slot)?;
            Some(places.remove(at))
        };
        for instance in &mut self.on[gpu] {
            instance.placed = take(self.slots[instance.profile])?;
        }
        Some(Place { gpu, placed: take(self.slots[profile])?, taken: None, destroyed: Vec::new() })
    }

    /// A place if everything may be put anywhere: all GPUs are packed anew.
    fn make_room_between(&mut self, profile: usize) -> Option<Place> {
        let all: Vec<OnGpu> = self.on.iter().flatten().copied().collect();
        let mut counts = Self::counts(&all);
        counts[profile] += 1;
        let packed = pack(self.on.len(), counts)?;
        let mut rest = all;
        for (gpu, counts) in packed.iter().enumerate() {
            self.on[gpu].clear();
            for (profile, count) in counts.iter().enumerate() {
                for _ in 0..*count {
                    if let Some(at) = rest.iter().position(|instance| instance.profile == profile) {
                        self.on[gpu].push(rest.remove(at));
                    }
                }
            }
        }
        let gpu = (0..packed.len()).find(|gpu| Self::counts(&self.on[*gpu]) != packed[*gpu])?;
        self.make_room_within(gpu, profile)
    }
}

/// How many of each profile of the benchmark go on each GPU so that all fit, or nothing where they do not.
///
/// An H100 has a left half, worth two 2g or four 1g, and a right half, worth a 2g and a 1g or three 1g; a 3g takes either. So each
/// 3g takes a right half while there is one, and what is left decides the rest. A test holds it against the planner.
pub fn pack(gpus: usize, counts: [u32; 4]) -> Option<Vec<[u32; 4]>> {
    let [mut ones, mut twos, mut threes, sevens] = counts;
    let rest = gpus.checked_sub(sevens as usize)?;
    let mut packed = vec![[0, 0, 0, 1]; sevens as usize];
    packed.resize(gpus, [0; 4]);
    let halves = (0..rest).map(|gpu| (gpu, 1, 3)).chain((0..rest).map(|gpu| (gpu, 2, 4)));
    for (gpu, most_twos, slices) in halves {
        let on = &mut packed[sevens as usize + gpu];
        if threes > 0 {
            (threes, on[2]) = (threes - 1, on[2] + 1);
            continue;
        }
        let two = twos.min(most_twos);
        let one = ones.min(slices - 2 * two);
        (twos, ones) = (twos - two, ones - one);
        (on[1], on[0]) = (on[1] + two, on[0] + one);
    }
    (ones == 0 && twos == 0 && threes == 0).then_some(packed)
}
