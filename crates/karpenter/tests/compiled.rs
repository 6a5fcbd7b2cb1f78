//! What is made of pools, seen by eye; and what is refused.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

mod pools;

use carve_economics::Provider;
use carve_karpenter::{
    ChosenBy, Compiled, Cut, Pool, Refusal, WeightBand, compile, compile_all, node_groups,
};
use pools::{all, mixed, pool, shared};
use serde_json::{Value, json};

fn capacities(compiled: &Compiled) -> Vec<(String, Value)> {
    let pair = |overlay: &carve_karpenter::Overlay| {
        (overlay.name.clone(), overlay.document["spec"]["capacity"].clone())
    };
    compiled.overlays.iter().map(pair).collect()
}

fn refused(pool: &Pool) -> Refusal {
    compile(pool).err().unwrap_or_else(|| panic!("it is taken: {pool:?}"))
}

#[test]
fn a_pool_of_quarters() {
    let compiled = compile(&pool(&["t4", "l4"], &[1, 4], shared(4))).expect("a pool");
    assert_eq!(
        compiled.node_pool,
        json!({
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": {"name": "gpu-quarter"},
            "spec": {
                "template": {
                    "metadata": {"labels": {"carve.dev/profile": "shared-4"}},
                    "spec": {
                        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
                        "requirements": [
                            {"key": "karpenter.k8s.aws/instance-gpu-name", "operator": "In", "values": ["l4", "t4"]},
                            {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "In", "values": ["1", "4"]},
                            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand", "spot"]},
                        ],
                        "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}],
                        "startupTaints": [{"key": "carve.dev/not-ready", "effect": "NoSchedule"}],
                    },
                },
                "limits": {"nvidia.com/gpu": "256"},
                "disruption": {
                    "consolidationPolicy": "WhenEmpty",
                    "consolidateAfter": "300s",
                    "budgets": [{"nodes": "10%"}],
                },
            },
        })
    );
    assert_eq!(
        compiled.overlays[1].document,
        json!({
            "apiVersion": "karpenter.sh/v1alpha1",
            "kind": "NodeOverlay",
            "metadata": {"name": "gpu-quarter.l4.x4"},
            "spec": {
                "weight": 5101,
                "requirements": [
                    {"key": "karpenter.sh/nodepool", "operator": "In", "values": ["gpu-quarter"]},
                    {"key": "karpenter.k8s.aws/instance-gpu-name", "operator": "In", "values": ["l4"]},
                    {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "In", "values": ["4"]},
                ],
                "capacity": {"nvidia.com/gpu": "16"},
            },
        })
    );
    let names: Vec<&str> = compiled.overlays.iter().map(|overlay| overlay.name.as_str()).collect();
    assert_eq!(names, ["gpu-quarter.l4.x1", "gpu-quarter.l4.x4", "gpu-quarter.t4.x1", "gpu-quarter.t4.x4"]);
    let kinds: Vec<&Value> = compiled.documents().map(|document| &document["kind"]).collect();
    assert_eq!(kinds.last(), Some(&&json!("NodePool")));
}

