//! From a part to the ResourceClaimTemplate that asks the stock scheduler for it.

use crate::claims::{Part, Share};
use crate::fleet::{Fleet, FleetProduct};
use crate::selector;
use crate::way::{Way, way};
use carve_formats::workloads::{Mechanism, MemoryAsk, Names};
use carve_gpu_model::{Mebibytes, ProfileName};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The most alternatives that the API server takes for one request.
const MOST_ALTERNATIVES: usize = 8;
/// What requests of ours are called.
const REQUEST: &str = "gpu";

/// A ResourceClaimTemplate that a pod needs in its namespace.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    /// Its name, which is a hash of what it says.
    pub name: String,
    /// The whole object. One of this name that says something else was made by somebody else, and must not be used.
    pub object: Value,
}

/// Why a part can not be asked for, and what to write instead.
pub(crate) type NoRequest = (String, String);

/// One way to serve a part.
#[derive(Debug, Clone, PartialEq)]
struct Alternative {
    class: &'static str,
    selectors: Vec<String>,
    memory: Option<Mebibytes>,
    compute: Option<u8>,
}

/// The template for a part, and what the user is to know.
pub(crate) fn template(
    part: &Part,
    namespace: &str,
    fleet: &Fleet,
) -> Result<(Template, Option<String>), NoRequest> {
    let (alternatives, warning) = alternatives(part, fleet)?;
    let spec = json!({"spec": {"devices": devices(part, &alternatives, fleet)}});
    let hash = Sha256::digest(spec.to_string());
    let hash: String = hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let name = format!("carve-{hash}");
    let object = json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": "carve"},
        },
        "spec": spec,
    });
    Ok((Template { name, object }, warning))
}

fn devices(part: &Part, alternatives: &[Alternative], fleet: &Fleet) -> Value {
    let body = |alternative: &Alternative| {
        let mut body = Map::new();
        let class = format!("{}.{}", alternative.class, fleet.domain());
        body.insert("deviceClassName".to_owned(), json!(class));
        if !alternative.selectors.is_empty() {
            let each = alternative.selectors.iter().map(|text| json!({"cel": {"expression": text}}));
            body.insert("selectors".to_owned(), each.collect());
        }
        if part.count > 1 {
            body.insert("count".to_owned(), json!(part.count));
        }
        let mut capacity = Map::new();
        if let Some(memory) = alternative.memory {
            capacity.insert("memory".to_owned(), json!(quantity(memory)));
        }
        if let Some(compute) = alternative.compute {
            capacity.insert("compute".to_owned(), json!(compute.to_string()));
        }
        if !capacity.is_empty() {
            body.insert("capacity".to_owned(), json!({"requests": capacity}));
        }
        body
    };
    let (request, names) = match alternatives {
        [only] => (json!({"name": REQUEST, "exactly": body(only)}), vec![REQUEST.to_owned()]),
        several => {
            let mut names = Vec::new();
            let each = several.iter().enumerate().map(|(index, alternative)| {
                let name = format!("alternative-{}", index + 1);
                let mut body = body(alternative);
                body.insert("name".to_owned(), json!(name));
                names.push(format!("{REQUEST}/{name}"));
                Value::Object(body)
            });
            let each: Vec<Value> = each.collect();
            (json!({"name": REQUEST, "firstAvailable": each}), names)
        }
    };
    let mut devices = json!({"requests": [request]});
    // Parts are of different GPUs. The API lets a device that several may hold be given to one claim twice; that the scheduler of 1.36
    // goes through the devices once for a request is its own affair.
    if part.count > 1 && matches!(part.share, Share::Part { .. } | Share::Turn) {
        let attribute = format!("{}/uuid", fleet.driver);
        devices["constraints"] = json!([{"requests": [REQUEST], "distinctAttribute": attribute}]);
    }
    let bursting = alternatives.iter().zip(names).filter(|(alternative, _)| {
        part.burst
            && alternative.class == "fraction"
            && alternative.compute.is_some_and(|compute| compute > 0)
    });
    let bursting: Vec<String> = bursting.map(|(_, name)| name).collect();
    if !bursting.is_empty() {
        devices["config"] = json!([{"requests": bursting, "opaque": {"driver": fleet.driver, "parameters": {
            "apiVersion": "carve.dev/v1alpha1", "kind": "FractionConfig", "compute": "Burst",
        }}}]);
    }
    devices
}

