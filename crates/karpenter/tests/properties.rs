//! What holds for every pool.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

mod pools;

use carve_economics::{InstanceType, Provider};
use carve_gpu_model::Geometry;
use carve_gpu_model::products::CATALOGUE;
use carve_karpenter::{
    ChosenBy, Compiled, Cut, MigCut, Pool, WeightBand, compile, compile_all, node_groups, predicted,
};
use pools::{aws, fits, labels, pool};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const MODELS: &[&str] = &[
    "t4",
    "a10g",
    "l4",
    "l40s",
    "v100",
    "v100-sxm2-16gb",
    "a100",
    "a100-40gb",
    "a100-80gb",
    "h100",
    "h200",
    "b200",
    "b300",
    "rtx-pro-server-6000",
    "m60",
];

fn cuts() -> impl Strategy<Value = Cut> {
    let profiles: BTreeSet<_> = CATALOGUE
        .iter()
        .filter_map(|product| product.profile_table())
        .flat_map(|table| table.profiles().iter().map(|profile| profile.name.clone()).collect::<Vec<_>>())
        .collect();
    let profiles: Vec<_> = profiles.into_iter().collect();
    let counted = (proptest::sample::select(profiles.clone()), 1..8u32);
    let mixed = proptest::collection::vec(counted, 1..4)
        .prop_map(|pairs| Cut::Mig(MigCut::Mixed(pairs.into_iter().collect::<Geometry>())));
    prop_oneof![
        (0..9000u32, any::<bool>()).prop_map(|(replicas, renamed)| Cut::Shared { replicas, renamed }),
        (2..9u32, any::<bool>()).prop_map(|(replicas, renamed)| Cut::Shared { replicas, renamed }),
        proptest::sample::select(profiles).prop_map(|profile| Cut::Mig(MigCut::All(profile))),
        mixed,
        Just(Cut::Parts),
    ]
}

fn pools() -> impl Strategy<Value = Pool> {
    let models = proptest::sample::subsequence(MODELS, 1..4);
    let counts = proptest::sample::subsequence(vec![1u8, 2, 4, 8, 16], 1..4);
    let chosen = prop_oneof![
        Just(ChosenBy::AwsLabels),
        Just(ChosenBy::InstanceTypes(Provider::Aws)),
        Just(ChosenBy::InstanceTypes(Provider::Gcp)),
    ];
    (models, counts, cuts(), chosen, 1..9000u16).prop_map(|(models, counts, cut, chosen_by, first)| Pool {
        chosen_by,
        weights: WeightBand { first, last: first + 40 },
        ..pool(&models, &counts, cut)
    })
}

/// What an overlay says of capacity, as numbers.
fn capacity(overlay: &carve_karpenter::Overlay) -> BTreeMap<String, u64> {
    let written = overlay.document["spec"]["capacity"].as_object().expect("capacity");
    let amount =
        |text: &serde_json::Value| text.as_str().and_then(|text| text.parse().ok()).expect("a number");
    written.iter().map(|(name, text)| (name.clone(), amount(text))).collect()
}

fn matching<'a>(
    compiled: &'a [Compiled],
    machine: &InstanceType,
    pool: &str,
) -> Vec<&'a carve_karpenter::Overlay> {
    let labels = labels(machine, pool);
    let all = compiled.iter().flat_map(|compiled| &compiled.overlays);
    all.filter(|overlay| fits(&overlay.document["spec"]["requirements"], &labels)).collect()
}

