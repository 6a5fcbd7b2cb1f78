//! Whoever tries to get around the limits, by each way that docs/design/controller.md names: refused, neutralised or allowed as the policy
//! says.

mod pods;

use carve_admission::{Conduct, Fleet, Outcome, PodClaims, Policy, Road, admit, keys, update};
use pods::{admitted, fleet, on, part, patched, pod, refused};
use serde_json::{Value, json};

const ROADS: [Road; 2] = [Road::Claims, Road::Scheduler];

fn with(change: impl Fn(&mut Value)) -> Value {
    let mut asked = part();
    change(&mut asked);
    asked
}

/// Refused under the policy that refuses, admitted under the one that allows, and what the neutralised pod is.
fn three_ways(
    asked: &Value,
    set: impl Fn(&mut Policy, Conduct),
    field: &str,
    neutralised: Option<&dyn Fn(&Value)>,
) {
    let under = |conduct: Conduct| {
        let mut policy = Policy::default();
        set(&mut policy, conduct);
        policy
    };
    for road in ROADS {
        let refusals = refused(admit(asked, "team", &under(Conduct::Refuse), road, &fleet()));
        assert!(refusals.iter().all(|one| one.field == field && !one.example.is_empty()), "{refusals:?}");
        let plain = patched(&part(), &admitted(on(&part(), road)));
        let allowed = patched(asked, &admitted(admit(asked, "team", &under(Conduct::Allow), road, &fleet())));
        assert_ne!(allowed, plain, "it stays where it is allowed");
        if let Some(check) = neutralised {
            let admission = admitted(admit(asked, "team", &under(Conduct::Neutralise), road, &fleet()));
            assert!(
                admission.warnings.iter().any(|said| said.starts_with(field)),
                "{:?}",
                admission.warnings
            );
            let after = patched(asked, &admission);
            check(&after);
            let again = admitted(admit(&after, "team", &under(Conduct::Neutralise), road, &fleet()));
            assert!(again.patch.is_empty() && again.warnings.is_empty(), "{again:?}");
        }
    }
}

#[test]
fn a_claim_that_the_tenant_wrote_is_taken_out() {
    let forged = r#"{"v":1,"containers":[{"name":"c","kind":"main","parts":[{"count":8,"share":"whole","dialect":"carve"}]}]}"#;
    for road in ROADS {
        for key in [keys::CLAIM, keys::SLICES, keys::UNDERSTOOD_AS] {
            let asked = with(|pod| pod["metadata"]["annotations"][key] = json!(forged));
            let admission = admitted(on(&asked, road));
            assert_eq!(patched(&asked, &admission), patched(&part(), &admitted(on(&part(), road))), "{key}");
            // Also where the pod asks for nothing.
            let idle = pod(json!({(key): forged}), json!({"cpu": "1"}));
            let admission = admitted(on(&idle, road));
            assert!(admission.claims.is_empty() && admission.templates.is_empty());
            assert!(admission.warnings[0].contains("written by carve alone"), "{:?}", admission.warnings);
            let after = patched(&idle, &admission);
            assert!(after["metadata"].get("annotations").is_none(), "{after}");
            assert_eq!(on(&after, road), Outcome::NotOurs);
        }
    }
}

#[test]
fn labels_tokens_and_templates_that_the_tenant_wrote_are_taken_out() {
    let mut idle = pod(json!({}), json!({"cpu": "1", "carve.dev/slice": "16", "carve.dev/memory": "1"}));
    idle["metadata"]["labels"] = json!({"app": "x", "carve.dev/admitted": "scheduler"});
    idle["spec"]["schedulerName"] = json!("carve-scheduler");
    idle["spec"]["resourceClaims"] = json!([
        {"name": "a", "resourceClaimTemplateName": "carve-0123456789ab"}, {"name": "b", "resourceClaimName": "mine"}
    ]);
    idle["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": "a"}, {"name": "b"}]);
    for road in ROADS {
        let after = patched(&idle, &admitted(on(&idle, road)));
        assert_eq!(after["metadata"]["labels"], json!({"app": "x"}));
        assert_eq!(after["spec"]["resourceClaims"], json!([{"name": "b", "resourceClaimName": "mine"}]));
        assert_eq!(
            after["spec"]["containers"][0]["resources"],
            json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}, "claims": [{"name": "b"}]})
        );
    }
}

