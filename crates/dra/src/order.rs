//! In which order the places of a MIG profile are offered: those first that keep the most room for others.

use carve_gpu_model::{GpuProfile, Placement, ProfileTable, SlotMask};

/// The places of a profile, best first.
///
/// The scheduler takes the first that is free. So each place is the one that leaves the most room once those before it are taken,
/// and among equals the one nearest the end of the GPU, where the largest profiles can not begin.
pub fn placements_in_order(table: &ProfileTable, profile: &GpuProfile) -> Vec<Placement> {
    let mut left = profile.placements.clone();
    let mut order = Vec::with_capacity(left.len());
    let mut taken = SlotMask::EMPTY;
    while !left.is_empty() {
        // Places that those before it have used up come last, in the same order as from the start.
        let fresh = left.iter().any(|placement| !placement.mask().overlaps(taken));
        let taken_before = if fresh { taken } else { SlotMask::EMPTY };
        let usable =
            left.iter().enumerate().filter(|(_, placement)| !fresh || !placement.mask().overlaps(taken));
        let best = usable.max_by_key(|(_, placement)| {
            (room(table, taken_before.union(placement.mask())), placement.start)
        });
        let Some((position, _)) = best else { break };
        let placement = left.remove(position);
        taken = taken.union(placement.mask());
        order.push(placement);
    }
    order
}

/// Memory slots that instances of one profile alone could still take, summed over profiles: a hole that still takes a large profile
/// counts for that one and for all smaller ones inside it.
fn room(table: &ProfileTable, taken: SlotMask) -> u32 {
    let of = |profile: &GpuProfile| {
        let mut full = taken;
        let mut count = 0;
        for placement in &profile.placements {
            if !placement.mask().overlaps(full) && count < u32::from(profile.max_instances) {
                full = full.union(placement.mask());
                count += 1;
            }
        }
        count * u32::from(profile.size())
    };
    table.profiles().iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::placements_in_order;
    use carve_gpu_model::Product;

    fn starts(product: &str, profile: &str) -> Vec<u8> {
        let table = Product::by_key(product).and_then(Product::profile_table).expect("a table");
        let (_, profile) = table.by_name(&profile.parse().expect("a name")).expect("a profile");
        placements_in_order(&table, profile).iter().map(|placement| placement.start).collect()
    }

    #[test]
    fn small_profiles_fill_the_gpu_from_where_large_ones_can_not_begin() {
        assert_eq!(starts("h100-sxm-80gb", "1g.10gb"), [6, 5, 4, 3, 2, 1, 0]);
        assert_eq!(starts("h100-sxm-80gb", "1g.20gb"), [6, 4, 2, 0]);
        assert_eq!(starts("h100-sxm-80gb", "2g.20gb"), [4, 2, 0]);
        assert_eq!(starts("h100-sxm-80gb", "3g.40gb"), [4, 0]);
        assert_eq!(starts("h100-sxm-80gb", "4g.40gb"), [0]);
        assert_eq!(starts("h100-sxm-80gb", "7g.80gb"), [0]);
    }
}
