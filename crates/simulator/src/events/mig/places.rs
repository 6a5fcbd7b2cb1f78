//! Where MIG devices can be on GPUs, and which place is best: legality is asked of the GPU's own table, and nothing in use is touched.

use super::products::{Kind, KindIndex};
use carve_gpu_model::{Placed, ProfileSlot, ProfileTable};
use carve_planner::room;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A kind of GPU with certain instances on it, by its number in [`Places`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LayoutIndex(usize);

/// Instances in the order of their places, and whether each is promised to somebody.
type Layout = Vec<(Placed, bool)>;

/// A GPU that may take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) layout: LayoutIndex,
    /// Whether it would have to be switched into MIG mode.
    pub(super) switch: bool,
}

/// An instance for somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Give {
    pub(super) gpu: usize,
    pub(super) placed: Placed,
    /// Whether it is there and idle.
    pub(super) reused: bool,
    /// Idle instances that have to go for it.
    pub(super) destroyed: Vec<Placed>,
}

/// What somebody's instances cost; the smaller the better, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Price {
    /// GPUs that are switched into MIG mode: nobody has them as a whole any more.
    pub(super) switched: u32,
    /// Instances made.
    pub(super) made: u32,
    /// Room lost beside what is in use, as the planner counts it.
    pub(super) lost: u32,
    /// Idle instances destroyed.
    pub(super) destroyed: u32,
}

impl Price {
    fn and(self, other: Price) -> Price {
        Price {
            switched: self.switched + other.switched,
            made: self.made + other.made,
            lost: self.lost + other.lost,
            destroyed: self.destroyed + other.destroyed,
        }
    }
}

/// One way to have one more instance on a GPU.
#[derive(Debug)]
struct Way {
    price: Price,
    placed: Placed,
    destroyed: Vec<Placed>,
    /// How the GPU looks then.
    after: LayoutIndex,
}

/// Everything that was ever found out about layouts. There are few, and many GPUs that look alike.
#[derive(Debug, Default)]
pub(super) struct Places {
    layouts: Vec<(KindIndex, Layout)>,
    numbers: BTreeMap<(KindIndex, Layout), LayoutIndex>,
    ways: BTreeMap<(LayoutIndex, ProfileSlot), Rc<[Way]>>,
}

/// Steps after which a search for several instances gives up.
const EFFORT: u32 = 5000;

impl Places {
    /// The number of a layout.
    pub(super) fn layout(&mut self, kind: KindIndex, mut instances: Layout) -> LayoutIndex {
        instances.sort_unstable();
        let key = (kind, instances);
        if let Some(known) = self.numbers.get(&key) {
            return *known;
        }
        let number = LayoutIndex(self.layouts.len());
        self.layouts.push(key.clone());
        self.numbers.insert(key, number);
        number
    }

    /// The kind of GPU that a layout is of.
    pub(super) fn kind(&self, layout: LayoutIndex) -> KindIndex {
        self.layouts[layout.0].0
    }

    /// What one more instance of a profile costs at best on a GPU in MIG mode, if there is a place for it.
    pub(super) fn price(&mut self, kind: &Kind, layout: LayoutIndex, profile: ProfileSlot) -> Option<Price> {
        self.ways(kind, layout, profile).first().map(|way| way.price)
    }

    /// The best places for all that is wanted on the GPUs of one node, and their price.
    pub(super) fn find(
        &mut self,
        kind: &Kind,
        wanted: &[ProfileSlot],
        gpus: &[Option<Candidate>],
    ) -> Option<(Price, Vec<Give>)> {
        let mut effort = EFFORT;
        let mut gives = Vec::with_capacity(wanted.len());
        let price = self.search(kind, wanted, &mut gpus.to_vec(), &mut gives, &mut effort)?;
        Some((price, gives))
    }

