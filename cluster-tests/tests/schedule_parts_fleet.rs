//! The scheduler road at the size of a fleet: a real kube-scheduler with the extender, beside the same one without, on the same nodes.
//!
//! `CARVE_FLEET=full` makes it 1,000 nodes with 8 GPUs and 6,000 pods on each side; without it the suite is small. `CARVE_RELEASE_BINARY` names
//! an optimised controller. Times are printed, and held to their limits where `CARVE_FLEET_LIMITS` is set: on a machine that does other
//! work they say little.

use carve_cluster_tests::{
    Cluster, ControlPlane, HollowNodes, Namespace, PLAIN_SCHEDULER, PartsWatch, part_asks,
};
use serde_json::Value;
use std::time::{Duration, Instant};

const SUITE: &str = "partsfleet";
const GPUS: usize = 8;
const MEMORY: u64 = 81_920;

/// How long the pods of a round may take.
const MOST: Duration = Duration::from_secs(300);

/// How large it all is.
struct Size {
    nodes: usize,
    rounds: usize,
    /// On each side in each round.
    pods: usize,
}

fn size() -> Size {
    match std::env::var("CARVE_FLEET").as_deref() {
        Ok("full") => Size { nodes: 1000, rounds: 6, pods: 1000 },
        _ => Size { nodes: 200, rounds: 3, pods: 150 },
    }
}

/// The pods of a round: every way of asking in turns.
fn pods(suite: &str, round: usize, number: usize, plain: bool) -> Vec<Value> {
    let asks = part_asks();
    let pod = |index: usize| {
        let (name, ask) = (format!("pod-{round}-{index:04}"), &asks[index % asks.len()]);
        let mut pod = if plain { ask.plain_pod(&name, PLAIN_SCHEDULER) } else { ask.pod(&name) };
        HollowNodes::allow(&mut pod["spec"], suite);
        pod
    };
    (0..number).map(pod).collect()
}

/// The smallest bound under which this part of all answers to a verb is, in seconds, and how many answers there were; without a verb, of
/// filter and prioritize of one pod together.
fn quantile(metrics: &str, verb: Option<&str>, part: f64) -> (f64, f64) {
    let named = verb.map(|verb| format!("verb=\"{verb}\"")).unwrap_or_default();
    let series =
        if verb.is_some() { "extender_answer_seconds_bucket" } else { "extender_decision_seconds_bucket" };
    let mut bounds: Vec<(f64, f64)> = Vec::new();
    for line in metrics.lines().filter(|line| line.contains(series) && line.contains(&named)) {
        let bound = line.split("le=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        let bound = bound.parse().unwrap_or(f64::INFINITY);
        let below = line.rsplit(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0.0);
        bounds.push((bound, below));
    }
    let all = bounds.iter().map(|(_, below)| *below).fold(0.0, f64::max);
    let found = bounds.iter().find(|(_, below)| *below >= all * part);
    (found.map_or(f64::INFINITY, |(bound, _)| *bound), all)
}

/// One side: its pods, and how long binding them took so far.
struct Side {
    namespace: Namespace,
    plain: bool,
    seconds: f64,
    bound: usize,
}

impl Side {
    fn name(&self) -> &'static str {
        if self.plain { "without extender" } else { "with extender" }
    }

    /// Makes the pods of a round while no scheduler runs, then starts one, and measures from the first binding to the last.
    fn round(
        &mut self,
        round: usize,
        number: usize,
        plane: &mut ControlPlane,
        watch: &PartsWatch,
        cluster: &Cluster,
    ) {
        let start = Instant::now();
        self.namespace.create_pods(&pods(SUITE, round, number, self.plain));
        let created = start.elapsed().as_secs_f64();
        if self.plain {
            plane.start_plain_scheduler()
        } else {
            plane.start_scheduler()
        }
        let all = self.bound + number;
        let name = self.namespace.name();
        cluster.until_or(
            "every pod of the round is bound",
            MOST,
            || watch.bound(name).len() >= all,
            || format!("{} of {all}\n{}", watch.bound(name).len(), plane.said()),
        );
        plane.stop_scheduler();
        watch.check();
        let times = &watch.bound(name)[self.bound..];
        let took = times[times.len() - 1].duration_since(times[0]).as_secs_f64();
        // In the first round everything is cold, for whoever comes first most of all.
        if round > 0 {
            self.seconds += took;
        }
        self.bound = all;
        let rate = (number - 1) as f64 / took;
        println!(
            "round {round}, {}: {number} pods made in {created:.1} s, bound at {rate:.0}/s",
            self.name()
        );
    }
}

