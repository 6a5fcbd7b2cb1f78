//! The API server behind provisioning: watches that keep the objects known, and writes.

use super::objects::{Objects, Watched, text};
use super::pods::STAND_IN;
use super::stand_ins::priority_class;
use super::store::{About, ProvisionStore};
use crate::kubernetes::within;
use crate::store::StoreError;
use carve_karpenter::{BROKEN, HARDWARE_READY, HardwareReady, KEPT, Kind, Named};
use carve_slice_policy::{Condition, SlicePolicy};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event as Told;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How long the API server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Under which name fields are written.
pub(crate) const MANAGER: &str = "carve-provision";
/// How often it is looked whether the cluster knows objects by now that it did not know.
const UNKNOWN: Duration = Duration::from_secs(10);
/// How often it is looked whether a policy wants stand-ins.
const IDLE: Duration = Duration::from_millis(500);
/// How often the same trouble of a watch is told.
const SILENCE: Duration = Duration::from_secs(60);

/// An API server.
#[derive(Clone)]
pub(super) struct Kubernetes {
    client: Client,
    /// Where stand-ins are.
    namespace: String,
}

impl Kubernetes {
    pub(super) fn new(client: Client, namespace: &str) -> Self {
        Kubernetes { client, namespace: namespace.to_owned() }
    }

