//! The book, against sums made by hand.

use super::{Book, Booking, PodUid};
use crate::choose::choose;
use crate::offer::{Gpu, Offer};
use crate::points::points;
use crate::preempt::victims;
use crate::room::{Held, Room};
use crate::slices::{ContainerSlices, Slice, Slices};
use crate::want::{Compute, ContainerWant, Memory, Part, Stage, Want};
use carve_gpu_model::{GpuUuid, Mebibytes};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const MEMORY: u64 = 80_000;

fn offer(gpus: usize) -> Offer {
    let gpu = |number: usize| Gpu {
        uuid: GpuUuid(format!("GPU-{number}")),
        product: "NVIDIA A100-SXM4-80GB".to_owned(),
        memory: Mebibytes(MEMORY),
        withheld: None,
    };
    Offer { gpus: (0..gpus).map(gpu).collect() }
}

fn want(memory: u64, compute: u32) -> Want {
    let part = Part {
        count: 1,
        memory: Memory::Amount(Mebibytes(memory)),
        compute: Some(Compute(compute)),
        burst: false,
        models: Default::default(),
        uuids: Default::default(),
    };
    Want {
        containers: vec![ContainerWant { name: "main".to_owned(), stage: Stage::Main, parts: vec![part] }],
    }
}

fn uid(number: usize) -> PodUid {
    PodUid(format!("uid-{number}"))
}

/// A pod with a part of one GPU.
fn booking(node: &str, gpu: usize, memory: u64, compute: u32, priority: i32) -> Booking {
    let slice = Slice {
        gpu: GpuUuid(format!("GPU-{gpu}")),
        memory: Mebibytes(memory),
        compute: Compute(compute),
        burst: false,
    };
    let container = ContainerSlices { name: "main".to_owned(), stage: Stage::Main, slices: vec![slice] };
    Booking::new("team/pod", node, &Slices { containers: vec![container] }, priority, true)
}

fn left(room: &Room) -> Vec<(u64, u32)> {
    room.left().map(|(_, held)| (held.memory.0, held.compute.0)).collect()
}

#[test]
fn what_pods_hold_is_gone_and_comes_back() {
    let mut book = Book::default();
    book.offer("a", offer(2));
    book.hold(uid(1), booking("a", 0, 20_000, 250, 0));
    book.hold(uid(2), booking("a", 1, 80_000, 1000, 0));
    assert_eq!(left(book.room("a").unwrap()), [(60_000, 750), (0, 0)]);
    // Seen again, it counts once; bound elsewhere, it is there alone.
    book.hold(uid(1), booking("a", 0, 20_000, 250, 0));
    book.hold(uid(2), booking("b", 1, 80_000, 1000, 0));
    assert_eq!(left(book.room("a").unwrap()), [(60_000, 750), (80_000, 1000)]);
    book.release(&uid(1));
    book.release(&uid(7));
    assert_eq!(left(book.room("a").unwrap()), [(80_000, 1000), (80_000, 1000)]);
    assert_eq!(book.pods().count(), 1);
}

#[test]
fn everything_that_is_tried_is_held_until_one_of_it_was_seen() {
    let tried = |node, gpu| Booking { seen: false, ..booking(node, gpu, 20_000, 250, 0) };
    let mut book = Book::default();
    ["a", "b"].iter().for_each(|node| book.offer(node, offer(2)));
    let rooms = |book: &Book| [left(book.room("a").unwrap()), left(book.room("b").unwrap())].concat();
    const ALL: (u64, u32) = (80_000, 1000);
    const LESS: (u64, u32) = (60_000, 750);
    for (node, gpu) in [("a", 0), ("a", 1), ("b", 0)] {
        book.hold(uid(1), tried(node, gpu));
    }
    assert_eq!(rooms(&book), [LESS, LESS, LESS, ALL]);
    // What came to nothing is free again, and the pod is still on that node with what else was tried.
    book.take_back(&uid(1), &tried("a", 1));
    book.take_back(&uid(1), &tried("b", 1));
    assert_eq!(rooms(&book), [LESS, ALL, LESS, ALL]);
    assert_eq!((book.on("a").count(), book.on("b").count()), (1, 1));
    // The same twice is two, of which each may come to nothing.
    book.hold(uid(1), tried("b", 0));
    book.take_back(&uid(1), &tried("b", 0));
    assert_eq!(rooms(&book), [LESS, ALL, LESS, ALL]);
    book.hold(uid(1), booking("b", 1, 20_000, 250, 0));
    assert_eq!(rooms(&book), [ALL, ALL, ALL, LESS]);
    // What was seen is not taken back.
    book.take_back(&uid(1), &booking("b", 1, 20_000, 250, 0));
    assert_eq!(rooms(&book), [ALL, ALL, ALL, LESS]);
    book.release(&uid(1));
    assert_eq!((rooms(&book), book.pods().count()), (vec![ALL; 4], 0));
}

#[test]
fn pods_count_before_their_node_is_known_and_after_it_was_away() {
    let mut book = Book::default();
    book.hold(uid(1), booking("a", 0, 20_000, 250, 0));
    assert_eq!(left(book.room("a").unwrap()), []);
    book.offer("a", offer(1));
    assert_eq!(left(book.room("a").unwrap()), [(60_000, 750)]);
    book.withdraw("a");
    assert_eq!(left(book.room("a").unwrap()), []);
    book.offer("a", offer(1));
    assert_eq!(left(book.room("a").unwrap()), [(60_000, 750)]);
    book.release(&uid(1));
    book.withdraw("a");
    assert!(book.room("a").is_none());
}

