//! Stand-ins: enough whole GPUs for pods that wait for slices, and never one too many.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

mod pools;

use carve_karpenter::{
    Amounts, ChosenBy, Cut, Place, Pool, Situation, Stage, StandIn, ToldBy, Waiting, changes, compile,
    least_of_each_gpu, node_groups,
};
use pools::{all, mixed, pool, shared};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const SLICE: &str = "nvidia.com/mig-1g.5gb";
const OTHER: &str = "nvidia.com/mig-2g.10gb";

fn amounts(list: &[(&str, u64)]) -> Amounts {
    list.iter()
        .filter(|(_, amount)| *amount > 0)
        .map(|(name, amount)| ((*name).to_owned(), *amount))
        .collect()
}

fn waiting(wants: impl IntoIterator<Item = Amounts>) -> Vec<Waiting> {
    let name = |(number, wants)| Waiting { name: format!("pod-{number}"), wants };
    wants.into_iter().enumerate().map(name).collect()
}

/// Everything that a situation borrows.
#[derive(Debug, Clone)]
struct World {
    each_gpu: Amounts,
    largest: u64,
    smallest: u64,
    waiting: Vec<Waiting>,
    rooms: Vec<Amounts>,
    stand_ins: Vec<StandIn>,
    gpus: u64,
    most_gpus: Option<u64>,
}

impl World {
    fn of(slices: u64, waiting: Vec<Waiting>) -> Self {
        let each_gpu = amounts(&[(SLICE, slices * 1000)]);
        let (rooms, stand_ins) = (Vec::new(), Vec::new());
        World { each_gpu, largest: 8, smallest: 1, waiting, rooms, stand_ins, gpus: 0, most_gpus: None }
    }

    fn situation(&self) -> Situation<'_> {
        Situation {
            policy: "sevenths",
            each_gpu: &self.each_gpu,
            largest: self.largest,
            smallest: self.smallest,
            waiting: &self.waiting,
            rooms: &self.rooms,
            stand_ins: &self.stand_ins,
            gpus: self.gpus,
            most_gpus: self.most_gpus,
        }
    }

    /// Does what is to be done, and says how many were made and how many went.
    fn step(&mut self) -> (usize, usize) {
        let done = changes(self.situation());
        self.stand_ins.retain(|one| !done.delete.contains(&one.name));
        self.stand_ins.extend(done.create.iter().cloned());
        let names: BTreeSet<&String> = self.stand_ins.iter().map(|one| &one.name).collect();
        assert_eq!(names.len(), self.stand_ins.len(), "a name was given twice");
        (done.create.len(), done.delete.len())
    }

    fn asked(&self) -> u64 {
        self.stand_ins.iter().map(|one| one.gpus).sum()
    }
}

fn stand_in(number: usize, gpus: u64, besides: Amounts, place: Place) -> StandIn {
    StandIn { name: format!("carve-stand-in-sevenths-{number:06}"), gpus, besides, place }
}

fn places() -> impl Strategy<Value = Place> {
    prop_oneof![Just(Place::Nowhere), Just(Place::Whole), Just(Place::Cut)]
}

