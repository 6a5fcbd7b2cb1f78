//! What is left of GPUs, in words.

use carve_bookings::{Book, Compute, Slice};
use carve_gpu_model::{GpuUuid, Mebibytes};

/// A GPU of a node and what is left of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeftOf {
    /// How it is called.
    pub(super) shown: String,
    pub(super) memory: String,
    pub(super) compute: String,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Left<'a> {
    book: &'a Book,
}

fn percent(compute: Compute) -> String {
    match compute.0 % 10 {
        0 => format!("{} %", compute.0 / 10),
        tenths => format!("{}.{tenths} %", compute.0 / 10),
    }
}

/// A part of a GPU.
pub(super) fn part_words(slice: &Slice) -> String {
    let memory = format!("{} MiB", slice.memory.0);
    match (slice.compute.0, slice.burst) {
        (0, _) => format!("{memory}, and compute without a limit,"),
        (_, true) => format!("{memory} and at least {}", percent(slice.compute)),
        (_, false) => format!("{memory} and {}", percent(slice.compute)),
    }
}

impl<'a> Left<'a> {
    pub(super) fn of(book: &'a Book) -> Self {
        Left { book }
    }

    /// A GPU of a node.
    pub(super) fn gpu(&self, node: &str, uuid: &GpuUuid) -> LeftOf {
        let found = self.book.room(node).and_then(|room| room.left().find(|(gpu, _)| gpu.uuid == *uuid));
        match found {
            Some((gpu, left)) => LeftOf {
                shown: format!("{} ({})", uuid.0, gpu.product),
                memory: format!("{} MiB", left.memory.0),
                compute: percent(left.compute),
            },
            None => LeftOf {
                shown: format!("{}, which its node does not offer any more", uuid.0),
                memory: "nothing".to_owned(),
                compute: "nothing".to_owned(),
            },
        }
    }

    /// The GPUs with the most memory and with the most compute.
    pub(super) fn most(&self) -> Option<String> {
        let all = || {
            let of_node = |(node, room): (&'a str, &'a carve_bookings::Room)| {
                room.left()
                    .filter(|(gpu, _)| gpu.withheld.is_none())
                    .map(move |(gpu, left)| (node, gpu, left))
                    .collect::<Vec<_>>()
            };
            self.book.rooms().flat_map(of_node)
        };
        let memory = all().max_by_key(|(_, _, left)| (left.memory, left.compute))?;
        let compute = all().max_by_key(|(_, _, left)| (left.compute, left.memory))?;
        let words =
            |memory: Mebibytes, compute: Compute| format!("{} MiB and {}", memory.0, percent(compute));
        let one = format!("{} of one GPU, on {}", words(memory.2.memory, memory.2.compute), memory.0);
        if memory.1.uuid == compute.1.uuid {
            return Some(one);
        }
        Some(format!("{one}; {} of another, on {}", words(compute.2.memory, compute.2.compute), compute.0))
    }
}
