//! The API server behind repartition: watches that keep the objects known, and writes.

use super::objects::Objects;
use super::store::{About, PlanStore, Tone};
use super::told::ToldNode;
use crate::kubernetes::within;
use crate::store::StoreError;
use carve_repartition::Order;
use carve_slice_policy::{SlicePlan, SlicePlanSpec, SlicePlanStatus, SlicePolicy, SlicePolicyStatus};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod};
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event as Told, EventType, Recorder, Reporter};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How long the API server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Under which name fields are written.
const MANAGER: &str = "carve-repartition";
/// How often it is looked whether the cluster knows our objects by now.
const UNKNOWN: Duration = Duration::from_secs(10);
/// How often it is looked whether a policy wants anything cut.
const IDLE: Duration = Duration::from_millis(500);
/// How often the same trouble of a watch is told.
const SILENCE: Duration = Duration::from_secs(60);

/// An API server.
#[derive(Clone)]
pub(super) struct Kubernetes {
    client: Client,
}

impl Kubernetes {
    pub(super) fn new(client: Client) -> Self {
        Kubernetes { client }
    }

    fn plans(&self) -> Api<SlicePlan> {
        Api::all(self.client.clone())
    }
}

fn params() -> PatchParams {
    PatchParams::apply(MANAGER).force()
}

/// What every object of ours begins with.
fn head<K: Resource<DynamicType = ()>>(name: &str) -> Value {
    json!({"apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": {"name": name}})
}

impl PlanStore for Kubernetes {
    fn put_plan<'a>(&'a self, plan: &'a SlicePlanSpec) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            // A plan goes with its node.
            let nodes: Api<Node> = Api::all(self.client.clone());
            let node = within(PATIENCE, nodes.get_metadata(&plan.node)).await?;
            let mut object = head::<SlicePlan>(&plan.node);
            object["spec"] = json!(plan);
            object["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "v1", "kind": "Node", "name": plan.node, "uid": node.metadata.uid}]);
            let plans = self.plans();
            within(PATIENCE, plans.patch(&plan.node, &params(), &Patch::Apply(object))).await.map(drop)
        }
        .boxed()
    }

    fn put_plan_status<'a>(
        &'a self,
        node: &'a str,
        status: &'a SlicePlanStatus,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let mut object = head::<SlicePlan>(node);
            object["status"] = json!(status);
            let plans = self.plans();
            within(PATIENCE, plans.patch_status(node, &params(), &Patch::Apply(object))).await.map(drop)
        }
        .boxed()
    }

    fn put_order<'a>(&'a self, node: &'a str, order: &'a Order) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let nodes: Api<Node> = Api::all(self.client.clone());
            let object = json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"annotations": {Order::ANNOTATION: order.to_text()}},
            });
            within(PATIENCE, nodes.patch_metadata(node, &params(), &Patch::Apply(object))).await.map(drop)
        }
        .boxed()
    }

    fn put_config<'a>(&'a self, node: &'a str, told: &'a ToldNode) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let nodes: Api<Node> = Api::all(self.client.clone());
            let object =
                json!({"apiVersion": "v1", "kind": "Node", "metadata": {"annotations": told.annotations()}});
            // A manager of its own: what it does not write any more goes.
            let params = PatchParams::apply("carve-policy").force();
            within(PATIENCE, nodes.patch_metadata(node, &params, &Patch::Apply(object))).await.map(drop)
        }
        .boxed()
    }

    fn put_policy_status<'a>(
        &'a self,
        policy: &'a str,
        status: &'a SlicePolicyStatus,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            let policies: Api<SlicePolicy> = Api::all(self.client.clone());
            let mut object = head::<SlicePolicy>(policy);
            object["status"] = json!(status);
            within(PATIENCE, policies.patch_status(policy, &params(), &Patch::Apply(object))).await.map(drop)
        }
        .boxed()
    }

    fn tell<'a>(
        &'a self,
        about: &'a About,
        tone: Tone,
        reason: &'a str,
        message: &'a str,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let object = |api: &str, kind: &str, name: &str| ObjectReference {
            api_version: Some(api.to_owned()),
            kind: Some(kind.to_owned()),
            name: Some(name.to_owned()),
            ..ObjectReference::default()
        };
        let reference = match about {
            About::Pod { namespace, name, uid } => ObjectReference {
                namespace: Some(namespace.clone()),
                uid: Some(uid.clone()),
                ..object("v1", "Pod", name)
            },
            About::Plan { node } => object("carve.dev/v1alpha1", "SlicePlan", node),
        };
        let event = Told {
            type_: if tone == Tone::Warning { EventType::Warning } else { EventType::Normal },
            reason: reason.to_owned(),
            // The API server refuses longer ones.
            note: Some(message.chars().take(1024).collect()),
            action: "Repartition".to_owned(),
            secondary: None,
        };
        // One for each event: a recorder counts another text with the same reason as the first one again, and nobody would read it.
        let reporter = Reporter { controller: "carve-controller".to_owned(), instance: None };
        let recorder = Recorder::new(self.client.clone(), reporter);
        async move { within(PATIENCE, recorder.publish(&event, &reference)).await }.boxed()
    }
}

