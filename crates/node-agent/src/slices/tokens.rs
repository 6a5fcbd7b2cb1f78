//! The one resource towards kubelet: tokens that say nothing, until a container starts with them.

use super::start::{NodeFacts, Starter};
use crate::plugin::tell;
use carve_kubelet_api::device_plugin::{
    AllocateRequest, AllocateResponse, CdiDevice, ContainerAllocateRequest, ContainerAllocateResponse,
    Device, DevicePlugin, DevicePluginOptions, Empty, HEALTHY, ListAndWatchResponse,
    PreStartContainerRequest, PreStartContainerResponse, PreferredAllocationRequest,
    PreferredAllocationResponse, UNHEALTHY,
};
use carve_slicing::slice_device_name;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

/// What this plugin can do.
pub(crate) const OPTIONS: DevicePluginOptions =
    DevicePluginOptions { pre_start_required: true, get_preferred_allocation_available: false };

/// The service on the socket.
pub(crate) struct TokenPlugin {
    pub(crate) starter: Arc<Starter>,
    pub(crate) stop: watch::Receiver<bool>,
}

fn list(facts: &NodeFacts) -> ListAndWatchResponse {
    // Without the driver's files no container could be started.
    let health = if facts.parts.files.hook.is_some() { HEALTHY } else { UNHEALTHY };
    let tokens = carve_bookings::tokens(facts.offer.gpus.len()).into_iter();
    let device = |id| Device { id, health: health.to_owned(), topology: None };
    ListAndWatchResponse { devices: tokens.map(device).collect() }
}

#[tonic::async_trait]
impl DevicePlugin for TokenPlugin {
    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(OPTIONS))
    }

    type ListAndWatchStream = ReceiverStream<Result<ListAndWatchResponse, Status>>;

    async fn list_and_watch(&self, _: Request<Empty>) -> Result<Response<Self::ListAndWatchStream>, Status> {
        Ok(Response::new(tell(self.starter.facts.clone(), self.stop.clone(), list)))
    }

    async fn get_preferred_allocation(
        &self,
        _: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        Err(Status::unimplemented("one token is as good as another"))
    }

    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        let answer = |container: &ContainerAllocateRequest| {
            let device = |token: &String| CdiDevice { name: slice_device_name(token) };
            let cdi_devices = container.devices_ids.iter().map(device).collect();
            ContainerAllocateResponse { cdi_devices, ..ContainerAllocateResponse::default() }
        };
        let container_responses = request.get_ref().container_requests.iter().map(answer).collect();
        Ok(Response::new(AllocateResponse { container_responses }))
    }

    async fn pre_start_container(
        &self,
        request: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        let tokens = &request.get_ref().devices_ids;
        match self.starter.start(tokens).await {
            Ok(()) => Ok(Response::new(PreStartContainerResponse {})),
            Err(why) => {
                tracing::warn!(?tokens, why, "a container is not started");
                Err(Status::failed_precondition(why))
            }
        }
    }
}
