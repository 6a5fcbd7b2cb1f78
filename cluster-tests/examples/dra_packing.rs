//! How many large MIG claims find no room, in several orders of devices: `cargo xtask lab dra-packing [SEED…]` runs this.
//!
//! Claims arrive and leave one after the other on four nodes of eight GPUs; the lab's own scheduler decides about each before the next
//! arrives. The same sequence is played to each order, and only the order in which devices are listed differs. A ledger beside the
//! scheduler knows what is free: a claim counts as refused only when nothing was.
//!
//! Two sequences tell little, so more are played to the ledger alone, which gives each claim the first device that fits on the node with
//! the fewest claims, as the scheduler mostly does.
//!
//! The program runs twice over: outside it publishes the devices and prints the table, inside the lab's network (`inside SEED ORDER`) it
//! plays one sequence.
#![allow(clippy::panic, clippy::expect_used, reason = "a failure of the command is a panic that says why")]

use carve_cluster_tests::dra_packing::{Ledger, Tally, arrivals, play_model, profiles};
use carve_cluster_tests::{
    Cluster, DeviceOrder, HollowNodes, Offered, PATIENCE, class_objects, machine_layout, slice_objects,
    why_waiting,
};
use carve_dra::{Layout, Ways};
use carve_lab::{Lab, Places};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

const DRIVER: &str = "packing.example.com";
const SUITE: &str = "dra-packing";
const MACHINE: &str = "h100-sxm-80gb:8";
const NODES: usize = 4;
const ARRIVALS: usize = 500;
/// Arrivals that a claim stays for on average: more is asked for than there is, and the fleet is nearly nine tenths full.
const STAYS: f64 = 140.0;
/// Claims before this one arrive in a fleet that is still filling, and are not counted.
const FILLING: usize = 150;
/// Sequences that are played to the ledger alone.
const MODEL_SEEDS: u64 = 30;

/// The orders, and what they are called.
const ORDERS: [(&str, DeviceOrder); 2] =
    [("by name", DeviceOrder::Name), ("carve's order", DeviceOrder::Packing)];

fn node_name(number: usize) -> String {
    format!("packing-{number}")
}

/// MIG and nothing else: then the two offers differ in nothing but their order.
fn offer(order: DeviceOrder) -> Layout {
    let none = BTreeSet::new();
    let ways = Ways { exclusive: false, shared: none.clone(), mig: true, shared_mig: none, turns: 1 };
    machine_layout(MACHINE, &ways, order).expect("a machine")
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["inside", seed, order] => {
            let (_, order) = ORDERS.into_iter().find(|(name, _)| name == order).expect("an order");
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let told = runtime.block_on(play(seed.parse().expect("a seed"), order));
            println!("{told}");
        }
        ["model"] => print_model(),
        seeds => {
            let seeds: Vec<u64> =
                seeds.iter().map(|seed| seed.parse().expect("a seed is a number")).collect();
            outside(if seeds.is_empty() { &[1, 2] } else { &seeds });
        }
    }
}

fn outside(seeds: &[u64]) {
    let cluster = Cluster::connect().expect("a lab: 'cargo xtask lab up' starts one");
    let names: Vec<String> = (0..NODES).map(node_name).collect();
    let _nodes = HollowNodes::new(&cluster, SUITE, &names);
    for seed in seeds {
        let told = ORDERS.map(|(word, order)| {
            let offered = Offered::new(&cluster, DRIVER);
            let layout = offer(order);
            let slices = names.iter().flat_map(|node| slice_objects(DRIVER, node, &layout));
            let mut objects: Vec<Value> = slices.collect();
            objects.extend(class_objects(DRIVER));
            offered.publish(&objects);
            let _namespace = cluster.namespace(SUITE);
            inside(*seed, word)
        });
        print(*seed, &told);
    }
    print_model();
}

/// Plays one sequence inside the lab's network, where the API server can be reached.
fn inside(seed: u64, order: &str) -> Value {
    let program = std::env::current_exe().expect("this program").display().to_string();
    let words = [program, "inside".to_owned(), seed.to_string(), order.to_owned()];
    let mut command = Lab::new(Places::usual()).command(&words).expect("the lab");
    let output = command.stderr(std::process::Stdio::inherit()).output().expect("this program runs inside");
    assert!(output.status.success(), "seed {seed}, order {order}: {}", output.status);
    serde_json::from_slice(&output.stdout).expect("what it tells")
}

