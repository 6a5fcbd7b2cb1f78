//! Pods packed anew onto as few and as cheap of the present machines as hold them.
//!
//! A node is used in one way, so that its configuration can say it: whole GPUs and MIG devices, or shares of one mechanism for pods that
//! trust each other. Largest first, each on the first machine with room; then the dearest machines are tried to do without.

use carve_gpu_model::{Geometry, Mebibytes, Product, ProfileName, Sharing};
use carve_planner::{feasible, wanted};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// What a pod needs of GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing.
    Nothing,
    /// Whole ones.
    Whole(u8),
    /// A MIG device.
    Mig(ProfileName),
    /// A share.
    Share { sharing: Sharing, compute: u16, memory: Mebibytes, most: u32 },
}

/// A pod that needs a place.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    /// Its workload; none for pods without GPUs.
    pub(crate) workload: Option<usize>,
    pub(crate) pod: String,
    /// The machine it is on.
    pub(crate) at: usize,
    pub(crate) need: Need,
    pub(crate) domain: String,
    pub(crate) cpu: u64,
    pub(crate) memory: u64,
}

/// A machine that pods may be packed onto.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machine {
    /// Key of its GPUs' product.
    pub(crate) product: &'static str,
    pub(crate) gpus: u8,
    /// Memory of each GPU that pods can have.
    pub(crate) gpu_memory: Mebibytes,
    pub(crate) cpu: u64,
    pub(crate) memory: u64,
    /// Millionths of a dollar an hour; nothing where unknown.
    pub(crate) price: u64,
}

