//! Slots: who has one, what stands in it, and what the dead leave.

use super::{Host, Owner, Region, Trouble};
use core::sync::atomic::Ordering;
extern crate std;
use std::boxed::Box;

/// A machine on which the processes with odd numbers are dead.
struct OddAreDead;

impl Host for OddAreDead {
    fn lives(&self, owner: Owner) -> bool {
        owner.pid().is_multiple_of(2)
    }

    fn pause(&self, _: u32) {
        std::thread::yield_now();
    }
}

fn region() -> Box<Region> {
    let region =
        Box::new(Region { head: Default::default(), slots: core::array::from_fn(|_| Default::default()) });
    region.prepare();
    region
}

#[test]
fn who_died_while_it_asked_is_in_nobodys_way() {
    let region = region();
    let living = region.claim(Owner::new(2, 1), 1, &OddAreDead).unwrap();
    let dead = region.claim(Owner::new(3, 1), 1, &OddAreDead).unwrap();
    region.slots[dead].asked.store(60, Ordering::SeqCst);
    assert!(region.reserve(living, 50, 100, &OddAreDead));
    assert_eq!(region.usage().held, 50);
}

#[test]
fn who_dies_after_any_step_is_in_nobodys_way() {
    const LIMIT: u64 = 1 << 30;
    // What stands in a slot after each write of claiming, asking, taking, taking at once and giving back; the last is what a predecessor left
    // in a slot that was claimed and not emptied yet.
    let steps =
        [(0, 0), (0, LIMIT), (LIMIT, LIMIT), (LIMIT, 0), (2 * LIMIT, 0), (LIMIT / 2, 0), (LIMIT, LIMIT / 2)];
    for (held, asked) in steps {
        for bytes in [LIMIT, LIMIT / 2, 1 << 19] {
            let region = region();
            let living = region.claim(Owner::new(2, 1), 1, &OddAreDead).unwrap();
            let dead = region.claim(Owner::new(3, 1), 1, &OddAreDead).unwrap();
            region.slots[dead].held.store(held, Ordering::SeqCst);
            region.slots[dead].asked.store(asked, Ordering::SeqCst);
            for _ in 0..LIMIT / bytes {
                assert!(region.reserve(living, bytes, LIMIT, &OddAreDead), "{held} held, {asked} asked");
            }
            assert!(!region.reserve(living, 1, LIMIT, &OddAreDead));
            assert_eq!(region.slots[living].held.load(Ordering::SeqCst), LIMIT);
        }
    }
}

#[test]
fn a_process_finds_its_own_slot_again_and_those_of_other_namespaces_are_left_alone() {
    let region = region();
    let me = Owner::new(2, 7);
    let other = region.claim(me, 1, &OddAreDead).unwrap();
    region.add(other, 5);
    let slot = region.claim(me, 2, &OddAreDead).unwrap();
    assert_ne!(slot, other, "the same number in another namespace is another process");
    region.add(slot, 50);
    assert_eq!(region.claim(me, 2, &OddAreDead), Some(slot));
    assert_eq!((region.usage().held, region.usage().processes), (5, 2));
    let dead = region.claim(Owner::new(3, 1), 1, &OddAreDead).unwrap();
    assert_ne!(
        region.claim(Owner::new(4, 1), 2, &OddAreDead),
        Some(dead),
        "who is dead there is not known here"
    );
}

#[test]
fn nothing_stands_in_a_slot_that_is_free() {
    let region = region();
    let living = region.claim(Owner::new(2, 1), 1, &OddAreDead).unwrap();
    let dead = region.claim(Owner::new(3, 1), 1, &OddAreDead).unwrap();
    region.slots[dead].held.store(70, Ordering::SeqCst);
    region.slots[dead].asked.store(20, Ordering::SeqCst);
    assert!(region.reserve(living, 50, 100, &OddAreDead));
    let slot = &region.slots[dead];
    assert_eq!(
        [&slot.owner, &slot.held, &slot.asked].map(|word| word.load(Ordering::SeqCst)),
        [0; 3],
        "whoever takes it next, from wherever, has nothing to clear away"
    );
}

#[test]
fn nobody_judges_a_process_that_has_not_said_where_it_lives() {
    let region = region();
    let living = region.claim(Owner::new(2, 1), 1, &OddAreDead).unwrap();
    let free = region.claim(Owner::new(3, 1), 1, &OddAreDead).unwrap();
    assert!(!region.reap(Owner::new(2, 1), 1, &OddAreDead), "it held nothing");
    // One of another namespace is about to take the slot, in which the number of the last owner's namespace still stands.
    region.slots[free].owner.store(Owner::new(5, 1).0 | Owner::CLAIMING, Ordering::SeqCst);
    assert!(region.reserve(living, 100, 100, &OddAreDead) && !region.reserve(living, 1, 100, &OddAreDead));
    assert_ne!(region.slots[free].owner.load(Ordering::SeqCst), 0, "it was taken for dead");
    assert_ne!(region.claim(Owner::new(4, 1), 1, &OddAreDead), Some(free));
    assert_eq!((region.usage().processes, region.owners().count()), (2, 2));
}

#[test]
fn who_became_another_program_while_it_freed_a_slot_has_one_again() {
    let region = region();
    let me = Owner::new(2, 7);
    let own = region.claim(me, 1, &OddAreDead).unwrap();
    let other = region.claim(Owner::new(3, 1), 1, &OddAreDead).unwrap();
    region.add(own, 5);
    region.add(other, 50);
    region.slots[other].owner.store(me.0, Ordering::SeqCst);
    assert_eq!(region.claim(me, 1, &OddAreDead), Some(own));
    assert_eq!((region.usage().held, region.usage().processes), (0, 1));
}

#[test]
fn troubles_are_said_once_and_read_by_name() {
    let region = region();
    for number in 0..super::SLOTS as u32 {
        assert!(region.claim(Owner::new(2 * number + 2, 1), 1, &OddAreDead).is_some());
    }
    assert_eq!((region.usage().trouble, region.owners().count()), (None, super::SLOTS));
    assert_eq!(region.claim(Owner::new(5_000, 1), 1, &OddAreDead), None);
    assert_eq!((region.usage().trouble, region.usage().turned_away), (Some(Trouble::Slots), 1));
    for trouble in [Trouble::Events, Trouble::Ledger] {
        region.slots[0].say(trouble);
    }
    assert_eq!(region.usage().trouble, Some(Trouble::Events));
    for code in 1..9 {
        assert_eq!(Trouble::from_code(code).map(Trouble::code), Some(code));
    }
}

#[test]
fn many_who_ask_at_once_never_have_more_than_the_limit() {
    let region = region();
    let counted = core::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (region, counted) = (&region, &counted);
            scope.spawn(move || {
                let slot = region.claim(Owner::new(2 * number + 2, 1), 1, &OddAreDead).unwrap();
                for _ in 0..2_000 {
                    if region.reserve(slot, 3, 10, &OddAreDead) {
                        let all = counted.fetch_add(3, Ordering::SeqCst) + 3;
                        assert!(all <= 10, "{all}");
                        counted.fetch_sub(3, Ordering::SeqCst);
                        region.release(slot, 3);
                    }
                }
            });
        }
    });
    assert_eq!(region.usage().held, 0);
}
