//! What is written and what goes, for clusters in every state.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

mod pools;

use carve_karpenter::{Kind, Named, POLICY, REMOVE, Steps, There, Want, compile, keep};
use pools::{pool, shared};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Karpenter's objects in a cluster.
#[derive(Debug, Clone, Default, PartialEq)]
struct Cluster {
    pools: BTreeMap<String, Value>,
    overlays: BTreeMap<String, Value>,
}

impl Cluster {
    fn steps(&self, wants: &[Want], held: &[&str]) -> Steps {
        let held = held.iter().map(|name| (*name).to_owned()).collect();
        keep(wants, &held, There { pools: &self.pools, overlays: &self.overlays })
    }

    fn of(&mut self, kind: Kind) -> &mut BTreeMap<String, Value> {
        if kind == Kind::NodePool { &mut self.pools } else { &mut self.overlays }
    }

    fn put(&mut self, document: &Value) {
        let name = document["metadata"]["name"].as_str().expect("a name").to_owned();
        let mut stored = document.clone();
        let kind = if document["kind"] == "NodePool" { Kind::NodePool } else { Kind::NodeOverlay };
        // Defaults, as the API server adds them.
        stored["metadata"]["uid"] = "uid".into();
        if kind == Kind::NodePool {
            stored["spec"]["template"]["spec"]["expireAfter"] = "720h".into();
        }
        self.of(kind).insert(name, stored);
    }

    /// Does what is to be done, until a number of writes is used up, as where a controller is killed.
    fn carry_out(&mut self, steps: &Steps, mut writes: usize) {
        for of_one in &steps.policies {
            for document in &of_one.apply {
                if writes == 0 {
                    return;
                }
                writes -= 1;
                self.put(document);
                self.check();
            }
            for named in &of_one.delete {
                if writes == 0 {
                    return;
                }
                writes -= 1;
                self.of(named.kind).remove(&named.name);
                self.check();
            }
        }
    }

    /// No machine of a pool of ours may be without its overlay at any time.
    fn check(&self) {
        for (name, pool) in &self.pools {
            let requirements = pool["spec"]["template"]["spec"]["requirements"].as_array().expect("a list");
            let values = |wanted: &str| -> Vec<String> {
                let one = requirements.iter().find(|one| one["key"] == wanted);
                let values = one.and_then(|one| one["values"].as_array()).into_iter().flatten();
                values.filter_map(Value::as_str).map(str::to_owned).collect()
            };
            for model in values("karpenter.k8s.aws/instance-gpu-name") {
                for count in values("karpenter.k8s.aws/instance-gpu-count") {
                    let overlay = format!("{name}.{model}.x{count}");
                    assert!(self.overlays.contains_key(&overlay), "{overlay} is missing: {self:#?}");
                }
            }
        }
    }
}

fn want(name: &str, models: &[&str], replicas: u32) -> Want {
    let mut pool = pool(models, &[1, 4], shared(replicas));
    pool.name = name.to_owned();
    let documents = compile(&pool).expect("a pool").documents().cloned().collect();
    Want { policy: name.to_owned(), documents, remove: false }
}

#[test]
fn overlays_come_before_their_pool_and_nothing_is_written_twice() {
    let mut cluster = Cluster::default();
    let wants = [want("a", &["t4", "l4"], 4)];
    let steps = cluster.steps(&wants, &[]);
    let kinds: Vec<&Value> = steps.policies[0].apply.iter().map(|one| &one["kind"]).collect();
    assert_eq!(kinds, ["NodeOverlay", "NodeOverlay", "NodeOverlay", "NodeOverlay", "NodePool"]);
    assert!(steps.policies[0].apply.iter().all(|one| one["metadata"]["labels"][POLICY] == "a"));
    cluster.carry_out(&steps, usize::MAX);
    assert_eq!(cluster.steps(&wants, &[]), Steps::default());

    // Somebody changes one of them: it is put right, and nothing else is touched.
    cluster.overlays.get_mut("a.t4.x4").expect("an overlay")["spec"]["capacity"]["nvidia.com/gpu"] =
        "4".into();
    let steps = cluster.steps(&wants, &[]);
    assert_eq!(steps.policies[0].apply.len(), 1);
    assert_eq!(steps.policies[0].apply[0]["metadata"]["name"], "a.t4.x4");
    cluster.carry_out(&steps, usize::MAX);

    // What is not said any more is noticed, too.
    let mut fewer = wants.to_vec();
    let pool = fewer[0].documents.last_mut().expect("a pool");
    pool["spec"].as_object_mut().expect("a spec").remove("limits");
    let steps = cluster.steps(&fewer, &[]);
    assert_eq!(steps.policies[0].apply.len(), 1);
    assert!(steps.policies[0].apply[0]["spec"]["limits"].is_null());
}