#[test]
fn nodes_and_gpus_in_use_get_more_points() {
    let one = want(20_000, 250);
    let free = Room::untouched(&offer(2));
    let mut used = free.clone();
    used.hold(&GpuUuid("GPU-0".to_owned()), Held { memory: Mebibytes(40_000), compute: Compute(500) });
    let mut full = used.clone();
    full.hold(&GpuUuid("GPU-0".to_owned()), Held { memory: Mebibytes(20_000), compute: Compute(250) });
    let of = |room: &Room| points(room, &choose(room, &one).unwrap());
    assert!(of(&free) < of(&used) && of(&used) < of(&full), "{} {} {}", of(&free), of(&used), of(&full));
    assert_eq!(of(&full), 10);
    assert_eq!(points(&free, &Slices::default()), 0);
}

#[test]
fn only_who_is_in_the_way_has_to_go() {
    let mut book = Book::default();
    book.offer("a", offer(2));
    book.hold(uid(1), booking("a", 0, 10_000, 100, 0));
    book.hold(uid(2), booking("a", 0, 60_000, 700, 5));
    book.hold(uid(3), booking("a", 1, 80_000, 1000, 100));
    let none = BTreeSet::new();
    let gone = |memory, priority| victims(&book, "a", &want(memory, 100), priority, &none);
    assert_eq!(gone(10_000, 0), Some(vec![]));
    // The lowest priority does not help, the next one does; then the lowest may stay.
    assert_eq!(gone(40_000, 10), Some(vec![uid(2)]));
    assert_eq!(gone(80_000, 10), Some(vec![uid(1), uid(2)]));
    assert_eq!(gone(80_000, 5), None, "equals do not have to go");
    let anyway = BTreeSet::from([uid(2)]);
    assert_eq!(victims(&book, "a", &want(60_000, 100), 10, &anyway), Some(vec![]));
    assert_eq!(victims(&book, "nowhere", &want(1, 1), 10, &none), None);
}

/// What is left when everything is added up from the beginning, without the book.
fn by_hand(gpus: usize, pods: &BTreeMap<PodUid, Booking>, node: &str) -> Vec<(u64, u32)> {
    let sum = |gpu: usize| {
        let uuid = GpuUuid(format!("GPU-{gpu}"));
        let held = pods.values().filter(|pod| pod.node == node).filter_map(|pod| pod.held.get(&uuid));
        held.fold((0, 0), |(memory, compute), held| (memory + held.memory.0, compute + held.compute.0))
    };
    let left =
        |(memory, compute): (u64, u32)| (MEMORY.saturating_sub(memory), 1000u32.saturating_sub(compute));
    (0..gpus).map(sum).map(left).collect()
}

proptest! {
    #[test]
    fn the_book_is_the_sum_of_its_pods(
        steps in prop::collection::vec((0usize..12, any::<bool>(), 0usize..3, 0usize..3, 1u64..40, 0u32..5), 1..60),
    ) {
        let mut book = Book::default();
        let mut pods = BTreeMap::new();
        for node in ["a", "b"] {
            book.offer(node, offer(2));
        }
        for (pod, comes, node, gpu, memory, compute) in steps {
            if comes {
                // Also on a node that nobody knows, and on GPUs that are not there.
                let booking = booking(["a", "b", "c"][node], gpu, memory * 1_000, compute * 100, 0);
                book.hold(uid(pod), booking.clone());
                pods.insert(uid(pod), booking);
            } else {
                book.release(&uid(pod));
                pods.remove(&uid(pod));
            }
        }
        for node in ["a", "b"] {
            prop_assert_eq!(left(book.room(node).unwrap()), by_hand(2, &pods, node));
        }
    }

    #[test]
    fn victims_make_room_and_none_goes_for_nothing(
        pods in prop::collection::vec((0usize..2, 1u64..40, 0u32..5, 0i32..4), 0..8),
        memory in 1u64..80,
        priority in 0i32..5,
    ) {
        let mut book = Book::default();
        book.offer("a", offer(2));
        for (number, (gpu, memory, compute, priority)) in pods.iter().enumerate() {
            book.hold(uid(number), booking("a", *gpu, memory * 1_000, compute * 100, *priority));
        }
        let want = want(memory * 1_000, 100);
        let fits = |gone: &BTreeSet<PodUid>| choose(&book.room_without("a", gone).unwrap(), &want).is_ok();
        let lower: BTreeSet<PodUid> =
            book.on("a").filter(|(_, pod)| pod.priority < priority).map(|(uid, _)| uid.clone()).collect();
        match victims(&book, "a", &want, priority, &BTreeSet::new()) {
            None => prop_assert!(!fits(&lower)),
            Some(found) => {
                let gone: BTreeSet<PodUid> = found.iter().cloned().collect();
                prop_assert!(gone.is_subset(&lower) && fits(&gone));
                for one in &found {
                    let mut fewer = gone.clone();
                    fewer.remove(one);
                    prop_assert!(!fits(&fewer), "{one:?} could have stayed");
                }
            }
        }
    }
}
