//! Reviews as the API server sends them.

use super::{Circumstances, Verdict, admitted, answer, validated};
use carve_admission::{Fleet, FleetProduct, Policy, Road};
use carve_gpu_model::Mebibytes;
use serde_json::{Value, json};

fn fleet() -> Fleet {
    let product =
        FleetProduct { name: "Tesla T4".to_owned(), memory: Mebibytes(15_360), profiles: Vec::new() };
    Fleet { products: vec![product], ..Fleet::default() }
}

fn with<T>(road: Road, act: impl Fn(&Circumstances<'_>) -> T) -> T {
    let (policy, fleet) = (Policy::default(), fleet());
    act(&Circumstances { policy: &policy, road, fleet: &fleet })
}

fn limits(value: &Value) -> Value {
    json!({"containers": [{"name": "main", "image": "x", "resources": {"limits": value}}]})
}

fn request(kind: &str, object: Value) -> Value {
    json!({"uid": "u", "kind": {"kind": kind}, "operation": "CREATE", "namespace": "team", "object": object})
}

fn pod(resources: Value) -> Value {
    json!({"metadata": {"name": "one"}, "spec": limits(&resources)})
}

fn patched(object: &Value, verdict: &Verdict) -> Value {
    let patch: json_patch::Patch =
        serde_json::from_value(serde_json::to_value(&verdict.patch).expect("a patch")).expect("a patch");
    let mut after = object.clone();
    json_patch::patch(&mut after, &patch).expect("it applies");
    after
}

#[test]
fn what_was_admitted_is_valid_and_what_was_changed_afterwards_is_not() {
    for road in [Road::Claims, Road::Scheduler] {
        with(road, |with| {
            let asked =
                request("Pod", pod(json!({"nvidia.com/gpumem": "4000", "nvidia.com/gpucores": "25"})));
            let first = admitted(&asked, with);
            assert!(first.refusals.is_empty(), "{first:?}");
            assert_eq!(first.templates.len(), usize::from(road == Road::Claims));
            let after = request("Pod", patched(&asked["object"], &first));
            assert!(admitted(&after, with).patch.is_empty(), "the second time nothing changes");
            let verdict = validated(&after, with);
            assert!(verdict.refusals.is_empty() && verdict.patch.is_empty(), "{verdict:?}");
            let mut tampered = after.clone();
            let container = json!({"name": "late", "image": "x"});
            tampered["object"]["spec"]["containers"].as_array_mut().expect("containers").push(container);
            let verdict = validated(&tampered, with);
            assert!(verdict.refusals[0].reason.contains("after carve admitted it"), "{verdict:?}");
        });
    }
}

#[test]
fn a_pod_that_never_was_admitted_is_not_valid() {
    with(Road::Scheduler, |with| {
        let asked = request("Pod", pod(json!({"nvidia.com/gpumem": "4000"})));
        assert!(!validated(&asked, with).refusals.is_empty());
        let other = request("Pod", pod(json!({"cpu": "1"})));
        assert!(validated(&other, with).refusals.is_empty());
    });
}

#[test]
fn templates_are_refused_where_they_are_written_and_never_changed() {
    let wrong = pod(json!({"nvidia.com/gpu": "0.5"}));
    for (kind, object, field) in [
        ("Deployment", json!({"spec": {"template": wrong}}), "spec.template.spec.containers[0]"),
        (
            "CronJob",
            json!({"spec": {"jobTemplate": {"spec": {"template": wrong}}}}),
            "spec.jobTemplate.spec.template.spec.containers[0]",
        ),
    ] {
        with(Road::Claims, |with| {
            let mut asked = request(kind, object.clone());
            let verdict = validated(&asked, with);
            assert!(verdict.refusals[0].field.starts_with(field), "{verdict:?}");
            // Scaled, with the template as it was.
            asked["operation"] = json!("UPDATE");
            asked["oldObject"] = asked["object"].clone();
            asked["object"]["spec"]["replicas"] = json!(0);
            assert!(validated(&asked, with).refusals.is_empty());
        });
    }
    with(Road::Claims, |with| {
        let right = json!({"spec": {"template": pod(json!({"nvidia.com/gpumem": "4000"}))}});
        let verdict = validated(&request("Job", right), with);
        assert!(verdict.refusals.is_empty() && verdict.patch.is_empty(), "{verdict:?}");
    });
}

#[test]
fn what_was_decided_does_not_change() {
    with(Road::Scheduler, |with| {
        let asked = request("Pod", pod(json!({"nvidia.com/gpumem": "4000"})));
        let old = patched(&asked["object"], &admitted(&asked, with));
        let mut new = old.clone();
        new["metadata"]["annotations"]["carve.dev/slices"] = json!("everything");
        let mut update = request("Pod", new);
        (update["operation"], update["oldObject"]) = (json!("UPDATE"), old);
        let verdict = validated(&update, with);
        assert_eq!(verdict.refusals[0].field, "metadata.annotations.carve.dev/slices");
    });
}

#[test]
fn answers_have_the_shape_that_the_api_server_reads() {
    with(Road::Scheduler, |with| {
        let asked = request("Pod", pod(json!({"nvidia.com/gpumem": "4000"})));
        let encode = |text: &str| format!("<{}>", text.len());
        let good = answer(&asked, &admitted(&asked, with), encode);
        assert_eq!((&good["response"]["allowed"], &good["response"]["uid"]), (&json!(true), &json!("u")));
        assert_eq!(good["response"]["patchType"], "JSONPatch");
        let asked = request("Pod", pod(json!({"nvidia.com/gpu": "0.5"})));
        let bad = answer(&asked, &admitted(&asked, with), encode);
        assert_eq!(
            (&bad["response"]["allowed"], &bad["response"]["status"]["code"]),
            (&json!(false), &json!(422))
        );
        let words = bad["response"]["status"]["message"].as_str().expect("words");
        assert!(
            words.contains("spec.containers[0].resources.limits") && words.contains("gpu-fraction"),
            "{words}"
        );
        assert_eq!(bad["response"].get("patch"), None);
    });
}
