//! Karpenter's own controllers bring as many machines as parts need, because overlays say what nodes will advertise.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

use carve_cluster_tests::{Advertised, Cluster, KarpenterRun, Namespace, PATIENCE};
use carve_economics::Provider;
use carve_karpenter::{
    CapacityType, ChosenBy, Compiled, Cut, MigCut, NodeClass, Pool, WeightBand, compile_all,
};
use carve_test_support::fixture_text;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Karpenter looks at a pod that waits every ten seconds; what it would do later it has done by then.
const ANOTHER_LOOK: Duration = Duration::from_secs(15);
/// How long machines take until they are nodes with devices: several looks of Karpenter's at pods that wait for them.
const ON_THEIR_WAY: Duration = Duration::from_secs(25);

fn definitions() -> Option<Vec<String>> {
    ["nodepools", "nodeclaims", "nodeoverlays"]
        .iter()
        .map(|kind| fixture_text(&format!("ecosystem/karpenter/karpenter.sh_{kind}.yaml")))
        .collect()
}

fn pool(name: &str, model: &str, gpus: u8, cut: Cut, first: u16) -> Pool {
    let [group, kind, class] = KarpenterRun::class();
    Pool {
        name: name.to_owned(),
        node_class: NodeClass { group, kind, name: class },
        models: vec![model.to_owned()],
        counts: vec![gpus],
        capacity_types: vec![CapacityType::OnDemand],
        cut,
        chosen_by: ChosenBy::InstanceTypes(Provider::Aws),
        weights: WeightBand { first, last: first + 9 },
        most_gpus: Some(64),
        labels: BTreeMap::new(),
    }
}

/// Pods that each want the same, on nodes of one pool.
fn pods(pool: &str, wants: &Value, count: usize) -> Vec<Value> {
    let pod = |number: usize| {
        json!({
            "metadata": {"name": format!("{pool}-{number}"), "labels": {"pool": pool}},
            "spec": {
                "nodeSelector": {"karpenter.sh/nodepool": pool},
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "main", "image": "none", "resources": {"requests": {"cpu": "50m"}, "limits": wants},
                }],
            },
        })
    };
    (0..count).map(pod).collect()
}

/// How many pods have a node, by their pools.
fn bound(namespace: &Namespace) -> BTreeMap<String, usize> {
    let pods = namespace.get(&["pods"]);
    let mut counted = BTreeMap::new();
    for pod in pods["items"].as_array().into_iter().flatten() {
        if let (true, Some(pool)) =
            (pod["spec"]["nodeName"].is_string(), pod["metadata"]["labels"]["pool"].as_str())
        {
            *counted.entry(pool.to_owned()).or_default() += 1;
        }
    }
    counted
}

/// What nodes of a pool advertise: what was predicted of each type of its machines.
fn advertised(pool: &Pool, compiled: &Compiled) -> Advertised {
    let machines = compiled.overlays.iter().flat_map(|overlay| {
        overlay.types.iter().map(|machine| (machine, overlay.promise.resources().clone()))
    });
    machines.map(|(machine, resources)| ((pool.name.clone(), (*machine).to_owned()), resources)).collect()
}

