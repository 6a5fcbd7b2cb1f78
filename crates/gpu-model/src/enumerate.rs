//! Every legal state of a GPU, every geometry, and every geometry that nothing can be added to.

use crate::{Engines, Geometry, Placed, Placement, ProfileSlot, ProfileTable, SlotMask};
use std::collections::{BTreeMap, BTreeSet};

/// A geometry that no instance can be added to, with one placement that shows it is possible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaximalGeometry {
    /// The counts by profile.
    pub geometry: Geometry,
    /// One legal placement.
    pub example: Vec<Placed>,
}

/// How many different states a GPU can be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Census {
    /// Sets of placed instances, the empty one included.
    pub placed_states: usize,
    /// Different geometries among them.
    pub geometries: usize,
    /// Geometries that nothing can be added to.
    pub maximal: usize,
}

/// What a partial set of instances has used up, kept so that one more can be checked in constant time.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    slots: SlotMask,
    slices: u8,
    engines: Engines,
}

impl Used {
    /// What is used with one more instance, if it fits. Counts per profile are the caller's to check.
    fn with(self, table: &ProfileTable, profile: ProfileSlot, placement: Placement) -> Option<Used> {
        let profile = table.get(profile)?;
        let total = table.engines();
        let add = |a: u8, b: u8, most: u8| a.checked_add(b).filter(|sum| *sum <= most);
        if self.slots.overlaps(placement.mask()) {
            return None;
        }
        Some(Used {
            slots: self.slots.union(placement.mask()),
            slices: add(self.slices, profile.slices, table.compute_slices())?,
            engines: Engines {
                copy: add(self.engines.copy, profile.engines.copy, total.copy)?,
                decoder: add(self.engines.decoder, profile.engines.decoder, total.decoder)?,
                encoder: add(self.engines.encoder, profile.engines.encoder, total.encoder)?,
                jpeg: add(self.engines.jpeg, profile.engines.jpeg, total.jpeg)?,
                ofa: add(self.engines.ofa, profile.engines.ofa, total.ofa)?,
            },
        })
    }
}

impl ProfileTable {
    /// Calls `visit` once for every legal set of placed instances, the empty one first.
    ///
    /// Instances come sorted by start slot, so no set is seen twice.
    pub fn visit_states(&self, mut visit: impl FnMut(&[Placed])) {
        let mut counts = vec![0u8; self.profiles().len()];
        self.descend(0, Used::default(), &mut counts, &mut Vec::new(), &mut visit);
    }

    fn descend(
        &self,
        from: u8,
        used: Used,
        counts: &mut [u8],
        state: &mut Vec<Placed>,
        visit: &mut impl FnMut(&[Placed]),
    ) {
        visit(state);
        for (slot, profile) in self.enumerate() {
            let position = usize::from(slot.0);
            if counts[position] == profile.max_instances {
                continue;
            }
            for placement in profile.placements.iter().filter(|placement| placement.start >= from) {
                let Some(used) = used.with(self, slot, *placement) else { continue };
                counts[position] += 1;
                state.push(Placed { profile: slot, start: placement.start });
                self.descend(placement.start + placement.size, used, counts, state, visit);
                state.pop();
                counts[position] -= 1;
            }
        }
    }

    /// All geometries that nothing can be added to, each with an example.
    pub fn maximal_geometries(&self) -> Vec<MaximalGeometry> {
        let examples = self.geometries();
        let maximal = examples.iter().filter(|(counts, _)| {
            !(0..counts.len()).any(|position| {
                let mut more = (*counts).clone();
                more[position] += 1;
                examples.contains_key(&more)
            })
        });
        maximal
            .map(|(_, example)| MaximalGeometry {
                geometry: Geometry::of(self, example),
                example: example.clone(),
            })
            .collect()
    }