/// Any world: pods of all sizes, nodes with something left, stand-ins of before.
fn worlds() -> impl Strategy<Value = World> {
    let pod = (0..9u64, 0..3u64, 0..4u64);
    let room = (0..9u64, 0..3u64, 0..9u64);
    let before = (1..3u64, 0..6u64, places());
    (
        (1..8u64, 0..3u64),
        proptest::collection::vec(pod, 0..30),
        proptest::collection::vec(room, 0..5),
        proptest::collection::vec(before, 0..8),
        (1..5u64, 0..4u64, 0..20u64, proptest::option::of(0..30u64)),
    )
        .prop_map(|((slices, others), pods, rooms, before, (smallest, more, gpus, most_gpus))| {
            let each = |(slices, others, cpu): (u64, u64, u64)| {
                amounts(&[(SLICE, slices * 1000), (OTHER, others * 1000), ("cpu", cpu * 500), ("pods", 1000)])
            };
            let room = |(slices, others, cpu): (u64, u64, u64)| {
                amounts(&[(SLICE, slices * 1000), (OTHER, others * 1000), ("cpu", cpu * 500), ("pods", 4000)])
            };
            let before = before.into_iter().enumerate();
            World {
                each_gpu: amounts(&[(SLICE, slices * 1000), (OTHER, others * 1000)]),
                largest: smallest + more,
                smallest,
                waiting: waiting(pods.into_iter().map(each)),
                rooms: rooms.into_iter().map(room).collect(),
                stand_ins: before
                    .map(|(n, (gpus, cpu, place))| stand_in(n, gpus, amounts(&[("cpu", cpu * 500)]), place))
                    .collect(),
                gpus,
                most_gpus,
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(700))]

    /// Pods of one slice each: the number of GPUs is the smallest there is, whatever was there before.
    #[test]
    fn enough_gpus_and_none_too_many(
        slices in 1..16u64, pods in 0..200u64, rooms in proptest::collection::vec(0..9u64, 0..6),
        before in proptest::collection::vec(places(), 0..12),
    ) {
        let mut world = World::of(slices, waiting((0..pods).map(|_| amounts(&[(SLICE, 1000)]))));
        world.rooms = rooms.iter().map(|free| amounts(&[(SLICE, free * 1000)])).collect();
        let one = |(n, place): (usize, &Place)| stand_in(n, 1, Amounts::new(), *place);
        world.stand_ins = before.iter().enumerate().map(one).collect();
        world.step();
        let needed = pods.saturating_sub(rooms.iter().sum()).div_ceil(slices);
        prop_assert_eq!(world.asked(), needed);
        prop_assert!(world.stand_ins.iter().all(|one| one.place != Place::Cut));
        prop_assert_eq!(world.step(), (0, 0), "who looks again changes nothing");
    }

    #[test]
    fn whatever_waits_the_same_is_decided_once(world in worlds()) {
        let mut world = world;
        let wanting = |pod: &&Waiting| world.each_gpu.keys().any(|name| pod.wants.contains_key(name));
        let wanting = world.waiting.iter().filter(wanting).count();
        let done = changes(world.situation());
        prop_assert_eq!(&done, &changes(world.situation()));
        prop_assert_eq!(done.served.len() + done.beyond_limit + done.too_large, wanting);
        prop_assert!(done.create.len() <= done.served.len(), "each stands for somebody");
        let known: BTreeSet<&String> = world.stand_ins.iter().map(|one| &one.name).collect();
        let new: Vec<&StandIn> = done.create.iter().filter(|one| !known.contains(&one.name)).collect();
        prop_assert!(done.create.iter().all(|one| !known.contains(&one.name) || done.delete.contains(&one.name)));
        if let Some(most) = world.most_gpus.filter(|_| !new.is_empty()) {
            let nowhere = world.stand_ins.iter().filter(|one| one.place == Place::Nowhere);
            let asked: u64 = nowhere.chain(new).map(|one| one.gpus).sum();
            prop_assert!(world.gpus + asked <= most);
        }
        world.most_gpus = None;
        world.step();
        prop_assert_eq!(world.step(), (0, 0), "who looks again changes nothing");
        // What was asked for is enough of everything.
        let served = changes(world.situation()).served;
        for (name, each) in &world.each_gpu {
            let wants = world.waiting.iter().filter(|pod| served.contains(&pod.name));
            let wanted: u64 = wants.filter_map(|pod| pod.wants.get(name)).sum();
            let room: u64 = world.rooms.iter().filter_map(|room| room.get(name)).sum();
            prop_assert!(world.asked() * each + room >= wanted);
        }
        world.waiting.clear();
        world.step();
        prop_assert_eq!(world.stand_ins.len(), 0, "nobody waits");
    }

    /// Pods that come one after another, and want processors too, bring as many GPUs as if they had come together.
    #[test]
    fn who_comes_later_takes_what_is_left(slices in 1..8u64, pods in proptest::collection::vec(0..9u64, 1..40)) {
        let mut world = World::of(slices, Vec::new());
        for (number, cpu) in pods.iter().enumerate() {
            let wants = amounts(&[(SLICE, 1000), ("cpu", cpu * 250), ("pods", 1000)]);
            world.waiting.push(Waiting { name: format!("pod-{number:03}"), wants });
            world.step();
            prop_assert_eq!(world.asked(), (number as u64 + 1).div_ceil(slices));
            prop_assert_eq!(world.step(), (0, 0), "who looks again changes nothing");
        }
        let asked: u64 = world.stand_ins.iter().filter_map(|one| one.besides.get("cpu")).sum();
        prop_assert!(asked >= pods.iter().sum::<u64>() * 250);
    }

    /// Pods of any size up to a GPU: two stand-ins are never half empty together.
    #[test]
    fn large_pods_waste_less_than_half(slices in 1..16u64, sizes in proptest::collection::vec(1..16u64, 0..60)) {
        let sizes: Vec<u64> = sizes.into_iter().map(|size| size.min(slices)).collect();
        let mut world = World::of(slices, waiting(sizes.iter().map(|size| amounts(&[(SLICE, size * 1000)]))));
        world.step();
        let wanted: u64 = sizes.iter().sum();
        prop_assert!(world.asked() * slices >= wanted);
        prop_assert!(world.asked() <= 1 || world.asked() * slices < 2 * wanted, "{} for {wanted}", world.asked());
    }
}

#[test]
fn what_pods_want_beside_slices_is_asked_for_too() {
    let wants = amounts(&[(SLICE, 1000), ("cpu", 2000), ("memory", 1000), ("pods", 1000)]);
    let mut world = World::of(4, waiting((0..5).map(|_| wants.clone())));
    world.rooms = vec![amounts(&[(SLICE, 9000), ("cpu", 1999), ("memory", 9000), ("pods", 9000)])];
    world.step();
    let besides: Vec<u64> = world.stand_ins.iter().map(|one| one.besides["cpu"]).collect();
    assert_eq!(besides, [8000, 2000], "a node without processors is no room");
    assert!(world.stand_ins.iter().all(|one| !one.besides.contains_key("pods") && one.gpus == 1));
    // A pod that wants more than a GPU gets a machine that has it.
    world = World::of(
        4,
        waiting([amounts(&[(SLICE, 9000)]), amounts(&[(SLICE, 3000)]), amounts(&[(SLICE, 33_000)])]),
    );
    let done = changes(world.situation());
    assert_eq!(done.create.iter().map(|one| one.gpus).collect::<Vec<_>>(), [3]);
    assert_eq!((done.too_large, done.served.len()), (1, 2));
}

fn by_stand_ins(models: &[&str], counts: &[u8], cut: Cut) -> Pool {
    pool(models, counts, cut).asked_for_by(ToldBy::StandIns)
}

#[test]
fn a_pool_for_stand_ins_is_cut_later_and_has_no_overlays() {
    let made = compile(&by_stand_ins(&["a100-40gb"], &[8], all("1g.5gb"))).expect("a pool");
    let documents: Vec<&Value> = made.documents().collect();
    assert_eq!(documents.len(), 1);
    let spec = &documents[0]["spec"];
    let template = &spec["template"]["spec"];
    let taints = json!([
        {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"},
        {"key": "carve.dev/not-ready", "value": "whole", "effect": "NoSchedule"},
    ]);
    assert_eq!(template["taints"], taints, "Karpenter waits for startup taints, and this one goes later");
    assert!(template["startupTaints"].is_null());
    let labels = &spec["template"]["metadata"]["labels"];
    assert!(labels["nvidia.com/mig.config"].is_null(), "an agent that saw it would cut at once: {labels}");
    let config = BTreeMap::from([("nvidia.com/mig.config".to_owned(), "all-1g.5gb".to_owned())]);
    assert_eq!(made.cut_labels, config);
    assert_eq!(labels["carve.dev/brought-by"], "stand-ins");
    assert_eq!(spec["limits"], json!({"nvidia.com/gpu": "64"}));
    assert_eq!(spec["disruption"]["consolidateAfter"], "900s");
    assert_eq!(least_of_each_gpu(&made), amounts(&[(SLICE, 7000)]));

    let mut named = by_stand_ins(&["h100"], &[8], mixed("3g.40gb=1,1g.10gb=4"));
    named.labels.insert("nvidia.com/mig.config".to_owned(), "mine".to_owned());
    let made = compile(&named).expect("a pool");
    assert!(made.node_pool["spec"]["template"]["metadata"]["labels"]["nvidia.com/mig.config"].is_null());
    assert_eq!(made.cut_labels["nvidia.com/mig.config"], "mine");
    let renamed = Cut::Shared { replicas: 4, renamed: true };
    let made = compile(&by_stand_ins(&["t4"], &[1, 4, 8], renamed)).expect("a pool");
    assert_eq!(least_of_each_gpu(&made), amounts(&[("nvidia.com/gpu.shared", 4000)]));
    assert!(made.cut_labels.is_empty());
}

#[test]
fn what_stand_ins_can_not_serve_is_refused_with_what_to_write() {
    for (cut, field, words) in
        [(shared(4), "sharing.renamed", "renamed: true"), (Cut::Parts, "provision.parts", "NodeOverlay")]
    {
        let refusal = compile(&by_stand_ins(&["t4"], &[1], cut)).expect_err("refused");
        assert_eq!(refusal.field, field);
        assert!(refusal.remedy.contains(words), "{refusal}");
    }
}

#[test]
fn groups_of_machines_are_tagged_with_whole_gpus_and_the_taint_that_stand_ins_bear() {
    let groups = Pool {
        chosen_by: ChosenBy::InstanceTypes(carve_economics::Provider::Aws),
        ..pool(&["t4"], &[4], Cut::Shared { replicas: 4, renamed: true })
    }
    .asked_for_by(ToldBy::StandInsOfGroups);
    assert_eq!(compile(&groups).expect("a pool").documents().count(), 0, "nothing is made in the cluster");
    let tags: BTreeMap<String, String> =
        node_groups(&groups).expect("groups").remove(0).tags.into_iter().collect();
    let tag =
        |name: &str| tags.get(&format!("k8s.io/cluster-autoscaler/node-template/{name}")).map(String::as_str);
    assert_eq!(tag("resources/nvidia.com/gpu"), Some("4"));
    assert_eq!(tag("resources/nvidia.com/gpu.shared"), None);
    assert_eq!(tag("taint/carve.dev/not-ready"), Some("whole:NoSchedule"));
    assert_eq!(tag("label/carve.dev/pool"), Some("gpu-quarter"));
}

#[test]
fn a_node_is_cut_when_its_autoscaler_is_done_and_stand_ins_are_gone() {
    let stages = [Stage::Whole, Stage::Emptying, Stage::Cutting];
    for stage in stages {
        assert_eq!(Stage::of(&[json!({"key": "nvidia.com/gpu"}), stage.taint()]), Some(stage));
    }
    assert_eq!(Stage::of(&[json!({"key": "carve.dev/not-ready", "effect": "NoSchedule"})]), None);
    assert_eq!(Stage::of(&[]), None);
    assert_eq!((Stage::Whole.next(false, 0), Stage::Whole.next(true, 3)), (None, Some(Stage::Emptying)));
    assert_eq!((Stage::Emptying.next(true, 1), Stage::Emptying.next(true, 0)), (None, Some(Stage::Cutting)));
    assert_eq!(Stage::Cutting.next(true, 0), None);
}
