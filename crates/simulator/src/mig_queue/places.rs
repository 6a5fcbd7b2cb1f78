//! Where on the GPUs an instance can be made, and which place is best.

use super::jobs::PROFILES;
use super::{Moves, Placing};
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

    /// The best place for a profile, moving what may be moved.
    pub(super) fn find(&mut self, profile: usize, placing: Placing, moves: Moves) -> Option<Place> {
        match moves {
            Moves::None => self.places(profile).into_iter().min_by_key(|place| self.score(place, placing)),
            Moves::WithinGpus => (0..self.on.len()).find_map(|gpu| self.make_room_within(gpu, profile)),
            Moves::BetweenGpus => self.make_room_between(profile),
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
    fn score(&self, place: &Place, placing: Placing) -> ([usize; 5], usize, usize, u8) {
        let busy: Vec<Placed> = self.on[place.gpu]
            .iter()
            .filter(|instance| !instance.idle)
            .map(|instance| instance.placed)
            .collect();
        let mut after = busy.clone();
        after.push(place.placed);
        let open =
            |state: &[Placed], profile: usize| self.table.open_starts(state, self.slots[profile]).len();
        let closed = |profile: usize| open(&busy, profile) - open(&after, profile);
        let score = match placing {
            Placing::FirstFit => [0; 5],
            Placing::FewestClosed => [(0..PROFILES.len()).map(closed).sum(), 0, 0, 0, 0],
            Placing::KeepLarge => {
                let free: usize = usize::from(self.table.slots())
                    - after
                        .iter()
                        .filter_map(|placed| self.table.placement(*placed))
                        .map(|p| usize::from(p.size))
                        .sum::<usize>();
                [closed(3), closed(2), free, closed(1), closed(0)]
            }
        };
        (score, place.destroyed.len(), place.gpu, place.placed.start)
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
