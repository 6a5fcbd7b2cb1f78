//! Many nodes, what is left of each, and what has changed since somebody last looked.

use crate::claim::{Claim, ModelId, Models};
use crate::node::{GpuSet, Misfit, NodeRoom, NodeShape};
use crate::policies::Affinity;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// A node, by its number in the fleet. Of equal choices the one with the lower number is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub u32);

/// Nodes of one shape, by their number in the fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassIndex(pub u16);

/// Where a claim is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spot {
    /// The node.
    pub node: NodeIndex,
    /// Its GPUs.
    pub gpus: GpuSet,
}

/// Why a node can not join a fleet.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FleetError {
    /// Two nodes of one name.
    #[error("node '{name}' is listed twice; give every node a name of its own")]
    TwoOfAName {
        /// The name.
        name: String,
    },
    /// More GPUs than a node can have.
    #[error("node '{name}' has {gpus} GPUs; at most {most} are supported on one node")]
    TooManyGpus {
        /// The node.
        name: String,
        /// Its GPUs.
        gpus: u32,
        /// The most.
        most: usize,
    },
    /// More models or shapes than can be told apart.
    #[error("node '{name}' is of the {count}th {what}, and at most {most} can be told apart")]
    TooDifferent {
        /// The node.
        name: String,
        /// GPU model, or shape.
        what: &'static str,
        /// How many there are with it.
        count: usize,
        /// The most.
        most: usize,
    },
}

/// Nodes that are all alike but for what runs on them.
#[derive(Debug, Clone)]
pub struct Class {
    /// What each of them has.
    pub shape: NodeShape,
    untouched: BTreeSet<NodeIndex>,
}

impl Class {
    /// The nodes of this shape that nothing runs on.
    pub fn untouched(&self) -> impl ExactSizeIterator<Item = NodeIndex> + '_ {
        self.untouched.iter().copied()
    }

    pub(crate) fn first_untouched(&self) -> Option<NodeIndex> {
        self.untouched.first().copied()
    }
}

#[derive(Debug, Clone)]
struct Node {
    name: String,
    class: ClassIndex,
    room: NodeRoom,
    present: bool,
    /// Present, and nothing runs on it.
    untouched: bool,
    /// How many claims of each kind run on it.
    kinds: Vec<(Affinity, u32)>,
}

/// Many nodes.
#[derive(Debug, Clone, Default)]
pub struct Fleet {
    models: Vec<String>,
    classes: Vec<Class>,
    by_shape: BTreeMap<NodeShape, ClassIndex>,
    nodes: Vec<Node>,
    by_name: BTreeMap<String, NodeIndex>,
    changes: Vec<NodeIndex>,
    forgotten: usize,
    openings: usize,
    gpus: u64,
}

impl Fleet {
    /// A fleet without nodes.
    pub fn new() -> Self {
        Fleet::default()
    }

    /// The number of a model, new or known.
    pub fn model(&mut self, name: &str) -> Option<ModelId> {
        if let Some(known) = self.models.iter().position(|model| model == name) {
            return Some(ModelId(known as u8));
        }
        (self.models.len() < 64).then(|| {
            self.models.push(name.to_owned());
            ModelId((self.models.len() - 1) as u8)
        })
    }

    /// The models of these names; those that no node has are left out.
    pub fn models_named<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Models {
        names.into_iter().fold(Models::NONE, |models, name| {
            match self.models.iter().position(|model| model == name) {
                Some(known) => models.with(ModelId(known as u8)),
                None => models,
            }
        })
    }

    /// What a model is called.
    pub fn model_name(&self, model: ModelId) -> &str {
        self.models.get(usize::from(model.0)).map_or("unknown", String::as_str)
    }

    /// How many models there are.
    pub fn model_count(&self) -> usize {
        self.models.len()
    }

    /// Adds a node that nothing runs on.
    pub fn add(&mut self, name: &str, shape: NodeShape) -> Result<NodeIndex, FleetError> {
        let name = name.to_owned();
        if usize::from(shape.gpus) > crate::node::MOST_GPUS {
            let (gpus, most) = (u32::from(shape.gpus), crate::node::MOST_GPUS);
            return Err(FleetError::TooManyGpus { name, gpus, most });
        }
        if self.by_name.contains_key(&name) {
            return Err(FleetError::TwoOfAName { name });
        }
        let class = match self.by_shape.get(&shape) {
            Some(class) => *class,
            None => {
                let (count, most) = (self.classes.len() + 1, usize::from(u16::MAX));
                if count > most {
                    return Err(FleetError::TooDifferent { name, what: "shape", count, most });
                }
                let class = ClassIndex(self.classes.len() as u16);
                self.by_shape.insert(shape.clone(), class);
                self.classes.push(Class { shape: shape.clone(), untouched: BTreeSet::new() });
                class
            }
        };
        let index = NodeIndex(self.nodes.len() as u32);
        self.gpus += u64::from(shape.gpus);
        self.classes[usize::from(class.0)].untouched.insert(index);
        self.by_name.insert(name.clone(), index);
        self.nodes.push(Node {
            name,
            class,
            room: shape.untouched(),
            present: true,
            untouched: true,
            kinds: Vec::new(),
        });
        self.openings += 1;
        self.changed(index);
        Ok(index)
    }

    /// Takes a node away, or brings it back; while it is away nothing fits on it.
    pub fn set_present(&mut self, node: NodeIndex, present: bool) {
        let Some(entry) = self.nodes.get_mut(node.0 as usize) else { return };
        if entry.present == present {
            return;
        }
        entry.present = present;
        let gpus = u64::from(self.classes[usize::from(entry.class.0)].shape.gpus);
        self.gpus = if present { self.gpus + gpus } else { self.gpus - gpus };
        self.settle(node);
        self.changed(node);
    }

