//! What is refused and with which words, what is let through, and that no document makes the review panic.

use carve_test_support::{fixture_text, fixtures};
use carve_webhook::{is_review, review};
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
use serde_json::{Map, Value, json};

fn drivers() -> Vec<String> {
    ["gpu.carve.dev", "gpu.nvidia.com"].map(str::to_owned).to_vec()
}

fn config(driver: &str, parameters: Value) -> Value {
    json!({"requests": ["gpu"], "opaque": {"driver": driver, "parameters": parameters}})
}

fn gpu_config(sharing: Value) -> Value {
    json!({"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": sharing})
}

fn claim(configs: Vec<Value>) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "mine", "namespace": "team"},
        "spec": {"devices": {
            "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.carve.dev"}}],
            "config": configs,
        }},
    })
}

/// The request that the API server makes of an object.
fn request(operation: &str, object: &Value, old: &Value) -> Value {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5",
            "kind": {"group": group, "version": version, "kind": object["kind"]},
            "operation": operation,
            "namespace": object["metadata"]["namespace"].as_str().unwrap_or_default(),
            "name": object["metadata"]["name"],
            "object": object,
            "oldObject": old,
        },
    })
}

/// What a new object is refused with, or none.
fn refused(object: &Value) -> Option<String> {
    told(&review(&request("CREATE", object, &Value::Null), &drivers()))
}

fn told(answer: &Value) -> Option<String> {
    assert_eq!(answer["kind"], "AdmissionReview");
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    let response = &answer["response"];
    assert_eq!(response["uid"], "705ab4f5");
    let allowed = response["allowed"].as_bool().expect("yes or no");
    assert_eq!(allowed, response.get("status").is_none(), "{answer}");
    response["status"]["message"].as_str().map(str::to_owned)
}

#[test]
fn a_refusal_names_the_object_the_field_and_what_to_write() {
    let typo = config("gpu.carve.dev", gpu_config(json!({"strategy": "Time-Slicing"})));
    assert_eq!(
        refused(&claim(vec![typo.clone()])).as_deref(),
        Some(
            "ResourceClaim team/mine has a config that can not be served: \
             spec.devices.config[0].opaque.parameters.sharing.strategy: nobody knows \"Time-Slicing\"; \
             write TimeSlicing or MPS"
        )
    );

    let template = json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"generateName": "mine-", "namespace": "team"},
        "spec": {"spec": claim(vec![typo.clone()])["spec"]},
    });
    let message = refused(&template).expect("refused");
    let begin = "ResourceClaimTemplate team/mine-… has a config that can not be served: \
                 spec.spec.devices.config[0].opaque.parameters.sharing.strategy: ";
    assert!(message.starts_with(begin), "{message}");

    let class = json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "shared"},
        "spec": {"config": [{"opaque": typo["opaque"]}]},
    });
    let message = refused(&class).expect("refused");
    let begin = "DeviceClass shared has a config that can not be served: \
                 spec.config[0].opaque.parameters.sharing.strategy: ";
    assert!(message.starts_with(begin), "{message}");
}

