//! What kubelet can call, in every version it may speak.

use crate::calls::{Calls, Verb};
use crate::health::{Health, HealthStream};
use crate::server::{Driver, Registered};
use carve_kubelet_api::dra::{
    self, NodePrepareResourceResponse, NodePrepareResourcesRequest, NodePrepareResourcesResponse,
    NodeUnprepareResourceResponse, NodeUnprepareResourcesRequest, NodeUnprepareResourcesResponse,
};
use carve_kubelet_api::dra_health::{self, NodeWatchResourcesRequest};
use carve_kubelet_api::registration::{
    DRA_PLUGIN, InfoRequest, PluginInfo, Registration, RegistrationStatus, RegistrationStatusResponse,
};
use std::sync::Arc;
use tokio::sync::watch;
use tonic::{Request, Response, Status, async_trait};

/// The services that kubelet chooses from; it takes the first that it knows.
fn versions() -> Vec<String> {
    [dra::VERSION, dra::VERSION_BETA, dra_health::VERSION, dra_health::VERSION_ALPHA]
        .map(str::to_owned)
        .to_vec()
}

/// Tells kubelet who we are, and us what kubelet made of it.
#[derive(Debug, Clone)]
pub(crate) struct Introduction {
    pub(crate) driver: String,
    pub(crate) endpoint: String,
    pub(crate) registered: Arc<watch::Sender<Registered>>,
}

#[async_trait]
impl Registration for Introduction {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(PluginInfo {
            r#type: DRA_PLUGIN.to_owned(),
            name: self.driver.clone(),
            endpoint: self.endpoint.clone(),
            supported_versions: versions(),
        }))
    }

    async fn notify_registration_status(
        &self,
        status: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let registered = match status.into_inner() {
            RegistrationStatus { plugin_registered: true, .. } => Registered::Yes,
            RegistrationStatus { error, .. } => Registered::Refused(error),
        };
        match &registered {
            Registered::Refused(error) => {
                tracing::warn!("kubelet does not register {}: {error}", self.driver)
            }
            _ => tracing::info!("kubelet has registered {}", self.driver),
        }
        self.registered.send_replace(registered);
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}

/// Hands kubelet's calls to the driver.
#[derive(Debug)]
pub(crate) struct Door<D>(pub(crate) Arc<Calls<D>>);

impl<D> Clone for Door<D> {
    fn clone(&self) -> Self {
        Door(Arc::clone(&self.0))
    }
}

impl<D: Driver> Door<D> {
    async fn prepare(
        &self,
        request: Request<NodePrepareResourcesRequest>,
    ) -> Result<Response<NodePrepareResourcesResponse>, Status> {
        let answers = self.0.answer(Verb::Prepare, request.into_inner().claims).await;
        let claims = answers.into_iter().map(|(uid, outcome)| {
            let one = match outcome {
                Ok(devices) => NodePrepareResourceResponse { devices, error: String::new() },
                Err(error) => NodePrepareResourceResponse { devices: Vec::new(), error: told(error) },
            };
            (uid, one)
        });
        Ok(Response::new(NodePrepareResourcesResponse { claims: claims.collect() }))
    }

    async fn unprepare(
        &self,
        request: Request<NodeUnprepareResourcesRequest>,
    ) -> Result<Response<NodeUnprepareResourcesResponse>, Status> {
        let answers = self.0.answer(Verb::Unprepare, request.into_inner().claims).await;
        let claims = answers.into_iter().map(|(uid, outcome)| {
            let error = outcome.err().map(told).unwrap_or_default();
            (uid, NodeUnprepareResourceResponse { error })
        });
        Ok(Response::new(NodeUnprepareResourcesResponse { claims: claims.collect() }))
    }
}

/// An error without words would be taken for success.
fn told(error: String) -> String {
    if error.is_empty() {
        "the driver failed and did not say why; its log may tell".to_owned()
    } else {
        error
    }
}

#[async_trait]
impl<D: Driver> dra::DRAPlugin for Door<D> {
    async fn node_prepare_resources(
        &self,
        request: Request<NodePrepareResourcesRequest>,
    ) -> Result<Response<NodePrepareResourcesResponse>, Status> {
        self.prepare(request).await
    }

    async fn node_unprepare_resources(
        &self,
        request: Request<NodeUnprepareResourcesRequest>,
    ) -> Result<Response<NodeUnprepareResourcesResponse>, Status> {
        self.unprepare(request).await
    }
}

#[async_trait]
impl<D: Driver> dra::v1beta1::DRAPlugin for Door<D> {
    async fn node_prepare_resources(
        &self,
        request: Request<NodePrepareResourcesRequest>,
    ) -> Result<Response<NodePrepareResourcesResponse>, Status> {
        self.prepare(request).await
    }

    async fn node_unprepare_resources(
        &self,
        request: Request<NodeUnprepareResourcesRequest>,
    ) -> Result<Response<NodeUnprepareResourcesResponse>, Status> {
        self.unprepare(request).await
    }
}

#[async_trait]
impl dra_health::DRAResourceHealth for Health {
    type NodeWatchResourcesStream = HealthStream;

    async fn node_watch_resources(
        &self,
        _: Request<NodeWatchResourcesRequest>,
    ) -> Result<Response<HealthStream>, Status> {
        Ok(Response::new(self.watch()))
    }
}

#[async_trait]
impl dra_health::v1alpha1::DRAResourceHealth for Health {
    type NodeWatchResourcesStream = HealthStream;

    async fn node_watch_resources(
        &self,
        _: Request<NodeWatchResourcesRequest>,
    ) -> Result<Response<HealthStream>, Status> {
        Ok(Response::new(self.watch()))
    }
}
