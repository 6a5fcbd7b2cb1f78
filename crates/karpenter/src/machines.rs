//! Which machines a pool may have: models as they are written, products of carve, types of the cloud.

use crate::promise::{Promise, predicted};
use crate::{ChosenBy, Pool, Refusal};
use carve_economics::{CATALOGUE, InstanceType, Provider};
use carve_gpu_model::Product;
use std::collections::BTreeSet;

/// A model of a pool.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    /// As the operator wrote it.
    pub(crate) written: String,
    /// As Karpenter's label has it.
    pub(crate) label: String,
    /// What it may be; never empty.
    products: Vec<&'static Product>,
    /// Whether the label also names products that are not meant.
    pub(crate) narrowed: bool,
}

/// Machines of a pool that are alike.
#[derive(Debug, Clone)]
pub(crate) struct Machines {
    pub(crate) model: Model,
    /// GPUs of each.
    pub(crate) gpus: u8,
    /// What the cloud calls them, as far as is known.
    pub(crate) types: Vec<&'static str>,
    /// What a node of them advertises.
    pub(crate) promise: Promise,
}

/// What Karpenter's label says of a product. AWS' name of a GPU in small letters is what the key of a product begins with, but for one.
fn label(product: &Product) -> &'static str {
    match product.key {
        "rtx-pro-6000-96gb" => "rtx-pro-server-6000",
        key => key.split('-').next().unwrap_or(key),
    }
}

fn listed(provider: Provider) -> impl Iterator<Item = (&'static InstanceType, &'static Product)> {
    let mine = CATALOGUE.iter().filter(move |machine| machine.provider == provider && machine.gpus > 0);
    mine.filter_map(|machine| Some((machine, machine.gpu()?)))
}

/// The products that a model may be.
fn model(written: &str, provider: Provider) -> Result<Model, Refusal> {
    let distinct = |meant: &dyn Fn(&Product) -> bool| {
        let mut products: Vec<&'static Product> = Vec::new();
        for (_, product) in listed(provider).filter(|(_, product)| meant(product)) {
            if !products.iter().any(|known| known.key == product.key) {
                products.push(product);
            }
        }
        products
    };
    let by_label = distinct(&|product| label(product) == written);
    if !by_label.is_empty() {
        let label = written.to_owned();
        return Ok(Model { written: written.to_owned(), label, products: by_label, narrowed: false });
    }
    if let Some(product) = distinct(&|product| product.key == written).first().copied() {
        let label = label(product).to_owned();
        let narrowed = distinct(&|other| self::label(other) == label).len() > 1;
        return Ok(Model { written: written.to_owned(), label, products: vec![product], narrowed });
    }
    let labels: BTreeSet<&str> = distinct(&|_| true).into_iter().map(self::label).collect();
    let known: Vec<&str> = labels.into_iter().collect();
    let reason = format!("'{written}' is no GPU of {} that carve knows", provider.price_list().provider);
    Err(Refusal::new("models", reason, format!("write one of {}", known.join(", "))))
}

/// All machines of a pool, by model and number of GPUs.
pub(crate) fn machines(pool: &Pool) -> Result<Vec<Machines>, Refusal> {
    let provider = pool.chosen_by.provider();
    let counts: BTreeSet<u8> = pool.counts.iter().copied().collect();
    let mut models: Vec<Model> = Vec::new();
    for written in &pool.models {
        let model = model(written, provider)?;
        if let Some(twice) = models.iter().find(|known| shares_products(known, &model)) {
            let reason = format!("'{}' and '{}' name the same GPUs", twice.written, model.written);
            return Err(Refusal::new("models", reason, "leave one of them out"));
        }
        models.push(model);
    }
    models.sort_by(|a, b| a.written.cmp(&b.written));
    let mut all = Vec::new();
    for model in models {
        let before = all.len();
        for gpus in &counts {
            all.extend(alike(pool, &model, *gpus)?);
        }
        check_sold(&model, provider, &all[before..], &counts)?;
    }
    Ok(all)
}

fn shares_products(one: &Model, other: &Model) -> bool {
    one.products.iter().any(|product| other.products.iter().any(|same| same.key == product.key))
}

/// The machines with so many GPUs of a model, if such machines can be spoken of.
fn alike(pool: &Pool, model: &Model, gpus: u8) -> Result<Option<Machines>, Refusal> {
    let provider = pool.chosen_by.provider();
    let meant = |product: &Product| model.products.iter().any(|known| known.key == product.key);
    let sold: Vec<(&InstanceType, &Product)> =
        listed(provider).filter(|(machine, product)| machine.gpus == gpus && meant(product)).collect();
    let products: Vec<&Product> = if sold.is_empty() {
        model.products.to_vec()
    } else {
        sold.iter().map(|(_, product)| *product).collect()
    };
    let mut promises = products.iter().map(|product| predicted(product, gpus, &pool.cut));
    let Some(promise) = promises.next().transpose()? else { return Ok(None) };
    let same = promises.all(|other| other.is_ok_and(|other| other == promise));
    let by_type = matches!(pool.chosen_by, ChosenBy::InstanceTypes(_)) || model.narrowed;
    match (sold.is_empty(), same) {
        // No such machine is known, and what would come of one is not clear, or could not be said by types.
        (true, false) => return Ok(None),
        (true, true) if by_type => return Ok(None),
        (false, false) => {
            let keys: BTreeSet<&str> = products.iter().map(|product| product.key).collect();
            let keys: Vec<&str> = keys.into_iter().collect();
            let reason = format!(
                "'{}' with {gpus} GPUs is {}, which are not cut alike",
                model.written,
                keys.join(" or ")
            );
            return Err(Refusal::new("models", reason, format!("write one of {}", keys.join(", "))));
        }
        _ => {}
    }
    let types = sold.iter().map(|(machine, _)| machine.name).collect();
    Ok(Some(Machines { model: model.clone(), gpus, types, promise }))
}

/// A model of which no machine is sold in any of the sizes would never come.
fn check_sold(
    model: &Model,
    provider: Provider,
    found: &[Machines],
    counts: &BTreeSet<u8>,
) -> Result<(), Refusal> {
    if found.iter().any(|machines| !machines.types.is_empty()) {
        return Ok(());
    }
    let sold: BTreeSet<u8> = listed(provider)
        .filter(|(_, product)| model.products.iter().any(|known| known.key == product.key))
        .map(|(machine, _)| machine.gpus)
        .collect();
    let list = |numbers: &BTreeSet<u8>| numbers.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
    let reason = format!(
        "{} lists no machine with '{}' and {} GPUs",
        provider.price_list().provider,
        model.written,
        list(counts)
    );
    Err(Refusal::new("counts", reason, format!("it lists such with {}", list(&sold))))
}
