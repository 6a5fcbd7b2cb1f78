//! Which MIG devices every GPU of one product shall have, so that as many of the wanted ones exist as can.

use carve_gpu_model::ProfileTable;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Counts of each profile, in the order of the table.
pub type Counts = Vec<u8>;

/// Cuts GPUs of one product. What is legal is found once.
#[derive(Debug, Clone)]
pub struct Cutter {
    legal: BTreeSet<Counts>,
    slices: Vec<u32>,
}

impl Cutter {
    /// For a product by its table.
    pub fn new(table: &ProfileTable) -> Self {
        Cutter {
            legal: table.geometries().into_keys().collect(),
            slices: table.profiles().iter().map(|profile| u32::from(profile.slices)).collect(),
        }
    }

    /// Whether a GPU can hold these devices.
    pub fn holds(&self, counts: &[u8]) -> bool {
        self.legal.contains(counts)
    }

    /// For so many empty GPUs, the devices of each, in the order of the table's profiles.
    ///
    /// Both ways of going about it are tried, large devices first and many devices first; the one that serves more of the
    /// demand is taken, and of equals the one that needs fewer GPUs. GPUs that get nothing are left out.
    pub fn cut(&self, demand: &[u32], gpus: usize) -> Vec<Counts> {
        let largest_first =
            |counts: &Counts| counts.iter().rev().map(|count| u32::from(*count)).collect::<Vec<_>>();
        let most_first = |counts: &Counts| {
            let instances: u32 = counts.iter().map(|count| u32::from(*count)).sum();
            let slices: u32 =
                counts.iter().zip(&self.slices).map(|(count, slices)| u32::from(*count) * slices).sum();
            vec![instances, slices]
        };
        let one = fill(&self.legal, demand, gpus, largest_first);
        let other = fill(&self.legal, demand, gpus, most_first);
        let worth = |filled: &[Counts]| {
            let served: u64 = filled.iter().flatten().map(|count| u64::from(*count)).sum();
            (served, Reverse(filled.len()))
        };
        if worth(&one) >= worth(&other) { one } else { other }
    }
}

fn fill<K: Ord>(
    legal: &BTreeSet<Counts>,
    demand: &[u32],
    gpus: usize,
    worth: impl Fn(&Counts) -> K,
) -> Vec<Counts> {
    let mut left = demand.to_vec();
    let mut filled = Vec::new();
    // Equal demand gives equal answers; of a thousand GPUs nearly all are cut alike.
    let mut known: BTreeMap<Vec<u32>, Option<Counts>> = BTreeMap::new();
    while filled.len() < gpus && left.iter().any(|count| *count > 0) {
        // No GPU holds more than eight of anything.
        let near: Vec<u32> = left.iter().map(|count| (*count).min(8)).collect();
        let best = known.entry(near).or_insert_with(|| {
            let within =
                |counts: &&Counts| counts.iter().zip(&left).all(|(count, left)| u32::from(*count) <= *left);
            let something = |counts: &&Counts| counts.iter().any(|count| *count > 0);
            legal.iter().filter(within).filter(something).max_by_key(|counts| worth(counts)).cloned()
        });
        let Some(best) = best else { break };
        for (left, count) in left.iter_mut().zip(best.iter()) {
            *left -= u32::from(*count);
        }
        filled.push(best.clone());
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::Cutter;
    use carve_gpu_model::{Product, ProfileTable};

    fn table() -> ProfileTable {
        Product::by_key("a100-40gb").unwrap().profile_table().unwrap()
    }

    fn demand(table: &ProfileTable, wanted: &[(&str, u32)]) -> Vec<u32> {
        let count =
            |name: String| wanted.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count);
        table.profiles().iter().map(|profile| count(profile.name.to_string())).collect()
    }

    fn served(filled: &[Vec<u8>]) -> u32 {
        filled.iter().flatten().map(|count| u32::from(*count)).sum()
    }

    #[test]
    fn seven_small_devices_on_every_gpu() {
        let table = table();
        let filled = Cutter::new(&table).cut(&demand(&table, &[("1g.5gb", 100)]), 8);
        assert_eq!((filled.len(), served(&filled)), (8, 56));
    }

    #[test]
    fn everything_is_served_where_it_fits_and_most_where_it_does_not() {
        let table = table();
        let all = demand(&table, &[("1g.5gb", 2), ("2g.10gb", 1), ("3g.20gb", 1)]);
        assert_eq!(
            (Cutter::new(&table).cut(&all, 8).len(), served(&Cutter::new(&table).cut(&all, 1))),
            (1, 4)
        );
        let mixed = demand(&table, &[("3g.20gb", 2), ("1g.5gb", 7)]);
        assert_eq!(served(&Cutter::new(&table).cut(&mixed, 2)), 9);
        let too_many = demand(&table, &[("7g.40gb", 5), ("1g.5gb", 7)]);
        assert_eq!(served(&Cutter::new(&table).cut(&too_many, 1)), 7, "seven are more than one");
        assert!(Cutter::new(&table).cut(&demand(&table, &[]), 8).is_empty());
    }

    /// Against trying everything, on two GPUs.
    #[test]
    fn two_gpus_serve_as_many_as_any_pair_of_geometries() {
        let table = table();
        let legal: Vec<Vec<u8>> = table.geometries().into_keys().collect();
        let names = ["1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"];
        let mut worse = 0;
        for case in 0..60_u32 {
            let wanted: Vec<(&str, u32)> = names
                .iter()
                .enumerate()
                .map(|(place, name)| (*name, (case * 7 + place as u32 * 5 + case / 3) % 4))
                .collect();
            let demand = demand(&table, &wanted);
            let best = legal
                .iter()
                .flat_map(|one| legal.iter().map(move |other| (one, other)))
                .map(|(one, other)| {
                    let both = one.iter().zip(other).zip(&demand);
                    both.map(|((one, other), asked)| u32::from(one + other).min(*asked)).sum::<u32>()
                })
                .max()
                .unwrap_or(0);
            let found = served(&Cutter::new(&table).cut(&demand, 2));
            assert!(found <= best);
            assert!(found + 1 >= best, "{wanted:?}: {found} of {best}");
            worse += u32::from(found < best);
        }
        assert!(worse <= 6, "{worse} of 60 cases are one short");
    }
}