fn print(seed: u64, told: &[Value]) {
    println!(
        "\nSeed {seed}: {ARRIVALS} claims on {NODES} nodes of {MACHINE}, the first {FILLING} not counted\n"
    );
    let number = |side: &Value, what: &str, profile: &str| side[what][profile].as_u64().unwrap_or(0);
    print_rows(|profile| {
        let asked = told.first().map_or(0, |side| number(side, "asked", profile));
        (asked, told.iter().map(|side| number(side, "refused", profile)).collect())
    });
    let each = |what: &str, times: f64| {
        told.iter().map(move |side| side[what].as_f64().unwrap_or(0.0) * times).collect::<Vec<f64>>()
    };
    print_figures("compute slices taken, percent", &each("fullness", 100.0));
    print_figures("ms until a decision", &each("decision_ms", 1.0));
    print_figures("refused before the scheduler knew who had left, then served", &each("again", 1.0));
}

/// The same for many seeds, without the scheduler.
fn print_model() {
    let sides = ORDERS.map(|(_, order)| {
        let layout = offer(order);
        let play = |seed| play_model(&layout, NODES, &arrivals(seed, ARRIVALS, STAYS), FILLING);
        (1..=MODEL_SEEDS).map(play).collect::<Vec<Tally>>()
    });
    println!("\nA model of the scheduler, seeds 1 to {MODEL_SEEDS} together\n");
    let sum = |side: &[Tally], of: fn(&Tally) -> &BTreeMap<&'static str, u64>, profile: &str| {
        side.iter().map(|tally| of(tally).get(profile).copied().unwrap_or(0)).sum::<u64>()
    };
    print_rows(|profile| {
        let refused = sides.iter().map(|side| sum(side, |tally| &tally.refused, profile)).collect();
        (sum(&sides[0], |tally| &tally.asked, profile), refused)
    });
    let full =
        |side: &Vec<Tally>| side.iter().map(Tally::mean_fullness).sum::<f64>() / side.len() as f64 * 100.0;
    print_figures("compute slices taken, percent", &sides.iter().map(full).collect::<Vec<f64>>());
}

/// A table with a row for each profile: how many were asked for, and how many were refused in each order.
fn print_rows(row: impl Fn(&str) -> (u64, Vec<u64>)) {
    println!("| profile | asked | {} |", ORDERS.map(|(name, _)| format!("refused, {name}")).join(" | "));
    println!("|---|---|{}", "---|".repeat(ORDERS.len()));
    let mut large = (0, vec![0; ORDERS.len()]);
    let print = |name: &str, asked: u64, refused: &[u64]| {
        let refused: Vec<String> = refused.iter().map(u64::to_string).collect();
        println!("| {name} | {asked} | {} |", refused.join(" | "));
    };
    for profile in profiles() {
        let (asked, refused) = row(profile);
        print(profile, asked, &refused);
        if !["1g.10gb", "2g.20gb"].contains(&profile) {
            large.0 += asked;
            large.1.iter_mut().zip(refused).for_each(|(sum, number)| *sum += number);
        }
    }
    print("3g and larger", large.0, &large.1);
}

/// One more row, of figures.
fn print_figures(what: &str, figures: &[f64]) {
    let figures: Vec<String> = figures.iter().map(|figure| format!("{figure:.1}")).collect();
    println!("| {what} | | {} |", figures.join(" | "));
}

struct Inside {
    pods: Api<Pod>,
    claims: Api<ResourceClaim>,
}

/// What the scheduler says to a claim.
enum Decision {
    Bound { node: usize, device: String },
    Refused,
}

