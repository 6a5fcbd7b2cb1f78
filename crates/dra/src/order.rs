//! In which order devices are offered: those first that keep the most room for others.
//!
//! The scheduler takes the first device that fits. Small instances come from the first GPU on: the smallest from the end of each GPU, where
//! the largest can not begin, those of several slots from the middle to the beginning. Large ones come from the last GPU back, and of those
//! with several places the right halves of all GPUs before any left half. So small and large ones grow towards each other, and a GPU
//! that holds either tends to hold more of the same.

use crate::{Device, Layout};
use carve_gpu_model::{GpuProfile, Placement, ProfileTable};
use std::cmp::Reverse;

/// The places of a profile on one GPU, best first.
pub fn placements_in_order(table: &ProfileTable, profile: &GpuProfile) -> Vec<Placement> {
    let mut places = profile.placements.clone();
    let slots = table.slots();
    let smallest = table.profiles().iter().map(GpuProfile::size).min().unwrap_or(1);
    places.sort_by_key(|place| {
        let from_the_end = (false, Reverse(place.start));
        let large = is_large(profile.size(), slots);
        if large || profile.size() == smallest || place.start < slots / 2 {
            from_the_end
        } else {
            (true, Reverse(u8::MAX - place.start))
        }
    });
    places
}

fn is_large(size: u8, slots: u8) -> bool {
    size * 2 >= slots
}

impl Layout {
    /// The same devices in the order of the whole node: large instances behind everything else, from the last GPU back.
    pub fn packed(self) -> Layout {
        let slots = |device: &Device| device.consumes.as_ref().map_or(0, |taken| taken.memory_slots());
        let mut large: Vec<(u8, Reverse<u8>, Reverse<usize>, Device)> = Vec::new();
        let mut gpus: Vec<Vec<Device>> = Vec::new();
        for (number, devices) in self.gpus.into_iter().enumerate() {
            let all = devices.iter().map(slots).max().unwrap_or(0);
            let (back, front): (Vec<Device>, Vec<Device>) = devices
                .into_iter()
                .partition(|device| device.name.mig.is_some() && is_large(slots(device), all));
            gpus.push(front);
            large.extend(back.into_iter().map(|device| {
                let start = device.name.mig.as_ref().map_or(0, |place| place.start);
                (slots(&device), Reverse(start), Reverse(number), device)
            }));
        }
        // Stable: devices of one place stay in the order of their profiles.
        large.sort_by_key(|(size, start, number, _)| (*size, *start, *number));
        gpus.push(large.into_iter().map(|(_, _, _, device)| device).collect());
        gpus.retain(|devices| !devices.is_empty());
        Layout { sets: self.sets, gpus }
    }
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
        assert_eq!(starts("h100-sxm-80gb", "1g.20gb"), [2, 0, 4, 6]);
        assert_eq!(starts("h100-sxm-80gb", "2g.20gb"), [2, 0, 4]);
        assert_eq!(starts("h100-sxm-80gb", "3g.40gb"), [4, 0]);
        assert_eq!(starts("h100-sxm-80gb", "4g.40gb"), [0]);
        assert_eq!(starts("h100-sxm-80gb", "7g.80gb"), [0]);
    }
}
