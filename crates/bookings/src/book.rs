//! What all pods of the cluster hold.

use crate::offer::Offer;
use crate::room::{Held, Room};
use crate::slices::Slices;
use carve_gpu_model::GpuUuid;
use std::collections::{BTreeMap, BTreeSet};

/// A pod, whatever its name: one that was deleted and made again is another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodUid(pub String);

/// What a pod holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Booking {
    /// `namespace/name`.
    pub pod: String,
    /// Where.
    pub node: String,
    /// What of each GPU.
    pub held: BTreeMap<GpuUuid, Held>,
    /// The pod's priority.
    pub priority: i32,
    /// Whether the API server has shown it; otherwise it was bound a moment ago.
    pub seen: bool,
}

impl Booking {
    /// A booking of slices.
    pub fn new(pod: &str, node: &str, slices: &Slices, priority: i32, seen: bool) -> Self {
        Booking { pod: pod.to_owned(), node: node.to_owned(), held: slices.held(), priority, seen }
    }

    /// All memory that it holds, in MiB.
    pub fn memory(&self) -> u64 {
        self.held.values().map(|held| held.memory.0).sum()
    }
}

#[derive(Debug, Clone, Default)]
struct Node {
    offer: Offer,
    room: Room,
    pods: BTreeSet<PodUid>,
}

/// Everything that is known. What pods hold on a node counts also while the node is not known, or does not know their GPUs.
///
/// A pod that was shown by the API server has one booking. One that is being bound has one for every time that was tried: any of them may
/// turn out to be what counts, so all of them are held until it is known.
#[derive(Debug, Clone, Default)]
pub struct Book {
    nodes: BTreeMap<String, Node>,
    pods: BTreeMap<PodUid, Vec<Booking>>,
}

impl Book {
    /// A node offers this, from now on.
    pub fn offer(&mut self, node: &str, offer: Offer) {
        let entry = self.nodes.entry(node.to_owned()).or_default();
        if entry.offer != offer {
            entry.offer = offer;
            self.reckon(node);
        }
    }

    /// A node offers nothing any more.
    pub fn withdraw(&mut self, node: &str) {
        self.offer(node, Offer::default());
        if self.nodes.get(node).is_some_and(|node| node.pods.is_empty()) {
            self.nodes.remove(node);
        }
    }

    /// A pod holds this. What the API server has shown replaces whatever was held for the pod; what is only being tried is held besides.
    pub fn hold(&mut self, uid: PodUid, booking: Booking) {
        if booking.seen {
            if self.pods.get(&uid).is_some_and(|held| *held == [booking.clone()]) {
                return;
            }
            self.release(&uid);
        }
        let node = booking.node.clone();
        self.nodes.entry(node.clone()).or_default().pods.insert(uid.clone());
        self.pods.entry(uid).or_default().push(booking);
        self.reckon(&node);
    }

    /// A pod holds nothing any more.
    pub fn release(&mut self, uid: &PodUid) {
        for booking in self.pods.remove(uid).unwrap_or_default() {
            self.left(uid, &booking.node);
        }
    }

    /// Something that was tried came to nothing; whatever else is held for the pod stays.
    pub fn take_back(&mut self, uid: &PodUid, tried: &Booking) {
        let Some(held) = self.pods.get_mut(uid) else { return };
        let Some(at) = held.iter().position(|one| !one.seen && one == tried) else { return };
        held.remove(at);
        if held.is_empty() {
            self.pods.remove(uid);
        }
        self.left(uid, &tried.node);
    }

    /// A booking of a pod on a node is gone.
    fn left(&mut self, uid: &PodUid, node: &str) {
        let still = self.bookings(uid).any(|booking| booking.node == node);
        if let Some(node) = self.nodes.get_mut(node).filter(|_| !still) {
            node.pods.remove(uid);
        }
        self.reckon(node);
    }

    /// What is held for a pod: several only while it is being bound.
    pub fn bookings(&self, uid: &PodUid) -> impl Iterator<Item = &Booking> {
        self.pods.get(uid).into_iter().flatten()
    }

    /// All that is held, and for whom.
    pub fn pods(&self) -> impl Iterator<Item = (&PodUid, &Booking)> {
        self.pods.iter().flat_map(|(uid, held)| held.iter().map(move |booking| (uid, booking)))
    }

    /// The same on a node.
    pub fn on<'a>(&'a self, node: &'a str) -> impl Iterator<Item = (&'a PodUid, &'a Booking)> {
        let pods = self.nodes.get(node).into_iter().flat_map(|entry| &entry.pods);
        let all = pods.flat_map(|uid| self.bookings(uid).map(move |booking| (uid, booking)));
        all.filter(move |(_, booking)| booking.node == node)
    }

    /// What is left of a node; nothing for one that offers nothing.
    pub fn room(&self, node: &str) -> Option<&Room> {
        self.nodes.get(node).map(|node| &node.room)
    }

    /// What would be left of a node without some of its pods.
    pub fn room_without(&self, node: &str, gone: &BTreeSet<PodUid>) -> Option<Room> {
        let entry = self.nodes.get(node)?;
        let mut room = Room::untouched(&entry.offer);
        for (_, booking) in self.on(node).filter(|(uid, _)| !gone.contains(*uid)) {
            for (gpu, held) in &booking.held {
                room.hold(gpu, *held);
            }
        }
        Some(room)
    }

    /// The nodes and what is left of them.
    pub fn rooms(&self) -> impl Iterator<Item = (&str, &Room)> {
        self.nodes.iter().map(|(name, node)| (name.as_str(), &node.room))
    }

    fn reckon(&mut self, node: &str) {
        let Some(room) = self.room_without(node, &BTreeSet::new()) else { return };
        if let Some(entry) = self.nodes.get_mut(node) {
            entry.room = room;
        }
    }
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
