//! Claims for MIG devices that come and go, and what a fleet has left for them: the arithmetic of the packing experiment.

use carve_dra::{Device, Layout, Quantity};
use std::collections::BTreeMap;

/// How often each size is asked for, in percent.
const MIX: [(&str, u64); 5] =
    [("1g.10gb", 55), ("2g.20gb", 20), ("3g.40gb", 15), ("4g.40gb", 5), ("7g.80gb", 5)];

/// The profiles that are asked for, small ones first.
pub fn profiles() -> impl Iterator<Item = &'static str> {
    MIX.into_iter().map(|(profile, _)| profile)
}

/// A claim: what it asks for, and how many others arrive before it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// The profile.
    pub profile: &'static str,
    /// It leaves right before the arrival that comes so many later.
    pub stays: usize,
}

/// A sequence of claims from a seed; the same for the same seed. A claim stays for `mean` arrivals on average.
pub fn arrivals(seed: u64, number: usize, mean: f64) -> Vec<Arrival> {
    let mut random = Random(seed);
    let one = |_| {
        let mut left = random.below(100);
        let profile = MIX.iter().find(|(_, percent)| {
            let here = left < *percent;
            left = left.saturating_sub(*percent);
            here
        });
        let stays = -mean * (1.0 - random.part()).ln();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
        Arrival {
            profile: profile.map_or(MIX[0].0, |(profile, _)| profile),
            stays: stays.ceil().max(1.0) as usize,
        }
    };
    (0..number).map(one).collect()
}

/// SplitMix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    /// From 0 up to and without 1.
    #[allow(clippy::cast_precision_loss, reason = "53 bits are exact")]
    fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// What came of a sequence.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    /// Claims by profile.
    pub asked: BTreeMap<&'static str, u64>,
    /// Those that found no room.
    pub refused: BTreeMap<&'static str, u64>,
    fullness: Vec<f64>,
}

impl Tally {
    /// Counts a claim, and how full the fleet is after it.
    pub fn count(&mut self, profile: &'static str, served: bool, fullness: f64) {
        *self.asked.entry(profile).or_default() += 1;
        *self.refused.entry(profile).or_default() += u64::from(!served);
        self.fullness.push(fullness);
    }

    /// How full the fleet was on average.
    #[allow(clippy::cast_precision_loss, reason = "some hundred claims")]
    pub fn mean_fullness(&self) -> f64 {
        self.fullness.iter().sum::<f64>() / self.fullness.len() as f64
    }
}

/// Plays a sequence to the ledger itself, without a cluster; claims before `filling` are not counted.
pub fn play_model(layout: &Layout, nodes: usize, arrivals: &[Arrival], filling: usize) -> Tally {
    let mut ledger = Ledger::new(layout, nodes);
    let mut leaving: BTreeMap<usize, Vec<(usize, String)>> = BTreeMap::new();
    let mut tally = Tally::default();
    for (number, arrival) in arrivals.iter().enumerate() {
        for (node, device) in leaving.remove(&number).unwrap_or_default() {
            ledger.charge(node, &device, false);
        }
        let given = ledger.first_fit(arrival.profile);
        let served = given.is_some();
        if let Some((node, device)) = given {
            ledger.charge(node, &device, true);
            leaving.entry(number + arrival.stays).or_default().push((node, device));
        }
        if number >= filling {
            tally.count(arrival.profile, served, ledger.fullness());
        }
    }
    tally
}

/// What is left of every counter of every node, kept beside the scheduler.
#[derive(Debug, Clone)]
pub struct Ledger {
    layout: Layout,
    nodes: Vec<NodeLeft>,
}

#[derive(Debug, Clone)]
struct NodeLeft {
    counters: BTreeMap<(String, String), u64>,
    held: usize,
}

fn amount(quantity: Quantity) -> u64 {
    match quantity {
        Quantity::Count(count) => count,
        Quantity::Memory(memory) => memory.0,
    }
}

