//! The election, held over a Lease of the API server.

use crate::election::{Election, Moment, Move, Record};
use crate::kubernetes::within;
use crate::store::StoreError;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a leader that is gone is waited for.
const DURATION: Duration = Duration::from_secs(15);
/// How often the Lease is looked at, and renewed.
const LOOK: Duration = Duration::from_secs(2);
/// How long the API server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A replica that stands for election.
#[derive(Debug, Clone)]
pub struct Candidate {
    election: Arc<Mutex<Election>>,
    begun: Instant,
    me: String,
}

impl Candidate {
    /// One that leads nothing yet. Its name must be that of no other replica: the name of its pod will do.
    pub fn new(me: &str) -> Self {
        let election = Arc::new(Mutex::new(Election::new(me, DURATION)));
        Candidate { election, begun: Instant::now(), me: me.to_owned() }
    }

    fn now(&self) -> Moment {
        self.begun.elapsed()
    }

    fn election(&self) -> MutexGuard<'_, Election> {
        self.election.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this replica leads now.
    pub fn leads(&self) -> bool {
        let now = self.now();
        self.election().leads(now)
    }

    /// Stands for election for as long as this runs.
    pub async fn stand(&self, client: Client, namespace: &str, name: &str) {
        let leases: Api<Lease> = Api::namespaced(client, namespace);
        let mut led = false;
        loop {
            if let Err(error) = self.try_once(&leases, name).await {
                tracing::warn!(%error, "the Lease {namespace}/{name} can not be read or written");
            }
            let leads = self.leads();
            if leads != led {
                let word = if leads { "leads from now on" } else { "leads no more" };
                tracing::info!("{} {word}", self.me);
                led = leads;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Gives the Lease up, so that nobody has to wait until it ends.
    pub async fn give_up(&self, client: Client, namespace: &str, name: &str) {
        let leases: Api<Lease> = Api::namespaced(client, namespace);
        let Ok(Some(mut lease)) = within(PATIENCE, leases.get_opt(name)).await else { return };
        let holder = lease.spec.as_mut().map(|spec| &mut spec.holder_identity);
        if let Some(holder) = holder.filter(|holder| holder.as_deref() == Some(self.me.as_str())) {
            *holder = Some(String::new());
            // Whoever was quicker has it already.
            let _ = within(PATIENCE, leases.replace(name, &PostParams::default(), &lease)).await;
        }
    }

    async fn try_once(&self, leases: &Api<Lease>, name: &str) -> Result<(), StoreError> {
        let found = within(PATIENCE, leases.get_opt(name)).await?;
        let sent = self.now();
        if self.election().observe(found.as_ref().map(record), sent) == Move::Wait {
            return Ok(());
        }
        let params = PostParams::default();
        let (new, is_new) = (self.lease(name, found.as_ref()), found.is_none());
        let written = match is_new {
            true => within(PATIENCE, leases.create(&params, &new)).await,
            false => within(PATIENCE, leases.replace(name, &params, &new)).await,
        };
        match written {
            Ok(lease) => {
                self.election().written(record(&lease), sent);
                Ok(())
            }
            // Somebody else was quicker.
            Err(StoreError::Refused(why)) if why.contains("modified") || why.contains("exists") => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What is written. Times are for people alone.
    fn lease(&self, name: &str, before: Option<&Lease>) -> Lease {
        let spec = before.and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let same = spec.holder_identity.as_deref() == Some(self.me.as_str());
        let now = Some(MicroTime(k8s_openapi::jiff::Timestamp::now()));
        Lease {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                resource_version: before.and_then(ResourceExt::resource_version),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.me.clone()),
                lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
                acquire_time: if same { spec.acquire_time } else { now.clone() },
                renew_time: now,
                lease_transitions: Some(spec.lease_transitions.unwrap_or(0) + i32::from(!same)),
                ..spec
            }),
        }
    }
}

fn record(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Record {
        holder: spec.holder_identity.unwrap_or_default(),
        version: lease.resource_version().unwrap_or_default(),
        duration: seconds.map_or(DURATION, Duration::from_secs),
    }
}

#[cfg(test)]
mod tests {
    use super::Candidate;
    use http::{Method, Request, Response, StatusCode};
    use k8s_openapi::api::coordination::v1::Lease;
    use kube::client::Body;
    use kube::{Api, Client};
    use serde_json::{Value, json};
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    /// An API server with one Lease, which is replaced only by who has seen its newest version.
    fn server() -> (Api<Lease>, Arc<Mutex<Option<Value>>>) {
        let kept = Arc::new(Mutex::new(None::<Value>));
        let lease = Arc::clone(&kept);
        let service = tower::service_fn(move |request: Request<Body>| {
            let lease = Arc::clone(&lease);
            async move {
                let (parts, body) = request.into_parts();
                let bytes = body.collect_bytes().await.expect("a body");
                let mut sent: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
                let mut lease = lease.lock().unwrap();
                let version =
                    |lease: &Value| lease["metadata"]["resourceVersion"].as_str().map(str::to_owned);
                let before = lease.as_ref().and_then(version);
                let failure = |code: u16, reason: &str| {
                    (
                        code,
                        json!({"kind": "Status", "status": "Failure", "reason": reason, "message": "the object has been modified", "code": code}),
                    )
                };
                let (code, answer) = match (&parts.method, lease.clone()) {
                    (&Method::GET, Some(lease)) => (200, lease),
                    (&Method::GET, None) => failure(404, "NotFound"),
                    _ if version(&sent) != before => failure(409, "Conflict"),
                    _ => {
                        let next = before.map_or(1, |before| before.parse::<u64>().unwrap() + 1);
                        sent["metadata"]["resourceVersion"] = json!(next.to_string());
                        *lease = Some(sent.clone());
                        (200, sent)
                    }
                };
                let mut response = Response::new(Body::from(answer.to_string().into_bytes()));
                *response.status_mut() = StatusCode::from_u16(code).unwrap();
                Ok::<_, Infallible>(response)
            }
        });
        (Api::namespaced(Client::new(service, "carve"), "carve"), kept)
    }

    #[tokio::test]
    async fn the_first_leads_and_the_second_waits() {
        let (leases, kept) = server();
        let (one, two) = (Candidate::new("one"), Candidate::new("two"));
        assert!(!one.leads());
        one.try_once(&leases, "controller").await.unwrap();
        two.try_once(&leases, "controller").await.unwrap();
        assert!(one.leads() && !two.leads());
        one.try_once(&leases, "controller").await.unwrap();
        let spec = kept.lock().unwrap().clone().unwrap()["spec"].clone();
        assert_eq!((&spec["holderIdentity"], &spec["leaseTransitions"]), (&json!("one"), &json!(1)));
        assert_eq!(spec["leaseDurationSeconds"], 15);
        // Somebody gave it up: the next one takes it, and the first notices.
        kept.lock().unwrap().as_mut().unwrap()["spec"]["holderIdentity"] = json!("");
        two.try_once(&leases, "controller").await.unwrap();
        one.try_once(&leases, "controller").await.unwrap();
        assert!(two.leads() && !one.leads());
        assert_eq!(kept.lock().unwrap().clone().unwrap()["spec"]["leaseTransitions"], 2);
    }
}