#[test]
fn every_field_that_is_wrong_is_told_at_once() {
    let object = claim(vec![
        config(
            "gpu.carve.dev",
            gpu_config(json!({"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 101}})),
        ),
        config("gpu.carve.dev", gpu_config(json!({"strategy": "MPS"}))),
        config("somebody.else", json!({"anything": "goes"})),
        config("gpu.nvidia.com", json!("GpuConfig")),
        config("gpu.nvidia.com", Value::Null),
    ]);
    let answer = review(&request("CREATE", &object, &Value::Null), &drivers());
    let status = &answer["response"]["status"];
    let fields: Vec<&str> = status["details"]["causes"]
        .as_array()
        .expect("causes")
        .iter()
        .map(|cause| cause["field"].as_str().expect("a field"))
        .collect();
    assert_eq!(
        fields,
        [
            "spec.devices.config[0].opaque.parameters.sharing.mpsConfig.defaultActiveThreadPercentage",
            "spec.devices.config[3].opaque.parameters",
            "spec.devices.config[4].opaque.parameters",
        ]
    );
    let message = status["message"].as_str().expect("a message");
    assert!(fields.iter().all(|field| message.contains(&format!("{field}: "))), "{message}");
    assert_eq!((&status["code"], &status["reason"]), (&json!(422), &json!("Invalid")));
}

#[test]
fn only_configs_of_the_drivers_it_is_told_are_looked_at() {
    let object = claim(vec![config("gpu.nvidia.com", json!({"kind": "Nonsense"}))]);
    assert!(refused(&object).is_some());
    let answer = review(&request("CREATE", &object, &Value::Null), &["gpu.carve.dev".to_owned()]);
    assert_eq!(told(&answer), None);
    assert_eq!(told(&review(&request("CREATE", &object, &Value::Null), &[])), None);
}

/// A claim from before the webhook must be able to lose its finalizer, or it could never be deleted.
#[test]
fn an_object_that_is_there_already_can_still_be_changed_and_removed() {
    let bad = claim(vec![config("gpu.carve.dev", gpu_config(json!({})))]);
    let mut labelled = bad.clone();
    labelled["metadata"]["labels"] = json!({"team": "a"});
    let verdict = |document: Value| told(&review(&document, &drivers()));
    assert_eq!(verdict(request("UPDATE", &labelled, &bad)), None);
    assert_eq!(verdict(request("DELETE", &Value::Null, &bad)), None);
    let mut status = request("UPDATE", &bad, &claim(vec![]));
    assert!(verdict(status.clone()).is_some(), "a change that brings the bad config");
    status["request"]["subResource"] = json!("status");
    assert_eq!(verdict(status), None);
    let mut leaving = bad.clone();
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(verdict(request("UPDATE", &leaving, &claim(vec![]))), None);
}

#[test]
fn other_objects_are_let_through_with_a_hint() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"config": [{}]}});
    let answer = review(&request("CREATE", &pod, &Value::Null), &drivers());
    assert_eq!(told(&answer), None);
    let hint = "carve's webhook has nothing to say about Pod; take it out of the rules";
    assert_eq!(answer["response"]["warnings"], json!([hint]));
    // Another group's kind of the same name is not ours.
    let other =
        json!({"apiVersion": "example.com/v1", "kind": "ResourceClaim", "spec": {"devices": {"config": []}}});
    assert!(review(&request("CREATE", &other, &Value::Null), &drivers())["response"]["warnings"].is_array());
    assert_eq!(told(&review(&request("CREATE", &claim(vec![]), &Value::Null), &drivers())), None);
}

/// The documents of a YAML file; those that are templates of another program are passed over.
fn documents(text: &str) -> Vec<Value> {
    let documents = text.split("\n---").filter(|document| !document.contains("{{"));
    documents.filter_map(|document| serde_saphyr::from_str(document).ok()).collect()
}

/// NVIDIA's own examples pass, in all versions of the API, but for what is not served here; that is told.
#[test]
fn the_examples_of_nvidias_driver_pass() {
    let (mut passed, mut turned_away) = (0, Vec::new());
    for folder in
        ["quickstart-v1", "quickstart-v1beta1", "quickstart-misc", "bats-specs", "consumable-shares"]
    {
        let Some(folder) = fixtures(&format!("dra/nvidia/{folder}")) else { return };
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        files.sort();
        for file in files {
            for object in documents(&std::fs::read_to_string(&file).expect("a fixture")) {
                if !["ResourceClaim", "ResourceClaimTemplate"].map(Value::from).contains(&object["kind"]) {
                    continue;
                }
                match refused(&object) {
                    None => passed += 1,
                    Some(message) => turned_away.push(message),
                }
            }
        }
    }
    assert!(passed >= 40, "{passed} passed");
    assert!(!turned_away.is_empty());
    for message in turned_away {
        let vfio = "opaque.parameters: VfioDeviceConfig is not served here: GPUs are not passed through to virtual machines";
        assert!(message.contains(vfio), "{message}");
    }
}