#[test]
fn what_is_somebody_elses_is_not_touched() {
    let mut cluster = Cluster::default();
    let foreign = json!({"kind": "NodePool", "metadata": {"name": "a"}, "spec": {"template": {"spec": {"requirements": []}}}});
    cluster.put(&foreign);
    let wants = [want("a", &["t4"], 4), want("b", &["t4"], 2)];
    let steps = cluster.steps(&wants, &[]);
    assert_eq!(steps.policies[0].taken, [Named { kind: Kind::NodePool, name: "a".to_owned() }]);
    assert!(steps.policies[0].apply.is_empty(), "overlays would be about a pool of somebody else");
    assert_eq!(steps.policies[1].apply.len(), 3);
    assert!(cluster.steps(&[], &[]).left.is_empty());
    assert_eq!(cluster.steps(&[], &[]).policies, []);
}

#[test]
fn a_pool_that_nobody_wants_stays_with_its_overlays_unless_it_was_to_go() {
    let mut cluster = Cluster::default();
    let mut wants = [want("a", &["t4"], 4), want("b", &["t4"], 4)];
    wants[1].remove = true;
    cluster.carry_out(&cluster.steps(&wants, &[]), usize::MAX);
    assert_eq!(cluster.pools["b"]["metadata"]["annotations"][REMOVE], "true");
    // A policy that can not be understood wants nobody knows what.
    assert_eq!(cluster.steps(&[], &["a", "b"]), Steps::default());
    let steps = cluster.steps(&[], &[]);
    assert_eq!(steps.left, ["a"]);
    let delete: Vec<&Named> = steps.policies.iter().flat_map(|one| &one.delete).collect();
    assert_eq!(delete, [&Named { kind: Kind::NodePool, name: "b".to_owned() }]);
    // Its overlays go when it is gone, and not while Karpenter still ends its machines.
    cluster.pools.get_mut("b").expect("a pool")["metadata"]["deletionTimestamp"] = "now".into();
    assert_eq!(cluster.steps(&[], &[]).policies, []);
    cluster.pools.remove("b");
    cluster.carry_out(&cluster.steps(&[], &[]), usize::MAX);
    let left: Vec<&String> = cluster.overlays.keys().collect();
    assert_eq!(left, ["a.t4.x1", "a.t4.x4"]);
}

proptest! {
    /// Whatever policies become, and wherever a controller is killed: no pool is without its overlays, the next controller ends where
    /// one that was not killed does, and then nothing is left to do.
    #[test]
    fn whoever_goes_on_ends_at_the_same(
        history in proptest::collection::vec(
            (proptest::sample::subsequence(vec!["t4", "l4", "a10g"], 1..3), 2..5u32, any::<bool>(), 0..12usize), 1..6),
    ) {
        let mut killed = Cluster::default();
        let mut last = Vec::new();
        for (models, replicas, second, writes) in history {
            last = vec![want("a", &models, replicas)];
            if second {
                last.push(Want { remove: true, ..want("b", &models, replicas) });
            }
            let steps = killed.steps(&last, &[]);
            killed.carry_out(&steps, writes);
        }
        for _ in 0..4 {
            let steps = killed.steps(&last, &[]);
            killed.carry_out(&steps, usize::MAX);
        }
        let mut fresh = Cluster::default();
        let steps = fresh.steps(&last, &[]);
        fresh.carry_out(&steps, usize::MAX);
        prop_assert_eq!(&killed, &fresh);
        prop_assert_eq!(killed.steps(&last, &[]), Steps::default());
        let names: BTreeSet<&String> = killed.pools.keys().collect();
        prop_assert_eq!(names.len(), last.len());
    }
}
