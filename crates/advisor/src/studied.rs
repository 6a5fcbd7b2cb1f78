//! What a study of the same card measured of a mechanism, for work like a workload's.

use crate::input::Workload;
use crate::observed::Observed;
use crate::rules::LIGHT_LOAD;
use carve_gpu_model::{Mechanism, Product};
use carve_study::{Class, Evidence, Study, evidence};

/// What a study says of a mechanism for a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Says {
    /// Whether it does with any number of tenants that was measured.
    pub(crate) fits: bool,
    /// By which figures.
    pub(crate) words: String,
}

/// The kind of work of the study that is most like a workload: by whether somebody waits for answers, and by how much it uses.
pub(crate) fn like(workload: &Workload, observed: &Observed) -> Class {
    let waits =
        workload.latency_sensitive.unwrap_or_else(|| workload.class.is_some_and(crate::Class::is_sensitive));
    let light = u32::from(observed.p95.share()) < LIGHT_LOAD;
    match (waits, light) {
        (true, true) => Class::LightInference,
        (true, false) => Class::HeavyInference,
        (false, true) => Class::SmallBatch,
        (false, false) => Class::Intensive,
    }
}

/// What a study says of a mechanism; nothing where it is of another card, or has no figures.
pub(crate) fn says(study: &Study, product: &Product, class: Class, mechanism: Mechanism) -> Option<Says> {
    let same = Product::by_name(&study.card.name).is_some_and(|studied| studied.key == product.key);
    if !same {
        return None;
    }
    let of_mechanism: Vec<Evidence> = evidence(study, class.workload())
        .into_iter()
        .filter(|one| one.tenants > 1 && one.strategy.mechanism() == Some(mechanism))
        .collect();
    let by_gain = |one: &&Evidence, other: &&Evidence| one.gain.median.total_cmp(&other.gain.median);
    let fitting = of_mechanism.iter().filter(|one| one.is_candidate()).max_by(by_gain);
    let told = fitting.or_else(|| of_mechanism.iter().max_by(by_gain))?;
    let how = if study.card.simulated { "in a simulated study" } else { "measured" };
    let day = study.begun.get(..10).unwrap_or(&study.begun);
    let words = format!("{how} with {} on this card ({day}): {told}", class.title());
    Some(Says { fits: fitting.is_some(), words })
}