impl Ledger {
    /// So many nodes with the same GPUs and nothing on them.
    pub fn new(layout: &Layout, nodes: usize) -> Self {
        let sets = layout.sets.iter().flat_map(|set| {
            set.counters.iter().map(|(name, value)| ((set.name.clone(), name.clone()), amount(*value)))
        });
        let left = NodeLeft { counters: sets.collect(), held: 0 };
        Ledger { layout: layout.clone(), nodes: vec![left; nodes] }
    }

    fn devices(&self) -> impl Iterator<Item = &Device> {
        self.layout.gpus.iter().flatten()
    }

    fn fits(&self, node: usize, device: &Device) -> bool {
        let left = |set: &str, name: &str| {
            let key = (set.to_owned(), name.to_owned());
            self.nodes.get(node).and_then(|node| node.counters.get(&key)).copied().unwrap_or(0)
        };
        device.consumes.iter().all(|consumption| {
            consumption.counters.iter().all(|(name, value)| left(&consumption.set, name) >= amount(*value))
        })
    }

    /// The first device of a profile that fits on a node, in the order in which the scheduler looks.
    fn first(&self, node: usize, profile: &str) -> Option<&Device> {
        self.devices().find(|device| is_profile(device, profile) && self.fits(node, device))
    }

    /// Whether any node has room for a profile.
    pub fn has_room(&self, profile: &str) -> bool {
        (0..self.nodes.len()).any(|node| self.first(node, profile).is_some())
    }

    /// Charges a device, or gives it back. Says whether there is such a device and, where it is charged, whether it fits.
    pub fn charge(&mut self, node: usize, device: &str, taken: bool) -> bool {
        let Some(device) = self.devices().find(|one| one.name.to_string() == device).cloned() else {
            return false;
        };
        if taken && !self.fits(node, &device) {
            return false;
        }
        let Some(left) = self.nodes.get_mut(node) else { return false };
        left.held = if taken { left.held + 1 } else { left.held.saturating_sub(1) };
        if let Some(consumption) = &device.consumes {
            for (name, value) in &consumption.counters {
                if let Some(counter) = left.counters.get_mut(&(consumption.set.clone(), name.clone())) {
                    *counter = if taken { *counter - amount(*value) } else { *counter + amount(*value) };
                }
            }
        }
        true
    }

    /// What the scheduler would do: the node with the fewest claims of those with room, and there the first device that fits.
    pub fn first_fit(&self, profile: &str) -> Option<(usize, String)> {
        let with_room = (0..self.nodes.len()).filter_map(|node| Some((node, self.first(node, profile)?)));
        let best = with_room.min_by_key(|(node, _)| self.nodes.get(*node).map_or(0, |node| node.held));
        best.map(|(node, device)| (node, device.name.to_string()))
    }

    /// Part of all compute slices that is taken.
    #[allow(clippy::cast_precision_loss, reason = "some hundred slices")]
    pub fn fullness(&self) -> f64 {
        let is_slice = |name: &str| name == "compute-slices";
        let counters = self.nodes.iter().flat_map(|node| &node.counters);
        let left: u64 = counters.filter(|((_, name), _)| is_slice(name)).map(|(_, left)| left).sum();
        let sets = self.layout.sets.iter().flat_map(|set| &set.counters).filter(|(name, _)| is_slice(name));
        let all = sets.map(|(_, value)| amount(*value)).sum::<u64>() * self.nodes.len() as u64;
        1.0 - left as f64 / all as f64
    }
}

fn is_profile(device: &Device, profile: &str) -> bool {
    crate::text_attribute(device, "profile") == Some(profile)
}

#[cfg(test)]
mod tests {
    use super::{Ledger, arrivals, profiles};
    use crate::{DeviceOrder, machine_layout};
    use carve_dra::Ways;
    use std::collections::BTreeSet;

