//! Half an hour of pods, claims, MIG changes and faults at random from a seed, and what is left of them: `cargo xtask lab soak [--minutes N] [--seed N]` runs this.
//!
//! Three nodes, one for each road: whole GPUs and MIG devices by kubelet's device plugins, claims, and parts that a scheduler places. Load and faults come in
//! rounds. After each everybody must have exactly what was given, then everything goes, every GPU is had as a whole once, and what nodes and processes have is
//! looked at. In the first half of the rounds carve's own processes are killed; in the second they live, so that it shows what they gather.
#![allow(clippy::panic, clippy::expect_used, reason = "a failure of the command is a panic that says why")]

mod faults;
mod roads;

use carve_cluster_tests::soak::{Rest, Tally, leaks, page};
use carve_cluster_tests::{Chance, Cluster};
use faults::Faults;
use roads::Roads;
use std::time::{Duration, Instant};

/// Load between two looks, at most.
const ROUND: Duration = Duration::from_secs(300);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |name: &str, usual: u64| {
        let given = words.iter().position(|word| word == name).and_then(|place| words.get(place + 1));
        given.map_or(usual, |text| {
            text.parse().unwrap_or_else(|_| panic!("{name} takes a number, not {text}"))
        })
    };
    let (minutes, seed) = (word("--minutes", 30), word("--seed", 1));
    let written = words.iter().position(|word| word == "--page").and_then(|place| words.get(place + 1));
    let cluster = Cluster::connect().expect("a lab: 'cargo xtask lab soak' starts one");
    let (text, clean) = soak(&cluster, minutes, seed);
    match written {
        Some(path) => std::fs::write(path, text).unwrap_or_else(|error| panic!("{path}: {error}")),
        None => print!("{text}"),
    }
    assert!(clean, "something was left, lost or given twice; the page says what");
}

/// The page, and whether it is a good one.
fn soak(cluster: &Cluster, minutes: u64, seed: u64) -> (String, bool) {
    let all = Duration::from_secs(minutes * 60);
    let round_time = ROUND.min(all / 2);
    let rounds = all.as_secs() / round_time.as_secs().max(1);
    let (began, mut chance, mut tally) = (Instant::now(), Chance(seed), Tally::default());
    let say = |words: &str| eprintln!("{:>5.1} min  {words}", began.elapsed().as_secs_f64() / 60.0);
    let mut roads = Roads::open(cluster);
    roads.warm();
    say("three roads are open");
    let mut rests = vec![look(&mut roads, &mut tally, began)];
    for round in 0..rounds {
        let ours_die = round < rounds / 2;
        say(&format!(
            "round {} of {rounds}{}",
            round + 1,
            if ours_die { ", and carve is killed, too" } else { "" }
        ));
        roads.begin();
        let mut faults = Faults::new(ours_die);
        let end = Instant::now() + round_time;
        while Instant::now() < end {
            roads.step(&mut chance, &mut tally);
            faults.step(&mut roads, &mut chance, &mut tally);
            chance.pass(1_500);
        }
        faults.mend(&mut roads);
        rests.push(look(&mut roads, &mut tally, began));
    }
    let found = leaks(&rests);
    found.iter().for_each(|line| say(line));
    let told = format!(
        "{} minutes of load in rounds of {} on a real Kubernetes of three nodes, with simulated GPUs: kubelet's device plugins on the first, claims on the second, parts placed by a \
         scheduler on the third; two controllers. Pods, claims, MIG changes and faults came at random from seed {seed}; in the first {} rounds carve's own processes were killed as well, in the \
         others they lived. After each round every pod ran or said why not, had what was given to it and nothing of another's; then everything went, and every GPU was had as a whole once. \
         {:.0} minutes in all, with carve as it is built for tests. `cargo xtask lab soak --minutes {minutes} --seed {seed}` writes this page.",
        minutes,
        round_time.as_secs() / 60,
        rounds / 2,
        began.elapsed().as_secs_f64() / 60.0
    );
    (page(&told, &tally, &rests, &found), found.is_empty())
}

/// Everybody has what was given; everything goes; every GPU is had as a whole; nothing is left.
fn look(roads: &mut Roads<'_>, tally: &mut Tally, began: Instant) -> Rest {
    roads.settle(tally);
    roads.clear();
    roads.fill();
    roads.clear();
    roads.every_layout();
    // Whoever takes back what nobody asks for, and connections that nobody uses, have their time.
    std::thread::sleep(Duration::from_secs(15));
    roads.look(began.elapsed().as_secs_f64() / 60.0)
}
