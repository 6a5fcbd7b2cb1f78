//! Which ways of having less of a GPU a workload may be offered, which it may not, and the rule that says so.

use crate::advice::{Basis, Reason};
use crate::input::{Evidence, Node, Settings, Workload};
use crate::observed::{Observed, observed};
use crate::studied;
use carve_economics::{Parts, dominant};
use carve_gpu_model::{Isolation, Mebibytes, Mechanism, Product, ProfileName, ProfileTable, Sharing};
use carve_planner::{Hardware, Needs, Size, Way, choose};
use std::collections::BTreeMap;

/// What each pod of a workload gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fit {
    /// What it has, where it is.
    Pinned,
    /// Whole GPUs.
    Whole { gpus: u8 },
    /// A MIG device.
    Mig { profile: ProfileName, memory: Mebibytes },
    /// A share: thousandths of compute, memory, and how many such shares a GPU has at most.
    Shared { sharing: Sharing, compute: u16, memory: Mebibytes, most: u32 },
}

/// A way that is allowed.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    pub(crate) mechanism: Mechanism,
    pub(crate) fit: Fit,
    /// How much of a GPU nobody else can have, in millionths.
    pub(crate) weight: u32,
    pub(crate) because: String,
}

/// What the rules say of a workload.
#[derive(Debug, Clone)]
pub(crate) struct Ruled {
    pub(crate) observed: Option<Observed>,
    pub(crate) basis: Basis,
    /// Ways to have less than now, lightest first; empty where it keeps what it has.
    pub(crate) ways: Vec<Offer>,
    /// Why it keeps what it has, where it does.
    pub(crate) keeps: Option<Reason>,
    /// Ways that a rule forbids.
    pub(crate) refused: Vec<Reason>,
    /// What it has now.
    pub(crate) now: Fit,
}

/// GPU clients that one MPS daemon serves at once, since Volta.
pub(crate) const MPS_CLIENTS: u32 = 48;
/// The most of a GPU, in thousandths, that pods may load together where they take turns and somebody waits for answers.
pub(crate) const LIGHT_LOAD: u32 = 500;

/// What pods can have of a GPU's memory: drivers keep a part for themselves.
pub(crate) fn usable(memory: Mebibytes) -> Mebibytes {
    Mebibytes(memory.0.saturating_sub((memory.0 / 128).max(1024)))
}

fn reason(rule: &str, words: impl Into<String>) -> Reason {
    Reason { rule: rule.to_owned(), words: words.into() }
}

/// The GPUs that a workload runs on, where they are of one product.
pub(crate) fn product_of(
    workload: &Workload,
    nodes: &BTreeMap<&str, &Node>,
) -> Result<&'static Product, Reason> {
    let mut found: Option<&'static Product> = None;
    for replica in &workload.replicas {
        let product = nodes.get(replica.node.as_str()).and_then(|node| node.product);
        let Some(product) = product else {
            return Err(reason(
                "unknown-gpu",
                format!(
                    "carve does not know the GPUs of {}, so nothing is said of parts of them",
                    replica.node
                ),
            ));
        };
        match found {
            Some(known) if known.key != product.key => {
                return Err(reason(
                    "several-products",
                    format!(
                        "its pods run on {} and {}, and one pod template asks for one size; tie it to one product by the node label nvidia.com/gpu.product",
                        known.name(),
                        product.name()
                    ),
                ));
            }
            _ => found = Some(product),
        }
    }
    found.ok_or_else(|| reason("nothing-runs", "none of its pods has a node"))
}

/// Applies the rules to a workload.
pub(crate) fn rule(workload: &Workload, nodes: &BTreeMap<&str, &Node>, settings: &Settings) -> Ruled {
    let now = match workload.whole_gpus {
        Some(gpus) => Fit::Whole { gpus },
        None => Fit::Pinned,
    };
    let product = product_of(workload, nodes);
    let memory = product.as_ref().ok().and_then(|product| product.memory()).map(|fact| fact.value);
    let mut ruled = Ruled {
        observed: observed(workload, memory),
        basis: Basis::Observed,
        ways: Vec::new(),
        keeps: None,
        refused: Vec::new(),
        now,
    };
    let product = match product {
        Ok(product) => product,
        Err(why) => return Ruled { keeps: Some(why), now: stays(workload, nodes), ..ruled },
    };
    match sized(workload, product, &ruled, settings) {
        Ok((observed, memory, total)) => {
            let table = product.profile_table();
            let gpu = Gpu { product, table: table.as_ref(), total, settings };
            ways(workload, &observed, memory, &gpu, &mut ruled);
        }
        Err((basis, why)) => {
            ruled.basis = basis;
            ruled.keeps = Some(why);
        }
    }
    ruled
}

