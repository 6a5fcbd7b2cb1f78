//! Keeps the certificates in a Secret, where every replica finds the same ones, and tells the others what they need of them.

use super::{CertificateError, Certificates, Time};
use crate::kubernetes::within;
use crate::store::StoreError;
use k8s_openapi::ByteString;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thiserror::Error;
use tokio::sync::watch;

/// How long the API server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the Secret is looked at.
const LOOK: Duration = Duration::from_secs(30);
/// Replicas that write at the same time: all but one look again.
const TRIES: usize = 5;
/// Of the scheduler's pods: whom they trust; a change makes new ones.
const TRUSTED: &str = "carve.dev/trusted-authorities";

/// Where the certificates are kept, and for whom.
#[derive(Debug, Clone)]
pub(crate) struct Keeper {
    pub(crate) namespace: String,
    /// The Secret with everything, for the controller alone.
    pub(crate) secret: String,
    /// The Secret for the scheduler.
    pub(crate) scheduler_secret: String,
    /// The Deployment of the scheduler, which reads once whom it trusts.
    pub(crate) scheduler: Option<String>,
    /// Names under which the controller answers.
    pub(crate) names: Vec<String>,
}

/// Why the certificates are not as they should be.
#[derive(Debug, Error)]
pub(crate) enum KeeperError {
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("the Secret {0} can not be read or written: {1}")]
    Store(String, StoreError),
    #[error("the Secret {0} changes faster than it can be read")]
    Restless(String),
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::try_from(since.as_secs()).unwrap_or(Time::MAX)
}

impl Keeper {
    fn store_error(&self, name: &str, error: StoreError) -> KeeperError {
        KeeperError::Store(format!("{}/{name}", self.namespace), error)
    }

    /// The certificates as they should be now: read, and written where they were not.
    pub(crate) async fn settle(&self, client: &Client) -> Result<Certificates, KeeperError> {
        let api: Api<Secret> = Api::namespaced(client.clone(), &self.namespace);
        let post = PostParams::default();
        for _ in 0..TRIES {
            let found = within(PATIENCE, api.get_opt(&self.secret)).await;
            let found = found.map_err(|error| self.store_error(&self.secret, error))?;
            let read = found.as_ref().map(|secret| Certificates::from_secret(&texts(secret)));
            let wanted = match read {
                Some(Ok(certificates)) => match certificates.renewed(&self.names, now())? {
                    None => return Ok(certificates),
                    Some(new) => new,
                },
                Some(Err(error)) => {
                    tracing::error!("{error}; everything in {}/{} is made anew", self.namespace, self.secret);
                    Certificates::new(&self.names, now())?
                }
                None => Certificates::new(&self.names, now())?,
            };
            let mut secret = secret(&self.secret, "Opaque", wanted.to_secret());
            secret.metadata.resource_version = found.as_ref().and_then(ResourceExt::resource_version);
            let written = match found {
                None => within(PATIENCE, api.create(&post, &secret)).await,
                Some(_) => within(PATIENCE, api.replace(&self.secret, &post, &secret)).await,
            };
            match written {
                Ok(_) => {
                    tracing::info!("new certificates are in the Secret {}/{}", self.namespace, self.secret);
                    return Ok(wanted);
                }
                // Somebody else was quicker, whose certificates are as good.
                Err(StoreError::Refused(why)) if why.contains("modified") || why.contains("exists") => {}
                Err(error) => return Err(self.store_error(&self.secret, error)),
            }
        }
        Err(KeeperError::Restless(format!("{}/{}", self.namespace, self.secret)))
    }

    /// Tells the scheduler what it asks with and whom it believes.
    async fn tell_scheduler(&self, client: &Client, certificates: &Certificates) -> Result<(), KeeperError> {
        let api: Api<Secret> = Api::namespaced(client.clone(), &self.namespace);
        let mut secret = secret(&self.scheduler_secret, "kubernetes.io/tls", certificates.to_client_secret());
        let found = within(PATIENCE, api.get_opt(&self.scheduler_secret)).await;
        let found = found.map_err(|error| self.store_error(&self.scheduler_secret, error))?;
        let post = PostParams::default();
        let written = match &found {
            Some(there) if there.data == secret.data => Ok(()),
            Some(there) => {
                secret.metadata.resource_version = there.resource_version();
                within(PATIENCE, api.replace(&self.scheduler_secret, &post, &secret)).await.map(drop)
            }
            None => within(PATIENCE, api.create(&post, &secret)).await.map(drop),
        };
        written.map_err(|error| self.store_error(&self.scheduler_secret, error))?;
        let Some(name) = &self.scheduler else { return Ok(()) };
        let hash: String =
            Sha256::digest(certificates.bundle()).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        let patch = json!({"spec": {"template": {"metadata": {"annotations": {TRUSTED: hash}}}}});
        let api: Api<Deployment> = Api::namespaced(client.clone(), &self.namespace);
        let patched = within(PATIENCE, api.patch(name, &PatchParams::default(), &Patch::Merge(&patch))).await;
        patched.map(drop).map_err(|error| self.store_error(name, error))
    }

    /// Keeps them for as long as this runs, and tells of new ones. What does not succeed is told once and tried again.
    pub(crate) async fn keep(&self, client: Client, told: &watch::Sender<Certificates>) {
        let mut trouble = None;
        let mut scheduler_knows: Option<Certificates> = None;
        loop {
            let certificates = match self.settle(&client).await {
                Ok(certificates) => {
                    told.send_if_modified(|before| {
                        let is_new = *before != certificates;
                        before.clone_from(&certificates);
                        is_new
                    });
                    Ok(certificates)
                }
                Err(error) => Err(error),
            };
            let outcome = match certificates {
                Ok(certificates) if scheduler_knows.as_ref() != Some(&certificates) => {
                    let outcome = self.tell_scheduler(&client, &certificates).await;
                    if outcome.is_ok() {
                        scheduler_knows = Some(certificates);
                    }
                    outcome
                }
                Ok(_) => Ok(()),
                Err(error) => Err(error),
            };
            let error = outcome.err().map(|error| error.to_string());
            if let Some(words) = error.as_ref().filter(|words| trouble.as_ref() != Some(*words)) {
                tracing::error!("{words}; it is tried again, and the certificates from before stay in use");
            }
            trouble = error;
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn secret(name: &str, kind: &str, data: BTreeMap<&'static str, String>) -> Secret {
    let data = data.into_iter().map(|(key, text)| (key.to_owned(), ByteString(text.into_bytes())));
    let labels = BTreeMap::from([("app.kubernetes.io/managed-by".to_owned(), "carve".to_owned())]);
    Secret {
        metadata: ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() },
        type_: Some(kind.to_owned()),
        data: Some(data.collect()),
        ..Secret::default()
    }
}

fn texts(secret: &Secret) -> BTreeMap<String, String> {
    let data = secret.data.iter().flatten();
    data.filter_map(|(key, bytes)| Some((key.clone(), String::from_utf8(bytes.0.clone()).ok()?))).collect()
}