    /// Every legal geometry (counts in table order) with the first placement found for it.
    pub fn geometries(&self) -> BTreeMap<Vec<u8>, Vec<Placed>> {
        let mut examples = BTreeMap::new();
        let mut counts = vec![0u8; self.profiles().len()];
        self.visit_states(|state| {
            counts.fill(0);
            for placed in state {
                counts[usize::from(placed.profile.0)] += 1;
            }
            if !examples.contains_key(&counts) {
                examples.insert(counts.clone(), state.to_vec());
            }
        });
        examples
    }

    /// Counts states and geometries, for tables and tests.
    pub fn census(&self) -> Census {
        let mut placed_states = 0;
        self.visit_states(|_| placed_states += 1);
        Census {
            placed_states,
            geometries: self.geometries().len(),
            maximal: self.maximal_geometries().len(),
        }
    }

    /// Calls `visit` with each way to place `counts` more instances (in table order) around `kept`, until it
    /// answers `false`. Large profiles are placed first, since they have the fewest places.
    pub fn visit_arrangements(
        &self,
        kept: &[Placed],
        counts: &[u32],
        mut visit: impl FnMut(&[Placed]) -> bool,
    ) {
        let mut used = Used::default();
        for placed in kept {
            let Some(placement) = self.placement(*placed) else { return };
            let Some(more) = used.with(self, placed.profile, placement) else { return };
            used = more;
        }
        for (slot, profile) in self.enumerate() {
            let kept = kept.iter().filter(|placed| placed.profile == slot).count();
            let wanted = counts.get(usize::from(slot.0)).copied().unwrap_or(0) as usize;
            if kept + wanted > usize::from(profile.max_instances) {
                return;
            }
        }
        let mut counts: Vec<u32> = counts.to_vec();
        self.arrange(None, used, &mut counts, &mut Vec::new(), &mut visit);
    }

    /// Places the largest profile still wanted; instances of one profile go in ascending order of start.
    fn arrange(
        &self,
        last: Option<Placed>,
        used: Used,
        counts: &mut [u32],
        state: &mut Vec<Placed>,
        visit: &mut impl FnMut(&[Placed]) -> bool,
    ) -> bool {
        let Some(position) = counts.iter().rposition(|count| *count > 0) else {
            return visit(state);
        };
        let slot = ProfileSlot(position as u8);
        let from = last.filter(|last| last.profile == slot).map_or(0, |last| last.start + 1);
        let placements: &[Placement] = self.get(slot).map_or(&[], |profile| &profile.placements);
        for placement in placements.iter().filter(|placement| placement.start >= from) {
            let Some(used) = used.with(self, slot, *placement) else { continue };
            let placed = Placed { profile: slot, start: placement.start };
            counts[position] -= 1;
            state.push(placed);
            let go_on = self.arrange(Some(placed), used, counts, state, visit);
            state.pop();
            counts[position] += 1;
            if !go_on {
                return false;
            }
        }
        true
    }

    /// Starts at which one more instance of a profile would be legal beside the given ones.
    pub fn open_starts(&self, instances: &[Placed], profile: ProfileSlot) -> BTreeSet<u8> {
        let mut more = instances.to_vec();
        let starts = self.get(profile).map_or(&[][..], |profile| &profile.placements);
        starts
            .iter()
            .map(|placement| placement.start)
            .filter(|start| {
                more.push(Placed { profile, start: *start });
                let legal = self.check(&more).is_ok();
                more.pop();
                legal
            })
            .collect()
    }

    /// How many more instances of a profile fit beside the given ones (`nvidia-smi mig -lgip`'s free column).
    pub fn remaining(&self, instances: &[Placed], profile: ProfileSlot) -> u32 {
        let present = instances.iter().filter(|placed| placed.profile == profile).count();
        let most = self.get(profile).map_or(0, |profile| usize::from(profile.max_instances));
        let mut counts = vec![0u32; self.profiles().len()];
        let mut free = 0;
        for wanted in 1..=most.saturating_sub(present) as u32 {
            counts[usize::from(profile.0)] = wanted;
            let mut possible = false;
            self.visit_arrangements(instances, &counts, |_| {
                possible = true;
                false
            });
            if !possible {
                break;
            }
            free = wanted;
        }
        free
    }
}