/// A workload on unknown GPUs is not moved; one on several products is, each pod to its own product.
fn stays(workload: &Workload, nodes: &BTreeMap<&str, &Node>) -> Fit {
    let known = |node: &str| nodes.get(node).is_some_and(|node| node.product.is_some());
    match workload.whole_gpus {
        Some(gpus) if workload.replicas.iter().all(|replica| known(&replica.node)) => Fit::Whole { gpus },
        _ => Fit::Pinned,
    }
}

/// What was seen, the memory it needs and the memory of the GPU; or why no size can be told.
fn sized(
    workload: &Workload,
    product: &Product,
    ruled: &Ruled,
    settings: &Settings,
) -> Result<(Observed, Mebibytes, Mebibytes), (Basis, Reason)> {
    let Some(observed) = ruled.observed.clone() else {
        return Err(match workload.class {
            Some(class) => {
                let (mechanism, why) = class.default_advice();
                let words = format!(
                    "nothing was seen of it; for {} {mechanism} usually suits: {why}. It is not counted in the saving before it was measured",
                    class.word()
                );
                (Basis::ClassDefault, reason("class-default", words))
            }
            None => (
                Basis::Nothing,
                reason(
                    "unobserved",
                    "nothing was seen of it; give --metrics or --prometheus, or say what it is with the label carve.dev/class",
                ),
            ),
        });
    };
    let keep = |rule, words: String| Err((Basis::Observed, reason(rule, words)));
    if let Some(missing) = observed.missing(workload, settings) {
        return Err((Basis::Nothing, reason("watched-too-short", missing)));
    }
    if workload.whole_gpus.is_none() && !matches!(observed.evidence, Some(Evidence::Own(_))) {
        return keep(
            "has-a-part",
            "it has a part already, and DCGM's figures are of the whole GPU or MIG device; carve's own series (carve_container_*) would tell what it uses".to_owned(),
        );
    }
    if let Some(gpus) = workload.whole_gpus.filter(|gpus| *gpus != 1) {
        return keep(
            "several-gpus",
            format!("each pod has {gpus} GPUs, and work that spans GPUs is not divided"),
        );
    }
    let needed = observed.memory_needed(settings);
    let total = product.memory().map(|fact| fact.value);
    match (needed, total) {
        (Some(needed), Some(total)) if needed <= usable(total) => Ok((observed, needed, total)),
        (Some(needed), Some(total)) => keep(
            "memory",
            format!(
                "it needs {needed} with margin, and a {} has {total}: no smaller part holds that",
                product.name()
            ),
        ),
        _ => keep("unknown-gpu", format!("the memory of {} is not known", product.name())),
    }
}

struct Gpu<'a> {
    product: &'a Product,
    table: Option<&'a ProfileTable>,
    total: Mebibytes,
    settings: &'a Settings,
}

/// Tries every mechanism; what planning forbids is forbidden here, and some more.
fn ways(workload: &Workload, observed: &Observed, memory: Mebibytes, gpu: &Gpu<'_>, ruled: &mut Ruled) {
    let compute = observed.p95.share();
    for mechanism in [Mechanism::Mig, Mechanism::Mps, Mechanism::Limiter, Mechanism::TimeSlicing] {
        if workload.named.is_some_and(|named| named != mechanism) {
            continue;
        }
        if let Some(why) = forbidden(workload, mechanism) {
            ruled.refused.push(why);
            continue;
        }
        let studied = gpu.settings.study.as_ref().and_then(|study| {
            studied::says(study, gpu.product, studied::like(workload, observed), mechanism)
        });
        match way(workload, mechanism, compute, memory, gpu) {
            // Who names a mechanism gets it, whatever others measured.
            Ok(Some(way)) => match studied {
                Some(says) if !says.fits && workload.named.is_none() => {
                    ruled.refused.push(reason("study", format!("{mechanism}: {}", says.words)));
                }
                Some(says) => {
                    let because = format!("{}; {}", way.because, says.words);
                    ruled.ways.push(Offer { because, ..way });
                }
                None => ruled.ways.push(way),
            },
            Ok(None) => {}
            Err(because) => {
                let rule = if workload.isolation == Isolation::Tenant { "tenants" } else { "mechanism" };
                ruled.refused.push(reason(rule, format!("{mechanism}: {because}")));
            }
        }
    }
    ruled.ways.sort_by_key(|way| way.weight);
    if ruled.ways.is_empty() {
        let why = ruled.refused.first().map_or("nothing smaller is offered", |first| first.words.as_str());
        ruled.keeps = Some(reason("whole", format!("only a whole GPU serves it: {why}")));
    }
}