/// Where a pod is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) item: usize,
    pub(crate) machine: usize,
    pub(crate) gpus: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Gpu {
    Free,
    Whole,
    Mig(Geometry),
    Shared { compute: u32, memory: u64, members: u32, most: u32 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Unused,
    Plain,
    Shared(Sharing, String),
}

#[derive(Debug, Clone)]
struct Room {
    kind: Kind,
    gpus: Vec<Gpu>,
    cpu: u64,
    memory: u64,
}

/// Which geometries a product can have, as far as was asked.
type Known = RefCell<BTreeMap<(&'static str, Geometry), bool>>;

/// Packs items onto some machines.
pub(crate) struct Packer<'a> {
    machines: &'a [Machine],
    items: &'a [Item],
    /// Items in the order in which they choose.
    order: Vec<usize>,
    known: Known,
}

/// So often it is tried to do without a machine.
const MOST_TRIES: usize = 256;

impl<'a> Packer<'a> {
    pub(crate) fn new(machines: &'a [Machine], items: &'a [Item]) -> Self {
        let mut order: Vec<usize> = (0..items.len()).collect();
        order.sort_by_key(|index| choosing(&items[*index], *index));
        Packer { machines, items, order, known: RefCell::default() }
    }

    /// The places on the cheapest set of machines that was found, or nothing where not even all of them hold the items.
    pub(crate) fn pack(&self, open: &[usize]) -> Option<Vec<Place>> {
        let mut here = vec![0_usize; self.machines.len()];
        for item in self.items.iter().filter(|item| item.workload.is_some()) {
            here[item.at] += 1;
        }
        let each = |index: &usize| self.machines[*index].price / u64::from(self.machines[*index].gpus.max(1));
        let mut cheap = open.to_vec();
        cheap.sort_by_key(|index| (each(index), std::cmp::Reverse(here[*index]), *index));
        let mut large = open.to_vec();
        large.sort_by_key(|index| {
            (
                std::cmp::Reverse(self.machines[*index].gpus),
                each(index),
                std::cmp::Reverse(here[*index]),
                *index,
            )
        });
        let best = [cheap, large].into_iter().filter_map(|order| self.fewest(&order));
        let best = best.min_by_key(|(kept, _)| self.cost(kept))?;
        let (kept, places) = best;
        // On the machines that stay, whoever can stays where it is.
        let places = self.fill(&kept, true).unwrap_or(places);
        Some(self.settled(open, places))
    }

    /// The same on other machines of the same kind, where fewer pods have to move by that. A pod that keeps what it has counts
    /// most: the others are started anew anyway.
    fn settled(&self, open: &[usize], mut places: Vec<Place>) -> Vec<Place> {
        let worth = |item: &Item| if matches!(item.need, Need::Whole(_) | Need::Nothing) { 4 } else { 1 };
        let used: BTreeSet<usize> = places.iter().map(|place| place.machine).collect();
        let mut gains: Vec<(u32, usize, usize)> = Vec::new();
        for from in &used {
            let mut stay: BTreeMap<usize, u32> = BTreeMap::new();
            for item in
                places.iter().filter(|place| place.machine == *from).map(|place| &self.items[place.item])
            {
                *stay.entry(item.at).or_default() += worth(item);
            }
            let same = open.iter().filter(|to| self.machines[**to] == self.machines[*from]);
            gains.extend(same.map(|to| (stay.get(to).copied().unwrap_or(0), *from, *to)));
        }
        // The most worth first; whoever gains nothing stays on the machine it was given, if nobody else took that.
        gains.sort_by_key(|(worth, from, to)| (std::cmp::Reverse(*worth), from != to, *from, *to));
        let mut becomes: BTreeMap<usize, usize> = BTreeMap::new();
        let mut taken: BTreeSet<usize> = BTreeSet::new();
        for (_, from, to) in gains {
            if !becomes.contains_key(&from) && taken.insert(to) {
                becomes.insert(from, to);
            }
        }
        for place in &mut places {
            place.machine = becomes.get(&place.machine).copied().unwrap_or(place.machine);
        }
        places
    }

    /// What machines cost, and how many they are.
    pub(crate) fn cost(&self, machines: &[usize]) -> (u64, usize) {
        (machines.iter().map(|index| self.machines[*index].price).sum(), machines.len())
    }

    fn fewest(&self, order: &[usize]) -> Option<(Vec<usize>, Vec<Place>)> {
        let mut places = self.fill(order, false)?;
        let mut kept = used(order, &places);
        let mut dear = kept.clone();
        dear.sort_by_key(|index| (std::cmp::Reverse(self.machines[*index].price), std::cmp::Reverse(*index)));
        for without in dear.into_iter().take(MOST_TRIES) {
            let rest: Vec<usize> = kept.iter().copied().filter(|index| *index != without).collect();
            if rest.len() == kept.len() {
                continue;
            }
            if let Some(fewer) = self.fill(&rest, false) {
                kept = used(&rest, &fewer);
                places = fewer;
            }
        }
        Some((kept, places))
    }

    /// Places on these machines in this order, each item where it is first if it may `stay`.
    fn fill(&self, order: &[usize], stay: bool) -> Option<Vec<Place>> {
        let mut rooms: BTreeMap<usize, Room> =
            order.iter().map(|index| (*index, self.room(*index))).collect();
        let mut places = Vec::with_capacity(self.items.len());
        for index in &self.order {
            let item = &self.items[*index];
            let first = stay.then_some(item.at).filter(|at| rooms.contains_key(at));
            let place = first.into_iter().chain(order.iter().copied()).find_map(|machine| {
                let gpus = self.put(item, machine, rooms.get_mut(&machine)?)?;
                Some(Place { item: *index, machine, gpus })
            })?;
            places.push(place);
        }
        places.sort_by_key(|place| place.item);
        Some(places)
    }

    fn room(&self, index: usize) -> Room {
        let machine = &self.machines[index];
        Room {
            kind: Kind::Unused,
            gpus: vec![Gpu::Free; usize::from(machine.gpus)],
            cpu: machine.cpu,
            memory: machine.memory,
        }
    }

    /// Puts an item onto a machine, if it has room.
    fn put(&self, item: &Item, index: usize, room: &mut Room) -> Option<Vec<u8>> {
        let machine = &self.machines[index];
        if room.cpu < item.cpu || room.memory < item.memory {
            return None;
        }
        if item.need != Need::Nothing && self.machines[item.at].product != machine.product {
            return None;
        }
        let kind = match &item.need {
            Need::Nothing => room.kind.clone(),
            Need::Whole(_) | Need::Mig(_) => Kind::Plain,
            Need::Share { sharing, .. } => Kind::Shared(*sharing, item.domain.clone()),
        };
        if room.kind != Kind::Unused && room.kind != kind {
            return None;
        }
        let gpus = match &item.need {
            Need::Nothing => Vec::new(),
            Need::Whole(count) => whole(*count, room)?,
            Need::Mig(profile) => self.device(profile, machine.product, room)?,
            Need::Share { compute, memory, most, .. } => {
                share(u32::from(*compute), memory.0, *most, machine.gpu_memory.0, room)?
            }
        };
        room.kind = kind;
        room.cpu -= item.cpu;
        room.memory -= item.memory;
        Some(gpus)
    }

    fn device(&self, profile: &ProfileName, product: &'static str, room: &mut Room) -> Option<Vec<u8>> {
        let begun = |gpu: &Gpu| matches!(gpu, Gpu::Mig(_));
        let order = (0..room.gpus.len()).filter(|at| begun(&room.gpus[*at]));
        let order = order.chain((0..room.gpus.len()).filter(|at| room.gpus[*at] == Gpu::Free));
        for at in order.collect::<Vec<_>>() {
            let mut geometry = match &room.gpus[at] {
                Gpu::Mig(geometry) => geometry.clone(),
                _ => Geometry::default(),
            };
            geometry.add(profile.clone(), 1);
            if self.can_be(product, &geometry) {
                room.gpus[at] = Gpu::Mig(geometry);
                return Some(vec![at as u8]);
            }
        }
        None
    }

    fn can_be(&self, product: &'static str, geometry: &Geometry) -> bool {
        let key = (product, geometry.clone());
        if let Some(known) = self.known.borrow().get(&key) {
            return *known;
        }
        let table = Product::by_key(product).and_then(Product::profile_table);
        let can = table.is_some_and(|table| {
            let counts = geometry.iter().map(|(name, count)| (name, u64::from(count)));
            wanted(&table, counts).is_ok_and(|wanted| feasible(&table, &wanted).is_ok())
        });
        self.known.borrow_mut().insert(key, can);
        can
    }
}

fn used(order: &[usize], places: &[Place]) -> Vec<usize> {
    order.iter().copied().filter(|index| places.iter().any(|place| place.machine == *index)).collect()
}

/// MIG devices choose first, because few places will do; then whole GPUs, then shares of one kind after the other, largest first.
fn choosing(item: &Item, index: usize) -> (u8, u8, String, std::cmp::Reverse<u64>, usize) {
    let (turn, kind, size) = match &item.need {
        Need::Mig(profile) => (0, 0, profile.gpu_slices() * 1_000_000 + profile.gigabytes()),
        Need::Whole(count) => (1, 0, u64::from(*count)),
        Need::Share { sharing, compute, memory, .. } => {
            (2, *sharing as u8, u64::from(*compute) * 1_000_000 + memory.0)
        }
        Need::Nothing => (3, 0, item.cpu),
    };
    let domain = if turn == 2 { item.domain.clone() } else { String::new() };
    (turn, kind, domain, std::cmp::Reverse(size), index)
}

fn whole(count: u8, room: &mut Room) -> Option<Vec<u8>> {
    let free: Vec<usize> = (0..room.gpus.len()).filter(|at| room.gpus[*at] == Gpu::Free).collect();
    let taken = free.get(..usize::from(count))?;
    for at in taken {
        room.gpus[*at] = Gpu::Whole;
    }
    Some(taken.iter().map(|at| *at as u8).collect())
}

fn share(compute: u32, memory: u64, most: u32, total: u64, room: &mut Room) -> Option<Vec<u8>> {
    for (at, gpu) in room.gpus.iter_mut().enumerate() {
        let (taken, held, members, allowed) = match gpu {
            Gpu::Free => (0, 0, 0, most),
            Gpu::Shared { compute, memory, members, most: allowed } => {
                (*compute, *memory, *members, most.min(*allowed))
            }
            Gpu::Whole | Gpu::Mig(_) => continue,
        };
        if taken + compute <= 1000 && held + memory <= total && members < allowed {
            *gpu = Gpu::Shared {
                compute: taken + compute,
                memory: held + memory,
                members: members + 1,
                most: allowed,
            };
            return Some(vec![at as u8]);
        }
    }
    None
}