/// A whole set of marks by hand is believed only if it says what the rest of the pod says.
#[test]
fn a_complete_forgery_gains_nothing() {
    let hami = pod(json!({}), json!({"nvidia.com/gpu": "2", "nvidia.com/gpumem": "3000"}));
    let before = patched(&hami, &admitted(on(&hami, Road::Scheduler)));
    let annotation =
        |pod: &Value| pod["metadata"]["annotations"][keys::CLAIM].as_str().expect("a claim").to_owned();
    // More memory than the words that quotas count: read anew, by those words.
    let mut forged = before.clone();
    forged["metadata"]["annotations"][keys::CLAIM] = json!(annotation(&before).replace("3000", "80000"));
    let admission = admitted(on(&forged, Road::Scheduler));
    let text = admission.claims.to_annotation();
    assert!(text.contains("3000") && !text.contains("80000"), "{text}");
    // A claim without any words is nobody's.
    let mut forged = before.clone();
    for list in ["limits", "requests"] {
        forged["spec"]["containers"][0]["resources"][list]
            .as_object_mut()
            .expect("a map")
            .remove("nvidia.com/gpumem");
    }
    assert!(admitted(on(&forged, Road::Scheduler)).claims.is_empty());
    // A complete one is held to the policy like any other.
    let policy = Policy { most_gpus: Some(1), ..Policy::default() };
    let said = refused(admit(&before, "team", &policy, Road::Scheduler, &fleet()))[0].to_string();
    assert!(said.contains("holds 2 GPUs"), "{said}");
    // So is one on the claims road.
    let claimed = patched(&hami, &admitted(on(&hami, Road::Claims)));
    refused(admit(&claimed, "team", &policy, Road::Claims, &fleet()));
    let mut privileged = claimed;
    privileged["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    refused(on(&privileged, Road::Claims));
}

#[test]
fn a_pod_from_a_backup_is_admitted_again_on_either_road() {
    let hami = pod(json!({}), json!({"nvidia.com/gpu": "2", "nvidia.com/gpumem-percentage": "50"}));
    for (old, new) in [(ROADS[0], ROADS[1]), (ROADS[1], ROADS[0]), (ROADS[1], ROADS[1])] {
        let mut saved = patched(&hami, &admitted(on(&hami, old)));
        saved["metadata"]["annotations"][keys::SLICES] = json!("{}");
        // The cluster has other GPUs by now.
        let fleet = Fleet { products: vec![pods::t4()], ..Fleet::default() };
        let admission = admitted(admit(&saved, "team", &Policy::default(), new, &fleet));
        assert_eq!(admission.claims.devices(), 2, "{old:?} to {new:?}");
        let after = patched(&saved, &admission);
        assert_eq!(after["metadata"]["labels"][keys::ADMITTED], new.word());
        assert!(after["metadata"]["annotations"].get(keys::SLICES).is_none());
        let tokens = &after["spec"]["containers"][0]["resources"]["limits"][keys::SLICE];
        assert_eq!(tokens.is_null(), new == Road::Claims, "{after}");
        assert_eq!(after["spec"].get("resourceClaims").is_some(), new == Road::Claims);
        assert_eq!(after["spec"]["schedulerName"] == "carve-scheduler", new == Road::Scheduler, "{after}");
    }
}

#[test]
fn the_scheduler_of_somebody_else() {
    let asked = with(|pod| pod["spec"]["schedulerName"] = json!("kai-scheduler"));
    let ours = |after: &Value| {
        let named = after["spec"]["schedulerName"].as_str();
        assert!(matches!(named, Some("carve-scheduler" | "default-scheduler")), "{named:?}");
    };
    three_ways(&asked, |policy, conduct| policy.scheduler_name = conduct, "spec.schedulerName", Some(&ours));
    for road in ROADS {
        let after = patched(&asked, &admitted(on(&asked, road)));
        assert_eq!(after["spec"]["schedulerName"], road.scheduler(), "by default it is replaced");
        // The other road's, and the default by name, are nobody's.
        for name in ["default-scheduler", "carve-scheduler", ""] {
            let asked = with(|pod| pod["spec"]["schedulerName"] = json!(name));
            let policy = Policy { scheduler_name: Conduct::Refuse, ..Policy::default() };
            let after = patched(&asked, &admitted(admit(&asked, "team", &policy, road, &fleet())));
            let named = after["spec"]["schedulerName"].as_str().unwrap_or_default();
            assert!(named == road.scheduler() || (road == Road::Claims && named.is_empty()), "{named}");
        }
    }
}

#[test]
fn a_node_that_the_user_names() {
    let asked = with(|pod| pod["spec"]["nodeName"] = json!("gpu-7"));
    let field = json!({"key": "metadata.name", "operator": "In", "values": ["gpu-7"]});
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let bound = |after: &Value| {
        assert!(after["spec"].get("nodeName").is_none());
        let terms = &after["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"];
        assert_eq!(*terms, json!([{"matchFields": [field]}]));
    };
    three_ways(&asked, |policy, conduct| policy.node_name = conduct, "spec.nodeName", Some(&bound));
    let asked = with(|pod| {
        pod["spec"]["nodeName"] = json!("gpu-7");
        pod["spec"]["affinity"] =
            json!({"nodeAffinity": {(required): {"nodeSelectorTerms": [{"matchExpressions": []}, {}]}}});
    });
    let policy = Policy { node_name: Conduct::Neutralise, ..Policy::default() };
    let after = patched(&asked, &admitted(admit(&asked, "team", &policy, Road::Claims, &fleet())));
    let terms = &after["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"];
    assert_eq!(*terms, json!([{"matchExpressions": [], "matchFields": [field]}, {"matchFields": [field]}]));
}

#[test]
fn devices_and_limits_in_the_environment() {
    for (name, value) in [
        ("NVIDIA_VISIBLE_DEVICES", json!({"value": "all"})),
        ("NVIDIA_VISIBLE_DEVICES", json!({"valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}})),
        ("CUDA_MPS_PIPE_DIRECTORY", json!({"value": "/tmp/mine"})),
        ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", json!({"value": "100"})),
        ("CUDA_DEVICE_MEMORY_LIMIT", json!({"value": "999g"})),
        ("CUDA_DISABLE_CONTROL", json!({"value": "true"})),
    ] {
        let mut variable = value.clone();
        variable["name"] = json!(name);
        let env = json!([{"name": "KEPT", "value": "1"}, variable, {"name": "ALSO", "value": "2"}]);
        let asked = with(|pod| pod["spec"]["containers"][0]["env"] = env.clone());
        let void = json!({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"});
        let kept = json!([{"name": "KEPT", "value": "1"}, {"name": "ALSO", "value": "2"}, void]);
        let gone = |after: &Value| assert_eq!(after["spec"]["containers"][0]["env"], kept);
        let field = "spec.containers[0].env[1]";
        three_ways(&asked, |policy, conduct| policy.device_env = conduct, field, Some(&gone));
    }
    let asked = with(|pod| {
        pod["spec"]["containers"][0]["env"] = json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}, {"name": "CUDA_VISIBLE_DEVICES", "value": "0"}]);
    });
    admitted(on(&asked, Road::Claims));
    // An init container's counts like any other.
    let asked = with(|pod| {
        pod["spec"]["initContainers"] =
            json!([{"name": "i", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}]);
    });
    assert_eq!(refused(on(&asked, Road::Claims))[0].field, "spec.initContainers[0].env[0]");
}

/// What an image says is not seen here, and most images of CUDA ask for all devices.
#[test]
fn no_container_gets_devices_by_the_words_of_its_image() {
    let asked = with(|pod| {
        pod["spec"]["initContainers"] = json!([{"name": "i", "env": [{"name": "A", "value": "1"}]}]);
        let other = json!({"name": "d", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"}]});
        pod["spec"]["containers"].as_array_mut().expect("a list").push(other);
    });
    let void = json!({"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"});
    for road in ROADS {
        let after = patched(&asked, &admitted(on(&asked, road)));
        assert_eq!(after["spec"]["containers"][0]["env"], json!([void]));
        assert_eq!(
            after["spec"]["containers"][1]["env"], asked["spec"]["containers"][1]["env"],
            "its own words"
        );
        assert_eq!(after["spec"]["initContainers"][0]["env"], json!([{"name": "A", "value": "1"}, void]));
        let policy = Policy { device_env: Conduct::Allow, ..Policy::default() };
        let after = patched(&asked, &admitted(admit(&asked, "team", &policy, road, &fleet())));
        assert!(after["spec"]["containers"][0].get("env").is_none());
    }
}

#[test]
fn folders_of_the_host_and_mounts_over_the_limiter() {
    let field = "spec.volumes[1].hostPath.path";
    for path in [
        "/",
        "/var/lib/kubelet/device-plugins",
        "/var/run/cdi",
        "/etc/cdi/",
        "/var/lib/carve",
        "/run/carve/limits",
        "/run//nvidia/mps",
        "/dev/nvidia0",
        "/var/run/docker.sock",
        "/var/lib/kubelet/../kubelet",
    ] {
        let asked = with(|pod| {
            pod["spec"]["volumes"] =
                json!([{"name": "a", "emptyDir": {}}, {"name": "h", "hostPath": {"path": path}}]);
        });
        three_ways(&asked, |policy, conduct| policy.host_path = conduct, field, None);
    }
    let asked = with(|pod| {
        pod["spec"]["volumes"] = json!([{"name": "h", "hostPath": {"path": "/data/sets"}}]);
        pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "h", "mountPath": "/etc/app"}]);
    });
    admitted(on(&asked, Road::Scheduler));
    let asked = with(|pod| {
        pod["spec"]["volumes"] = json!([{"name": "e", "emptyDir": {}}]);
        pod["spec"]["containers"][0]["volumeMounts"] =
            json!([{"name": "e", "mountPath": "/etc/ld.so.preload"}]);
    });
    let field = "spec.containers[0].volumeMounts[0].mountPath";
    three_ways(&asked, |policy, conduct| policy.host_path = conduct, field, None);
}

#[test]
fn privileges_and_namespaces_of_the_host() {
    let beside = with(|pod| {
        let other = json!({"name": "d", "securityContext": {"privileged": true}});
        pod["spec"]["containers"].as_array_mut().expect("a list").push(other);
    });
    let off =
        |after: &Value| assert_eq!(after["spec"]["containers"][1]["securityContext"]["privileged"], false);
    let set = |policy: &mut Policy, conduct: Conduct| policy.privileged = conduct;
    three_ways(&beside, set, "spec.containers[1].securityContext.privileged", Some(&off));
    for name in ["SYS_ADMIN", "CAP_SYS_ADMIN", "sys_rawio", "ALL"] {
        let asked = with(|pod| {
            pod["spec"]["containers"][0]["securityContext"] =
                json!({"capabilities": {"add": ["NET_ADMIN", name]}});
        });
        let less = |after: &Value| {
            let add = &after["spec"]["containers"][0]["securityContext"]["capabilities"]["add"];
            assert_eq!(*add, json!(["NET_ADMIN"]));
        };
        three_ways(&asked, set, "spec.containers[0].securityContext.capabilities.add[1]", Some(&less));
    }
    for key in ["hostPID", "hostIPC"] {
        let asked = with(|pod| pod["spec"][key] = json!(true));
        let off = |after: &Value| assert_eq!(after["spec"][key], false);
        let set = |policy: &mut Policy, conduct: Conduct| policy.host_namespaces = conduct;
        three_ways(&asked, set, &format!("spec.{key}"), Some(&off));
    }
    // A pod without parts of GPUs may do as it likes.
    let mut other = pod(json!({}), json!({"nvidia.com/gpu": "1"}));
    other["spec"]["hostPID"] = json!(true);
    assert_eq!(on(&other, Road::Claims), Outcome::NotOurs);
}

#[test]
fn what_a_pod_asks_for_does_not_change() {
    let policy = Policy::default();
    let kai = pod(json!({"gpu-memory": "2000", "note": "a"}), json!({}));
    for road in ROADS {
        let old = patched(&kai, &admitted(on(&kai, road)));
        assert_eq!(update(&old, &old, &policy), Ok(()));
        for (key, value) in [
            ("gpu-memory", json!("80000")),
            ("gpu-fraction-num-devices", json!("8")),
            (keys::CLAIM, json!("{}")),
            (keys::SLICES, json!("{}")),
            (keys::UNDERSTOOD_AS, json!("nothing")),
        ] {
            let mut new = old.clone();
            new["metadata"]["annotations"][key] = value;
            let refusals = update(&old, &new, &policy).expect_err(key);
            assert_eq!(refusals[0].field, format!("metadata.annotations.{key}"));
            assert!(refusals[0].to_string().contains("delete the pod"), "{}", refusals[0]);
        }
        let mut new = old.clone();
        new["metadata"]["annotations"].as_object_mut().expect("a map").remove("gpu-memory");
        update(&old, &new, &policy).expect_err("taken away");
        let mut new = old.clone();
        new["metadata"]["labels"].as_object_mut().expect("a map").remove(keys::ADMITTED);
        update(&old, &new, &policy).expect_err("the label");
        let mut new = old.clone();
        new["metadata"]["annotations"]["note"] = json!("b");
        new["metadata"]["labels"]["app"] = json!("x");
        assert_eq!(update(&old, &new, &policy), Ok(()));
    }
    // Marks are nobody's to write, also on a pod that has none; its other annotations are its own affair.
    let plain = pod(json!({"gpu-memory": "x"}), json!({}));
    let mut new = plain.clone();
    new["metadata"]["annotations"][keys::SLICES] = json!("{}");
    update(&plain, &new, &policy).expect_err("a forged decision");
    let mut new = plain.clone();
    new["metadata"]["annotations"]["gpu-memory"] = json!("y");
    assert_eq!(update(&plain, &new, &policy), Ok(()));
}

#[test]
fn a_container_for_looking_around_is_held_to_the_same_rules() {
    let old = patched(&part(), &admitted(on(&part(), Road::Claims)));
    let looking = |container: Value| {
        let mut new = old.clone();
        new["spec"]["ephemeralContainers"] = json!([{"name": "ok"}, container]);
        update(&old, &new, &Policy { privileged: Conduct::Neutralise, ..Policy::default() })
    };
    assert_eq!(looking(json!({"name": "d", "image": "busybox"})), Ok(()));
    let refusals =
        looking(json!({"name": "d", "securityContext": {"privileged": true}})).expect_err("privileged");
    assert_eq!(refusals[0].field, "spec.ephemeralContainers[1].securityContext.privileged");
    looking(json!({"name": "d", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}))
        .expect_err("devices");
    // One that is there already is let be: the status must still be written.
    let mut there = old.clone();
    there["spec"]["ephemeralContainers"] = json!([{"name": "d", "securityContext": {"privileged": true}}]);
    assert_eq!(update(&there, &there, &Policy::default()), Ok(()));
}

#[test]
fn a_claim_reads_back() {
    let claims = admitted(on(&part(), Road::Scheduler)).claims;
    assert_eq!(PodClaims::from_annotation(&claims.to_annotation()), Ok(claims));
}
