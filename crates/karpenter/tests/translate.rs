//! Documents of v1alpha5, real and invented, as NodePools.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

use carve_karpenter::{Translation, translate};
use carve_test_support::fixture_text;
use serde_json::{Value, json};

fn read(texts: &[&str]) -> Vec<Value> {
    texts.iter().map(|text| serde_saphyr::from_str(text).expect("YAML")).collect()
}

fn notes(translation: &Translation) -> Vec<String> {
    translation.notes.iter().map(ToString::to_string).collect()
}

#[test]
fn a_whole_provisioner_keeps_its_meaning() {
    let old = read(&["
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: batch}
spec:
  providerRef: {name: gpu}
  weight: 50
  labels: {team: vision, karpenter.sh/provisioner-name: batch}
  requirements:
  - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
  - {key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarge]}
  taints: [{key: nvidia.com/gpu, effect: NoSchedule}]
  consolidation: {enabled: true}
  ttlSecondsUntilExpired: 86400
  limits: {resources: {cpu: '100', nvidia.com/gpu: 8}}
  kubeletConfiguration: {maxPods: 20}
  surprise: 3
"]);
    let translation = translate(&old).expect("an old document").expect("pools");
    assert_eq!(
        translation.documents,
        [json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "batch"},
            "spec": {
                "weight": 50,
                "limits": {"cpu": "100", "nvidia.com/gpu": 8},
                "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"},
                "template": {
                    "metadata": {"labels": {"team": "vision"}},
                    "spec": {
                        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu"},
                        "requirements": [
                            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
                            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g5.xlarge"]},
                        ],
                        "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
                        "expireAfter": "86400s",
                    },
                },
            },
        })]
    );
    let mut fields: Vec<&str> = translation.notes.iter().map(|note| note.field.as_str()).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["spec.kubeletConfiguration", "spec.labels", "spec.surprise"]);
}

#[test]
fn what_v1alpha5_left_unsaid_is_written_out() {
    let old = read(&["{apiVersion: karpenter.sh/v1alpha5, kind: Provisioner, metadata: {name: bare}}"]);
    let translation = translate(&old).expect("an old document").expect("pools");
    let spec = &translation.documents[0]["spec"];
    assert_eq!(spec["disruption"], json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}));
    assert_eq!(spec["template"]["spec"]["expireAfter"], "Never");
    let on_demand = json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]);
    assert_eq!(spec["template"]["spec"]["requirements"], on_demand);
    assert_eq!(spec["template"]["spec"]["nodeClassRef"]["name"], "default");
    assert_eq!(translation.notes.len(), 4, "{:#?}", notes(&translation));
}

#[test]
fn only_what_is_old_is_translated() {
    let new =
        read(&["{apiVersion: karpenter.sh/v1, kind: NodePool}", "{apiVersion: v1, kind: Pod}", "3", "null"]);
    assert_eq!(translate(&new), None);
    let others = read(&[
        "{apiVersion: karpenter.sh/v1alpha5, kind: Machine, metadata: {name: m}}",
        "{apiVersion: karpenter.k8s.aws/v1alpha1, kind: AWSNodeTemplate, metadata: {name: gpu}}",
        "{apiVersion: karpenter.sh/v1alpha5, kind: Wheel, metadata: {name: w}}",
    ]);
    let translation = translate(&others).expect("old documents").expect("pools");
    assert!(translation.documents.is_empty());
    assert_eq!(translation.notes.len(), 3, "{:#?}", notes(&translation));
    let template = "{apiVersion: karpenter.sh/v1alpha5, kind: NodeTemplate, metadata: {name: t}, spec: {instanceTypes: [p3.2xlarge]}}";
    let alone = translate(&read(&[template])).expect("an old document").expect("pools");
    assert_eq!(alone.documents[0]["metadata"]["name"], "t");
    assert!(alone.documents[0].to_string().contains("p3.2xlarge"), "{}", alone.documents[0]);
}

/// A guide that people follow has a template that no release of Karpenter ever read.
#[test]
fn the_guides_documents_become_one_pool() {
    let Some(guide) = fixture_text("../seeds/002_48c3e10ef96e31e9.txt") else { return };
    let blocks =
        guide.split("```").skip(1).step_by(2).filter(|block| block.contains("karpenter.sh/v1alpha5"));
    let old = read(&blocks.collect::<Vec<_>>());
    assert_eq!(old.len(), 2);
    let translation = translate(&old).expect("old documents").expect("pools");
    assert_eq!(
        translation.documents,
        [json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "gpu-provisioner"},
            "spec": {
                "limits": {"cpu": 1000},
                "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "300s"},
                "template": {
                    "metadata": {"labels": {"nvidia.com/gpu": "true"}},
                    "spec": {
                        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpu-node-template"},
                        "requirements": [
                            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g4dn.xlarge"]},
                            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                        ],
                        "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}],
                        "expireAfter": "Never",
                    },
                },
            },
        })]
    );
    let fields: Vec<&str> = translation.notes.iter().map(|note| note.field.as_str()).collect();
    assert_eq!(
        fields,
        [
            "spec.providerRef",
            "spec.providerRef",
            "spec.instanceTypeSelector",
            "spec.requirements[0]",
            "spec.requirements",
            "spec.ttlSecondsUntilExpired",
        ],
        "{:#?}",
        notes(&translation)
    );
}

#[test]
fn what_is_not_karpenters_stays_where_it_was() {
    let other =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "keep"}, "data": {"a": "b"}});
    let old = json!({"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": "gpu"}, "spec": {}});
    let translation =
        translate(&[other.clone(), old, other.clone()]).expect("an old document").expect("pools");
    assert_eq!(translation.documents.len(), 3);
    assert_eq!((&translation.documents[0], &translation.documents[2]), (&other, &other));
    assert_eq!(translation.documents[1]["kind"], "NodePool");
}

#[test]
fn nothing_is_made_of_what_has_no_name_or_no_fields() {
    let sound = json!({"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": "gpu"}, "spec": {}});
    for (kind, pointer, field) in
        [("Provisioner", "/metadata/name", "metadata.name"), ("NodeTemplate", "/spec", "spec")]
    {
        for garbage in [json!([]), json!(7), json!("")] {
            let mut broken = sound.clone();
            broken["kind"] = kind.into();
            *broken.pointer_mut(pointer).expect("a field") = garbage;
            let refusal = translate(&[sound.clone(), broken]).expect("old documents").expect_err("refused");
            assert_eq!(refusal.field, field);
        }
    }
}
