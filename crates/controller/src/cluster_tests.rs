//! The book that comes of what watches show.

use super::Cluster;
use carve_bookings::{Booking, PodUid, Slices};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn node(name: &str, gpus: &str) -> Value {
    json!({"metadata": {"name": name, "annotations": {"carve.dev/gpus": gpus}}})
}

const ONE_GPU: &str = r#"{"v":1,"gpus":[{"uuid":"GPU-0","product":"T4","memory":15000}]}"#;
const HALF: &str = r#"{"v":1,"containers":[{"name":"main","stage":"main","slices":[{"gpu":"GPU-0","memory":7500,"compute":500}]}]}"#;

fn pod(phase: &str) -> Value {
    json!({
        "metadata": {"name": "one", "namespace": "team", "uid": "uid-one", "annotations": {"carve.dev/slices": HALF}},
        "spec": {"nodeName": "a", "priority": 7},
        "status": {"phase": phase},
    })
}

fn left(cluster: &Cluster) -> Vec<u64> {
    cluster.book().room("a").into_iter().flat_map(|room| room.left().map(|(_, held)| held.memory.0)).collect()
}

fn uids(uids: &[&str]) -> BTreeSet<PodUid> {
    uids.iter().map(|&uid| PodUid(uid.to_owned())).collect()
}

#[test]
fn nothing_is_known_before_both_lists() {
    let mut cluster = Cluster::default();
    cluster.nodes_listed(&BTreeSet::new());
    assert!(!cluster.is_known());
    cluster.pods_listed(&BTreeSet::new());
    assert!(cluster.is_known());
}

#[test]
fn a_pod_holds_its_part_until_it_has_ended() {
    let mut cluster = Cluster::default();
    cluster.node_seen(&node("a", ONE_GPU));
    cluster.pod_seen(&pod("Pending"));
    assert_eq!(left(&cluster), [7_500]);
    assert_eq!(cluster.book().bookings(&PodUid("uid-one".to_owned())).next().unwrap().priority, 7);
    cluster.pod_seen(&pod("Running"));
    assert_eq!(left(&cluster), [7_500]);
    cluster.pod_seen(&pod("Succeeded"));
    assert_eq!(left(&cluster), [15_000]);
    cluster.pod_seen(&pod("Running"));
    cluster.pod_gone(&pod("Running"));
    assert_eq!(left(&cluster), [15_000]);
}

#[test]
fn what_was_bound_a_moment_ago_stays_until_it_is_seen() {
    let mut cluster = Cluster::default();
    cluster.node_seen(&node("a", ONE_GPU));
    let (uid, slices) = (PodUid("uid-one".to_owned()), Slices::from_annotation(HALF).unwrap());
    cluster.book_mut().hold(uid.clone(), Booking::new("team/one", "a", &slices, 0, false));
    // An older word about the pod, and lists that were made before.
    let mut before = pod("Pending");
    before["spec"].as_object_mut().unwrap().remove("nodeName");
    cluster.pod_seen(&before);
    cluster.pods_listed(&uids(&[]));
    assert_eq!(left(&cluster), [7_500]);
    cluster.pod_seen(&pod("Running"));
    assert!(cluster.book().bookings(&uid).next().unwrap().seen);
    // Now a list without it means that it is gone.
    cluster.pods_listed(&uids(&["uid-other"]));
    assert_eq!(left(&cluster), [15_000]);
}

#[test]
fn who_went_while_it_was_bound_and_nothing_was_watched_holds_nothing() {
    let mut cluster = Cluster::default();
    cluster.node_seen(&node("a", ONE_GPU));
    let slices = Slices::from_annotation(HALF).unwrap();
    let bind = |uid: &str, cluster: &mut Cluster| {
        cluster.book_mut().hold(PodUid(uid.to_owned()), Booking::new("team/one", "a", &slices, 0, false));
    };
    bind("uid-one", &mut cluster);
    cluster.pods_asked();
    // Made later than the list, which says nothing about it.
    bind("uid-two", &mut cluster);
    cluster.pods_listed(&uids(&[]));
    assert_eq!(left(&cluster), [7_500]);
    assert!(cluster.book().bookings(&PodUid("uid-two".to_owned())).next().is_some());
    // One that is there and not bound yet is still on its way.
    cluster.pods_asked();
    cluster.pods_listed(&uids(&["uid-two"]));
    assert_eq!(left(&cluster), [7_500]);
    cluster.pods_asked();
    cluster.pods_listed(&uids(&[]));
    assert_eq!(left(&cluster), [15_000]);
}

#[test]
fn nodes_that_are_gone_or_do_not_read_offer_nothing() {
    let mut cluster = Cluster::default();
    cluster.node_seen(&node("a", ONE_GPU));
    cluster.node_seen(&node("a", "{}"));
    assert!(left(&cluster).is_empty());
    cluster.node_seen(&node("a", ONE_GPU));
    cluster.nodes_listed(&BTreeSet::from(["b".to_owned()]));
    assert!(left(&cluster).is_empty());
    cluster.node_seen(&node("a", ONE_GPU));
    cluster.node_gone("a");
    assert!(left(&cluster).is_empty());
    cluster.node_seen(&json!({"metadata": {"name": "cpu"}}));
    assert!(cluster.book().room("cpu").is_none());
}

#[test]
fn what_is_admitted_placed_and_started_goes_by_the_same_names() {
    use carve_admission::keys;
    use carve_cluster_api::names;
    assert_eq!(
        [keys::SLICES, keys::SLICE, keys::MEMORY, keys::COMPUTE],
        [names::SLICES, names::SLICE, names::MEMORY, names::COMPUTE]
    );
}

#[test]
fn nothing_is_given_out_of_a_node_where_nobody_knows_what_is_held() {
    let mut cluster = Cluster::default();
    cluster.node_seen(&node("a", ONE_GPU));
    let mut newer = pod("Running");
    newer["metadata"]["annotations"]["carve.dev/slices"] = json!(r#"{"v":2,"containers":[]}"#);
    cluster.pod_seen(&newer);
    assert!(left(&cluster).is_empty());
    cluster.node_seen(&node("a", ONE_GPU));
    assert!(left(&cluster).is_empty(), "also after the node was seen again");
    cluster.pods_listed(&uids(&["uid-one"]));
    assert!(left(&cluster).is_empty());
    cluster.pods_listed(&uids(&[]));
    assert_eq!(left(&cluster), [15_000], "the pod is gone");
    cluster.pod_seen(&newer);
    cluster.pod_seen(&pod("Running"));
    assert_eq!(left(&cluster), [7_500], "the pod reads now");
    cluster.pod_seen(&newer);
    newer["status"]["phase"] = json!("Failed");
    cluster.pod_seen(&newer);
    assert_eq!(left(&cluster), [15_000], "it has ended");
}
