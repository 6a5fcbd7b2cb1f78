//! The part of the API that an agent on one node uses.

use crate::names;
use crate::watch::{Newest, follow};
use carve_bookings::InitState;
use k8s_openapi::api::core::v1::{
    ConfigMap, ContainerStatus, Event, EventSource, Node, ObjectReference, Pod,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DynamicObject, EvictParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use tokio::sync::watch;

/// Why the API server did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// No way to the API server.
    #[error("no way to the API server: {0}")]
    NoWay(String),
    /// Other field managers hold some of the fields.
    #[error("other managers hold fields of ours: {0}")]
    Conflict(String),
    /// Anything else.
    #[error("{0}")]
    Refused(String),
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 409 && status.message.contains("conflict") => {
                ApiError::Conflict(status.message.clone())
            }
            kube::Error::Api(status) => ApiError::Refused(status.message.clone()),
            other => ApiError::NoWay(other.to_string()),
        }
    }
}

/// What the agent reads of its Node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeView {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its container runtime: `containerd://1.7.24`.
    pub runtime: Option<String>,
}

/// What the agent reads of a pod on its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodView {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// What made it: `Deployment/web`; itself where nothing did.
    pub workload: String,
    /// Since when it is on its node, in seconds since 1970.
    pub since: Option<i64>,
    /// The node it is bound to.
    pub node: Option<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Images and commands of its containers, one text each.
    pub programs: Vec<String>,
    /// Names of its containers by the ids that the runtime gave them; those that were never started are not among them.
    pub containers: BTreeMap<String, String>,
    /// How far its init containers are, by their names.
    pub init: BTreeMap<String, InitState>,
    /// Whether it has ended or is about to.
    pub ending: bool,
    /// Whether it has ended.
    pub ended: bool,
}

/// Whether an event is news or trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// News.
    Normal,
    /// Trouble.
    Warning,
}

/// The API of one node.
#[derive(Clone)]
pub struct NodeApi {
    client: Client,
    node: String,
    /// Namespace of events about the node.
    events: String,
}

impl std::fmt::Debug for NodeApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeApi").field("node", &self.node).finish_non_exhaustive()
    }
}

/// A client with a kubeconfig, or as the pod's own account. `caller` is how the API server's records name it: its own accounts are told apart
/// by themselves, and people's are not.
pub async fn connect(kubeconfig: Option<&Path>, caller: &str) -> Result<Client, ApiError> {
    // Several crates bring a provider; this process uses one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let no_way = |error: &dyn std::fmt::Display| ApiError::NoWay(error.to_string());
    let mut config = match kubeconfig {
        Some(path) => {
            let text = kube::config::Kubeconfig::read_from(path).map_err(|error| no_way(&error))?;
            let options = kube::config::KubeConfigOptions::default();
            Config::from_custom_kubeconfig(text, &options).await.map_err(|error| no_way(&error))?
        }
        None => Config::infer().await.map_err(|error| {
            no_way(&format!("{error}; name a kubeconfig with --kubeconfig, or run in a pod of the cluster"))
        })?,
    };
    let agent = format!("{caller}/{}", env!("CARGO_PKG_VERSION"));
    let agent = http::HeaderValue::try_from(agent).map_err(|error| no_way(&error))?;
    config.headers.push((http::header::USER_AGENT, agent));
    Client::try_from(config).map_err(|error| no_way(&error))
}

impl NodeApi {
    /// Connects as the agent, with a kubeconfig, or as the pod's own account.
    pub async fn connect(kubeconfig: Option<&Path>, node: &str) -> Result<Self, ApiError> {
        NodeApi::connect_as(kubeconfig, node, names::AGENT).await
    }

    /// Connects as somebody else who speaks as an agent does.
    pub async fn connect_as(kubeconfig: Option<&Path>, node: &str, caller: &str) -> Result<Self, ApiError> {
        Ok(NodeApi::through(connect(kubeconfig, caller).await?, node))
    }

    /// The API of a node through a client that is there already.
    pub(crate) fn through(client: Client, node: &str) -> Self {
        NodeApi { client, node: node.to_owned(), events: "default".to_owned() }
    }

    /// Name of the node.
    pub fn node(&self) -> &str {
        &self.node
    }

    pub fn client(&self) -> Client {
        self.client.clone()
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// The Node as it is now.
    pub async fn view(&self) -> Result<NodeView, ApiError> {
        Ok(node_view(&self.nodes().get(&self.node).await?))
    }

    /// Follows the Node. `None` until it was seen.
    pub fn follow_node(&self) -> watch::Receiver<Option<NodeView>> {
        let found = follow(self.nodes(), &self.node, node_view);
        translate(found, |newest| match newest {
            Newest::There(view) => Some(view.clone()),
            Newest::Unknown | Newest::Absent => None,
        })
    }

    /// Follows a ConfigMap. `None` until it was looked for; then its texts, or that it is not there.
    pub fn follow_config_map(
        &self,
        namespace: &str,
        name: &str,
    ) -> watch::Receiver<Option<Result<BTreeMap<String, String>, String>>> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let found = follow(api, name, |map: &ConfigMap| map.data.clone().unwrap_or_default());
        let absent = format!("ConfigMap {namespace}/{name} is not there");
        translate(found, move |newest| match newest {
            Newest::Unknown => None,
            Newest::Absent => Some(Err(absent.clone())),
            Newest::There(data) => Some(Ok(data.clone())),
        })
    }