    /// The best place for the first, then for the others; where those find none, the next best for the first.
    fn search(
        &mut self,
        kind: &Kind,
        wanted: &[ProfileSlot],
        gpus: &mut Vec<Option<Candidate>>,
        gives: &mut Vec<Give>,
        effort: &mut u32,
    ) -> Option<Price> {
        let Some((first, others)) = wanted.split_first() else { return Some(Price::default()) };
        let mut found: Vec<(Price, usize, usize, Rc<[Way]>)> = Vec::new();
        for (gpu, candidate) in gpus.iter().enumerate() {
            let Some(candidate) = candidate else { continue };
            // Of GPUs that look alike, one stands for all.
            if gpus[..gpu].contains(&Some(*candidate)) {
                continue;
            }
            let ways = self.ways(kind, candidate.layout, *first);
            for (number, way) in ways.iter().enumerate() {
                let switched = u32::from(candidate.switch);
                found.push((
                    way.price.and(Price { switched, ..Price::default() }),
                    gpu,
                    number,
                    Rc::clone(&ways),
                ));
                if others.is_empty() {
                    break;
                }
            }
        }
        found.sort_by_key(|(price, gpu, number, _)| (*price, *gpu, *number));
        for (price, gpu, number, ways) in found {
            *effort = effort.checked_sub(1)?;
            let way = &ways[number];
            let before = gpus[gpu].replace(Candidate { layout: way.after, switch: false });
            gives.push(Give {
                gpu,
                placed: way.placed,
                reused: way.price.made == 0,
                destroyed: way.destroyed.clone(),
            });
            if let Some(rest) = self.search(kind, others, gpus, gives, effort) {
                return Some(price.and(rest));
            }
            gives.pop();
            gpus[gpu] = before;
        }
        None
    }

    /// All ways to have one more instance of a profile on a GPU, best first.
    fn ways(&mut self, kind: &Kind, layout: LayoutIndex, profile: ProfileSlot) -> Rc<[Way]> {
        if let Some(known) = self.ways.get(&(layout, profile)) {
            return Rc::clone(known);
        }
        let (number, instances) = self.layouts[layout.0].clone();
        let starts = kind.table.get(profile).map_or(&[][..], |profile| &profile.placements);
        let mut ways: Vec<Way> = starts
            .iter()
            .filter_map(|start| {
                let placed = Placed { profile, start: start.start };
                let destroyed = in_the_way(&kind.table, &instances, placed)?;
                let reused = instances.contains(&(placed, false));
                let used: Vec<Placed> =
                    instances.iter().filter(|(_, used)| *used).map(|(at, _)| *at).collect();
                let with: Vec<Placed> = used.iter().copied().chain([placed]).collect();
                let mut after = instances.clone();
                after.retain(|(at, _)| *at != placed && !destroyed.contains(at));
                after.push((placed, true));
                let price = Price {
                    switched: 0,
                    made: u32::from(!reused),
                    lost: room(&kind.table, &used).saturating_sub(room(&kind.table, &with)),
                    destroyed: destroyed.len() as u32,
                };
                Some(Way { price, placed, destroyed, after: self.layout(number, after) })
            })
            .collect();
        ways.sort_by_key(|way| (way.price, way.placed.start));
        let ways: Rc<[Way]> = ways.into();
        self.ways.insert((layout, profile), Rc::clone(&ways));
        ways
    }
}

/// The idle instances that have to go for one at this place; nothing where it can not be beside those in use.
fn in_the_way(table: &ProfileTable, instances: &[(Placed, bool)], placed: Placed) -> Option<Vec<Placed>> {
    if instances.contains(&(placed, false)) {
        return Some(Vec::new());
    }
    let legal = |kept: &[Placed]| {
        let all: Vec<Placed> = kept.iter().copied().chain([placed]).collect();
        table.check(&all).is_ok()
    };
    let used: Vec<Placed> = instances.iter().filter(|(_, used)| *used).map(|(at, _)| *at).collect();
    if !legal(&used) {
        return None;
    }
    // Whatever can stay, stays; what is large first, for it took the longest to find room for.
    let mut idle: Vec<Placed> = instances.iter().filter(|(_, used)| !*used).map(|(at, _)| *at).collect();
    idle.sort_by_key(|at| std::cmp::Reverse(table.placement(*at).map(|placement| placement.size)));
    let mut kept = used;
    let mut destroyed = Vec::new();
    for one in idle {
        kept.push(one);
        if !legal(&kept) {
            kept.pop();
            destroyed.push(one);
        }
    }
    Some(destroyed)
}
