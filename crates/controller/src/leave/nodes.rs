//! Agents clear their own nodes; what they could not, and what they say is left, is told here.

use super::gone::{delete, pods, wait_for_pods};
use super::{LeaveError, LeaveOptions, Told};
use carve_cluster_api::{names, take_back_slices, take_back_words};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt};
use std::collections::{BTreeMap, BTreeSet};

/// The DaemonSet of agents, and the label of its pods.
const AGENTS: &str = "carve-agent";
/// Where an agent keeps its files on a node.
const PLACES: &str = "/var/lib/carve, /var/run/cdi and /run/carve";
/// Where events about nodes are.
const EVENTS: &str = "default";

/// Deletes the agents' DaemonSet, waits until they have left their nodes, and passes on what they say of it. Answers on which nodes agents were.
pub(super) async fn agents(
    client: &Client,
    options: &LeaveOptions,
    tell: &mut impl FnMut(Told),
) -> Result<BTreeSet<String>, LeaveError> {
    let before = pods(client, options, AGENTS).await?;
    let nodes: BTreeSet<String> = before.iter().filter_map(node_of).collect();
    let asked = Timestamp::now();
    let sets: Api<DaemonSet> = Api::namespaced(client.clone(), &options.namespace);
    let what = format!("DaemonSet {}/{AGENTS}", options.namespace);
    // The set stays until its pods are gone, and says by its deletion that they are not to come back.
    let was_there = delete(&sets, AGENTS, &DeleteParams::foreground())
        .await
        .map_err(LeaveError::at(&format!("{what} can not be deleted")))?;
    let stuck: BTreeSet<String> =
        wait_for_pods(client, options, AGENTS).await?.iter().filter_map(node_of).collect();
    if was_there {
        tell(Told::Gone(what));
    }
    let said = said_since(client, asked).await?;
    for node in &nodes {
        let place = format!("on node {node}");
        match said.get(node) {
            Some((true, _)) => tell(Told::Gone(place)),
            Some((false, message)) => tell(Told::Left(place, message.clone())),
            None if stuck.contains(node) => {
                tell(Told::Left(place, "its agent does not end; is the node away?".to_owned()));
            }
            None => tell(Told::Left(
                place,
                format!("its agent did not say that it has left; look at {PLACES} there"),
            )),
        }
    }
    Ok(nodes)
}

/// Whether agents are still to run.
pub(super) async fn has_agents(client: &Client, options: &LeaveOptions) -> Result<bool, LeaveError> {
    let sets: Api<DaemonSet> = Api::namespaced(client.clone(), &options.namespace);
    let found = sets.get_metadata_opt(AGENTS).await;
    Ok(found.map_err(LeaveError::at("the agents' DaemonSet can not be looked for"))?.is_some())
}

fn node_of(pod: &Pod) -> Option<String> {
    pod.spec.as_ref()?.node_name.clone()
}

/// What agents have said of their end: by node, whether nothing is left, and their words.
async fn said_since(
    client: &Client,
    asked: Timestamp,
) -> Result<BTreeMap<String, (bool, String)>, LeaveError> {
    let events: Api<Event> = Api::namespaced(client.clone(), EVENTS);
    let left = ListParams::default().fields(&format!("reason={}", names::LEFT));
    let listed =
        events.list(&left).await.map_err(LeaveError::at("what agents say of their end can not be read"))?;
    Ok(newest(listed.items, asked))
}

fn newest(events: Vec<Event>, asked: Timestamp) -> BTreeMap<String, (bool, String)> {
    let mut said = BTreeMap::new();
    let mut events: Vec<_> = events
        .into_iter()
        .filter_map(|event| Some((event.last_timestamp.clone()?.0, event)))
        // Times of events are whole seconds, and clocks of nodes differ a little.
        .filter(|(when, _)| when.as_second() + 30 >= asked.as_second())
        .collect();
    events.sort_by_key(|(when, _)| *when);
    for (_, event) in events {
        let nothing = event.type_.as_deref() == Some("Normal");
        let node = event.involved_object.name.unwrap_or_default();
        said.insert(node, (nothing, event.message.unwrap_or_default()));
    }
    said
}

/// Takes back what is still said of nodes: by agents that were not there to do it, and by the controller. Files of an agent that is not
/// there any more are out of reach, and so told.
pub(super) async fn words(
    client: &Client,
    options: &LeaveOptions,
    had_agents: &BTreeSet<String>,
    tell: &mut impl FnMut(Told),
) -> Result<(), LeaveError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let listed = nodes.list_metadata(&ListParams::default()).await;
    for node in listed.map_err(LeaveError::at("nodes can not be listed"))?.items {
        let name = node.name_any();
        let doing = format!("what carve says of node {name} can not be taken back");
        let managers = take_back_words(client, &name).await.map_err(LeaveError::of(&doing))?;
        if !managers.is_empty() {
            tell(Told::Gone(format!("labels, annotations and conditions of node {name}")));
        }
        let of_an_agent = managers.iter().any(|manager| manager.starts_with(names::CONDITIONS_MANAGER));
        if of_an_agent && !had_agents.contains(&name) {
            let why = format!("an agent was there once and is not now, so nobody has cleared {PLACES} there");
            tell(Told::Left(format!("on node {name}"), why));
        }
    }
    let doing = format!("ResourceSlices of {} can not be deleted", options.driver);
    let slices = take_back_slices(client, &options.driver, None).await.map_err(LeaveError::of(&doing))?;
    if slices > 0 {
        tell(Told::Gone(format!("{slices} ResourceSlices of {}", options.driver)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::newest;
    use k8s_openapi::api::core::v1::{Event, ObjectReference};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    #[test]
    fn the_newest_word_of_each_node_counts_and_those_of_an_earlier_time_do_not() {
        let event = |node: &str, second: i64, kind: &str, message: &str| Event {
            involved_object: ObjectReference { name: Some(node.to_owned()), ..ObjectReference::default() },
            last_timestamp: Some(Time(Timestamp::from_second(second).expect("a time"))),
            type_: Some(kind.to_owned()),
            message: Some(message.to_owned()),
            ..Event::default()
        };
        let events = vec![
            event("a", 1100, "Normal", "nothing"),
            event("a", 1050, "Warning", "something"),
            event("b", 1060, "Warning", "files"),
            event("c", 500, "Normal", "the time before"),
        ];
        let said = newest(events, Timestamp::from_second(1040).expect("a time"));
        assert_eq!(said.get("a"), Some(&(true, "nothing".to_owned())));
        assert_eq!(said.get("b"), Some(&(false, "files".to_owned())));
        assert_eq!(said.get("c"), None);
    }
}
