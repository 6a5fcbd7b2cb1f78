//! The verbs.

use crate::asked::Asked;
use crate::wire::{BindingArgs, FilterResult, HostPriority, MetaPod, MetaVictims, PreemptionResult};
use carve_admission::keys;
use carve_bookings::{Book, Judge, Misfit, PodUid, Room, Slices, choose, victims};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// What is left of a node for a pod. One that was bound a moment ago, and is asked for again, is not in its own way.
fn room<'a>(book: &'a Book, node: &str, asked: &Asked) -> Option<Cow<'a, Room>> {
    if book.bookings(&asked.uid).any(|booking| booking.node == node) {
        book.room_without(node, &BTreeSet::from([asked.uid.clone()])).map(Cow::Owned)
    } else {
        book.room(node).map(Cow::Borrowed)
    }
}

/// How good nodes are for one pod.
struct Scale<'a> {
    book: &'a Book,
    asked: &'a Asked,
    /// Where the pod is booked already. It is looked up once: hundreds of nodes are asked about.
    own: Vec<&'a str>,
    judge: Judge<'a>,
}

impl<'a> Scale<'a> {
    fn new(book: &'a Book, asked: &'a Asked) -> Self {
        let own = book.bookings(&asked.uid).map(|booking| booking.node.as_str()).collect();
        Scale { book, asked, own, judge: Judge::new(&asked.want) }
    }

    /// The points of a node; nothing where the pod does not fit.
    fn points(&mut self, node: &str) -> Option<u8> {
        if !self.own.contains(&node) {
            return self.judge.points(self.book.room(node)?);
        }
        // Its own booking is taken out for it, and it is one node.
        let room = room(self.book, node, self.asked)?;
        Judge::new(&self.asked.want).points(&room)
    }
}

/// What a pod would get on a node.
pub fn decide(book: &Book, node: &str, asked: &Asked) -> Result<Slices, Misfit> {
    let room = room(book, node, asked).ok_or(Misfit::NoGpus)?;
    choose(&room, &asked.want)
}

/// The nodes on which a pod fits, and why not on the others.
pub fn filter(book: &Book, nodes: &[String], asked: &Asked) -> FilterResult {
    let mut result = FilterResult::default();
    for node in nodes {
        match decide(book, node, asked) {
            Ok(_) => result.node_names.push(node.clone()),
            // Nobody could go who would change that.
            Err(misfit @ (Misfit::NoGpus | Misfit::Names { .. } | Misfit::Withheld { .. })) => {
                result.failed_and_unresolvable_nodes.insert(node.clone(), misfit.to_string());
            }
            Err(misfit) => {
                result.failed_nodes.insert(node.clone(), misfit.to_string());
            }
        }
    }
    result
}

/// The most nodes that are named to the scheduler. It asks how good each of them is and weighs it by itself as well, one pod after the other.
const SHORTLIST: usize = 16;

/// By so many points a node is better than whatever else the scheduler may think of another: with the weight that we ship a point is 1,000 of
/// its own, of which all plugins together give 1,200 at most. Where one node is left, the scheduler does not ask how good it is.
const DECISIVE: u8 = 2;

/// The best of the nodes on which a pod fits. Why it does not fit on others is said only where it fits nowhere: nobody reads it otherwise, and in a
/// full cluster it would be most of the answer.
pub fn shortlist<'n>(book: &Book, nodes: &'n [String], asked: &Asked) -> FilterResult {
    let mut scale = Scale::new(book, asked);
    let points = |node: &'n String| Some((scale.points(node)?, node));
    let mut fitting: Vec<(u8, &String)> = nodes.iter().filter_map(points).collect();
    if fitting.is_empty() {
        return filter(book, nodes, asked);
    }
    // Equal ones stay in the scheduler's order, which changes from pod to pod.
    fitting.sort_by_key(|(points, _)| std::cmp::Reverse(*points));
    let best = fitting[0].0;
    fitting.retain(|(points, _)| best - points < DECISIVE);
    fitting.truncate(SHORTLIST);
    FilterResult {
        node_names: fitting.into_iter().map(|(_, node)| node.clone()).collect(),
        ..FilterResult::default()
    }
}

/// How good each node is.
pub fn prioritize(book: &Book, nodes: &[String], asked: &Asked) -> Vec<HostPriority> {
    let mut scale = Scale::new(book, asked);
    let score = |node: &String| HostPriority { host: node.clone(), score: scale.points(node).unwrap_or(0) };
    nodes.iter().map(score).collect()
}

/// The nodes on which a pod fits if somebody goes, and everybody who has to.
pub fn preempt(book: &Book, nodes: &BTreeMap<String, MetaVictims>, asked: &Asked) -> PreemptionResult {
    let mut result = PreemptionResult::default();
    for (node, already) in nodes {
        let anyway: BTreeSet<PodUid> = already.pods.iter().map(|pod| PodUid(pod.uid.clone())).collect();
        let Some(more) = victims(book, node, &asked.want, asked.priority, &anyway) else { continue };
        let mut all = already.clone();
        all.pods.extend(more.into_iter().map(|uid| MetaPod { uid: uid.0 }));
        result.node_name_to_meta_victims.insert(node.clone(), all);
    }
    result
}

/// What is written to bind a pod: node and slices in one object, so that the API server takes both or neither. The uid is there so that a
/// pod of the same name which was made since does not get them, and the version so that of two that were sent only one counts.
pub fn binding(args: &BindingArgs, version: &str, slices: &Slices) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "namespace": args.pod_namespace,
            "name": args.pod_name,
            "uid": args.pod_uid,
            "resourceVersion": version,
            "annotations": { (keys::SLICES): slices.to_annotation() },
        },
        "target": { "apiVersion": "v1", "kind": "Node", "name": args.node },
    })
}

#[cfg(test)]
#[path = "verbs_tests.rs"]
mod tests;
