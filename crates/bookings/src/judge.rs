//! How good many nodes are for one pod. Most nodes of a fleet are like many others, and those are looked at once.

use crate::choose::choose;
use crate::offer::Gpu;
use crate::points::points;
use crate::room::{Held, Room};
use crate::want::Want;
use carve_formats::workloads::Names;
use carve_gpu_model::Mebibytes;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};

/// A node as a pod sees it that names no GPU by its id: two are equal where nothing makes a difference to it.
#[derive(Debug, Clone, Copy)]
struct Likeness<'a>(&'a Room);

/// All of a GPU that makes a difference.
fn of((gpu, left): &(Gpu, Held)) -> (Held, Mebibytes, bool, &str) {
    (*left, gpu.memory, gpu.withheld.is_some(), gpu.product.as_str())
}

impl PartialEq for Likeness<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0.gpus.iter().map(of).eq(other.0.gpus.iter().map(of))
    }
}

impl Eq for Likeness<'_> {}

/// A filter looks at hundreds of nodes, and hashing every field of every GPU was a third of the controller's work. What is left tells most nodes apart.
impl Hash for Likeness<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let left = |sum: u64, (_, left): &(Gpu, Held)| {
            let one = left.memory.0.wrapping_mul(2_000).wrapping_add(u64::from(left.compute.0));
            // A prime, so that GPUs in another order make another sum.
            sum.wrapping_mul(1_000_000_007).wrapping_add(one)
        };
        state.write_u64(self.0.gpus.iter().fold(0, left));
    }
}

/// Answers for one pod, and remembers.
#[derive(Debug)]
pub struct Judge<'a> {
    want: &'a Want,
    /// Whether it names GPUs by their ids, so that no node is like another.
    by_id: bool,
    known: HashMap<Likeness<'a>, Option<u8>>,
}

impl<'a> Judge<'a> {
    /// For a pod that wants this.
    pub fn new(want: &'a Want) -> Self {
        let mut parts = want.containers.iter().flat_map(|container| &container.parts);
        let by_id = parts.any(|part| part.uuids != Names::default());
        Judge { want, by_id, known: HashMap::new() }
    }

    /// The points of a node; none where the pod does not fit.
    pub fn points(&mut self, room: &'a Room) -> Option<u8> {
        if self.by_id {
            return judge(room, self.want);
        }
        *self.known.entry(Likeness(room)).or_insert_with(|| judge(room, self.want))
    }
}

fn judge(room: &Room, want: &Want) -> Option<u8> {
    choose(room, want).ok().map(|slices| points(room, &slices))
}

#[cfg(test)]
mod tests {
    use super::{Judge, judge};
    use crate::{Compute, ContainerWant, Gpu, Held, Memory, Offer, Part, Room, Stage, Want};
    use carve_formats::workloads::Names;
    use carve_gpu_model::{GpuUuid, Mebibytes};
    use proptest::prelude::*;

    /// A node whose GPUs have this left, in fifths.
    fn room(node: usize, left: &[(u64, u32, bool)]) -> Room {
        let gpu = |(number, (_, _, withheld)): (usize, &(u64, u32, bool))| Gpu {
            uuid: GpuUuid(format!("GPU-{node}-{number}")),
            product: if number == 0 { "A" } else { "B" }.to_owned(),
            memory: Mebibytes(10_000),
            withheld: withheld.then(|| format!("{node} is sick")),
        };
        let gpus = left.iter().enumerate().map(gpu).collect();
        let mut room = Room::untouched(&Offer { gpus });
        for (number, (memory, compute, _)) in left.iter().enumerate() {
            let held = Held { memory: Mebibytes(2_000 * memory), compute: Compute(200 * compute) };
            room.hold(&GpuUuid(format!("GPU-{node}-{number}")), held);
        }
        room
    }

    fn want(parts: &[(u32, u64)], uuid: Option<&str>) -> Want {
        let part = |(count, memory): &(u32, u64)| Part {
            count: *count,
            memory: Memory::Amount(Mebibytes(2_000 * memory)),
            compute: Some(Compute(200)),
            burst: false,
            models: Names::default(),
            uuids: Names {
                wanted: uuid.map(|uuid| GpuUuid(uuid.to_owned())).into_iter().collect(),
                unwanted: Vec::new(),
            },
        };
        let container = ContainerWant {
            name: "main".to_owned(),
            stage: Stage::Main,
            parts: parts.iter().map(part).collect(),
        };
        Want { containers: vec![container] }
    }

    proptest! {
        #[test]
        fn who_was_seen_before_gets_the_same_answer(
            rooms in proptest::collection::vec(proptest::collection::vec((0_u64..5, 0_u32..5, prop::bool::weighted(0.1)), 1..4), 1..30),
            parts in proptest::collection::vec((1_u32..3, 0_u64..5), 1..3),
            named in any::<bool>(),
        ) {
            let rooms: Vec<Room> = rooms.iter().enumerate().map(|(node, left)| room(node, left)).collect();
            let want = want(&parts, named.then_some("GPU-0-0"));
            let mut all = Judge::new(&want);
            for room in &rooms {
                prop_assert_eq!(all.points(room), judge(room, &want));
            }
        }
    }
}