    /// Makes these the labels that a manager of ours holds on the Node; those it held before and are not among them go.
    pub async fn apply_labels(
        &self,
        manager: &str,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
        force: bool,
    ) -> Result<(), ApiError> {
        let mut metadata = json!({"labels": labels});
        if !annotations.is_empty() {
            metadata["annotations"] = json!(annotations);
        }
        let patch = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata});
        let mut params = PatchParams::apply(manager);
        params.force = force;
        self.nodes().patch_metadata(&self.node, &params, &Patch::Apply(patch)).await?;
        Ok(())
    }

    /// Sets labels whoever holds them, and removes those without a value: for labels that are commands.
    pub async fn merge_labels(&self, labels: &BTreeMap<String, Option<String>>) -> Result<(), ApiError> {
        let patch = json!({"metadata": {"labels": labels}});
        self.nodes().patch_metadata(&self.node, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Sets a condition of the Node.
    pub async fn set_condition(
        &self,
        kind: &str,
        holds: bool,
        reason: &str,
        message: &str,
    ) -> Result<(), ApiError> {
        let now = Time(k8s_openapi::jiff::Timestamp::now());
        let condition = json!({
            "type": kind,
            "status": if holds { "True" } else { "False" },
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        });
        let patch = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "status": {"conditions": [condition]},
        });
        // One manager for each condition: applying one must not drop another.
        let params = PatchParams::apply(&format!("{}-{kind}", names::CONDITIONS_MANAGER)).force();
        self.nodes().patch_status(&self.node, &params, &Patch::Apply(patch)).await?;
        Ok(())
    }

    /// Tells an event about the Node.
    pub async fn tell(&self, tone: Tone, reason: &str, message: &str) -> Result<(), ApiError> {
        // `kubectl describe node` looks for the name in place of the uid, as kubelet writes it.
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(self.node.clone()),
            uid: Some(self.node.clone()),
            ..ObjectReference::default()
        };
        let event = event(&self.node, &self.events, about, tone, reason, message);
        let api: Api<Event> = Api::namespaced(self.client.clone(), &self.events);
        api.create(&PostParams::default(), &event).await?;
        Ok(())
    }

    /// The pods on this node.
    pub async fn pods(&self) -> Result<Vec<PodView>, ApiError> {
        let api: Api<Pod> = Api::all(self.client.clone());
        let params = ListParams::default().fields(&format!("spec.nodeName={}", self.node));
        Ok(api.list(&params).await?.items.into_iter().map(pod_view).collect())
    }

    /// A pod, where there is one of that name.
    pub async fn pod(&self, namespace: &str, name: &str) -> Result<Option<PodView>, ApiError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        Ok(api.get_opt(name).await?.map(pod_view))
    }

    /// Makes these the resources that a manager of ours adds to what the Node has. Kubelet takes them over into what pods may have.
    pub async fn apply_capacity(
        &self,
        manager: &str,
        capacity: &BTreeMap<String, String>,
    ) -> Result<(), ApiError> {
        let patch = json!({"apiVersion": "v1", "kind": "Node", "status": {"capacity": capacity}});
        let params = PatchParams::apply(manager).force();
        self.nodes().patch_status(&self.node, &params, &Patch::Apply(patch)).await?;
        Ok(())
    }

    /// Asks for a pod to go, as far as its disruption budget allows.
    pub async fn evict(&self, namespace: &str, name: &str) -> Result<(), ApiError> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        api.evict(name, &EvictParams::default()).await?;
        Ok(())
    }

    /// Whether Node Feature Discovery serves its NodeFeature API here.
    pub async fn has_node_features(&self) -> bool {
        let group = self.client.list_api_group_resources("nfd.k8s-sigs.io/v1alpha1").await;
        group.is_ok_and(|list| list.resources.iter().any(|resource| resource.kind == "NodeFeature"))
    }

    /// Writes a NodeFeature whose labels Node Feature Discovery puts on the Node.
    pub async fn apply_node_feature(
        &self,
        namespace: &str,
        name: &str,
        labels: &BTreeMap<String, String>,
    ) -> Result<(), ApiError> {
        let kind = GroupVersionKind::gvk("nfd.k8s-sigs.io", "v1alpha1", "NodeFeature");
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
        let object: Value = json!({
            "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
            "kind": "NodeFeature",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {"nfd.node.kubernetes.io/node-name": self.node},
            },
            "spec": {"features": {"flags": {}, "attributes": {}, "instances": {}}, "labels": labels},
        });
        let params = PatchParams::apply(names::LABELS_MANAGER).force();
        api.patch(name, &params, &Patch::Apply(object)).await?;
        Ok(())
    }
}