#[test]
fn where_the_name_is_another_there_are_no_whole_gpus() {
    let renamed = Cut::Shared { replicas: 4, renamed: true };
    let compiled = compile(&pool(&["t4"], &[8], renamed)).expect("a pool");
    let expected = json!({"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "32"});
    assert_eq!(capacities(&compiled), [("gpu-quarter.t4.x8".to_owned(), expected)]);
    assert_eq!(compiled.node_pool["spec"]["limits"], json!({"nvidia.com/gpu.shared": "256"}));

    let compiled = compile(&pool(&["h100"], &[1, 8], all("1g.10gb"))).expect("a pool");
    let capacity = |count: &str| json!({"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": count});
    let expected = [("gpu-quarter.h100.x1", capacity("7")), ("gpu-quarter.h100.x8", capacity("56"))]
        .map(|(name, value)| (name.to_owned(), value));
    assert_eq!(capacities(&compiled), expected);
    let labels = &compiled.node_pool["spec"]["template"]["metadata"]["labels"];
    assert_eq!(labels, &json!({"carve.dev/profile": "mig-1g.10gb", "nvidia.com/mig.config": "all-1g.10gb"}));

    let compiled = compile(&pool(&["h200"], &[8], mixed("3g.71gb=1,1g.18gb=4"))).expect("a pool");
    let expected =
        json!({"nvidia.com/gpu": "0", "nvidia.com/mig-3g.71gb": "8", "nvidia.com/mig-1g.18gb": "32"});
    assert_eq!(capacities(&compiled)[0].1, expected);

    let compiled = compile(&pool(&["t4"], &[4], Cut::Parts)).expect("a pool");
    let expected = json!({
        "nvidia.com/gpu": "0", "carve.dev/slice": "64", "carve.dev/compute": "400",
        "carve.dev/memory": (4 * (15_360 - 1024)).to_string(),
    });
    assert_eq!(capacities(&compiled)[0].1, expected);
    assert_eq!(
        compiled.node_pool["spec"]["limits"],
        json!({"carve.dev/slice": "1024", "carve.dev/compute": "6400"})
    );
}

#[test]
fn a_label_that_names_two_products_is_narrowed_by_types() {
    // Shares are alike on both.
    let compiled = compile(&pool(&["a100"], &[8], shared(2))).expect("a pool");
    assert_eq!(compiled.overlays[0].types, ["p4d.24xlarge", "p4de.24xlarge"]);
    // Instances are not, and neither is memory.
    for cut in [all("1g.5gb"), Cut::Parts] {
        let refusal = refused(&pool(&["a100"], &[8], cut));
        assert_eq!(refusal.field, "models");
        assert_eq!(refusal.remedy, "write one of a100-40gb, a100-80gb");
    }
    let compiled = compile(&pool(&["a100-40gb", "t4"], &[1, 8], shared(2))).expect("a pool");
    let requirements = &compiled.overlays[0].document["spec"]["requirements"];
    assert_eq!(
        requirements[3],
        json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p4d.24xlarge"]})
    );
    let of_pool = compiled.node_pool["spec"]["template"]["spec"]["requirements"].to_string();
    assert!(of_pool.contains("p4d.24xlarge") && !of_pool.contains("p4de.24xlarge"), "{of_pool}");
}

#[test]
fn machines_of_other_clouds_are_chosen_by_type() {
    let mut pool = pool(&["a100-80gb"], &[1, 2], all("1g.10gb"));
    pool.chosen_by = ChosenBy::InstanceTypes(Provider::Azure);
    let compiled = compile(&pool).expect("a pool");
    let types: Vec<&[&str]> = compiled.overlays.iter().map(|overlay| overlay.types.as_slice()).collect();
    assert_eq!(types, [["Standard_NC24ads_A100_v4"], ["Standard_NC48ads_A100_v4"]]);
    assert!(!compiled.node_pool.to_string().contains("karpenter.k8s.aws/instance"), "{}", compiled.node_pool);
}

#[test]
fn where_models_give_different_numbers_the_limit_is_the_smaller_one() {
    let mut pool = pool(&["a100-40gb", "h100"], &[8], mixed("1g.10gb=1"));
    pool.models = vec!["h100".to_owned()];
    let one = compile(&pool).expect("a pool");
    assert_eq!(one.node_pool["spec"]["limits"], json!({"nvidia.com/mig-1g.10gb": "64"}));
    // 7 of 1g.10gb on an H100, 4 on an A100 with 40 GB.
    pool.models = vec!["a100-40gb".to_owned(), "h100".to_owned()];
    pool.cut = all("1g.10gb");
    let two = compile(&pool).expect("a pool");
    assert_eq!(two.node_pool["spec"]["limits"], json!({"nvidia.com/mig-1g.10gb": "256"}));
}

#[test]
fn what_is_wrong_is_refused_with_field_reason_and_remedy() {
    let cases: [(Pool, &str, &str, &str); 12] = [
        (pool(&["k80"], &[1], shared(4)), "models", "'k80' is no GPU of AWS", "write one of a100, a10g"),
        (pool(&["t4"], &[1], all("1g.5gb")), "models", "Tesla T4 can not be cut by MIG", "share it"),
        (pool(&["h100"], &[8], all("1g.11gb")), "cut.profile", "has no profile 1g.11gb", "write 1g.10gb"),
        (pool(&["h100"], &[8], all("1c.3g.40gb")), "cut.profile", "part of a GPU instance", "write 3g.40gb"),
        (pool(&["h100"], &[8], mixed("3g.40gb=3")), "cut.mixed", "on NVIDIA H100", "`carve mig profiles`"),
        (
            pool(&["h100"], &[8], mixed("4g.40gb=1,3g.40gb=1,1g.10gb=1")),
            "cut.mixed",
            "compute slices",
            "the most of it that fits is",
        ),
        (pool(&["h100"], &[8], mixed("")), "cut.mixed", "no instance", "name profiles"),
        (pool(&["t4"], &[1], shared(1)), "cut.replicas", "is not shared", "write 2"),
        (pool(&["t4"], &[1], shared(8193)), "cut.replicas", "more than kubelet", "at most 8192"),
        (pool(&["t4"], &[2], shared(4)), "counts", "no machine with 't4' and 2 GPUs", "with 1, 4, 8"),
        (pool(&["t4", "t4"], &[1], shared(4)), "models", "name the same GPUs", "leave one"),
        (pool(&["a100", "a100-40gb"], &[8], shared(4)), "models", "name the same GPUs", "leave one"),
    ];
    for (pool, field, reason, remedy) in cases {
        let refusal = refused(&pool);
        assert_eq!(refusal.field, field, "{refusal}");
        assert!(refusal.reason.contains(reason), "{refusal}");
        assert!(refusal.remedy.contains(remedy), "{refusal}");
    }
}

#[test]
fn what_is_wrong_with_the_rest_of_a_pool_is_refused() {
    let good = pool(&["t4"], &[1, 4], shared(4));
    let change = |change: &dyn Fn(&mut Pool)| {
        let mut pool = good.clone();
        change(&mut pool);
        refused(&pool).field
    };
    assert_eq!(change(&|pool| pool.name = "GPU".to_owned()), "name");
    assert_eq!(change(&|pool| pool.name = "a.b".to_owned()), "name");
    assert_eq!(change(&|pool| pool.node_class.kind.clear()), "nodeClass.kind");
    assert_eq!(change(&|pool| pool.models.clear()), "models");
    assert_eq!(change(&|pool| pool.counts.clear()), "counts");
    assert_eq!(change(&|pool| pool.capacity_types.clear()), "capacityTypes");
    assert_eq!(change(&|pool| pool.most_gpus = Some(0)), "mostGpus");
    assert_eq!(change(&|pool| pool.weights = WeightBand { first: 0, last: 9 }), "weights");
    assert_eq!(change(&|pool| pool.weights = WeightBand { first: 9, last: 10_001 }), "weights");
    assert_eq!(change(&|pool| pool.weights = WeightBand { first: 7, last: 7 }), "weights");
    let label = |key: &'static str, value: &'static str| {
        change(&move |pool| {
            pool.labels.insert(key.to_owned(), value.to_owned());
        })
    };
    assert_eq!(label("karpenter.sh/nodepool", "x"), "labels");
    assert_eq!(label("carve.dev/profile", "x"), "labels");
    assert_eq!(label("team", "a b"), "labels");
    let other =
        Pool { name: "other".to_owned(), weights: WeightBand { first: 5199, last: 5200 }, ..good.clone() };
    assert_eq!(compile_all(&[good.clone(), other]).expect_err("refused").field, "weights");
    let twin = Pool { weights: WeightBand { first: 6000, last: 6099 }, ..good.clone() };
    assert_eq!(compile_all(&[good.clone(), twin.clone()]).expect_err("refused").field, "name");
    let other = Pool { name: "other".to_owned(), ..twin };
    assert_eq!(compile_all(&[good, other]).expect("both").len(), 2);
}

#[test]
fn groups_of_the_cluster_autoscaler_say_the_same_in_tags() {
    let mut pool = pool(&["h100"], &[8], all("1g.10gb"));
    pool.labels.insert("team".to_owned(), "vision".to_owned());
    let [group] = node_groups(&pool).expect("groups").try_into().expect("one group");
    assert_eq!(
        (group.model.as_str(), group.gpus, group.types.as_slice()),
        ("h100", 8, ["p5.48xlarge"].as_slice())
    );
    let tag = |what: &str, value: &str| {
        (format!("k8s.io/cluster-autoscaler/node-template/{what}"), value.to_owned())
    };
    assert_eq!(
        group.tags,
        [
            tag("label/carve.dev/profile", "mig-1g.10gb"),
            tag("label/nvidia.com/mig.config", "all-1g.10gb"),
            tag("label/team", "vision"),
            tag("resources/nvidia.com/gpu", "0"),
            tag("resources/nvidia.com/mig-1g.10gb", "56"),
            tag("taint/nvidia.com/gpu", "true:NoSchedule"),
        ]
    );
}
