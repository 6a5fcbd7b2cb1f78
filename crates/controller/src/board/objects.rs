//! What the cluster's objects say, kept by watches.

use super::happenings::Happenings;
use super::{node, waits};
use crate::kubernetes::{Told, follow, within};
use crate::store::StoreError;
use carve_cluster_api::names;
use carve_fleet_picture::{NodePicture, Waiting};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::ListParams;
use kube::runtime::watcher;
use kube::{Api, Client};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

/// Who tells the events that are shown.
const REPORTERS: [&str; 2] = [names::REPORTER, "carve-controller"];
/// How long the API server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long until it is asked again for what it refuses.
const AGAIN: Duration = Duration::from_secs(60);

/// An agent's pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AgentPod {
    /// When it was made, as the API server writes it.
    created: String,
    pub(super) node: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// All that is known.
#[derive(Debug, Default)]
pub(super) struct Objects {
    /// Nodes with GPUs, as far as their own objects tell.
    pub(super) nodes: BTreeMap<String, NodePicture>,
    /// By uid.
    agents: BTreeMap<String, AgentPod>,
    /// Pods that wait, by uid.
    waiting: BTreeMap<String, (String, Waiting)>,
    pub(super) happenings: Happenings,
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

fn set<T>(map: &mut BTreeMap<String, T>, key: String, value: Option<T>) {
    match value {
        Some(value) => drop(map.insert(key, value)),
        None => drop(map.remove(&key)),
    }
}

impl Objects {
    pub(super) fn node_seen(&mut self, object: &Value) {
        set(&mut self.nodes, name(object), node::drawn(object));
    }

    pub(super) fn agent_seen(&mut self, pod: &Value) {
        let on = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty());
        let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let agent = on.filter(|_| !ended).map(|node| AgentPod {
            created: pod["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned(),
            node: node.to_owned(),
            namespace: pod["metadata"]["namespace"].as_str().unwrap_or_default().to_owned(),
            name: name(pod),
        });
        set(&mut self.agents, uid(pod), agent);
    }

    pub(super) fn pod_seen(&mut self, pod: &Value) {
        set(&mut self.waiting, uid(pod), waits::shown(pod));
    }

    /// The agent of each node. While one replaces another, the one that came last counts.
    pub(super) fn agents(&self) -> BTreeMap<String, AgentPod> {
        let mut agents: Vec<&AgentPod> = self.agents.values().collect();
        agents.sort_by(|one, other| one.created.cmp(&other.created));
        agents.into_iter().map(|agent| (agent.node.clone(), agent.clone())).collect()
    }

    pub(super) fn waiting(&self) -> BTreeMap<String, Waiting> {
        self.waiting.values().cloned().collect()
    }
}

fn uids(objects: &[Value]) -> BTreeSet<String> {
    objects.iter().map(uid).collect()
}

const NODES: Told<Objects> = Told {
    asked: |_| {},
    seen: Objects::node_seen,
    gone: |objects, node| drop(objects.nodes.remove(&name(node))),
    listed: |objects, nodes| {
        let there: BTreeSet<String> = nodes.iter().map(name).collect();
        objects.nodes.retain(|name, _| there.contains(name));
    },
};

const AGENTS: Told<Objects> = Told {
    asked: |_| {},
    seen: Objects::agent_seen,
    gone: |objects, pod| drop(objects.agents.remove(&uid(pod))),
    listed: |objects, pods| {
        let there = uids(pods);
        objects.agents.retain(|uid, _| there.contains(uid));
    },
};

const WAITING: Told<Objects> = Told {
    asked: |_| {},
    seen: Objects::pod_seen,
    gone: |objects, pod| drop(objects.waiting.remove(&uid(pod))),
    listed: |objects, pods| {
        let there = uids(pods);
        objects.waiting.retain(|uid, _| there.contains(uid));
    },
};

const EVENTS: Told<Objects> = Told {
    asked: |_| {},
    seen: |objects, event| objects.happenings.event(event),
    gone: |objects, event| objects.happenings.event_gone(event),
    // Events that are gone were told; what is remembered of them goes with their deletion.
    listed: |_, _| {},
};

/// Keeps everything known for as long as this runs. Pods with a node are not watched, which are most of a cluster's.
pub(super) async fn follow_all(
    client: Client,
    namespace: Option<&str>,
    agents: &str,
    objects: &Mutex<Objects>,
) {
    let nodes: Api<Node> = Api::all(client.clone());
    let pods: Api<Pod> = Api::all(client.clone());
    let of_agents: Api<Pod> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let unplaced = watcher::Config::default().fields("spec.nodeName=");
    tokio::join!(
        follow(nodes, watcher::Config::default(), objects, NODES),
        follow(of_agents, watcher::Config::default().labels(agents), objects, AGENTS),
        follow(pods, unplaced, objects, WAITING),
        follow_events(client.clone(), REPORTERS[0], objects),
        follow_events(client, REPORTERS[1], objects),
    );
}

/// Events of one reporter. A controller that may not see them shows everything else.
async fn follow_events(client: Client, reporter: &str, objects: &Mutex<Objects>) {
    let api: Api<Event> = Api::all(client);
    let mut told = false;
    while let Err(StoreError::Refused(why)) =
        within(PATIENCE, api.list(&ListParams::default().limit(1))).await
    {
        if !told {
            tracing::warn!(
                why,
                "the dashboard shows no events; examples/controller/dashboard.yaml has the right to"
            );
            told = true;
        }
        tokio::time::sleep(AGAIN).await;
    }
    let config = watcher::Config::default().fields(&format!("reportingComponent={reporter}"));
    follow(api, config, objects, EVENTS).await;
}