fn check(pool: &Pool, compiled: &[Compiled], own: &Compiled) {
    for machine in aws().filter(|_| pool.chosen_by.eq(&ChosenBy::AwsLabels)) {
        let labels = labels(machine, &pool.name);
        let allowed = fits(&own.node_pool["spec"]["template"]["spec"]["requirements"], &labels);
        let overlays = matching(compiled, machine, &pool.name);
        assert!(overlays.len() <= 1, "{}: {overlays:?}", machine.name);
        // A machine that the pool may have, and of which nothing is said, would be counted as whole GPUs.
        if allowed {
            let [overlay] = overlays.as_slice() else { panic!("nothing is said of {}", machine.name) };
            let product = machine.gpu().expect("a product");
            let promise = predicted(product, machine.gpus, &pool.cut).expect("a promise");
            assert_eq!(promise, overlay.promise, "{}", machine.name);
            assert_eq!(capacity(overlay), promise.capacity(), "{}", machine.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn overlays_say_what_is_predicted_once(pool in pools()) {
        match compile(&pool) {
            Err(refusal) => {
                prop_assert!(!refusal.field.is_empty() && !refusal.reason.is_empty() && !refusal.remedy.is_empty());
                prop_assert_eq!(compile(&pool), Err(refusal));
            }
            Ok(compiled) => {
                prop_assert!(!compiled.overlays.is_empty());
                let names: BTreeSet<&str> = compiled.overlays.iter().map(|overlay| overlay.name.as_str()).collect();
                let weights: BTreeSet<u16> = compiled.overlays.iter().map(|overlay| overlay.weight).collect();
                prop_assert_eq!(names.len(), compiled.overlays.len());
                prop_assert_eq!(weights.len(), compiled.overlays.len());
                for overlay in &compiled.overlays {
                    prop_assert!((pool.weights.first..=pool.weights.last).contains(&overlay.weight));
                    let promised = overlay.promise.capacity();
                    prop_assert_eq!(&capacity(overlay), &promised);
                    prop_assert!(promised.contains_key("nvidia.com/gpu"));
                    prop_assert!(overlay.promise.resources().values().all(|amount| *amount > 0));
                    prop_assert_eq!(overlay.promise.broken_by(overlay.promise.resources()), []);
                    for resource in overlay.promise.resources().keys() {
                        let mut less = overlay.promise.resources().clone();
                        less.entry(resource.clone()).and_modify(|amount| *amount -= 1);
                        prop_assert_eq!(overlay.promise.broken_by(&less).len(), 1);
                    }
                }
                let groups = node_groups(&pool).expect("groups of a pool that is taken");
                prop_assert_eq!(groups.len(), compiled.overlays.len());
                for (group, overlay) in groups.iter().zip(&compiled.overlays) {
                    prop_assert_eq!(&group.promise, &overlay.promise);
                    // What AWS takes.
                    prop_assert!(group.tags.iter().all(|(key, value)| key.len() <= 128 && value.len() <= 256));
                    prop_assert!(group.tags.len() <= 50);
                }
                check(&pool, std::slice::from_ref(&compiled), &compiled);
            }
        }
    }

    #[test]
    fn pools_of_one_cluster_keep_apart(first in pools(), second in pools()) {
        let second = Pool { name: "another".to_owned(), ..second };
        if let Ok(both) = compile_all(&[first.clone(), second.clone()]) {
            check(&first, &both, &both[0]);
            check(&second, &both, &both[1]);
            let all: Vec<_> = both.iter().flat_map(|compiled| &compiled.overlays).collect();
            let names: BTreeSet<&str> = all.iter().map(|overlay| overlay.name.as_str()).collect();
            let weights: BTreeSet<u16> = all.iter().map(|overlay| overlay.weight).collect();
            prop_assert_eq!((names.len(), weights.len()), (all.len(), all.len()));
        }
    }
}

/// The label must hold every cut that a GPU can have.
#[test]
fn every_geometry_has_a_word() {
    let mut seen = 0;
    for (model, key) in [
        ("a100-40gb", "a100-40gb"),
        ("h200", "h200-141gb"),
        ("b300", "b300-269gb"),
        ("rtx-pro-server-6000", "rtx-pro-6000-96gb"),
    ] {
        let table = carve_gpu_model::Product::by_key(key)
            .and_then(|product| product.profile_table())
            .expect("a table");
        for maximal in table.maximal_geometries() {
            let cut = Cut::Mig(MigCut::Mixed(maximal.geometry.clone()));
            let compiled =
                compile(&pool(&[model], &[8], cut)).unwrap_or_else(|refusal| panic!("{model}: {refusal}"));
            let each = maximal.geometry.instances() * 8;
            assert_eq!(compiled.overlays[0].promise.resources().values().sum::<u64>(), each);
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen}");
}
