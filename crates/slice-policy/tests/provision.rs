//! Pools of machines as policies say them.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

use carve_economics::Provider;
use carve_karpenter::{ChosenBy, Cut, Pool, Refusal, ToldBy, compile};
use carve_slice_policy::{SlicePolicySpec, in_words_of_policy};
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn spec(change: impl FnOnce(&mut Value)) -> SlicePolicySpec {
    let mut spec = json!({
        "nodeSelector": {"karpenter.sh/nodepool": "quarters", "team": "blue"},
        "sharing": {"mechanism": "MPS", "replicas": 4},
        "provision": {
            "nodeClass": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
            "models": ["t4"], "counts": [1, 4],
        },
    });
    change(&mut spec);
    serde_json::from_value(spec).unwrap_or_else(|error| panic!("{error}"))
}

fn pool(change: impl FnOnce(&mut Value)) -> Result<Pool, Refusal> {
    spec(change).pool("quarters").expect("it wants machines")
}

/// The refusal of a pool, whoever finds it.
fn refused(change: impl FnOnce(&mut Value)) -> Refusal {
    let compiled = pool(change).and_then(|pool| compile(&pool).map(drop));
    in_words_of_policy(compiled.expect_err("it is refused"))
}

#[test]
fn a_policy_is_a_pool_of_its_name_for_whose_nodes_it_counts() {
    let made = pool(|_| {}).expect("a pool");
    assert_eq!((made.name.as_str(), made.chosen_by), ("quarters", ChosenBy::AwsLabels));
    assert_eq!(made.cut, Cut::Shared { replicas: 4, renamed: false });
    assert_eq!(made.labels, BTreeMap::from([("team".to_owned(), "blue".to_owned())]));
    assert!(compile(&made).is_ok());
    assert!(
        spec(|spec| drop(spec.as_object_mut().and_then(|spec| spec.remove("provision")))).pool("a").is_none()
    );

    let renamed = pool(|spec| spec["sharing"]["renamed"] = true.into()).expect("a pool");
    assert_eq!(renamed.cut, Cut::Shared { replicas: 4, renamed: true });
    let elsewhere = pool(|spec| {
        spec["provision"]["nodeClass"]["group"] = "karpenter.azure.com".into();
        spec["provision"]["instanceTypesOf"] = "Azure".into();
    });
    assert_eq!(elsewhere.expect("a pool").chosen_by, ChosenBy::InstanceTypes(Provider::Azure));
    let tags = pool(|spec| {
        spec["provision"]["mode"] = "TagsOnly".into();
        spec["provision"]["nodeClass"] = Value::Null;
    });
    assert!(carve_karpenter::node_groups(&tags.expect("a pool")).is_ok());
    let stand_ins = |spec: &mut Value| {
        spec["provision"]["mode"] = "StandIns".into();
        spec["sharing"]["renamed"] = true.into();
    };
    assert_eq!(pool(stand_ins).expect("a pool").told_by(), ToldBy::StandIns);
    let groups = pool(|spec| {
        stand_ins(spec);
        spec["provision"]["nodeClass"] = Value::Null;
        spec["provision"]["instanceTypesOf"] = "AWS".into();
        spec["nodeSelector"] = json!({"carve.dev/pool": "quarters"});
    });
    let groups = groups.expect("a pool");
    assert_eq!(groups.told_by(), ToldBy::StandInsOfGroups);
    assert!(compile(&groups).is_ok());
    let parts = pool(|spec| {
        spec["sharing"] = Value::Null;
        spec["provision"]["parts"] = true.into();
    });
    assert_eq!(parts.expect("a pool").cut, Cut::Parts);
}

#[test]
fn what_can_not_be_promised_is_refused_in_the_words_of_the_policy() {
    let mig = |spec: &mut Value, mig: Value| {
        spec["sharing"] = Value::Null;
        spec["provision"]["models"] = json!(["h100"]);
        spec["provision"]["counts"] = json!([8]);
        spec["provision"]["mig"] = mig;
    };
    assert!(pool(|spec| mig(spec, json!({"all": "1g.10gb"}))).is_ok());
    type Change<'a> = &'a dyn Fn(&mut Value);
    let stand_ins = |spec: &mut Value| spec["provision"]["mode"] = "StandIns".into();
    let cases: [(Change<'_>, &str, &str); 17] = [
        (
            &|spec| {
                stand_ins(spec);
                spec["provision"]["readyWithinSeconds"] = 901.into();
            },
            "provision.readyWithinSeconds",
            "at most 900",
        ),
        (
            &|spec| spec["provision"]["labels"] = json!({"carve.dev/pool": "b"}),
            "provision.labels",
            "leave it out",
        ),
        (&stand_ins, "sharing.renamed", "renamed: true"),
        (
            &|spec| {
                stand_ins(spec);
                spec["sharing"] = Value::Null;
                spec["provision"]["parts"] = true.into();
            },
            "provision.parts",
            "NodeOverlay",
        ),
        (
            &|spec| {
                stand_ins(spec);
                spec["provision"]["nodeClass"] = Value::Null;
            },
            "provision.instanceTypesOf",
            "nodeClass",
        ),
        (&|spec| spec["mig"] = json!({"mode": "Automatic"}), "mig.mode", "provision.mig"),
        (&|spec| spec["sharing"] = Value::Null, "provision", "sharing"),
        (&|spec| spec["provision"]["parts"] = true.into(), "provision", "leave one"),
        (&|spec| spec["provision"]["nodeClass"]["group"] = "x".into(), "provision.instanceTypesOf", "Azure"),
        (&|spec| spec["provision"]["nodeClass"] = Value::Null, "provision.nodeClass", "EC2NodeClass"),
        (&|spec| spec["provision"]["labels"] = json!({"team": "red"}), "provision.labels", "leave it out"),
        (
            &|spec| spec["nodeSelector"]["karpenter.sh/nodepool"] = "other".into(),
            "provision.labels",
            "leave it out",
        ),
        (&|spec| spec["provision"]["models"] = json!(["t5"]), "provision.models", "t4"),
        (&|spec| mig(spec, json!({"all": "1g.5gb"})), "provision.mig", "1g.10gb"),
        (&|spec| mig(spec, json!({"all": "small"})), "provision.mig", "1g.10gb"),
        (
            &|spec| mig(spec, json!({"mixed": {"1g.10gb": 4}})),
            "provision.labels",
            "name that the mixture has",
        ),
        (
            &|spec| {
                mig(spec, json!({"mixed": {"4g.40gb": 2}}));
                spec["provision"]["labels"] = json!({"nvidia.com/mig.config": "mine"});
            },
            "provision.mig",
            "carve mig profiles",
        ),
    ];
    for (change, field, words) in cases {
        let refusal = refused(change);
        assert_eq!(refusal.field, field, "{refusal}");
        assert!(refusal.remedy.contains(words), "{refusal}");
    }
    let nameless = spec(|_| {}).pool("a.b").expect("machines").and_then(|pool| compile(&pool).map(drop));
    assert_eq!(in_words_of_policy(nameless.expect_err("refused")).field, "metadata.name");
}