#[test]
fn a_fleet_is_filled_with_parts() {
    let Some(cluster) = Cluster::connect() else { return };
    let Size { nodes, rounds, pods: number } = size();
    let start = Instant::now();
    let _nodes = HollowNodes::with_gpus(&cluster, SUITE, nodes, GPUS, MEMORY);
    println!("{nodes} nodes with {GPUS} GPUs after {:.1} s", start.elapsed().as_secs_f64());
    let own = cluster.namespace("partsfleet-control");
    let Some(mut plane) = ControlPlane::start_measured(&cluster, &own) else { return };
    plane.stop_scheduler();
    let watch = PartsWatch::start(&cluster);
    let side = |name: &str, plain| Side { namespace: cluster.namespace(name), plain, seconds: 0.0, bound: 0 };
    let (mut ours, mut plain) = (side("partsfleet-ours", false), side("partsfleet-plain", true));
    for round in 0..rounds {
        // Whoever comes second finds a fuller API server, so they take turns at that.
        let order = if round % 2 == 0 { [&mut plain, &mut ours] } else { [&mut ours, &mut plain] };
        for side in order {
            side.round(round, number, &mut plane, &watch, &cluster);
        }
    }
    // Lists say the same as everything that was watched.
    let again = PartsWatch::start(&cluster);
    again.check();
    assert_eq!((watch.holders(), again.holders()), (ours.bound, ours.bound));
    let (used, full, all) = again.gpus(SUITE);
    println!(
        "{} pods hold parts of {used} of {all} GPUs, of which {full} are full; none was given out twice",
        ours.bound
    );
    let rate = |side: &Side| ((rounds - 1) * (number - 1)) as f64 / side.seconds;
    let ratio = rate(&ours) / rate(&plain);
    println!("bound per second: {:.0} with extender, {:.0} without: {ratio:.3}", rate(&ours), rate(&plain));
    let metrics = plane.metrics();
    for verb in ["filter", "prioritize", "bind"] {
        let at = |part| quantile(&metrics, Some(verb), part).0 * 1_000.0;
        let answers = quantile(&metrics, Some(verb), 0.5).1;
        println!(
            "{verb}: {answers} answers, half within {} ms, 99 % within {} ms, 99.5 % within {} ms",
            at(0.5),
            at(0.99),
            at(0.995)
        );
    }
    let (both, pods) = quantile(&metrics, None, 0.99);
    println!("filter and prioritize together: {pods} pods, 99 % within {:.1} ms", both * 1_000.0);
    assert!(
        pods >= 0.9 * ours.bound as f64,
        "of most pods it is known how long they take, and only {pods} were counted"
    );
    for side in [&ours, &plain] {
        side.namespace.delete_pods();
    }
    if std::env::var_os("CARVE_FLEET_LIMITS").is_some() {
        assert!(both < 0.010, "99 % of filter and prioritize within {both} s");
        assert!(ratio > 0.8, "the extender costs more than a fifth: {ratio:.2}");
    }
}

#[test]
fn two_schedulers_at_once_give_nothing_out_twice() {
    let Some(cluster) = Cluster::connect() else { return };
    let (suite, number) = ("partstwice", 400);
    // Few nodes, so that both want the same ones.
    let _nodes = HollowNodes::with_gpus(&cluster, suite, 40, GPUS, MEMORY);
    let own = cluster.namespace("partstwice-control");
    let Some(mut plane) = ControlPlane::start_measured(&cluster, &own) else { return };
    plane.stop_scheduler();
    let watch = PartsWatch::start(&cluster);
    let namespace = cluster.namespace("partstwice");
    namespace.create_pods(&pods(suite, 0, number, false));
    plane.start_scheduler();
    let _second = plane.another_scheduler();
    let name = namespace.name();
    cluster.until_or(
        "every pod is bound",
        MOST,
        || watch.bound(name).len() >= number,
        || format!("{} of {number}\n{}", watch.bound(name).len(), plane.said()),
    );
    watch.check();
    // Whoever came second was told so, or nothing was tried.
    let metrics = plane.metrics();
    let binds = quantile(&metrics, Some("bind"), 0.5).1;
    println!("{number} pods, {binds} bindings tried by two schedulers; nothing was given out twice");
    assert!(binds > number as f64, "the schedulers were never in each other's way: {binds} bindings");
    namespace.delete_pods();
}
