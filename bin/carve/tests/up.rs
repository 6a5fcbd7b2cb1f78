//! `carve up` as people meet it: one command, a page, and verbs that talk to it; whatever happens to the process, nothing that was acknowledged is
//! lost.

mod running;

use running::{Up, deployment, folder, until};
use serde_json::Value;
use std::collections::BTreeSet;

#[test]
fn verbs_talk_to_it_as_they_talk_to_a_cluster() {
    let up = Up::start(folder(), &["--fleet", "g5.2xlarge=2", "--empty"]);
    assert_eq!(
        until("nodes", || Some(up.said(&["get", "nodes", "-o", "name"], "")).filter(|text| !text.is_empty())),
        "node/g5-1\nnode/g5-2\n"
    );
    let web = deployment("web", 2, "nvidia.com/gpu: 1");
    assert_eq!(up.said(&["apply", "--dry-run", "-f", "-"], &web), "deployment.apps/web created (dry run)\n");
    assert_eq!(up.said(&["get", "deployments", "-o", "name"], ""), "");
    assert_eq!(up.said(&["apply", "-f", "-"], &web), "deployment.apps/web created\n");
    assert_eq!(up.said(&["apply", "-f", "-"], &web), "deployment.apps/web unchanged\n");
    until("both run", || {
        up.said(&["get", "deploy", "web", "--no-headers"], "").contains("2/2").then_some(())
    });
    assert_eq!(up.said(&["scale", "deployment/web", "--replicas", "3"], ""), "deployment.apps/web scaled\n");
    until("the third waits", || {
        (up.get("/api/v1/picture").1["picture"]["waiting"].as_object()?.len() == 1).then_some(())
    });
    let table = up.said(&["get", "pods", "-A"], "");
    assert!(table.starts_with("NAMESPACE   NAME"), "{table}");
    assert_eq!(table.lines().filter(|line| line.contains("Pending")).count(), 1, "{table}");
    let waiting =
        table.lines().find(|line| line.contains("Pending")).and_then(|line| line.split_whitespace().nth(1));
    let told = up.said(&["explain", "pod", waiting.expect("a pod")], "");
    assert!(told.contains("waits for a node") && told.contains("Insufficient nvidia.com/gpu"), "{told}");
    let wide = up.said(&["get", "pods", "-o", "wide"], "");
    assert!(wide.contains("NODE") && wide.contains("g5-1"), "{wide}");
    let json: Value =
        serde_json::from_str(&up.said(&["get", "deployment/web", "-o", "json"], "")).expect("JSON");
    assert_eq!((json["kind"].as_str(), json["spec"]["replicas"].as_i64()), (Some("Deployment"), Some(3)));
    assert!(up.said(&["get", "deployment", "web", "-o", "yaml"], "").contains("replicas: 3"));
    let both: Value = serde_json::from_str(&up.said(&["get", "deployments,nodes", "-o", "json"], ""))
        .expect("one document");
    let kinds: BTreeSet<&str> =
        both["items"].as_array().into_iter().flatten().filter_map(|one| one["kind"].as_str()).collect();
    assert_eq!((both["kind"].as_str(), kinds), (Some("List"), BTreeSet::from(["Deployment", "Node"])));
    assert_eq!(up.said(&["label", "node", "g5-1", "pool=train"], ""), "node/g5-1 labeled\n");
    assert_eq!(up.said(&["get", "nodes", "-l", "pool=train", "-o", "name"], ""), "node/g5-1\n");
    up.said(&["label", "node/g5-1", "pool-"], "");
    until("somebody has paid", || {
        up.said(&["cost", "--since", "1h", "-o", "csv"], "").contains("default").then_some(())
    });
    assert_eq!(up.said(&["delete", "deployment", "web"], ""), "deployment.apps \"web\" deleted\n");
    until("they are gone", || up.said(&["get", "pods", "-o", "name"], "").is_empty().then_some(()));
}