/// Pods on a pool, and what must come of them.
struct Case {
    pool: Pool,
    /// Whether Karpenter is given the overlays, and then whether they say that there are no whole GPUs.
    told: Told,
    wants: Value,
    pods: usize,
    machines: usize,
    bound: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Told {
    All,
    AllButTheZero,
    Nothing,
}

/// The pools, each with weights of its own.
fn cases() -> Vec<Case> {
    let quarter = || Cut::Shared { replicas: 4, renamed: false };
    let renamed = Cut::Shared { replicas: 4, renamed: true };
    let tenth = || Cut::Mig(MigCut::All("1g.10gb".parse().expect("a profile")));
    let fifth = Cut::Mig(MigCut::All("1g.5gb".parse().expect("a profile")));
    let (gpu, instance) = (json!({"nvidia.com/gpu": "1"}), json!({"nvidia.com/mig-1g.10gb": "1"}));
    // A quarter of what is promised of a T4.
    let part = json!({"carve.dev/slice": "1", "carve.dev/memory": "3584", "carve.dev/compute": "25"});
    let mut first = 90;
    let mut case =
        |name: &str, model: &str, gpus: u8, cut: Cut, wants: &Value, pods: usize, machines: usize| {
            first += 10;
            let pool = pool(name, model, gpus, cut, first);
            Case { pool, told: Told::All, wants: wants.clone(), pods, machines, bound: pods }
        };
    let mut cases = vec![
        case("quarters-x1", "t4", 1, quarter(), &gpu, 40, 10),
        case("quarters-x4", "t4", 4, quarter(), &gpu, 40, 3),
        case("quarters-x8", "t4", 8, quarter(), &gpu, 40, 2),
        case("renamed-x4", "l4", 4, renamed, &json!({"nvidia.com/gpu.shared": "1"}), 40, 3),
        case("mig-x8", "h100", 8, tenth(), &instance, 60, 2),
        case("parts-x4", "t4", 4, Cut::Parts, &part, 40, 3),
        case("labels-x4", "t4", 4, quarter(), &gpu, 40, 3),
        // AWS' label names two products; only one of them holds seven.
        case("narrowed-x8", "a100-40gb", 8, fifth, &json!({"nvidia.com/mig-1g.5gb": "1"}), 60, 2),
        // Pods that want a whole GPU of a pool that has none any more.
        Case { bound: 0, ..case("no-whole-x8", "h100", 8, tenth(), &gpu, 1, 0) },
        Case { bound: 16, ..case("limited-x1", "t4", 1, quarter(), &gpu, 40, 4) },
        Case { told: Told::Nothing, ..case("untold-x1", "t4", 1, quarter(), &gpu, 40, 40) },
        Case { told: Told::Nothing, bound: 0, ..case("untold-mig-x8", "h100", 8, tenth(), &instance, 10, 0) },
        Case {
            told: Told::AllButTheZero,
            bound: 0,
            ..case("counted-twice-x8", "h100", 8, tenth(), &gpu, 1, 1)
        },
    ];
    for Case { pool, .. } in &mut cases {
        match pool.name.as_str() {
            "limited-x1" => pool.most_gpus = Some(4),
            "labels-x4" => pool.models.push("l4".to_owned()),
            _ => {}
        }
        if pool.name.starts_with("labels") || pool.name.starts_with("narrowed") {
            pool.chosen_by = ChosenBy::AwsLabels;
        }
    }
    cases
}

#[test]
fn machines_come_for_parts_and_not_for_pods() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(definitions) = definitions() else { return };
    let Some(karpenter) = KarpenterRun::start(&cluster, &definitions) else { return };
    let namespace = cluster.namespace("karpenter-overlays");
    let cases = cases();
    let pools: Vec<Pool> = cases.iter().map(|case| case.pool.clone()).collect();
    let compiled = compile_all(&pools).expect("pools");
    let mut all = Advertised::new();
    for (case, compiled) in cases.iter().zip(&compiled) {
        all.extend(advertised(&case.pool, compiled));
        for document in compiled.documents() {
            let mut document = document.clone();
            match (document["kind"].as_str(), case.told) {
                (Some("NodeOverlay"), Told::Nothing) => continue,
                (Some("NodeOverlay"), Told::AllButTheZero) => {
                    let capacity = document["spec"]["capacity"].as_object_mut().expect("capacity");
                    assert_eq!(capacity.remove("nvidia.com/gpu"), Some(json!("0")));
                }
                _ => {}
            }
            karpenter.apply(&document);
        }
    }
    karpenter.wait_until_ready();

    let wanted: Vec<Value> =
        cases.iter().flat_map(|case| pods(&case.pool.name, &case.wants, case.pods)).collect();
    let start = Instant::now();
    namespace.create_pods(&wanted);
    let asked_for = || cases.iter().all(|case| karpenter.brought(&case.pool.name).len() >= case.machines);
    cluster.until_or("machines are asked for", PATIENCE, asked_for, || karpenter.said());
    std::thread::sleep(ON_THEIR_WAY);
    let done = || {
        karpenter.tend(&all);
        let bound = bound(&namespace);
        cases.iter().all(|case| bound.get(&case.pool.name).copied().unwrap_or(0) == case.bound)
    };
    cluster.until_or("pods have nodes", PATIENCE, done, || karpenter.said());
    println!(
        "{} pods, those that can be are bound after {:.1} s",
        wanted.len(),
        start.elapsed().as_secs_f64()
    );
    let settled = Instant::now();
    while settled.elapsed() < ANOTHER_LOOK {
        karpenter.tend(&all);
        std::thread::sleep(Duration::from_millis(500));
    }

