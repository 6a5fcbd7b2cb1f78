//! What the GPUs of a fleet can be divided into, and what the pods of a trace ask of them.

use crate::trace::{Trace, TraceError};
use carve_gpu_model::products::CATALOGUE;
use carve_gpu_model::{Geometry, ModeSwitch, Product, ProfileSlot, ProfileTable};
use carve_placement::{Fleet, ModelId};

/// A kind of GPU that MIG divides, by its place in [`Products::kinds`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KindIndex(pub(super) usize);

/// A set of MIG devices that some pods ask for, by its place in [`Products::asks`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct AskIndex(usize);

/// A kind of GPU.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) table: ProfileTable,
    pub(super) switch: ModeSwitch,
}

/// All kinds of GPUs, and all that is asked for.
#[derive(Debug, Default)]
pub(super) struct Products {
    pub(super) kinds: Vec<Kind>,
    /// The kind of each model of the fleet.
    of_model: Vec<Option<KindIndex>>,
    pub(super) asks: Vec<Geometry>,
    /// For each ask and kind the profiles, large ones first; none where the GPU does not have them all.
    wanted: Vec<Vec<Option<Vec<ProfileSlot>>>>,
}

impl Products {
    /// Those of a trace. The fleet knows all models that will ever be in it.
    pub(super) fn new(trace: &Trace, fleet: &Fleet) -> Result<Self, TraceError> {
        let mut asks: Vec<Geometry> = trace.pods.iter().map(|pod| pod.mig.clone()).collect();
        asks.retain(|ask| !ask.is_empty());
        asks.sort();
        asks.dedup();
        if asks.is_empty() {
            return Ok(Products::default());
        }
        let mut keys: Vec<&str> = Vec::new();
        let mut kinds = Vec::new();
        let mut of_model = Vec::new();
        for model in 0..fleet.model_count() {
            let kind = product(fleet.model_name(ModelId(model as u8))).and_then(|product| {
                if let Some(known) = keys.iter().position(|key| *key == product.key) {
                    return Some(KindIndex(known));
                }
                kinds.push(Kind { table: product.profile_table()?, switch: product.mode_switch()? });
                keys.push(product.key);
                Some(KindIndex(kinds.len() - 1))
            });
            of_model.push(kind);
        }
        if let Some(pod) = trace.pods.iter().find(|pod| kinds.is_empty() && !pod.mig.is_empty()) {
            return Err(TraceError::NoMig { pod: pod.name.clone(), asked: pod.mig.to_string() });
        }
        let of = |ask: &Geometry| kinds.iter().map(|kind| profiles(&kind.table, ask)).collect();
        let wanted = asks.iter().map(of).collect();
        Ok(Products { kinds, of_model, asks, wanted })
    }

    /// The number of what a pod asks for, if it is MIG devices.
    pub(super) fn ask(&self, asked: &Geometry) -> Option<AskIndex> {
        self.asks.binary_search(asked).ok().map(AskIndex)
    }

    /// Whether an ask is for a single device.
    pub(super) fn asks_for_one(&self, ask: AskIndex) -> bool {
        self.asks.get(ask.0).is_some_and(|asked| asked.instances() == 1)
    }

    pub(super) fn kind(&self, model: ModelId) -> Option<KindIndex> {
        self.of_model.get(usize::from(model.0)).copied().flatten()
    }

    /// What an ask is on a kind of GPU.
    pub(super) fn wanted(&self, ask: AskIndex, kind: KindIndex) -> Option<&[ProfileSlot]> {
        self.wanted.get(ask.0)?.get(kind.0)?.as_deref()
    }
}

/// The product that a trace means by a model: its key, the driver's name, or that name as a label of a node.
fn product(model: &str) -> Option<&'static Product> {
    let labelled = |product: &&Product| {
        product.boards.iter().any(|board| board.name == model || board.name.replace(' ', "-") == model)
    };
    Product::by_key(model).or_else(|| CATALOGUE.iter().find(labelled))
}

fn profiles(table: &ProfileTable, ask: &Geometry) -> Option<Vec<ProfileSlot>> {
    let mut wanted = Vec::new();
    for (name, count) in ask.iter() {
        let (slot, _) = table.by_name(name).ok()?;
        wanted.extend(std::iter::repeat_n(slot, count as usize));
    }
    wanted.sort_by_key(|slot| {
        std::cmp::Reverse(table.get(*slot).map(|profile| (profile.size(), profile.slices)))
    });
    Some(wanted)
}
