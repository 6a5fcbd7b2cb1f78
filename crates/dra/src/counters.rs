//! What keeps the devices of one GPU apart: everything an instance takes, counted.
//!
//! A set of instances takes no more than there is exactly where `ProfileTable::check` calls it legal; the tests hold the two
//! against each other for every product.

use crate::Quantity;
use carve_gpu_model::{Engine, Engines, GpuProfile, Placement, ProfileTable};
use std::collections::BTreeMap;

/// Counters by name.
pub(crate) type Counters = BTreeMap<String, Quantity>;

/// All that a GPU has.
pub(crate) fn all(table: Option<&ProfileTable>) -> Counters {
    let Some(table) = table else {
        // Nothing can be cut out of it, so it is there or it is taken.
        return BTreeMap::from([("gpu".to_owned(), Quantity::Count(1))]);
    };
    let mut counters =
        taken(u64::from(table.compute_slices()), table.engines(), Placement::new(0, table.slots()));
    for profile in table.profiles().iter().filter(|profile| is_scarce(profile)) {
        counters.insert(instances(profile), Quantity::Count(u64::from(profile.max_instances)));
    }
    counters
}

/// What an instance takes.
pub(crate) fn of(profile: &GpuProfile, placement: Placement) -> Counters {
    let mut counters = taken(u64::from(profile.slices), profile.engines, placement);
    if is_scarce(profile) {
        counters.insert(instances(profile), Quantity::Count(1));
    }
    counters
}

fn taken(slices: u64, engines: Engines, placement: Placement) -> Counters {
    let mut counters = BTreeMap::from([("compute-slices".to_owned(), Quantity::Count(slices))]);
    for (engine, number) in engines.each().into_iter().filter(|(_, number)| *number > 0) {
        counters.insert(engine_counter(engine).to_owned(), Quantity::Count(u64::from(number)));
    }
    for slot in placement.start..placement.start + placement.size {
        counters.insert(format!("memory-slice-{slot}"), Quantity::Count(1));
    }
    counters
}

fn engine_counter(engine: Engine) -> &'static str {
    match engine {
        Engine::Copy => "copy-engines",
        Engine::Decoder => "decoders",
        Engine::Encoder => "encoders",
        Engine::Jpeg => "jpeg-engines",
        Engine::Ofa => "ofa-engines",
    }
}

/// Whether fewer instances may exist than there are places for them.
fn is_scarce(profile: &GpuProfile) -> bool {
    usize::from(profile.max_instances) < profile.placements.len()
}

fn instances(profile: &GpuProfile) -> String {
    format!("instances-{}", profile.id)
}