/// Keeps the objects known for as long as this runs. Lost watches are made anew.
pub(super) async fn follow_all(client: Client, objects: Arc<Mutex<Objects>>, news: Arc<Notify>) {
    let (objects, news) = (&*objects, &*news);
    let nodes: Api<Node> = Api::all(client.clone());
    let pods: Api<Pod> = Api::all(client.clone());
    let policies: Api<SlicePolicy> = Api::all(client.clone());
    let plans: Api<SlicePlan> = Api::all(client);
    tokio::join!(
        follow(nodes, "nodes", Objects::node_seen, objects, news),
        async {
            // Every pod of the cluster is much to follow where nobody wants anything cut.
            while !objects.lock().unwrap_or_else(PoisonError::into_inner).is_anything_cut() {
                tokio::time::sleep(IDLE).await;
            }
            follow(pods, "pods", Objects::pod_seen, objects, news).await;
        },
        follow(policies, "policies", Objects::policy_seen, objects, news),
        follow(plans, "plans", Objects::plan_seen, objects, news),
    );
}

async fn follow<K>(
    api: Api<K>,
    kind: &'static str,
    seen: fn(&mut Objects, &Value),
    objects: &Mutex<Objects>,
    news: &Notify,
) where
    K: Resource + Clone + Debug + DeserializeOwned + Serialize + Send + 'static,
    K::DynamicType: Default,
{
    let with = |act: &dyn Fn(&mut Objects)| act(&mut objects.lock().unwrap_or_else(PoisonError::into_inner));
    // What the API server has sent can be written again.
    let value = |object: &K| serde_json::to_value(object).unwrap_or(Value::Null);
    let mut events = Box::pin(watcher::watcher(api, watcher::Config::default()));
    let mut there = BTreeSet::new();
    let mut told: Option<Instant> = None;
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => there.clear(),
            Ok(Event::InitApply(object)) => {
                let metadata = object.meta();
                there.extend(if kind == "pods" { metadata.uid.clone() } else { metadata.name.clone() });
                with(&|objects| seen(objects, &value(&object)));
            }
            Ok(Event::InitDone) => with(&|objects| objects.listed(kind, &there)),
            Ok(Event::Apply(object)) => with(&|objects| seen(objects, &value(&object))),
            Ok(Event::Delete(object)) => with(&|objects| objects.gone(kind, &value(&object))),
            Err(watcher::Error::InitialListFailed(kube::Error::Api(status))) if status.code == 404 => {
                if told.is_none() {
                    tracing::info!(
                        kind,
                        "MIG is not cut on demand: this cluster does not know them; deploy/crds defines them"
                    );
                    told = Some(Instant::now());
                }
                tokio::time::sleep(UNKNOWN).await;
                continue;
            }
            Err(error) => {
                if told.is_none_or(|told| told.elapsed() > SILENCE) {
                    tracing::warn!(
                        kind,
                        %error,
                        "they can not be watched, and MIG is not cut on demand meanwhile; see the controller's rights"
                    );
                    told = Some(Instant::now());
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
                continue;
            }
        }
        news.notify_one();
    }
}
