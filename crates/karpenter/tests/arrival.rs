//! What is found of new nodes, and of those that were good once.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

mod pools;

use carve_karpenter::{
    Arrival, BROKEN, Compiled, Cut, HardwareReady, Judgement, KEPT, LOST_AFTER, NOT_READY, Stage, ToldBy,
    compile, judge,
};
use pools::{all, pool, shared};
use std::collections::BTreeMap;

const WITHIN: u64 = 900;
const RENAMED: Cut = Cut::Shared { replicas: 4, renamed: true };

/// A node of the pool, as it is found.
struct Node {
    labels: BTreeMap<String, String>,
    taints: Vec<String>,
    stage: Option<Stage>,
    advertised: BTreeMap<String, u64>,
    age: u64,
    broken_for: u64,
    condition: Option<(&'static str, bool)>,
}

impl Node {
    /// One with four T4s that Karpenter has registered a minute ago.
    fn new(advertised: &[(&str, u64)]) -> Self {
        let labels = [
            ("karpenter.sh/nodepool", "gpu-quarter"),
            ("karpenter.sh/registered", "true"),
            ("karpenter.k8s.aws/instance-gpu-name", "t4"),
            ("karpenter.k8s.aws/instance-gpu-count", "4"),
            ("node.kubernetes.io/instance-type", "g4dn.12xlarge"),
        ];
        Node {
            labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            taints: vec!["nvidia.com/gpu".to_owned(), NOT_READY.to_owned()],
            stage: None,
            advertised: advertised.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect(),
            age: 60,
            broken_for: 0,
            condition: None,
        }
    }

    fn judged(&self, pool: &Compiled) -> Judgement {
        let arrival = Arrival {
            labels: &self.labels,
            taints: &self.taints,
            stage: self.stage,
            advertised: &self.advertised,
            age: self.age,
            broken_for: self.broken_for,
            condition: self.condition,
        };
        judge(pool, arrival, WITHIN)
    }
}

fn quarters() -> Compiled {
    compile(&pool(&["t4", "l4"], &[1, 4], shared(4))).expect("a pool")
}

fn ready(judgement: &Judgement) -> Option<bool> {
    judgement.condition.as_ref().map(|said| said.ready)
}

#[test]
fn pods_are_let_in_when_a_node_offers_all_that_was_promised() {
    let good = Node::new(&[("nvidia.com/gpu", 16)]).judged(&quarters());
    assert!(good.let_in && good.broken.is_none() && !good.trouble);
    assert_eq!(ready(&good), Some(true));
    // Before Karpenter has registered it, it would put the taint back.
    let mut early = Node::new(&[("nvidia.com/gpu", 16)]);
    early.labels.remove("karpenter.sh/registered");
    assert!(!early.judged(&quarters()).let_in);
    // Said once is enough, and what others say is theirs.
    for said in [(KEPT, true), ("SomebodyElse", false)] {
        let node = Node { condition: Some(said), ..Node::new(&[("nvidia.com/gpu", 16)]) };
        assert_eq!(node.judged(&quarters()).condition, None);
    }
}

#[test]
fn a_new_node_that_says_nothing_yet_is_in_no_trouble_until_it_is_late() {
    let quiet = Node::new(&[]).judged(&quarters());
    assert!(!quiet.let_in && !quiet.trouble && quiet.condition.is_none() && quiet.broken.is_some());
    let late = Node { age: WITHIN, ..Node::new(&[]) }.judged(&quarters());
    assert!(late.trouble);
    let Some(HardwareReady { ready: false, message }) = late.condition else {
        panic!("{:?}", late.condition)
    };
    assert!(message.contains("nvidia.com/gpu: 16 promised, 0 advertised"), "{message}");
}

#[test]
fn too_little_and_too_much_are_told_and_kept_out() {
    for wrong in [4, 32] {
        let found = Node::new(&[("nvidia.com/gpu", wrong)]).judged(&quarters());
        assert!(!found.let_in && found.trouble, "{found:?}");
        assert_eq!(found.broken, Some(format!("nvidia.com/gpu: 16 promised, {wrong} advertised")));
        assert_eq!(found.condition, None, "it has time");
    }
    // Whole GPUs beside instances would be given out twice.
    let mig = compile(&pool(&["h100"], &[4, 8], all("1g.10gb"))).expect("a pool");
    let mut node = Node::new(&[("nvidia.com/mig-1g.10gb", 56), ("nvidia.com/gpu", 8)]);
    for (key, value) in
        [("karpenter.k8s.aws/instance-gpu-name", "h100"), ("karpenter.k8s.aws/instance-gpu-count", "8")]
    {
        node.labels.insert(key.to_owned(), value.to_owned());
    }
    assert_eq!(node.judged(&mig).broken, Some("nvidia.com/gpu: 0 promised, 8 advertised".to_owned()));
    // Nobody has promised anything of this one.
    node.labels.insert("karpenter.k8s.aws/instance-gpu-name".to_owned(), "v100".to_owned());
    let unknown = node.judged(&mig);
    assert!(unknown.trouble && !unknown.let_in && unknown.broken.expect("why").contains("g4dn.12xlarge"));
}

#[test]
fn a_node_that_was_good_is_told_of_and_not_closed() {
    let mut node = Node::new(&[("nvidia.com/gpu", 12)]);
    node.taints.pop();
    node.age = 10 * WITHIN;
    node.condition = Some((KEPT, true));
    let moment = node.judged(&quarters());
    assert!(!moment.trouble && moment.condition.is_none(), "a plugin that starts anew: {moment:?}");
    node.broken_for = LOST_AFTER;
    let lost = node.judged(&quarters());
    assert!(lost.trouble && !lost.let_in);
    assert_eq!(ready(&lost), Some(false));
    node.condition = Some((BROKEN, false));
    assert_eq!(node.judged(&quarters()).condition, None, "said once");
    node.advertised.insert("nvidia.com/gpu".to_owned(), 16);
    assert_eq!(ready(&node.judged(&quarters())), Some(true));
}

#[test]
fn a_node_that_is_cut_later_is_in_no_trouble_before_its_time() {
    let cut = pool(&["t4"], &[4], RENAMED).asked_for_by(ToldBy::StandIns);
    let pool = compile(&cut).expect("a pool");
    let mut node = Node::new(&[("nvidia.com/gpu", 4)]);
    for stage in [Stage::Whole, Stage::Emptying, Stage::Cutting] {
        node.stage = Some(stage);
        let found = node.judged(&pool);
        assert!(!found.let_in && !found.trouble && found.condition.is_none(), "{stage:?}: {found:?}");
        assert!(found.broken.is_some());
    }
    node.age = WITHIN;
    assert!(node.judged(&pool).trouble);
    node.age = 60;
    node.advertised = BTreeMap::from([("nvidia.com/gpu.shared".to_owned(), 16)]);
    assert!(node.judged(&pool).let_in);
    node.stage = Some(Stage::Emptying);
    assert!(!node.judged(&pool).let_in, "stand-ins go first");
}