impl Inside {
    async fn connect() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::try_default().await.expect("the API server");
        let namespace = format!("test-{SUITE}");
        Inside {
            pods: Api::namespaced(client.clone(), &namespace),
            claims: Api::namespaced(client, &namespace),
        }
    }

    async fn ask(&self, name: &str, profile: &str) {
        let selector = format!("device.attributes['{DRIVER}'].profile == '{profile}'");
        let exactly = json!({"deviceClassName": format!("mig.{DRIVER}"), "selectors": [{"cel": {"expression": selector}}]});
        let claim = json!({
            "metadata": {"name": name},
            "spec": {"devices": {"requests": [{"name": "mig", "exactly": exactly}]}},
        });
        let mut pod = json!({
            "metadata": {"name": name},
            "spec": {
                "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "it"}]}}],
                "resourceClaims": [{"name": "it", "resourceClaimName": name}],
            },
        });
        HollowNodes::allow(&mut pod["spec"], SUITE);
        let claim: ResourceClaim = serde_json::from_value(claim).expect("a claim");
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        self.claims.create(&PostParams::default(), &claim).await.expect("the claim is taken");
        self.pods.create(&PostParams::default(), &pod).await.expect("the pod is taken");
    }

    async fn decision(&self, name: &str) -> Option<Decision> {
        let pod = json!(self.pods.get(name).await.expect("the pod"));
        if let Some(node) = pod["spec"]["nodeName"].as_str() {
            let claim = json!(self.claims.get(name).await.expect("the claim"));
            let device = &claim["status"]["allocation"]["devices"]["results"][0]["device"];
            let node = (0..NODES).find(|number| node_name(*number) == node).expect("a node of the fleet");
            return Some(Decision::Bound { node, device: device.as_str().expect("a device").to_owned() });
        }
        why_waiting(&pod).map(|_| Decision::Refused)
    }

    /// Ends claims, and waits until the API server has forgotten them.
    async fn end(&self, names: &[String]) {
        let at_once = DeleteParams::default().grace_period(0);
        for name in names {
            self.pods.delete(name, &at_once).await.expect("the pod goes");
            self.claims.delete(name, &DeleteParams::default()).await.expect("the claim goes");
        }
        for name in names {
            let give_up = Instant::now() + PATIENCE;
            while self.claims.get_opt(name).await.expect("the API server answers").is_some() {
                assert!(Instant::now() < give_up, "{name} does not go");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

/// Plays one sequence and tells what came of it.
#[allow(clippy::cast_precision_loss, reason = "some hundred claims")]
async fn play(seed: u64, order: DeviceOrder) -> Value {
    let inside = Inside::connect().await;
    let mut ledger = Ledger::new(&offer(order), NODES);
    let mut leaving: BTreeMap<usize, Vec<(String, usize, String)>> = BTreeMap::new();
    let (mut tally, mut again) = (Tally::default(), 0_u64);
    let mut waits: Vec<f64> = Vec::new();
    let start = Instant::now();
    for (number, arrival) in arrivals(seed, ARRIVALS, STAYS).into_iter().enumerate() {
        let gone = leaving.remove(&number).unwrap_or_default();
        inside.end(&gone.iter().map(|(name, ..)| name.clone()).collect::<Vec<_>>()).await;
        for (_, node, device) in &gone {
            assert!(ledger.charge(*node, device, false), "{device} was charged");
        }
        let name = format!("claim-{number}");
        let room = ledger.has_room(arrival.profile);
        let asking = Instant::now();
        inside.ask(&name, arrival.profile).await;
        let (mut looks_again, give_up) = (false, Instant::now() + PATIENCE);
        let decision = loop {
            match inside.decision(&name).await {
                // The scheduler may not know yet who has just left. It looks again when it does.
                Some(Decision::Refused) if room => looks_again = true,
                Some(decision) => break decision,
                None => {}
            }
            assert!(Instant::now() < give_up, "{name}: no decision, although there is room: {room}");
            tokio::time::sleep(Duration::from_millis(4)).await;
        };
        let waited = asking.elapsed().as_secs_f64() * 1_000.0;
        again += u64::from(looks_again);
        if !looks_again {
            waits.push(waited);
        }
        let served = match decision {
            Decision::Bound { node, device } => {
                assert!(ledger.charge(node, &device, true), "{name}: {device} of node {node} is not free");
                leaving.entry(number + arrival.stays).or_default().push((name, node, device));
                true
            }
            Decision::Refused => {
                inside.end(&[name]).await;
                false
            }
        };
        if number >= FILLING {
            tally.count(arrival.profile, served, ledger.fullness());
        }
        if (number + 1) % 100 == 0 {
            let seconds = start.elapsed().as_secs_f64();
            eprintln!("seed {seed}, {order:?}: {} of {ARRIVALS} claims after {seconds:.0} s", number + 1);
        }
    }
    json!({
        "asked": tally.asked, "refused": tally.refused, "fullness": tally.mean_fullness(), "again": again,
        "decision_ms": waits.iter().sum::<f64>() / waits.len() as f64,
    })
}
