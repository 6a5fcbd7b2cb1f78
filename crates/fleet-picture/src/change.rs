//! What changes from one picture to the next, no larger than what has changed.

use crate::{Evidence, GpuPicture, Happening, NodePicture, Picture, Slice, Summary, Waiting};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One thing that is different.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// A machine has come, or is another one now.
    Node(String, NodePicture),
    /// A machine is gone.
    NodeGone(String),
    /// A GPU of a machine, by its place in the list.
    Gpu(String, usize, GpuPicture),
    /// Only what is used of such a GPU and its slices, which is most of what changes in a large fleet.
    Used(String, usize, Used),
    /// A pod waits, or waits for another reason.
    Waiting(String, Waiting),
    /// A pod waits no more.
    WaitingGone(String),
    /// Something has happened.
    Happening(Happening),
}

/// What is used of a GPU.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Used {
    /// Part of its time in which it was busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
    /// MiB in use.
    pub memory_used: u64,
    /// Of its slices, in their order: part of the GPU's time, MiB, how that is known, and the part of the time in which it was held back.
    pub slices: Vec<(Option<f64>, u64, Option<Evidence>, f64)>,
}

impl Used {
    fn of(gpu: &GpuPicture) -> Self {
        let slices = gpu.slices.iter();
        Used {
            busy: gpu.busy,
            memory_used: gpu.memory_used,
            slices: slices
                .map(|slice| (slice.compute_used, slice.memory_used, slice.how, slice.throttled))
                .collect(),
        }
    }

    /// What makes the other of a GPU, if nothing but its use is different.
    fn between(before: &GpuPicture, after: &GpuPicture) -> Option<Self> {
        let mut slices = before.slices.iter().zip(&after.slices);
        let same = rest(before) == rest(after)
            && before.slices.len() == after.slices.len()
            && slices.all(|(one, other)| rest_of_slice(one) == rest_of_slice(other));
        same.then(|| Used::of(after))
    }

    fn show(&self, gpu: &mut GpuPicture) {
        (gpu.busy, gpu.memory_used) = (self.busy, self.memory_used);
        for (slice, used) in gpu.slices.iter_mut().zip(&self.slices) {
            (slice.compute_used, slice.memory_used, slice.how, slice.throttled) = *used;
        }
    }
}

/// Everything of a GPU but its use and its slices. A field that is new must say here which it is.
fn rest(gpu: &GpuPicture) -> impl PartialEq + '_ {
    let GpuPicture {
        uuid,
        index,
        product,
        memory,
        state,
        why,
        slots,
        instances,
        slices: _,
        busy: _,
        memory_used: _,
    } = gpu;
    (uuid, index, product, memory, state, why, slots, instances)
}

/// Everything of a slice but its use.
fn rest_of_slice(slice: &Slice) -> impl PartialEq + '_ {
    let Slice {
        pod,
        container,
        workload,
        mechanism,
        instance,
        compute,
        memory,
        since,
        compute_used: _,
        memory_used: _,
        how: _,
        throttled: _,
    } = slice;
    (pod, container, workload, mechanism, instance, compute, memory, since)
}

/// All that is different.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Changes {
    /// The number of the picture after them.
    pub version: u64,
    /// When that is.
    pub at: i64,
    /// In any order: no two are about the same.
    pub changes: Vec<Change>,
    /// The picture after them in a few numbers, so that everybody reckons alike.
    pub summary: Summary,
}

/// The most of what has happened that a picture has.
pub(crate) const HAPPENINGS: usize = 200;

impl Picture {
    /// What makes the other picture of this one.
    pub fn changes_to(&self, next: &Picture) -> Vec<Change> {
        let mut changes = Vec::new();
        for (name, node) in &next.nodes {
            match self.nodes.get(name) {
                Some(before) => node_changes(name, before, node, &mut changes),
                None => changes.push(Change::Node(name.clone(), node.clone())),
            }
        }
        gone(&self.nodes, &next.nodes, |name| changes.push(Change::NodeGone(name)));
        for (pod, waiting) in &next.waiting {
            if self.waiting.get(pod) != Some(waiting) {
                changes.push(Change::Waiting(pod.clone(), waiting.clone()));
            }
        }
        gone(&self.waiting, &next.waiting, |pod| changes.push(Change::WaitingGone(pod)));
        let last = self.happenings.last().map_or(0, |happening| happening.number);
        let new = next.happenings.iter().filter(|happening| happening.number > last);
        changes.extend(new.cloned().map(Change::Happening));
        changes
    }

