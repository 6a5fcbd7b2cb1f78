//! How good many nodes are for one pod. Most nodes of a fleet are like many others, and those are looked at once.

use crate::choose::choose;
use crate::points::points;
use crate::room::{Held, Room};
use crate::want::Want;
use carve_formats::workloads::Names;
use carve_gpu_model::Mebibytes;
use std::collections::HashMap;

/// All of a GPU that makes a difference to a pod that does not name it: its product, its memory, whether it is withheld, what is left.
type Likeness<'a> = Vec<(&'a str, Mebibytes, bool, Held)>;

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
        let gpus = room.gpus.iter();
        let likeness: Likeness<'a> = gpus
            .map(|(gpu, left)| (gpu.product.as_str(), gpu.memory, gpu.withheld.is_some(), *left))
            .collect();
        *self.known.entry(likeness).or_insert_with(|| judge(room, self.want))
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