    fn karpenter(&self, kind: Kind) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &resource(kind))
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    fn stand_ins(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

/// How the API server calls a kind.
fn resource(kind: Kind) -> ApiResource {
    let (version, kind, plural) = match kind {
        Kind::NodePool => ("v1", "NodePool", "nodepools"),
        Kind::NodeOverlay => ("v1alpha1", "NodeOverlay", "nodeoverlays"),
    };
    ApiResource {
        group: "karpenter.sh".to_owned(),
        version: version.to_owned(),
        api_version: format!("karpenter.sh/{version}"),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

fn params() -> PatchParams {
    PatchParams::apply(MANAGER).force()
}

/// What the API server has sent can be written again.
fn value(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or(Value::Null)
}

/// Nothing is wrong where it was so already.
fn unless(code: u16, answer: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == code => Ok(()),
        answer => answer,
    }
}

impl ProvisionStore for Kubernetes {
    fn apply<'a>(&'a self, document: &'a Value) -> BoxFuture<'a, Result<Value, StoreError>> {
        async move {
            let kind = if document["kind"] == "NodePool" { Kind::NodePool } else { Kind::NodeOverlay };
            let (api, name) = (self.karpenter(kind), text(document, "name"));
            let there = within(PATIENCE, api.patch(name, &params(), &Patch::Apply(document))).await?;
            Ok(value(&there))
        }
        .boxed()
    }

    fn delete<'a>(&'a self, named: &'a Named, seen: &'a Value) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let uid = Some(text(seen, "uid").to_owned());
            let same = Preconditions { uid, resource_version: None };
            let params = DeleteParams::default().preconditions(same);
            let api = self.karpenter(named.kind);
            let deleted = async { unless(404, api.delete(&named.name, &params).await.map(drop)) };
            within(PATIENCE, deleted).await
        }
        .boxed()
    }

    fn put_taints<'a>(
        &'a self,
        node: &'a str,
        version: &'a str,
        taints: &'a [Value],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            // Taints are one list: with the version nobody's taint is lost that was added meanwhile.
            let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
            let api = self.nodes();
            let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
            within(PATIENCE, api.patch(node, &params, &Patch::Merge(patch))).await.map(drop)
        }
        .boxed()
    }

    fn put_stage<'a>(
        &'a self,
        node: &'a str,
        version: &'a str,
        taints: &'a [Value],
        labels: &'a BTreeMap<String, String>,
    ) -> BoxFuture<'a, Result<Value, StoreError>> {
        async move {
            let metadata = json!({"resourceVersion": version, "labels": labels});
            let patch = Patch::Merge(json!({"metadata": metadata, "spec": {"taints": taints}}));
            let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
            let api = self.nodes();
            within(PATIENCE, api.patch(node, &params, &patch)).await.map(|node| value(&node))
        }
        .boxed()
    }

    fn create_stand_in<'a>(&'a self, pod: &'a Value) -> BoxFuture<'a, Result<Option<Value>, StoreError>> {
        async move {
            let parsed: Pod = serde_json::from_value(pod.clone())
                .map_err(|error| StoreError::Refused(error.to_string()))?;
            let api = self.stand_ins();
            let made = async {
                let mut tried = api.create(&PostParams::default(), &parsed).await;
                // Somebody may have deleted its class, or there never was one.
                if let Err(kube::Error::Api(status)) = &tried
                    && status.code == 403
                    && status.message.contains("PriorityClass")
                {
                    let classes: Api<PriorityClass> = Api::all(self.client.clone());
                    let class = priority_class();
                    classes.patch(text(&class, "name"), &params(), &Patch::Apply(&class)).await?;
                    tried = api.create(&PostParams::default(), &parsed).await;
                }
                match tried {
                    Ok(pod) => Ok(Some(value(&pod))),
                    Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
                    Err(error) => Err(error),
                }
            };
            within(PATIENCE, made).await
        }
        .boxed()
    }

    fn delete_stand_in<'a>(&'a self, name: &'a str, uid: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let same = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
            let params = DeleteParams::default().preconditions(same);
            let api = self.stand_ins();
            // One of the same name that was made meanwhile is another one.
            let deleted = async { unless(409, unless(404, api.delete(name, &params).await.map(drop))) };
            within(PATIENCE, deleted).await
        }
        .boxed()
    }

    fn put_hardware_ready<'a>(
        &'a self,
        node: &'a str,
        said: &'a HardwareReady,
        at: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let condition = json!({
            "type": HARDWARE_READY,
            "status": if said.ready { "True" } else { "False" },
            "reason": if said.ready { KEPT } else { BROKEN },
            "message": said.message,
            "lastHeartbeatTime": at,
            "lastTransitionTime": at,
        });
        let object = json!({"apiVersion": "v1", "kind": "Node", "status": {"conditions": [condition]}});
        async move {
            let api = self.nodes();
            within(PATIENCE, api.patch_status(node, &params(), &Patch::Apply(object))).await.map(drop)
        }
        .boxed()
    }

    fn put_conditions<'a>(
        &'a self,
        policy: &'a str,
        conditions: &'a [Condition],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let object = json!({
            "apiVersion": "carve.dev/v1beta1", "kind": "SlicePolicy", "metadata": {"name": policy},
            "status": {"conditions": conditions},
        });
        async move {
            let api: Api<SlicePolicy> = Api::all(self.client.clone());
            within(PATIENCE, api.patch_status(policy, &params(), &Patch::Apply(object))).await.map(drop)
        }
        .boxed()
    }

    fn warn<'a>(
        &'a self,
        about: &'a About,
        reason: &'a str,
        message: &'a str,
        at: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let (api_version, kind, name, uid) = match about {
            About::Node { name, uid } => ("v1", "Node", name, uid),
            About::NodePool { name, uid } => ("karpenter.sh/v1", "NodePool", name, uid),
        };
        // A name that follows from what is said: a controller that starts anew does not say it again.
        let digest = Sha256::digest(format!("{uid}\n{reason}\n{message}"));
        let number: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        // `kubectl describe node` looks for the name in place of the uid, as kubelet writes it.
        let uid = if kind == "Node" { name } else { uid };
        let event = json!({
            "metadata": {"name": format!("{name}.{number}"), "namespace": "default"},
            "eventTime": at.replace('Z', ".000000Z"),
            "reportingController": "carve-controller",
            "reportingInstance": "carve-controller",
            "action": "Provision",
            "type": "Warning",
            "reason": reason,
            // The API server refuses longer ones.
            "note": message.chars().take(1024).collect::<String>(),
            "regarding": {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid},
        });
        async move {
            let event: Told =
                serde_json::from_value(event).map_err(|error| StoreError::Refused(error.to_string()))?;
            let api: Api<Told> = Api::namespaced(self.client.clone(), "default");
            let told = async { unless(409, api.create(&PostParams::default(), &event).await.map(drop)) };
            within(PATIENCE, told).await
        }
        .boxed()
    }
}

