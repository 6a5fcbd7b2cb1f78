//! Pools as the documents that Karpenter reads.

use crate::machines::machines;
use crate::overlay::{Overlay, overlays};
use crate::{Pool, Promise, Refusal, ToldBy, node_pool};
use serde_json::Value;
use std::collections::BTreeMap;

/// What is to be applied for a pool.
#[derive(Debug, Clone, PartialEq)]
pub struct Compiled {
    /// The NodePool.
    pub node_pool: Value,
    /// An overlay for each kind of machine, by model and number of GPUs. Where stand-ins ask for machines they are not written, and say
    /// what becomes of each kind.
    pub overlays: Vec<Overlay>,
    /// How autoscalers learn that machines are needed.
    pub told_by: ToldBy,
    /// Labels by which agents are told to cut, where that has its time.
    pub cut_labels: BTreeMap<String, String>,
}

impl Compiled {
    /// Everything in an order in which it can be applied: overlays come first, so that no machine is chosen without them.
    pub fn documents(&self) -> impl Iterator<Item = &Value> {
        let overlays = if self.told_by.stand_ins() { &[] } else { self.overlays.as_slice() };
        let pool = (self.told_by != ToldBy::StandInsOfGroups).then_some(&self.node_pool);
        overlays.iter().map(|overlay| &overlay.document).chain(pool)
    }

    /// What a node with these labels must advertise, where it is one of the pool's machines.
    pub fn promise_for(&self, labels: &BTreeMap<String, String>) -> Option<&Promise> {
        self.machine(labels).map(|overlay| &overlay.promise)
    }

    /// The kind of machine that a node with these labels is.
    pub fn machine(&self, labels: &BTreeMap<String, String>) -> Option<&Overlay> {
        let fits = |requirement: &Value| {
            let has = requirement["key"].as_str().and_then(|key| labels.get(key));
            let mut values = requirement["values"].as_array().into_iter().flatten();
            has.is_some_and(|has| values.any(|value| value.as_str() == Some(has)))
        };
        let about = |overlay: &&Overlay| {
            let requirements = overlay.document["spec"]["requirements"].as_array();
            requirements.is_some_and(|all| all.iter().all(fits))
        };
        self.overlays.iter().find(about)
    }
}

/// The documents of one pool.
pub fn compile(pool: &Pool) -> Result<Compiled, Refusal> {
    pool.check()?;
    let machines = machines(pool)?;
    let told_by = pool.told_by();
    if told_by.stand_ins() {
        crate::stand_ins::check(&pool.cut)?;
    } else {
        pool.weights.check(machines.len())?;
    }
    Ok(Compiled {
        node_pool: node_pool::document(pool, &machines)?,
        overlays: overlays(pool, &machines),
        told_by,
        cut_labels: node_pool::cut_labels(pool),
    })
}

/// The documents of all pools of a cluster, which must not get into each other's way.
pub fn compile_all(pools: &[Pool]) -> Result<Vec<Compiled>, Refusal> {
    for (position, pool) in pools.iter().enumerate() {
        for earlier in &pools[..position] {
            if earlier.name == pool.name {
                let reason = format!("two pools are called '{}'", pool.name);
                return Err(Refusal::new("name", reason, "give each a name of its own"));
            }
            let both = !earlier.told_by().stand_ins() && !pool.told_by().stand_ins();
            if both && earlier.weights.overlaps(pool.weights) {
                let reason = format!("'{}' and '{}' may use the same weights", earlier.name, pool.name);
                return Err(Refusal::new("weights", reason, "give each pool a band of its own"));
            }
        }
    }
    pools.iter().map(compile).collect()
}
