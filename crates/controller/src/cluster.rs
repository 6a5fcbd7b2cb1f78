//! What is known of the cluster: the book, made of nodes and pods as the API server shows them.
//!
//! ```text
//!                bind is sent                   a watch shows it
//!   not booked ───────────────▶ booked, unseen ─────────────────▶ booked, seen
//!        ▲                          │ refused                        │ ended, or gone
//!        └──────────────────────────┴────────────────────────────────┘
//! ```
//! A booking that nobody has seen yet is not dropped because a watch does not show it: it may be on its way. It is dropped where a list that was asked
//! for after it was made does not have the pod: the pod went while nothing was watched.

use carve_admission::keys;
use carve_bookings::{Book, Booking, Offer, PodUid, Slices};
use carve_cluster_api::names;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Everything that decisions are made of.
#[derive(Debug, Default)]
pub struct Cluster {
    book: Book,
    /// What nodes say that they offer.
    offers: BTreeMap<String, Offer>,
    /// Pods whose slices do not read, and their nodes: nobody knows what is left there.
    unread: BTreeMap<PodUid, String>,
    /// Pods that are on no node yet: what is needed of them to bind them.
    waiting: BTreeMap<PodUid, Value>,
    /// Pods with bookings that nobody had seen when the last list of pods was asked for.
    unseen: BTreeSet<PodUid>,
    nodes_listed: bool,
    pods_listed: bool,
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn uid_of(object: &Value) -> PodUid {
    PodUid(object["metadata"]["uid"].as_str().unwrap_or_default().to_owned())
}

/// Whether a pod still holds what it was given: it is on a node, and its containers have not all ended.
fn holds(pod: &Value) -> Option<&str> {
    let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty() && !ended)
}

impl Cluster {
    /// The book.
    pub fn book(&self) -> &Book {
        &self.book
    }

    pub(crate) fn book_mut(&mut self) -> &mut Book {
        &mut self.book
    }

    /// Whether everything was seen once. Before that nothing may be decided: what was not seen would be given away again.
    pub fn is_known(&self) -> bool {
        self.nodes_listed && self.pods_listed
    }

    /// A node is there, or has changed. One whose list does not read offers nothing, because nobody knows what.
    pub fn node_seen(&mut self, node: &Value) {
        let name = name_of(node);
        let offer = match node["metadata"]["annotations"][names::GPUS].as_str() {
            None => Offer::default(),
            Some(text) => Offer::from_annotation(text).unwrap_or_else(|error| {
                tracing::warn!(node = name, %error, "its GPUs are not given out");
                Offer::default()
            }),
        };
        self.offers.insert(name.to_owned(), offer);
        self.reckon(name);
    }

    /// What a node offers goes into the book, unless nobody knows what is left of it.
    fn reckon(&mut self, node: &str) {
        let unknown = self.unread.values().any(|unread| unread == node);
        match self.offers.get(node).filter(|offer| !offer.gpus.is_empty() && !unknown) {
            Some(offer) => self.book.offer(node, offer.clone()),
            None => self.book.withdraw(node),
        }
    }

    /// A pod holds nothing any more.
    fn released(&mut self, uid: &PodUid) {
        self.book.release(uid);
        if let Some(node) = self.unread.remove(uid) {
            self.reckon(&node);
        }
    }

    /// A node is gone.
    pub fn node_gone(&mut self, name: &str) {
        self.offers.remove(name);
        self.reckon(name);
    }

    /// All nodes were listed: these are there, and no others.
    pub fn nodes_listed(&mut self, names: &BTreeSet<String>) {
        let gone: Vec<String> = self.offers.keys().filter(|node| !names.contains(*node)).cloned().collect();
        for node in gone {
            self.node_gone(&node);
        }
        self.nodes_listed = true;
    }

    /// A pod that is on no node, as a watch has shown it last.
    pub fn waiting(&self, uid: &PodUid) -> Option<&Value> {
        self.waiting.get(uid)
    }

    /// A pod is there, or has changed.
    pub fn pod_seen(&mut self, pod: &Value) {
        let (uid, annotations) = (uid_of(pod), &pod["metadata"]["annotations"]);
        if pod["spec"]["nodeName"].as_str().is_none_or(str::is_empty) {
            // Much of a pod is of no use to anybody here, and thousands may wait.
            let known = json!({"metadata": pod["metadata"], "spec": {"priority": pod["spec"]["priority"]}});
            self.waiting.insert(uid.clone(), known);
        } else {
            self.waiting.remove(&uid);
        }
        let Some(node) = holds(pod) else {
            // One that is not bound says nothing about a binding that is on its way.
            if pod["spec"]["nodeName"].is_string() {
                self.released(&uid);
            }
            return;
        };
        let Some(text) = annotations[keys::SLICES].as_str() else { return };
        let name = format!("{}/{}", pod["metadata"]["namespace"].as_str().unwrap_or_default(), name_of(pod));
        match Slices::from_annotation(text) {
            Ok(slices) => {
                let priority = pod["spec"]["priority"].as_i64().and_then(|one| i32::try_from(one).ok());
                let booking = Booking::new(&name, node, &slices, priority.unwrap_or(0), true);
                if self.unread.remove(&uid).is_some() {
                    self.reckon(node);
                }
                self.book.hold(uid, booking);
            }
            Err(error) => {
                tracing::error!(pod = name, node, %error, "what it holds is not known; nothing more is given out of its node while it is there");
                self.unread.insert(uid, node.to_owned());
                self.reckon(node);
            }
        }
    }

    /// A pod is gone.
    pub fn pod_gone(&mut self, pod: &Value) {
        self.waiting.remove(&uid_of(pod));
        self.released(&uid_of(pod));
    }

    /// All pods are about to be listed.
    pub fn pods_asked(&mut self) {
        let unseen = self.book.pods().filter(|(_, booking)| !booking.seen);
        self.unseen = unseen.map(|(uid, _)| uid.clone()).collect();
    }

    /// All pods were listed: these are there. Of the others, those that were seen before or were being bound when the list was asked for are gone.
    pub fn pods_listed(&mut self, uids: &BTreeSet<PodUid>) {
        self.waiting.retain(|uid, _| uids.contains(uid));
        let gone: Vec<PodUid> = self
            .book
            .pods()
            .filter(|(uid, booking)| (booking.seen || self.unseen.contains(uid)) && !uids.contains(uid))
            .map(|(uid, _)| uid.clone())
            .chain(self.unread.keys().filter(|uid| !uids.contains(uid)).cloned())
            .collect();
        for uid in gone {
            self.released(&uid);
        }
        self.pods_listed = true;
    }
}

#[cfg(test)]
#[path = "cluster_tests.rs"]
mod tests;