/// As the API server writes it.
fn quantity(memory: Mebibytes) -> String {
    if memory.0.is_multiple_of(1024) { format!("{}Gi", memory.0 / 1024) } else { format!("{}Mi", memory.0) }
}

fn alternatives(part: &Part, fleet: &Fleet) -> Result<(Vec<Alternative>, Option<String>), NoRequest> {
    let driver = &fleet.driver;
    let wishes: Vec<String> = [selector::models(driver, &part.models), selector::uuids(driver, &part.uuids)]
        .into_iter()
        .flatten()
        .collect();
    let plain =
        |class: &'static str| Alternative { class, selectors: wishes.clone(), memory: None, compute: None };
    let way = way(part).map_err(|(reason, example)| (reason.to_owned(), example.to_owned()))?;
    let mut alternatives = match &way {
        Way::Whole => vec![plain("gpu")],
        Way::Turn => vec![plain("timeslicing")],
        Way::Profile(profile) => vec![of_profile(plain("mig"), driver, profile)],
        Way::Fraction => parts(part, fleet, &plain("fraction"))?,
        Way::Mps => parts(part, fleet, &plain("mps"))?,
        Way::Mig { otherwise } => {
            let mut devices = mig(part, fleet, &plain("mig"));
            match otherwise {
                Some(Mechanism::Limiter) => devices.extend(parts(part, fleet, &plain("fraction"))?),
                Some(_) => devices.push(plain("gpu")),
                None if devices.is_empty() => return Err(no_mig(part, fleet)),
                None => {}
            }
            devices
        }
    };
    if alternatives.len() > MOST_ALTERNATIVES {
        return Err((
            format!(
                "{} kinds of GPU would each need an alternative of their own, and a claim may have {MOST_ALTERNATIVES}",
                alternatives.len()
            ),
            "name a model, such as nvidia.com/use-gputype: A100, or an amount, such as carve.dev/gpu-memory: 4096"
                .to_owned(),
        ));
    }
    alternatives.dedup();
    Ok((alternatives, doubt(part, fleet)))
}

fn of_profile(alternative: Alternative, driver: &str, profile: &ProfileName) -> Alternative {
    let selectors = alternative.selectors.into_iter().chain([selector::profile(driver, profile)]).collect();
    Alternative { selectors, ..alternative }
}

/// Memory and compute that a part names.
fn size(part: &Part) -> (Option<MemoryAsk>, Option<u8>) {
    match part.share {
        Share::Part { memory, compute } => (memory, compute),
        _ => (None, None),
    }
}

/// A part with a size. A percentage of memory is an amount of each product's: one alternative where all are equal.
fn parts(part: &Part, fleet: &Fleet, plain: &Alternative) -> Result<Vec<Alternative>, NoRequest> {
    let (memory, compute) = size(part);
    // Who leaves compute out would get all of it, and nobody could share the GPU; none of it is not limited.
    let compute = Some(compute.unwrap_or(if memory.is_some() { 0 } else { 100 }));
    let sized = |memory: Option<Mebibytes>| Alternative { memory, compute, ..plain.clone() };
    let share = match memory {
        None => return Ok(vec![sized(None)]),
        Some(MemoryAsk::Amount(amount)) => return Ok(vec![sized(Some(amount))]),
        Some(MemoryAsk::Share(share)) => share,
    };
    let mut amounts: BTreeMap<Mebibytes, Vec<&FleetProduct>> = BTreeMap::new();
    for product in fleet.allowed(&part.models) {
        amounts.entry(product.share(share)).or_default().push(product);
    }
    match amounts.len() {
        0 => Err(unknown(part, fleet, &format!("{share} of a GPU's memory"))),
        // Other products may come to the cluster later; this amount is then taken of them as well.
        1 => Ok(amounts.keys().map(|amount| sized(Some(*amount))).collect()),
        _ => Ok(amounts
            .iter()
            .map(|(amount, products)| {
                let mut one = sized(Some(*amount));
                let names = products.iter().map(|product| product.name.as_str());
                one.selectors.push(selector::products(&fleet.driver, names));
                one
            })
            .collect()),
    }
}