    /// Profiles that still fit on one GPU that has so many of the smallest instances.
    fn fitting(order: DeviceOrder, small: usize) -> BTreeSet<&'static str> {
        let none = BTreeSet::new();
        let ways = Ways { exclusive: false, shared: none.clone(), mig: true, shared_mig: none, turns: 1 };
        let layout = machine_layout("h100-sxm-80gb:1", &ways, order).expect("a machine");
        let mut ledger = Ledger::new(&layout, 1);
        for _ in 0..small {
            let (node, device) = ledger.first_fit("1g.10gb").expect("there is room for seven");
            assert!(ledger.charge(node, &device, true), "{device} was said to fit");
        }
        profiles().filter(|profile| ledger.has_room(profile)).collect()
    }

    /// Beside how many of the smallest instances a profile still fits on one GPU.
    fn beside(order: DeviceOrder, profile: &str) -> Option<usize> {
        (0..=7).rev().find(|small| fitting(order, *small).contains(profile))
    }

    /// Our order keeps room for a 4g and the last 2g; the order of names fills the left half and so keeps the right one for a 3g.
    #[test]
    fn each_order_keeps_room_for_others() {
        let room = |order| profiles().map(|profile| beside(order, profile)).collect::<Vec<_>>();
        // 1g, 2g, 3g, 4g, 7g.
        assert_eq!(room(DeviceOrder::Packing), [6, 5, 3, 3, 0].map(Some));
        assert_eq!(room(DeviceOrder::Name), [6, 4, 4, 0, 0].map(Some));
    }

    #[test]
    fn from_both_ends_large_instances_come_from_the_last_gpu() {
        let none = BTreeSet::new();
        let ways = Ways { exclusive: false, shared: none.clone(), mig: true, shared_mig: none, turns: 1 };
        let layout = machine_layout("h100-sxm-80gb:2", &ways, DeviceOrder::Packing).expect("a machine");
        let ledger = Ledger::new(&layout, 1);
        let first = profiles().map(|profile| ledger.first_fit(profile).map(|(_, device)| device));
        let expected = [
            "0-mig-1g10gb-19-6",
            "0-mig-2g20gb-14-2",
            "1-mig-3g40gb-9-4",
            "1-mig-4g40gb-5-0",
            "1-mig-7g80gb-0-0",
        ];
        assert_eq!(first.collect::<Vec<_>>(), expected.map(|device| Some(format!("gpu-{device}"))));
        let number = |layout: &carve_dra::Layout| layout.gpus.iter().flatten().count();
        let packing = machine_layout("h100-sxm-80gb:2", &ways, DeviceOrder::Packing).expect("a machine");
        assert_eq!(number(&layout), number(&packing), "the same devices, in another order");
    }

    #[test]
    fn the_ledger_takes_back_what_it_gave() {
        let layout =
            machine_layout("h100-sxm-80gb:2", &Ways::default(), DeviceOrder::Packing).expect("a machine");
        let mut ledger = Ledger::new(&layout, 1);
        assert!(ledger.charge(0, "gpu-0-mig-7g80gb-0-0", true));
        assert!(!ledger.charge(0, "gpu-0-mig-1g10gb-19-6", true), "the GPU is taken");
        assert!(ledger.charge(0, "gpu-1-mig-7g80gb-0-0", true));
        assert!(!ledger.has_room("1g.10gb"));
        assert!((ledger.fullness() - 1.0).abs() < 1e-9);
        assert!(ledger.charge(0, "gpu-0-mig-7g80gb-0-0", false));
        assert!(ledger.has_room("7g.80gb"));
    }

    #[test]
    fn a_sequence_is_the_same_for_the_same_seed_and_has_the_mix_it_says() {
        let sequence = arrivals(7, 10_000, 50.0);
        assert_eq!(sequence, arrivals(7, 10_000, 50.0));
        let small = sequence.iter().filter(|arrival| arrival.profile == "1g.10gb").count();
        assert!((5_300..5_700).contains(&small), "{small}");
        let stays: usize = sequence.iter().map(|arrival| arrival.stays).sum();
        assert!((480_000..530_000).contains(&stays), "{stays}");
    }
}