#[test]
fn what_is_wrong_is_said_and_changes_nothing() {
    let up = Up::start(folder(), &["--fleet", "g5.xlarge=1", "--empty", "--allow-changes"]);
    until("the machine is there", || {
        up.said(&["get", "nodes", "-o", "name"], "").contains("g5-1").then_some(())
    });
    let before = up.said(&["get", "deployments,pods,configmaps", "-A", "-o", "name"], "");
    let half = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: half}}\n---\n{}",
        deployment("UPPER", 1, "a: 1")
    );
    for (words, input, code, said) in [
        (&["get", "nonsense"][..], "", 1, "no kind of objects is called 'nonsense'"),
        (&["get", "pods", "none"], "", 1, "not found"),
        (&["scale", "deployment/none", "--replicas", "1"], "", 1, "not found"),
        (&["scale", "node/g5-1", "--replicas", "1"], "", 1, "can not be scaled"),
        (&["delete", "pod", "none"], "", 1, "not found"),
        (&["apply", "-f", "-"], "kind: [", 2, "does not read"),
        (&["apply", "-f", "-"], "kind: Pod", 2, "apiVersion is missing"),
        (&["apply", "-f", "-"], half.as_str(), 1, "metadata.name"),
        (&["label", "node", "g5-1", "pool"], "", 2, "neither LABEL=VALUE nor LABEL-"),
        (&["label", "node", "g5-1", "pool=no spaces"], "", 1, "metadata.labels.pool"),
        (
            &["apply", "-f", "-"],
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: lots}}}]}",
            1,
            "gpumem",
        ),
    ] {
        let (found, told) = up.refused(words, input);
        assert!(found == code && told.contains(said), "carve {}: {found}: {told}", words.join(" "));
    }
    let json = "application/json";
    for (path, kind, body, code, field) in [
        (
            "/api/v1/scale",
            json,
            r#"{"kind":"Deployment","namespace":"default","name":"none","replicas":1}"#,
            404,
            Value::Null,
        ),
        (
            "/api/v1/scale",
            json,
            r#"{"kind":"Deployment","namespace":"default","name":"x","replicas":-1}"#,
            400,
            "replicas".into(),
        ),
        ("/api/v1/scale", json, r#"{"kind":"Deployment"}"#, 400, "namespace".into()),
        (
            "/api/v1/scale",
            json,
            r#"{"kind":"Toaster","namespace":"default","name":"x","replicas":1}"#,
            400,
            "kind".into(),
        ),
        ("/api/v1/scale", "text/plain", "{}", 415, "content-type".into()),
        ("/api/v1/apply", "application/yaml", half.as_str(), 422, "metadata.name".into()),
        ("/api/v1/what-if", json, r#"{"fleet":"toaster=1"}"#, 400, "fleet".into()),
        ("/api/v1/what-if", json, r#"{"shares":99}"#, 400, "shares".into()),
        ("/api/v1/what-if", json, r#"{"mechanisms":["magic"]}"#, 400, "mechanisms".into()),
    ] {
        let (found, answer) = up.post(path, kind, body);
        assert!(
            found == code && answer["field"] == field && answer["message"].is_string(),
            "{path} {body}: {found} {answer}"
        );
    }
    for (path, code) in [
        ("/api/v1/picture?at=x", 400),
        ("/api/v1/picture?at=1", 404),
        ("/api/v1/cost?by=x", 400),
        ("/api/v1/cost?since=x", 400),
        ("/api/v1/node?name=none", 404),
        ("/nowhere", 404),
    ] {
        assert_eq!(up.get(path).0, code, "{path}");
    }
    assert_eq!(up.said(&["get", "deployments,pods,configmaps", "-A", "-o", "name"], ""), before);
}

#[test]
fn whoever_kills_it_loses_nothing_that_was_acknowledged() {
    let words = ["--fleet", "p4d.24xlarge=1", "--empty"];
    let mut up = Up::start(folder(), &words);
    until("the machine is there", || {
        up.said(&["get", "nodes", "-o", "name"], "").contains("p4d-1").then_some(())
    });
    up.said(&["label", "node", "p4d-1", "nvidia.com/mig.config=all-1g.5gb"], "");
    for round in 0_u32..3 {
        let name = format!("web-{round}");
        up.said(&["apply", "-f", "-"], &deployment(&name, 5 + round, "nvidia.com/mig-1g.5gb: 1"));
        up = up.kill_and_start(&words[2..]);
        let there = until("objects are there", || Some(up.said(&["get", "deployments", "-o", "name"], "")));
        for earlier in 0..=round {
            assert!(there.contains(&format!("web-{earlier}\n")), "round {round}: {there}");
        }
    }
    // And it goes on as if nothing had happened: 5 + 6 + 7 pods, each with a device of its own.
    let devices = || {
        let picture = up.get("/api/v1/picture").1;
        let gpus = picture["picture"]["nodes"]["p4d-1"]["gpus"].as_array().cloned().unwrap_or_default();
        let slices = gpus.iter().flat_map(|gpu| gpu["slices"].as_array().cloned().unwrap_or_default());
        let mut devices: Vec<String> =
            slices.filter_map(|slice| Some(slice["instance"].as_str()?.to_owned())).collect();
        devices.sort();
        devices
    };
    let found = until("all run", || Some(devices()).filter(|devices| devices.len() == 18));
    let mut once = found.clone();
    once.dedup();
    assert_eq!(found, once, "no device is given to two");
}

#[test]
fn two_do_not_share_a_folder_and_strangers_are_sent_away() {
    let up = Up::start(folder(), &["--fleet", "g5.xlarge=1", "--empty"]);
    let (code, told) = up.refused(&["up", "--listen", "127.0.0.1:0"], "");
    assert!(code == 1 && told.contains("used by another process"), "{told}");
    let (_, told) = up.refused(&["up", "--listen", "0.0.0.0:0", "--forget"], "");
    assert!(told.contains("--token-file"), "{told}");
    let (code, told) = up.refused(&["up", "--fleet", "toaster=1", "--forget"], "");
    assert!(code == 2 && told.contains("no machine 'toaster'"), "{told}");
    // Without the token nobody sees objects, and the page changes nothing.
    assert_eq!(up.get("/kubernetes/wrong/api/v1/pods").0, 404);
    let (code, answer) = up.post("/api/v1/apply", "application/yaml", "kind: Pod");
    assert!(
        code == 403 && answer["hint"].as_str().is_some_and(|hint| hint.contains("--allow-changes")),
        "{answer}"
    );
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let evil = agent
        .get(format!("{}/api/v1/picture", up.url))
        .header("host", "evil.example")
        .call()
        .expect("an answer");
    assert_eq!(evil.status().as_u16(), 403);
}

#[test]
fn the_demo_lives() {
    let up = Up::start(folder(), &[]);
    let sum = |path: &str| {
        let picture = up.get("/api/v1/picture").1;
        picture["summary"].pointer(path).and_then(Value::as_f64).unwrap_or(0.0)
    };
    until("everybody has come", || (sum("/slices") >= 15.0 && sum("/waiting") >= 1.0).then_some(()));
    until("something is used", || (sum("/money/used") > 1.0).then_some(()));
    let parts = ["used", "heldIdle", "idle", "withheld"].map(|part| sum(&format!("/money/{part}")));
    let (all, price) = (parts.iter().sum::<f64>(), sum("/money/perHour"));
    assert!(price > 20.0 && (all - price).abs() < 2.0, "{parts:?} of {price}");
    let (code, page) = up.get("/");
    assert!(code == 200 && page.as_str().is_some_and(|page| page.contains("main.js")));
    let (code, document) = up.get("/api/v1/openapi.json");
    assert!(code == 200 && document["openapi"] == "3.1.0");
}
