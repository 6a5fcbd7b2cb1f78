//! What would bring a workload into the next smaller part: changes of the program, with the arithmetic as far as facts are declared.

use crate::advice::Remedy;
use crate::class::Class;
use crate::input::{Settings, Workload};
use crate::rules::{Fit, Ruled, usable};
use carve_gpu_model::{Mebibytes, Product};

/// Remedies for a workload that was watched, on GPUs of a product. None where it serves no model as far as is known.
pub(crate) fn remedies(
    workload: &Workload,
    ruled: &Ruled,
    fit: &Fit,
    product: Option<&Product>,
    settings: &Settings,
) -> Vec<Remedy> {
    let model = &workload.model;
    let declared = model.parameters.is_some() || model.dtype.is_some() || model.transformer.is_some();
    if !declared && workload.class != Some(Class::Inference) {
        return Vec::new();
    }
    let watched = ruled.observed.as_ref().filter(|observed| observed.missing(workload, settings).is_none());
    let (Some(observed), Some(product)) = (watched, product) else { return Vec::new() };
    let Some(total) = product.memory().map(|fact| fact.value) else { return Vec::new() };
    let Some(needed) = observed.memory_needed(settings) else { return Vec::new() };
    if workload.whole_gpus.is_some_and(|gpus| gpus != 1) {
        return Vec::new();
    }
    let together = usable(total).0 / needed.0.max(1);
    let by_load = 1000 / u64::from(observed.p95.share());
    if by_load <= together && together > 0 {
        // It is for models that make one token after the other, and only the workload can say that its is one.
        return match model.transformer {
            Some(true) => vec![speculative(workload, by_load)],
            _ => Vec::new(),
        };
    }
    let Some(target) = smaller(fit, needed, product, total) else { return Vec::new() };
    let less = Mebibytes(needed.0.saturating_sub(target.0));
    let goal = format!("{needed} have to become {target} for the next smaller part, {less} less");
    let mut remedies = vec![precision(workload, less, &goal)];
    if model.transformer != Some(false) {
        remedies.push(Remedy {
            name: "flash attention or attention slicing".to_owned(),
            words: format!(
                "{goal}; scores of attention take batch × heads × length² × bytes of a number, of which flash attention keeps none and slicing one slice: \
                 enough where that product is at least {less} (unknown here: batch, heads, length)"
            ),
            enough: None,
        });
    }
    remedies.push(distillation(workload, less, &goal));
    remedies
}

/// Memory of the next smaller part, if there is one.
fn smaller(fit: &Fit, needed: Mebibytes, product: &Product, total: Mebibytes) -> Option<Mebibytes> {
    match fit {
        Fit::Pinned => None,
        Fit::Whole { .. } | Fit::Shared { .. } => {
            let together = (usable(total).0 / needed.0.max(1)).max(1);
            Some(Mebibytes(usable(total).0 / (together + 1)))
        }
        Fit::Mig { memory, .. } => {
            let table = product.profile_table()?;
            let held = table.profiles().iter().filter_map(|profile| Some(profile.memory?.value));
            held.filter(|held| held < memory && *held < needed).max()
        }
    }
}

fn mebibytes(bits: u128) -> Mebibytes {
    Mebibytes(u64::try_from(bits / 8 / (1 << 20)).unwrap_or(u64::MAX))
}

fn precision(workload: &Workload, less: Mebibytes, goal: &str) -> Remedy {
    let model = &workload.model;
    let name = "half precision";
    match (model.parameters, model.dtype) {
        (Some(parameters), Some(dtype)) => {
            let (name, kept) = if dtype.bits() > 16 { (name, 16) } else { ("quantisation to 8 bits", 8) };
            let saved = mebibytes(u128::from(parameters) * u128::from(dtype.bits().saturating_sub(kept)));
            let words = format!(
                "{goal}; {parameters} parameters × ({} - {kept}) bits = {saved} less{}",
                dtype.bits(),
                if saved >= less { ", which is enough" } else { ", which is not enough by itself" }
            );
            Remedy { name: name.to_owned(), words, enough: Some(saved >= less) }
        }
        _ => {
            let missing: Vec<&str> = [
                model.parameters.is_none().then_some("carve.dev/model-parameters"),
                model.dtype.is_none().then_some("carve.dev/model-dtype"),
            ]
            .into_iter()
            .flatten()
            .collect();
            let parameters = u128::from(less.0) * (1 << 20) / 2 / 1_000_000;
            let words = format!(
                "{goal}; parameters × 2 bytes less where they are kept in fp32: enough from {parameters} million parameters on (unknown here: {})",
                missing.join(", ")
            );
            Remedy { name: name.to_owned(), words, enough: None }
        }
    }
}

fn distillation(workload: &Workload, less: Mebibytes, goal: &str) -> Remedy {
    let name = "distillation".to_owned();
    let facts = workload.model.parameters.zip(workload.model.dtype);
    let Some((parameters, dtype)) = facts else {
        let words = format!(
            "{goal}; a student with that much less in its parameters × bytes of a number would do (unknown here: parameters and numbers of the model)"
        );
        return Remedy { name, words, enough: None };
    };
    let gone = u64::try_from(u128::from(less.0) * (8 << 20) / u128::from(dtype.bits())).unwrap_or(u64::MAX);
    match parameters.checked_sub(gone).filter(|left| *left > 0) {
        Some(student) => Remedy {
            name,
            words: format!("{goal}; a student of at most {student} parameters in {} would do", dtype.word()),
            enough: Some(true),
        },
        None => Remedy {
            name,
            words: format!(
                "{goal}, which is more than all {parameters} parameters take: no student is small enough"
            ),
            enough: Some(false),
        },
    }
}

fn speculative(workload: &Workload, by_load: u64) -> Remedy {
    let draft = match workload.model.dtype {
        Some(dtype) => format!("parameters of the draft × {} bits", dtype.bits()),
        None => "parameters of the draft × bytes of a number".to_owned(),
    };
    Remedy {
        name: "speculative decoding".to_owned(),
        words: format!(
            "use, not memory, decides here: {by_load} of it would load a GPU fully. A draft model that has several tokens checked in one pass makes the same \
             answers take less time; it adds {draft} of memory (unknown here: the draft, and how many of its tokens are right)"
        ),
        enough: None,
    }
}

#[cfg(test)]
mod tests {
    use super::mebibytes;

    #[test]
    fn seven_billion_parameters_in_half_precision_are_thirteen_gibibytes_less() {
        assert_eq!(mebibytes(7_000_000_000 * 16).0, 13_351);
    }
}
