//! Pools as the documents that Karpenter reads.

use crate::machines::machines;
use crate::overlay::{Overlay, overlays};
use crate::{Pool, Refusal, node_pool};
use serde_json::Value;

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
