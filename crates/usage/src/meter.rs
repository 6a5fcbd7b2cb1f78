//! Counters that only grow: what each tenant used since it was first seen, by how that is known.

use crate::split::{Busy, Evidence, Rest, Split};
use carve_gpu_model::Bytes;
use std::collections::BTreeMap;

/// What one tenant of one device used so far, and has now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metered {
    /// Time, by how it is known. A tenant has several figures where that changed while it ran; their sum is what it used.
    pub busy: BTreeMap<Evidence, Busy>,
    /// Memory now.
    pub memory: Bytes,
}

/// The counters of one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meter<K> {
    tenants: BTreeMap<K, Metered>,
    /// What tenants used that are gone.
    gone: Busy,
    rest: Rest,
}

impl<K> Default for Meter<K> {
    fn default() -> Self {
        Meter { tenants: BTreeMap::new(), gone: Busy(0), rest: Rest::default() }
    }
}

impl<K: Ord + Clone> Meter<K> {
    /// A moment has passed: these were there, in the order in which it was divided among them. Who is not among them is forgotten, and what it used
    /// still counts for the device.
    pub fn add(&mut self, tenants: &[K], split: &Split) {
        let mut now: BTreeMap<K, Metered> = BTreeMap::new();
        for (tenant, part) in tenants.iter().zip(&split.parts) {
            let mut metered = self.tenants.remove(tenant).or_else(|| now.remove(tenant)).unwrap_or_default();
            if let Some((busy, evidence)) = part.busy {
                metered.busy.entry(evidence).or_default().0 += busy.0;
            }
            metered.memory = part.memory;
            now.insert(tenant.clone(), metered);
        }
        let gone = std::mem::replace(&mut self.tenants, now);
        self.gone.0 +=
            gone.values().flat_map(|metered| metered.busy.values()).map(|busy| busy.0).sum::<u64>();
        self.rest = Rest { busy: Busy(self.rest.busy.0 + split.rest.busy.0), memory: split.rest.memory };
    }

    /// Those who are there.
    pub fn tenants(&self) -> impl Iterator<Item = (&K, &Metered)> {
        self.tenants.iter()
    }

    /// What nobody used that is known, and memory that is nobody's.
    pub fn rest(&self) -> Rest {
        self.rest
    }

    /// How long the device was busy for tenants that are gone.
    pub fn gone(&self) -> Busy {
        self.gone
    }

    /// How long the device was busy.
    pub fn busy(&self) -> Busy {
        let tenants = self.tenants.values().flat_map(|metered| metered.busy.values());
        Busy(tenants.map(|busy| busy.0).sum::<u64>() + self.gone.0 + self.rest.busy.0)
    }
}

#[cfg(test)]
mod tests {
    use super::Meter;
    use crate::{Busy, Evidence, TenantTick, Tick, split};
    use carve_gpu_model::Bytes;
    use proptest::prelude::*;

    fn tick(busy: u64, tenants: &[TenantTick]) -> Tick {
        Tick { busy: Some(Busy(busy)), memory: Bytes(10), tenants: tenants.to_vec(), ..Tick::default() }
    }

    fn here() -> TenantTick {
        TenantTick { processes: 1, ..TenantTick::default() }
    }

    #[test]
    fn who_was_alone_and_then_was_not_has_two_figures() {
        let mut meter = Meter::default();
        meter.add(&["a"], &split(&tick(100, &[here()])));
        meter.add(&["a", "b"], &split(&tick(100, &[here(), here()])));
        let (_, a) = meter.tenants().next().unwrap();
        assert_eq!(
            a.busy.iter().map(|(evidence, busy)| (evidence.word(), busy.0)).collect::<Vec<_>>(),
            [("measured", 100), ("equal", 50)]
        );
        assert_eq!(a.busy[&Evidence::Equal], Busy(50));
        meter.add(&["b"], &split(&tick(100, &[here()])));
        assert_eq!((meter.tenants().count(), meter.gone(), meter.busy()), (1, Busy(150), Busy(300)));
    }

    proptest! {
        #[test]
        fn a_device_is_the_sum_of_all_its_moments(
            moments in prop::collection::vec((0_u64..1000, prop::collection::btree_set(0_u8..6, 0..6)), 0..40),
        ) {
            let mut meter = Meter::default();
            for (busy, tenants) in &moments {
                let names: Vec<u8> = tenants.iter().copied().collect();
                let before = meter.busy();
                meter.add(&names, &split(&tick(*busy, &vec![here(); names.len()])));
                prop_assert_eq!(meter.busy().0, before.0 + busy);
            }
            prop_assert_eq!(meter.busy().0, moments.iter().map(|(busy, _)| busy).sum::<u64>());
        }
    }
}