    /// How many nodes, those that are away included.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// GPUs of all nodes that are there.
    pub fn gpus(&self) -> u64 {
        self.gpus
    }

    /// All nodes, in their order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeIndex> + use<> {
        (0..self.nodes.len() as u32).map(NodeIndex)
    }

    /// A node's name.
    pub fn name(&self, node: NodeIndex) -> &str {
        &self.nodes[node.0 as usize].name
    }

    /// A node by its name.
    pub fn named(&self, name: &str) -> Option<NodeIndex> {
        self.by_name.get(name).copied()
    }

    /// What a node has.
    pub fn shape(&self, node: NodeIndex) -> &NodeShape {
        &self.class(self.class_of(node)).shape
    }

    /// What is left of a node.
    pub fn room(&self, node: NodeIndex) -> &NodeRoom {
        &self.nodes[node.0 as usize].room
    }

    /// The class of a node.
    pub fn class_of(&self, node: NodeIndex) -> ClassIndex {
        self.nodes[node.0 as usize].class
    }

    /// A class.
    pub fn class(&self, class: ClassIndex) -> &Class {
        &self.classes[usize::from(class.0)]
    }

    /// All classes.
    pub fn classes(&self) -> impl ExactSizeIterator<Item = (ClassIndex, &Class)> {
        self.classes.iter().enumerate().map(|(index, class)| (ClassIndex(index as u16), class))
    }

    /// Whether nothing runs on a node.
    pub fn is_untouched(&self, node: NodeIndex) -> bool {
        self.nodes[node.0 as usize].untouched
    }

    /// Whether a node is there and something runs on it.
    pub fn is_in_use(&self, node: NodeIndex) -> bool {
        let entry = &self.nodes[node.0 as usize];
        entry.present && !entry.untouched
    }

    /// The kinds of claims that run on a node.
    pub fn affinity(&self, node: NodeIndex) -> Affinity {
        self.nodes[node.0 as usize].kinds.iter().fold(Affinity::default(), |all, (kind, _)| all.and(*kind))
    }

    /// Whether a claim fits on a node now, or why not.
    pub fn fits(&self, node: NodeIndex, claim: &Claim) -> Result<(), Misfit> {
        let entry = &self.nodes[node.0 as usize];
        if !entry.present {
            return Err(Misfit::Away);
        }
        self.class(entry.class).shape.fits(&entry.room, claim)
    }

    /// Takes what a claim asks for. The spot must have been chosen for this claim since the last change.
    pub fn place(&mut self, claim: &Claim, spot: Spot) {
        let kinds = &mut self.nodes[spot.node.0 as usize].kinds;
        let own = Affinity::of(claim);
        match kinds.iter_mut().find(|(kind, _)| *kind == own) {
            Some((_, count)) => *count += 1,
            None => kinds.push((own, 1)),
        }
        let room = self.room(spot.node).taken(claim, spot.gpus);
        self.set_room(spot.node, room);
    }

    /// Gives back what a claim had.
    pub fn release(&mut self, claim: &Claim, spot: Spot) {
        let kinds = &mut self.nodes[spot.node.0 as usize].kinds;
        if let Some(position) = kinds.iter().position(|(kind, _)| *kind == Affinity::of(claim)) {
            kinds[position].1 -= 1;
            if kinds[position].1 == 0 {
                kinds.swap_remove(position);
            }
        }
        let room = self.room(spot.node).given_back(claim, spot.gpus);
        self.set_room(spot.node, room);
    }

    /// Keeps a GPU that no claim has for another use, such as MIG devices, or gives it back to claims as a whole.
    pub fn set_aside(&mut self, node: NodeIndex, gpu: usize, aside: bool) {
        let room = match aside {
            true => self.room(node).without(gpu),
            false => self.room(node).with_whole(gpu, self.shape(node)),
        };
        self.set_room(node, room);
    }

    fn set_room(&mut self, node: NodeIndex, room: NodeRoom) {
        self.nodes[node.0 as usize].room = room;
        self.settle(node);
        self.changed(node);
    }

    /// Notes whether a node is untouched.
    fn settle(&mut self, node: NodeIndex) {
        let entry = &mut self.nodes[node.0 as usize];
        let class = &mut self.classes[usize::from(entry.class.0)];
        let untouched = entry.present && entry.room == class.shape.untouched();
        if untouched == entry.untouched {
            return;
        }
        entry.untouched = untouched;
        self.openings += 1;
        if untouched {
            class.untouched.insert(node);
        } else {
            class.untouched.remove(&node);
        }
    }

    fn changed(&mut self, node: NodeIndex) {
        // Whoever has not looked for so long looks at every node anyway.
        if self.changes.len() >= 2 * self.nodes.len() + 1024 {
            let half = self.changes.len() / 2;
            self.changes.drain(..half);
            self.forgotten += half;
        }
        self.changes.push(node);
    }

    /// How often a node was started on, or left by everything.
    pub(crate) fn openings(&self) -> usize {
        self.openings
    }

    /// How many changes there have been.
    pub(crate) fn generation(&self) -> usize {
        self.forgotten + self.changes.len()
    }

    /// The nodes that changed since a generation, newest last, some of them often; `None` if that is too long ago.
    pub(crate) fn changes_since(&self, generation: usize) -> Option<&[NodeIndex]> {
        generation.checked_sub(self.forgotten).and_then(|from| self.changes.get(from..))
    }
}
