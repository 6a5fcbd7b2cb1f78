//! Who would have to go so that a pod with a higher priority fits on a node.

use crate::book::{Book, Booking, PodUid};
use crate::choose::choose;
use crate::want::Want;
use std::collections::BTreeSet;

/// The pods that must go from a node beside those that go anyway, or none where that does not help. Only pods with a lower priority go, the
/// lowest first, and none goes for nothing.
pub fn victims(
    book: &Book,
    node: &str,
    want: &Want,
    priority: i32,
    anyway: &BTreeSet<PodUid>,
) -> Option<Vec<PodUid>> {
    let fits = |gone: &BTreeSet<PodUid>| {
        book.room_without(node, gone).is_some_and(|room| choose(&room, want).is_ok())
    };
    let mut gone = anyway.clone();
    if fits(&gone) {
        return Some(Vec::new());
    }
    let mut lower: Vec<(&PodUid, &Booking)> =
        book.on(node).filter(|(uid, pod)| pod.priority < priority && !anyway.contains(*uid)).collect();
    lower.sort_by_key(|(uid, pod)| (pod.priority, std::cmp::Reverse(pod.memory()), (*uid).clone()));
    let mut chosen = Vec::new();
    for (uid, _) in lower {
        gone.insert(uid.clone());
        chosen.push(uid.clone());
        if fits(&gone) {
            // Whoever turns out to be in nobody's way stays, the highest priority first.
            let mut needed = Vec::new();
            while let Some(last) = chosen.pop() {
                gone.remove(&last);
                if !fits(&gone) {
                    gone.insert(last.clone());
                    needed.push(last);
                }
            }
            needed.reverse();
            return Some(needed);
        }
    }
    None
}