/// An event that the agent of a node tells in a namespace.
pub(crate) fn event(
    node: &str,
    namespace: &str,
    about: ObjectReference,
    tone: Tone,
    reason: &str,
    message: &str,
) -> Event {
    let now = Time(k8s_openapi::jiff::Timestamp::now());
    Event {
        metadata: ObjectMeta {
            generate_name: about.name.as_ref().map(|name| format!("{name}.")),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: about,
        type_: Some(if tone == Tone::Warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(reason.to_owned()),
        // The API server refuses longer ones.
        message: Some(message.chars().take(1024).collect()),
        source: Some(EventSource {
            component: Some(names::REPORTER.to_owned()),
            host: Some(node.to_owned()),
        }),
        reporting_component: Some(names::REPORTER.to_owned()),
        reporting_instance: Some(node.to_owned()),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        count: Some(1),
        ..Event::default()
    }
}

fn node_view(node: &Node) -> NodeView {
    let runtime = node
        .status
        .as_ref()
        .and_then(|status| Some(status.node_info.as_ref()?.container_runtime_version.clone()));
    NodeView {
        labels: node.metadata.labels.clone().unwrap_or_default(),
        annotations: node.metadata.annotations.clone().unwrap_or_default(),
        runtime,
    }
}

/// What made a pod: `Deployment/web`, where a ReplicaSet of one did; the pod itself where nothing did.
pub fn workload(pod: &Pod) -> String {
    let metadata = &pod.metadata;
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let Some(owner) = owners.iter().find(|owner| owner.controller == Some(true)) else {
        return format!("Pod/{}", metadata.name.as_deref().unwrap_or_default());
    };
    let hash = metadata.labels.as_ref().and_then(|labels| labels.get("pod-template-hash"));
    let deployment = hash.and_then(|hash| owner.name.strip_suffix(hash.as_str())?.strip_suffix('-'));
    match (owner.kind.as_str(), deployment) {
        ("ReplicaSet", Some(deployment)) => format!("Deployment/{deployment}"),
        (kind, _) => format!("{kind}/{}", owner.name),
    }
}

fn pod_view(pod: Pod) -> PodView {
    let workload = workload(&pod);
    let spec = pod.spec.unwrap_or_default();
    let node = spec.node_name;
    let programs = spec.containers.into_iter().map(|container| {
        let words =
            container.command.unwrap_or_default().into_iter().chain(container.args.unwrap_or_default());
        container.image.into_iter().chain(words).collect::<Vec<_>>().join(" ")
    });
    let status = pod.status.unwrap_or_default();
    let phase = status.phase.unwrap_or_default();
    let since = status.start_time.map(|time| time.0.as_second());
    let init = status.init_container_statuses.unwrap_or_default();
    let others = [status.container_statuses, status.ephemeral_container_statuses];
    let started = init.iter().chain(others.iter().flatten().flatten()).filter_map(|container| {
        // `containerd://` and the like stand before it.
        let id = container.container_id.as_deref()?.rsplit('/').next()?;
        Some((id.to_owned(), container.name.clone()))
    });
    let containers = started.collect();
    let ended = matches!(phase.as_str(), "Succeeded" | "Failed");
    PodView {
        workload,
        since,
        uid: pod.metadata.uid.unwrap_or_default(),
        node,
        annotations: pod.metadata.annotations.unwrap_or_default(),
        ended,
        namespace: pod.metadata.namespace.unwrap_or_default(),
        name: pod.metadata.name.unwrap_or_default(),
        labels: pod.metadata.labels.unwrap_or_default(),
        programs: programs.collect(),
        containers,
        init: init.into_iter().map(|one| (one.name.clone(), init_state(&one))).collect(),
        ending: pod.metadata.deletion_timestamp.is_some() || ended,
    }
}

fn init_state(status: &ContainerStatus) -> InitState {
    let state = status.state.clone().unwrap_or_default();
    match (state.running, state.terminated) {
        (Some(_), _) => InitState::Running,
        (None, Some(end)) if end.exit_code == 0 => InitState::Done,
        (None, _) => InitState::NotDone,
    }
}

/// A receiver that shows another view of what a first one sees.
fn translate<T, U>(
    mut from: watch::Receiver<T>,
    view: impl Fn(&T) -> U + Send + 'static,
) -> watch::Receiver<U>
where
    T: Send + Sync + 'static,
    U: Send + Sync + 'static,
{
    let (to, seen) = watch::channel(view(&from.borrow_and_update()));
    tokio::spawn(async move {
        while from.changed().await.is_ok() {
            let now = view(&from.borrow_and_update());
            if to.send(now).is_err() {
                return;
            }
        }
    });
    seen
}