/// The config that NVIDIA's end-to-end suite expects its driver to refuse, for a kind that is served here.
#[test]
fn a_field_that_nobody_knows_is_refused() {
    let Some(text) = fixture_text("dra/nvidia/bats-specs/rc-opaque-cfg-unknown-field.yaml.tmpl") else {
        return;
    };
    let filled = text
        .replace("${TEST_K8S_RESOURCE_API_VERSION}", "v1")
        .replace("${TEST_DEVCLASSNAME_CD_CHANNEL}", "exactly: {deviceClassName: gpu.nvidia.com}");
    let theirs = &documents(&filled)[0];
    assert_eq!(refused(theirs), None, "another driver's");
    let ours = filled
        .replace("compute-domain.nvidia.com", "gpu.nvidia.com")
        .replace("ComputeDomainChannelConfig", "GpuConfig")
        .replace("          domainID: not-needed-for-test\n", "");
    let message = refused(&documents(&ours)[0]).expect("refused");
    let expected = "ResourceClaim batssuite-rc-bad-opaque-config has a config that can not be served: \
                    spec.devices.config[0].opaque.parameters.unexpectedField: ";
    assert!(message.starts_with(expected), "{message}");
}

#[test]
fn what_is_no_review_is_known_as_such() {
    assert!(is_review(&request("CREATE", &claim(vec![]), &Value::Null)));
    let mut beta = request("CREATE", &claim(vec![]), &Value::Null);
    beta["apiVersion"] = json!("admission.k8s.io/v1beta1");
    for document in [json!({}), json!([]), json!(null), json!("AdmissionReview"), beta] {
        assert!(!is_review(&document), "{document}");
        assert!(review(&document, &drivers())["response"]["allowed"].is_boolean());
    }
}

/// Any JSON, with the names that matter more often than chance would have them.
fn any_json() -> impl Strategy<Value = Value> {
    let names = [
        "request",
        "uid",
        "kind",
        "group",
        "operation",
        "object",
        "oldObject",
        "metadata",
        "spec",
        "devices",
        "config",
        "opaque",
        "driver",
        "parameters",
        "apiVersion",
        "sharing",
        "strategy",
        "mpsConfig",
    ];
    let words = [
        "AdmissionReview",
        "resource.k8s.io",
        "ResourceClaim",
        "ResourceClaimTemplate",
        "DeviceClass",
        "UPDATE",
        "gpu.carve.dev",
        "resource.nvidia.com/v1beta1",
        "GpuConfig",
        "MPS",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,9}".prop_map(Value::from),
        prop::sample::select(words.to_vec()).prop_map(Value::from),
    ];
    leaf.prop_recursive(8, 64, 6, move |inner| {
        let name = prop_oneof![prop::sample::select(names.to_vec()).prop_map(str::to_owned), ".{0,5}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..6)
                .prop_map(|fields| Value::from(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #[test]
    fn any_document_is_answered(document in any_json()) {
        let answer = review(&document, &drivers());
        assert!(answer["response"]["allowed"].is_boolean() && answer["response"]["uid"].is_string());
    }

    /// However the configs of a claim look, the answer is that of the decoder, under the path of the config.
    #[test]
    fn any_configs_are_answered_as_the_decoder_does(list in prop::collection::vec(any_json(), 0..4)) {
        let configs: Vec<Value> = list.iter().map(|parameters| config("gpu.carve.dev", parameters.clone())).collect();
        let answer = review(&request("CREATE", &claim(configs), &Value::Null), &drivers());
        let wrong = list.iter().filter(|one| carve_formats::dra_config::OpaqueConfig::decode(one).is_err()).count();
        let causes = answer["response"]["status"]["details"]["causes"].as_array().map_or(0, Vec::len);
        assert_eq!(causes, wrong, "{}", answer);
    }
}