    /// Makes the changes.
    pub fn apply(&mut self, at: i64, changes: &[Change]) {
        self.at = at;
        for change in changes {
            match change {
                Change::Node(name, node) => drop(self.nodes.insert(name.clone(), node.clone())),
                Change::NodeGone(name) => drop(self.nodes.remove(name)),
                Change::Gpu(name, place, gpu) => {
                    let node = self.nodes.get_mut(name).and_then(|node| node.gpus.get_mut(*place));
                    if let Some(there) = node {
                        *there = gpu.clone();
                    }
                }
                Change::Used(name, place, used) => {
                    let node = self.nodes.get_mut(name).and_then(|node| node.gpus.get_mut(*place));
                    if let Some(gpu) = node {
                        used.show(gpu);
                    }
                }
                Change::Waiting(pod, waiting) => drop(self.waiting.insert(pod.clone(), waiting.clone())),
                Change::WaitingGone(pod) => drop(self.waiting.remove(pod)),
                Change::Happening(happening) => {
                    self.happenings.push(happening.clone());
                    let much = self.happenings.len().saturating_sub(HAPPENINGS);
                    self.happenings.drain(..much);
                }
            }
        }
    }

    /// Adds something that has happened; the oldest are forgotten.
    pub fn tell(&mut self, happening: Happening) {
        self.apply(self.at, &[Change::Happening(happening)]);
    }
}

fn gone<T>(before: &BTreeMap<String, T>, after: &BTreeMap<String, T>, mut tell: impl FnMut(String)) {
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        tell(name.clone());
    }
}

fn node_changes(name: &str, before: &NodePicture, after: &NodePicture, changes: &mut Vec<Change>) {
    let head = |node: &NodePicture| {
        let same = |(one, other): (&GpuPicture, &GpuPicture)| one.uuid == other.uuid;
        (
            node.kind.clone(),
            node.ready,
            node.why.clone(),
            node.dollars_per_hour,
            node.gpus.len(),
            before.gpus.iter().zip(&node.gpus).all(same),
        )
    };
    if head(before) != head(after) {
        changes.push(Change::Node(name.to_owned(), after.clone()));
        return;
    }
    for (place, (before, after)) in before.gpus.iter().zip(&after.gpus).enumerate() {
        if before == after {
            continue;
        }
        changes.push(match Used::between(before, after) {
            Some(used) => Change::Used(name.to_owned(), place, used),
            None => Change::Gpu(name.to_owned(), place, after.clone()),
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::{GpuPicture, Happening, NodePicture, Picture, Slice, Waiting};
    use proptest::prelude::{Strategy, any, prop, proptest};

    fn gpu() -> impl Strategy<Value = GpuPicture> {
        (0_u8..3, 0_u8..3, prop::collection::vec(0_u8..3, 0..3)).prop_map(|(uuid, used, pods)| GpuPicture {
            uuid: format!("GPU-{uuid}"),
            memory_used: u64::from(used),
            slices: pods
                .iter()
                .map(|pod| Slice {
                    pod: format!("n/{}", pod / 2),
                    memory_used: u64::from(*pod),
                    ..Slice::default()
                })
                .collect(),
            ..GpuPicture::default()
        })
    }

    fn picture() -> impl Strategy<Value = Picture> {
        let node = (any::<bool>(), prop::collection::vec(gpu(), 0..4));
        let node = node.prop_map(|(ready, gpus)| NodePicture { ready, gpus, ..NodePicture::default() });
        let nodes = prop::collection::btree_map("[ab]", node, 0..3);
        let waits = (0_i64..3).prop_map(|since| Waiting { since, ..Waiting::default() });
        (nodes, prop::collection::btree_map("[xy]", waits, 0..3), 0_i64..9)
            .prop_map(|(nodes, waiting, at)| Picture { at, nodes, waiting, happenings: Vec::new() })
    }

    proptest! {
        #[test]
        fn changes_make_the_next_picture_of_this_one(one in picture(), other in picture()) {
            let mut made = one.clone();
            made.apply(other.at, &one.changes_to(&other));
            assert_eq!(made, other);
            assert_eq!(other.changes_to(&other), Vec::new());
        }
    }

    #[test]
    fn use_alone_is_told_in_few_words() {
        let slice = |memory_used| Slice { pod: "team/train".to_owned(), memory_used, ..Slice::default() };
        let gpu =
            |memory| GpuPicture { slices: vec![slice(memory)], memory_used: memory, ..GpuPicture::default() };
        let picture = |memory| {
            let node = NodePicture { gpus: vec![gpu(memory)], ..NodePicture::default() };
            Picture { nodes: [("a".to_owned(), node)].into(), ..Picture::default() }
        };
        let changes = picture(1).changes_to(&picture(2));
        let told = serde_json::to_string(&changes).expect("JSON");
        assert_eq!(told, r#"[{"used":["a",0,{"memoryUsed":2,"slices":[[null,2,null,0.0]]}]}]"#);
    }

    #[test]
    fn what_has_happened_is_told_once() {
        let mut one = Picture::default();
        for number in 1..=300 {
            one.tell(Happening { number, ..Happening::default() });
        }
        assert_eq!((one.happenings.len(), one.happenings[0].number), (200, 101));
        let mut other = one.clone();
        other.tell(Happening { number: 301, ..Happening::default() });
        assert_eq!(one.changes_to(&other).len(), 1);
    }
}
