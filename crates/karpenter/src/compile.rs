//! Pools as the documents that Karpenter reads.

use crate::machines::machines;
use crate::overlay::{Overlay, overlays};
use crate::{Pool, Promise, Refusal, node_pool};
use serde_json::Value;
use std::collections::BTreeMap;

/// What is to be applied for a pool.
#[derive(Debug, Clone, PartialEq)]
pub struct Compiled {
    /// The NodePool.
    pub node_pool: Value,
    /// An overlay for each kind of machine, by model and number of GPUs.
    pub overlays: Vec<Overlay>,
}

impl Compiled {
    /// Everything in an order in which it can be applied: overlays come first, so that no machine is chosen without them.
    pub fn documents(&self) -> impl Iterator<Item = &Value> {
        self.overlays.iter().map(|overlay| &overlay.document).chain([&self.node_pool])
    }

    /// What a node with these labels must advertise, where it is one of the pool's machines.
    pub fn promise_for(&self, labels: &BTreeMap<String, String>) -> Option<&Promise> {
        let fits = |requirement: &Value| {
            let has = requirement["key"].as_str().and_then(|key| labels.get(key));
            let mut values = requirement["values"].as_array().into_iter().flatten();
            has.is_some_and(|has| values.any(|value| value.as_str() == Some(has)))
        };
        let about = |overlay: &&Overlay| {
            let requirements = overlay.document["spec"]["requirements"].as_array();
            requirements.is_some_and(|all| all.iter().all(fits))
        };
        self.overlays.iter().find(about).map(|overlay| &overlay.promise)
    }
}

/// The documents of one pool.
pub fn compile(pool: &Pool) -> Result<Compiled, Refusal> {
    pool.check()?;
    let machines = machines(pool)?;
    pool.weights.check(machines.len())?;
    Ok(Compiled { node_pool: node_pool::document(pool, &machines)?, overlays: overlays(pool, &machines) })
}

/// The documents of all pools of a cluster, which must not get into each other's way.
pub fn compile_all(pools: &[Pool]) -> Result<Vec<Compiled>, Refusal> {
    for (position, pool) in pools.iter().enumerate() {
        for earlier in &pools[..position] {
            if earlier.name == pool.name {
                let reason = format!("two pools are called '{}'", pool.name);
                return Err(Refusal::new("name", reason, "give each a name of its own"));
            }
            if earlier.weights.overlaps(pool.weights) {
                let reason = format!("'{}' and '{}' may use the same weights", earlier.name, pool.name);
                return Err(Refusal::new("weights", reason, "give each pool a band of its own"));
            }
        }
    }
    pools.iter().map(compile).collect()
}
