//! The scheduler road while everything around it dies: controllers, the scheduler, the API server; watches that are late, and clocks that are
//! wrong. Nothing is given out twice, nothing is lost, and no pod is left without a word.

use carve_cluster_tests::{
    Chance, Churn, Cluster, ControlPlane, HollowNodes, Namespace, PATIENCE, PartsAsk, PartsWatch, why_waiting,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const SUITE: &str = "partschaos";
const NODES: usize = 3;
const GPUS: usize = 4;
const MEMORY: u64 = 81_920;
const KILLS: usize = 50;
/// More than fit: some wait at any time.
const PODS: usize = 45;

struct Chaos<'a> {
    cluster: &'a Cluster,
    tenants: &'a Namespace,
    own: &'a Namespace,
    watch: &'a PartsWatch,
    start: Instant,
}

impl Chaos<'_> {
    fn say(&self, words: &str) {
        println!("{:>6.1} s  {words}", self.start.elapsed().as_secs_f64());
    }

    /// Waits until somebody else than before leads.
    fn leader_after(&self, plane: &ControlPlane, before: usize) -> usize {
        let other = || plane.leader().filter(|leader| *leader != before);
        self.cluster.until_or("another replica leads", PATIENCE, || other().is_some(), || plane.said());
        other().expect("a leader")
    }

    /// Waits until so many more pods were bound.
    fn goes_on(&self, plane: &ControlPlane, more: usize) {
        let before = self.watch.bound(self.tenants.name()).len();
        let bound = || self.watch.bound(self.tenants.name()).len() >= before + more;
        self.cluster.until_or("pods are bound again", PATIENCE, bound, || plane.said());
        self.watch.check();
    }

    fn pods(&self) -> Vec<Value> {
        self.tenants.get(&["pods"])["items"].as_array().cloned().unwrap_or_default()
    }

    /// Every pod is on a node, or says why it is not.
    fn everybody_knows(&self, plane: &ControlPlane) {
        let silent = || -> Vec<String> {
            let pods = self.pods();
            let waits =
                pods.iter().filter(|pod| pod["spec"]["nodeName"].is_null() && why_waiting(pod).is_none());
            waits.map(|pod| pod["metadata"]["name"].to_string()).collect()
        };
        self.cluster.until_or(
            "every pod is bound or says why not",
            PATIENCE,
            || silent().is_empty(),
            || format!("{:?}\n{}", silent(), plane.said()),
        );
    }

    /// Writes a time into the Lease, as a machine with a wrong clock would.
    fn set_renew_time(&self, time: &str) {
        let patch = json!({"spec": {"renewTime": time}}).to_string();
        let words =
            ["patch", "lease", "carve-controller", "-n", self.own.name(), "--type=merge", "-p", &patch];
        self.cluster.kubectl(&words);
    }
}