/// Keeps the objects known for as long as this runs. Lost watches are made anew.
pub(super) async fn follow_all(
    client: Client,
    namespace: &str,
    objects: Arc<Mutex<Objects>>,
    news: Arc<Notify>,
) {
    let all = watcher::Config::default;
    let policies: Api<SlicePolicy> = Api::all(client.clone());
    let nodes: Api<Node> = Api::all(client.clone());
    let pods: Api<Pod> = Api::all(client.clone());
    let kubernetes = Kubernetes::new(client, namespace);
    let (pools, overlays) = (kubernetes.karpenter(Kind::NodePool), kubernetes.karpenter(Kind::NodeOverlay));
    let (objects, news) = (&*objects, &*news);
    tokio::join!(
        follow(policies, all(), Watched::Policies, objects, news),
        follow(nodes, all(), Watched::Nodes, objects, news),
        async {
            // Those that another controller left, for a policy that wants none by now.
            let left = ListParams::default().labels(STAND_IN);
            for pod in kubernetes.stand_ins().list(&left).await.into_iter().flatten() {
                let mut objects = objects.lock().unwrap_or_else(PoisonError::into_inner);
                objects.seen(Watched::Pods, value(&pod));
            }
            // Every pod of the cluster is much to follow where nobody stands in for any.
            while !objects.lock().unwrap_or_else(PoisonError::into_inner).has_stand_ins() {
                tokio::time::sleep(IDLE).await;
            }
            follow(pods, all(), Watched::Pods, objects, news).await;
        },
        follow(pools, all(), Watched::NodePools, objects, news),
        follow(overlays, all(), Watched::NodeOverlays, objects, news),
    );
}

/// By what an object is known.
fn key(kind: Watched, object: &impl ResourceExt) -> String {
    match kind {
        Watched::Pods => format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any()),
        _ => object.name_any(),
    }
}

async fn follow<K>(
    api: Api<K>,
    config: watcher::Config,
    kind: Watched,
    objects: &Mutex<Objects>,
    news: &Notify,
) where
    K: Resource + Clone + Debug + DeserializeOwned + Serialize + Send + 'static,
{
    let with = |act: &dyn Fn(&mut Objects)| act(&mut objects.lock().unwrap_or_else(PoisonError::into_inner));
    let mut events = Box::pin(watcher::watcher(api, config));
    let mut there = BTreeSet::new();
    let mut told: Option<Instant> = None;
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => there.clear(),
            Ok(Event::InitApply(object)) => {
                there.insert(key(kind, &object));
                with(&|objects| objects.seen(kind, value(&object)));
            }
            Ok(Event::InitDone) => with(&|objects| objects.listed(kind, &there)),
            Ok(Event::Apply(object)) => with(&|objects| objects.seen(kind, value(&object))),
            Ok(Event::Delete(object)) => with(&|objects| objects.gone(kind, &key(kind, &object))),
            Err(watcher::Error::InitialListFailed(kube::Error::Api(status)))
                if matches!(status.code, 403 | 404) =>
            {
                let why = match status.code {
                    404 => "their kind is not defined".to_owned(),
                    _ => format!("the controller may not read them: {}", status.message),
                };
                with(&|objects| objects.absent(kind, why.clone()));
                tracing::debug!(?kind, why, "no such objects");
                news.notify_one();
                tokio::time::sleep(UNKNOWN).await;
                continue;
            }
            Err(error) => {
                if told.is_none_or(|told| told.elapsed() > SILENCE) {
                    tracing::warn!(?kind, %error, "they can not be watched, and no machines come for policies meanwhile");
                    told = Some(Instant::now());
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
                continue;
            }
        }
        news.notify_one();
    }
}