    for case in &cases {
        let name = &case.pool.name;
        let brought = karpenter.brought(name);
        let gpus: u64 = brought.iter().map(|machine| machine.gpus).sum();
        let first =
            brought.first().map(|machine| format!(" {}, the first for {}", machine.machine, machine.asked));
        println!(
            "{name}: {} pods, {} machines, {gpus} GPUs{}",
            case.pods,
            brought.len(),
            first.unwrap_or_default()
        );
        assert_eq!(brought.len(), case.machines, "{name}: {brought:#?}\n{}", karpenter.said());
        assert_eq!(gpus, case.machines as u64 * u64::from(case.pool.counts[0]), "{name}: {brought:#?}");
        assert_eq!(bound(&namespace).get(name).copied().unwrap_or(0), case.bound, "{name}");
    }
}

/// A real API server knows rules that a schema does not have.
#[test]
fn everything_that_is_made_is_taken_by_an_api_server() {
    let Some(cluster) = Cluster::connect() else { return };
    let Some(definitions) = definitions() else { return };
    carve_cluster_tests::define(&cluster, definitions.iter().map(String::as_str));
    let cuts = [
        (vec!["t4", "l40s"], Cut::Shared { replicas: 4, renamed: false }),
        (vec!["a100-40gb", "t4"], Cut::Shared { replicas: 8192, renamed: true }),
        (vec!["h100", "a100-80gb"], Cut::Mig(MigCut::All("1g.10gb+me".parse().expect("a profile")))),
        (vec!["h200"], Cut::Mig(MigCut::Mixed("3g.71gb=1,1g.18gb=4".parse().expect("a geometry")))),
        (vec!["t4", "b200"], Cut::Parts),
    ];
    let mut first = 1000;
    let mut documents: Vec<Value> = Vec::new();
    for (models, cut) in cuts {
        for chosen_by in [ChosenBy::AwsLabels, ChosenBy::InstanceTypes(Provider::Aws)] {
            let mut pool = pool(&format!("taken-{first}"), models[0], 8, cut.clone(), first);
            pool.models = models.iter().map(|model| (*model).to_owned()).collect();
            pool.counts = vec![1, 8];
            pool.chosen_by = chosen_by;
            documents.extend(compile_all(&[pool]).expect("a pool")[0].documents().cloned());
            first += 10;
        }
    }
    let old = json!({
        "apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": "taken-old"},
        "spec": {
            "labels": {"karpenter.sh/provisioner-name": "taken-old", "nvidia.com/gpu": "true"},
            "requirements": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "ttlSecondsAfterEmpty": 300, "limits": {"resources": {"cpu": 1000}},
        },
    });
    documents.extend(carve_karpenter::translate(&[old]).expect("an old document").expect("pools").documents);
    let create = |documents: &[Value]| {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": documents});
        cluster.try_kubectl(
            &["create", "--dry-run=server", "--validate=strict", "-f", "-"],
            Some(&list.to_string()),
        )
    };
    let taken = create(&documents).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(taken.lines().count(), documents.len(), "{taken}");

    // What is left untranslated is refused by a rule, so the rules are in force.
    let mut wrong = documents.last().cloned().expect("a pool");
    wrong["spec"]["template"]["metadata"]["labels"]["karpenter.sh/provisioner-name"] = "x".into();
    let refusal = create(&[wrong]).expect_err("refused");
    assert!(refusal.contains("karpenter.sh") && refusal.contains("restricted"), "{refusal}");
    let mut wrong = documents.first().cloned().expect("an overlay");
    assert_eq!(wrong["kind"], "NodeOverlay");
    wrong["spec"]["capacity"]["cpu"] = "4".into();
    let refusal = create(&[wrong]).expect_err("refused");
    assert!(refusal.contains("invalid resource restricted"), "{refusal}");
}