#[test]
fn nothing_is_given_twice_and_nothing_is_lost() {
    let Some(cluster) = Cluster::connect() else { return };
    let _nodes = HollowNodes::with_gpus(&cluster, SUITE, NODES, GPUS, MEMORY);
    let own = cluster.namespace("partschaos-control");
    let Some(mut plane) = ControlPlane::start_replicas(&cluster, &own, 2) else { return };
    let tenants = cluster.namespace("partschaos");
    let watch = PartsWatch::start(&cluster);
    let chaos =
        Chaos { cluster: &cluster, tenants: &tenants, own: &own, watch: &watch, start: Instant::now() };
    let churn =
        Churn::start(&cluster, &tenants, (PODS, 50), |pod| HollowNodes::allow(&mut pod["spec"], SUITE));
    chaos.goes_on(&plane, 10);
    chaos.say("pods come and go");

    let mut chance = Chance(20_268);
    plane.kill_at_random(KILLS, &mut chance, || watch.check());
    let (bound, so_far) = (watch.bound(tenants.name()).len(), churn.so_far());
    chaos.say(&format!(
        "{KILLS} kills: {} pods made, {} refused, {} deleted, {bound} bound",
        so_far.made,
        so_far.refused.len(),
        so_far.deleted
    ));
    chaos.goes_on(&plane, 10);

    plane.wait_until_ready();
    let first = plane.leader().expect("a leader");
    plane.kill_replica(first);
    // What another machine's clock says counts for nothing: not even a Lease that is renewed in a hundred years is waited for.
    chaos.set_renew_time("2126-01-01T00:00:00.000000Z");
    let second = chaos.leader_after(&plane, first);
    chaos.goes_on(&plane, 5);
    chaos.say("the leader was killed and stayed away: the other leads");
    plane.start_replica(first);
    chaos.set_renew_time("1970-01-01T00:00:00.000000Z");
    chaos.goes_on(&plane, 20);
    assert_eq!(plane.leader(), Some(second), "a Lease that looks old is not taken from whoever renews it");
    chaos.say("the Lease said 1970: nobody took it");

    plane.replica(second).pause();
    let third = chaos.leader_after(&plane, second);
    chaos.goes_on(&plane, 20);
    plane.replica(second).resume();
    chaos.goes_on(&plane, 20);
    assert_eq!(plane.leader(), Some(third), "one that was stopped does not come back as leader");
    chaos.say("the leader was stopped, and went on when another led");

    for hours in [1, -1, 0] {
        plane.set_clock(third, hours * 3600);
        chaos.goes_on(&plane, 10);
    }
    assert_eq!(plane.leader(), Some(third), "an hour makes no difference");
    chaos.say("the leader's clock jumped by an hour, forth and back");
    // Where it is now every certificate has expired, also the API server's. It looks after its own every 30 s.
    plane.set_clock(third, 400 * 24 * 3600);
    std::thread::sleep(Duration::from_secs(35));
    chaos.goes_on(&plane, 10);
    plane.set_clock(third, 0);
    chaos.goes_on(&plane, 10);
    plane.wait_until_ready();
    chaos.say("the leader's clock jumped by a year, and back");

    // Several times: whoever is bound at that moment, and deleted before watches are back, leaves nothing booked.
    for _ in 0..4 {
        cluster.restart("kube-apiserver");
        chaos.goes_on(&plane, 20);
        chaos.say("the API server was killed");
        chance.pass(1_000);
    }
    plane.stop_scheduler();
    chance.pass(1_000);
    plane.start_scheduler();
    chaos.goes_on(&plane, 20);
    chaos.say("the scheduler was killed");

    let churned = churn.stop();
    chaos.everybody_knows(&plane);
    watch.check();
    PartsWatch::start(&cluster).check();
    let pods = chaos.pods();
    let waiting: Vec<String> =
        pods.iter().filter(|pod| pod["spec"]["nodeName"].is_null()).filter_map(why_waiting).collect();
    chaos.say(&format!(
        "{} pods made, {} refused, {} deleted, {} bound; of {} that are there {} wait: {:?}",
        churned.made,
        churned.refused.len(),
        churned.deleted,
        watch.bound(tenants.name()).len(),
        pods.len(),
        waiting.len(),
        waiting.first()
    ));
    for why in &churned.refused {
        assert!(
            why.contains("webhook") || why.contains("onnect") || why.contains("SendRequest"),
            "refused for no reason: {why}"
        );
    }

    tenants.delete_pods();
    cluster.until("nobody holds anything", PATIENCE, || watch.holders() == 0);
    let whole = PartsAsk {
        annotations: json!({}),
        limits: json!({"carve.dev/gpu-memory": MEMORY.to_string(), "carve.dev/gpu-compute": "100"}),
        plain: (1, MEMORY, 100),
    };
    let all: Vec<Value> = (0..NODES * GPUS)
        .map(|number| {
            let mut pod = whole.pod(&format!("whole-{number}"));
            HollowNodes::allow(&mut pod["spec"], SUITE);
            pod
        })
        .collect();
    tenants.create_pods(&all);
    let full = || watch.gpus(SUITE) == (NODES * GPUS, NODES * GPUS, NODES * GPUS);
    cluster.until_or("each GPU is had as a whole", Duration::from_secs(60), full, || plane.said());
    watch.check();
    chaos.say("each GPU was free again, as a whole");
    tenants.delete_pods();
}
