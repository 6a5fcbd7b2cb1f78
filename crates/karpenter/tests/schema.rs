//! Everything that is made, against Karpenter's own definitions. Rules in CEL are left to a real API server.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

mod pools;

use carve_economics::Provider;
use carve_karpenter::{ChosenBy, Cut, Pool, WeightBand, compile, compile_all, translate};
use carve_test_support::fixture_text;
use jsonschema::Validator;
use pools::{all, mixed, pool, shared};
use serde_json::{Value, json};

/// What an API server would hold a kind to.
fn definition(file: &str, version: &str) -> Option<Validator> {
    let text = fixture_text(&format!("ecosystem/karpenter/{file}"))?;
    let definition: Value = serde_saphyr::from_str(&text).expect("YAML");
    let versions = definition["spec"]["versions"].as_array().expect("versions");
    let version = versions.iter().find(|one| one["name"] == version).expect("the version");
    let mut schema = version["schema"]["openAPIV3Schema"].clone();
    close(&mut schema);
    Some(jsonschema::validator_for(&schema).expect("a schema"))
}

/// An API server drops fields that are not in the schema; here they are mistakes.
fn close(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    let open = object.contains_key("additionalProperties");
    if let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(close);
        if !open {
            object.insert("additionalProperties".to_owned(), false.into());
        }
    }
    for inner in ["items", "additionalProperties"] {
        object.get_mut(inner).into_iter().for_each(close);
    }
}

fn definitions() -> Option<(Validator, Validator)> {
    Some((
        definition("karpenter.sh_nodepools.yaml", "v1")?,
        definition("karpenter.sh_nodeoverlays.yaml", "v1alpha1")?,
    ))
}

fn check(validator: &Validator, document: &Value) {
    let errors: Vec<String> =
        validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{document:#}\n{errors:#?}");
}

/// A pool for every way of cutting and of choosing.
fn every_kind() -> Vec<Pool> {
    let cuts = [
        (vec!["t4", "a10g", "l4", "l40s"], shared(4)),
        (vec!["v100"], Cut::Shared { replicas: 8192, renamed: true }),
        (vec!["h100", "a100-80gb"], all("1g.10gb+me")),
        (vec!["h200"], mixed("3g.71gb=1,2g.35gb=1,1g.18gb=2")),
        (vec!["rtx-pro-server-6000"], all("1g.24gb")),
        (vec!["t4", "b200"], Cut::Parts),
    ];
    let mut pools = Vec::new();
    for (models, cut) in cuts {
        for chosen_by in [ChosenBy::AwsLabels, ChosenBy::InstanceTypes(Provider::Aws)] {
            let first = 100 + 100 * pools.len() as u16;
            let mut pool = pool(&models, &[1, 4, 8], cut.clone());
            pool.name = format!("pool-{first}");
            pool.chosen_by = chosen_by;
            pool.weights = WeightBand { first, last: first + 99 };
            pool.labels.insert("nvidia.com/device-plugin.config".to_owned(), "quarters".to_owned());
            pools.push(pool);
        }
    }
    pools
}

#[test]
fn node_pools_and_overlays_are_what_karpenter_reads() {
    let Some((pools, overlays)) = definitions() else { return };
    let compiled = compile_all(&every_kind()).expect("pools");
    let mut seen = 0;
    for one in &compiled {
        check(&pools, &one.node_pool);
        for overlay in &one.overlays {
            check(&overlays, &overlay.document);
            seen += 1;
        }
    }
    assert!(seen > 30, "{seen}");
}

#[test]
fn the_check_finds_what_is_wrong() {
    let Some((pools, overlays)) = definitions() else { return };
    let compiled = compile(&pool(&["t4"], &[1], shared(4))).expect("a pool");
    let wrong = |validator: &Validator, document: &Value, pointer: &str, value: Value| {
        let mut document = document.clone();
        *document.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}")) = value;
        assert!(!validator.is_valid(&document), "{pointer}: {document:#}");
    };
    let overlay = &compiled.overlays[0].document;
    wrong(&overlays, overlay, "/spec/weight", 10_001.into());
    wrong(&overlays, overlay, "/spec/capacity/nvidia.com~1gpu", "four".into());
    wrong(&overlays, overlay, "/spec/requirements/0/operator", "Is".into());
    wrong(&overlays, overlay, "/spec", json!({"requirements": [], "capacities": {}}));
    wrong(&pools, &compiled.node_pool, "/spec/disruption/consolidationPolicy", "Sometimes".into());
    wrong(&pools, &compiled.node_pool, "/spec/template/spec/nodeClassRef", json!({"name": "gpu"}));
    wrong(&pools, &compiled.node_pool, "/spec/template/spec/taints/0/effect", "Never".into());
}

#[test]
fn translated_pools_are_what_karpenter_reads() {
    let Some((pools, _)) = definitions() else { return };
    let old: Value = json!({
        "apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": "default"},
        "spec": {
            "providerRef": {"name": "default"}, "weight": 10, "ttlSecondsUntilExpired": 2_592_000,
            "consolidation": {"enabled": true}, "limits": {"resources": {"cpu": 1000, "memory": "1000Gi"}},
            "labels": {"team": "vision"}, "annotations": {"owner": "me"},
            "taints": [{"key": "a", "effect": "NoExecute"}], "startupTaints": [{"key": "b", "effect": "NoSchedule"}],
            "requirements": [{"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["4"]}],
        },
    });
    let bare =
        json!({"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": "bare"}});
    let translation = translate(&[old, bare]).expect("old documents").expect("pools");
    assert_eq!(translation.documents.len(), 2);
    translation.documents.iter().for_each(|document| check(&pools, document));
}