fn forbidden(workload: &Workload, mechanism: Mechanism) -> Option<Reason> {
    if workload.class.is_some_and(crate::Class::is_graphics) && mechanism != Mechanism::TimeSlicing {
        let why = match mechanism {
            Mechanism::Limiter => "the limiter holds what goes through CUDA, and what draws does not",
            Mechanism::Mps => "MPS serves CUDA alone, and what draws goes another way",
            _ => {
                "MIG devices are for compute; drawing needs profiles with graphics, which most GPUs do not have"
            }
        };
        return Some(reason("graphics", format!("{mechanism}: {why}")));
    }
    (mechanism == Mechanism::TimeSlicing && workload.isolation == Isolation::Performance).then(|| {
        reason("load", "time-slicing: others' load must not reach it, and every turn of another is a wait")
    })
}

/// What a mechanism gives, nothing where it is not offered, or why it can not.
fn way(
    workload: &Workload,
    mechanism: Mechanism,
    compute: u16,
    memory: Mebibytes,
    gpu: &Gpu<'_>,
) -> Result<Option<Offer>, String> {
    if !gpu.settings.mechanisms.contains(mechanism) {
        return Ok(None);
    }
    let hardware = Hardware {
        name: gpu.product.name(),
        memory: gpu.total,
        compute_capability: gpu.product.compute_capability,
        table: gpu.table,
        mechanisms: gpu.settings.mechanisms,
    };
    let size = match mechanism {
        // Turns have no size of their own; how many fit is reckoned with all that take turns.
        Mechanism::TimeSlicing => Size::Share,
        _ => Size::Part { memory: Some(memory), compute: Some(compute) },
    };
    let needs = Needs { size, isolation: workload.isolation, named: Some(mechanism) };
    let choice = choose(&needs, &hardware).map_err(|none| none.because)?;
    let parts = |some: u64, all: u64| Parts::of(some, all);
    let by_memory = parts(memory.0, usable(gpu.total).0);
    let (fit, weight) = match choice.way {
        Way::Mig(profile) => {
            let (slices, table_slices, held) = gpu
                .table
                .and_then(|table| {
                    let (_, known) = table.by_name(&profile).ok()?;
                    Some((known.slices, table.compute_slices(), known.memory?.value))
                })
                .ok_or("the size of its MIG devices is not known")?;
            if slices >= table_slices {
                return Err("the only MIG device that holds it is the whole GPU".to_owned());
            }
            let compute = parts(u64::from(slices), u64::from(table_slices));
            (Fit::Mig { profile, memory: held }, dominant(parts(held.0, gpu.total.0), compute))
        }
        Way::Shared(sharing) if sharing.mechanism() == mechanism => {
            let most = match sharing {
                Sharing::Mps => MPS_CLIENTS,
                Sharing::Limiter | Sharing::TimeSlicing => u32::MAX,
            };
            let weight = dominant(by_memory, parts(u64::from(compute), 1000));
            (Fit::Shared { sharing, compute, memory, most }, weight)
        }
        other => return Err(format!("it would be served by {other}")),
    };
    let because = match workload.named {
        Some(_) => choice.because,
        None => why(mechanism, &fit),
    };
    Ok(Some(Offer { mechanism, fit, weight: weight.0, because }))
}

/// What speaks for a mechanism that nobody named.
fn why(mechanism: Mechanism, fit: &Fit) -> String {
    match (mechanism, fit) {
        (_, Fit::Mig { profile, .. }) => format!(
            "{profile} is the smallest MIG device that holds it, and MIG keeps neighbours apart in hardware, whoever they are"
        ),
        (Mechanism::Mps, _) => {
            "MPS runs its clients side by side, and the driver holds each to its size".to_owned()
        }
        (Mechanism::Limiter, _) => {
            "the limiter holds each container to its size, and every one keeps a context of its own"
                .to_owned()
        }
        _ => "taking turns needs nothing but replicas of the GPU".to_owned(),
    }
}

/// How many pods of which the largest is as large as this may take turns on a GPU.
pub(crate) fn turns(compute: u16, memory: Mebibytes, total: Mebibytes, sensitive: bool) -> u32 {
    let load = if sensitive { LIGHT_LOAD } else { 1000 };
    let by_load = load / u32::from(compute.max(1));
    let by_memory = u32::try_from(usable(total).0 / memory.0.max(1)).unwrap_or(u32::MAX);
    by_load.min(by_memory)
}

#[cfg(test)]
mod tests {
    use super::{turns, usable};
    use carve_gpu_model::Mebibytes;

    #[test]
    fn turns_end_where_load_or_memory_does() {
        let t4 = Mebibytes(15_360);
        assert_eq!(usable(t4), Mebibytes(14_336));
        assert_eq!(turns(100, Mebibytes(1000), t4, false), 10);
        assert_eq!(turns(100, Mebibytes(1000), t4, true), 5, "somebody waits for answers");
        assert_eq!(turns(100, Mebibytes(7000), t4, false), 2, "their peaks must fit together");
        assert_eq!(turns(600, Mebibytes(1), t4, false), 1);
    }
}