/// For every product the smallest device that holds the part; small ones first.
fn mig(part: &Part, fleet: &Fleet, plain: &Alternative) -> Vec<Alternative> {
    let (memory, compute) = size(part);
    let mut found: BTreeMap<(Mebibytes, ProfileName), Vec<&FleetProduct>> = BTreeMap::new();
    for product in fleet.allowed(&part.models) {
        let needed = match memory {
            Some(MemoryAsk::Amount(amount)) => amount,
            // MIG keeps a little of every device for itself: half of a GPU is the device with half of its slots.
            Some(MemoryAsk::Share(share)) => {
                let amount = product.share(share).0;
                Mebibytes(amount - amount / 32)
            }
            None => product.profiles.iter().map(|profile| profile.memory).max().unwrap_or_default(),
        };
        if let Some(profile) = product.smallest(needed, compute) {
            found.entry((profile.memory, profile.name.clone())).or_default().push(product);
        }
    }
    let of_one = |((_, profile), products): (&(Mebibytes, ProfileName), &Vec<&FleetProduct>)| {
        let mut one = of_profile(plain.clone(), &fleet.driver, profile);
        let names = products.iter().map(|product| product.name.as_str());
        one.selectors.push(selector::products(&fleet.driver, names));
        one
    };
    found.iter().map(of_one).collect()
}

fn no_mig(part: &Part, fleet: &Fleet) -> NoRequest {
    if fleet.allowed(&part.models).next().is_none() {
        return unknown(part, fleet, "the smallest MIG device that holds it");
    }
    let most = fleet.allowed(&part.models).flat_map(|product| &product.profiles);
    match most.max_by_key(|profile| profile.memory) {
        None => (
            "it names MIG, and no GPU of the cluster that it may have offers MIG devices".to_owned(),
            "leave the mechanism out, or write carve.dev/mechanism: limiter".to_owned(),
        ),
        Some(largest) => (
            "it names MIG, and no MIG device of the cluster is so large".to_owned(),
            format!("ask for {} or less: the largest is {}", largest.memory, largest.name),
        ),
    }
}

/// Something that depends on which GPUs there are, and none is known.
fn unknown(part: &Part, fleet: &Fleet, what: &str) -> NoRequest {
    let why = if fleet.products.is_empty() {
        "no GPU of the cluster is known yet".to_owned()
    } else {
        format!("no GPU of the cluster has the model that is named ({})", wanted(&part.models))
    };
    let known: Vec<&str> = fleet.products.iter().map(|product| product.name.as_str()).take(8).collect();
    let there = if known.is_empty() { String::new() } else { format!("; there are {}", known.join(", ")) };
    (
        format!("how much is {what}? {why}"),
        format!(
            "ask for an amount instead, such as carve.dev/gpu-memory: 4096 (MiB), or try again when a node with such a GPU is there{there}"
        ),
    )
}

fn wanted(models: &Names<String>) -> String {
    let unwanted = models.unwanted.iter().map(|name| format!("not {name}"));
    models.wanted.iter().cloned().chain(unwanted).collect::<Vec<_>>().join(", ")
}

/// What may keep the pod waiting, as far as it can be known.
fn doubt(part: &Part, fleet: &Fleet) -> Option<String> {
    if fleet.products.is_empty() {
        return None;
    }
    let Some(most) = fleet.most_memory(&part.models) else {
        return Some(format!(
            "no GPU of the cluster has the model that is named ({}); the pod waits until one comes",
            wanted(&part.models)
        ));
    };
    let profile = |product: &FleetProduct, wanted: &ProfileName| {
        product.profiles.iter().any(|offered| offered.name == *wanted)
    };
    match &part.share {
        Share::Part { memory: Some(MemoryAsk::Amount(amount)), .. } if *amount > most => Some(format!(
            "{amount} is more than any GPU of the cluster has that it may use ({most}); the pod waits until one comes"
        )),
        Share::Mig(wanted) if !fleet.allowed(&part.models).any(|product| profile(product, wanted)) => {
            Some(format!("no GPU of the cluster offers MIG devices {wanted}; the pod waits until one does"))
        }
        _ => None,
    }
}
