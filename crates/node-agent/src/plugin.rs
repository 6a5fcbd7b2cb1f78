//! One resource towards kubelet: the list of its devices, the best of them, and what goes with them.

use carve_kubelet_api::device_plugin::{
    AllocateRequest, AllocateResponse, CdiDevice, ContainerAllocateResponse,
    ContainerPreferredAllocationResponse, Device, DevicePlugin, DevicePluginOptions, DeviceSpec, Empty,
    HEALTHY, ListAndWatchResponse, Mount, NumaNode, PreStartContainerRequest, PreStartContainerResponse,
    PreferredAllocationRequest, PreferredAllocationResponse, TopologyInfo, UNHEALTHY,
};
use carve_slicing::{Answer, AnswerContext, CdiClass, DeviceId, FlatEdits, Resource, Settings, answer};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::choice::choose;
use crate::metrics::Metrics;
use carve_placement::preferred::{Pool, Topology};

/// What kubelet may be told about one resource now.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    pub(crate) resource: Resource,
    pub(crate) settings: Arc<Settings>,
    pub(crate) topology: Arc<Topology>,
    /// The resource's devices, ready to be chosen from.
    pub(crate) pool: Arc<Pool>,
    /// Devices that may not be given away, and why.
    pub(crate) unwell: BTreeMap<DeviceId, String>,
    /// Device nodes that every container needs.
    pub(crate) control_nodes: Vec<String>,
    /// What containers get where their runtime does not read CDI files.
    pub(crate) flattened: Option<Arc<FlatEdits>>,
    /// Classes that are asked for and that the node does not have.
    pub(crate) absent: BTreeSet<CdiClass>,
}

impl Served {
    /// The same resource without any device.
    pub(crate) fn emptied(&self) -> Self {
        let mut empty = self.clone();
        empty.resource.devices.clear();
        empty.pool = Arc::new(crate::choice::pool(&empty.resource));
        empty.unwell.clear();
        empty
    }

    /// The list as kubelet wants it.
    pub(crate) fn list(&self) -> ListAndWatchResponse {
        let device = |device: &carve_slicing::Device| Device {
            id: device.id.to_string(),
            health: if self.unwell.contains_key(&device.id) { UNHEALTHY } else { HEALTHY }.to_owned(),
            topology: device
                .numa_node
                .map(|node| TopologyInfo { nodes: vec![NumaNode { id: i64::from(node) }] }),
        };
        ListAndWatchResponse { devices: self.resource.devices.iter().map(device).collect() }
    }
}

/// The service on the socket of one resource.
#[derive(Debug)]
pub(crate) struct Plugin {
    served: watch::Receiver<Arc<Served>>,
    /// Turns true when the server is to end.
    stop: watch::Receiver<bool>,
    metrics: Arc<Metrics>,
    answers: AtomicU64,
}

impl Plugin {
    pub(crate) fn new(
        served: watch::Receiver<Arc<Served>>,
        stop: watch::Receiver<bool>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Plugin { served, stop, metrics, answers: AtomicU64::new(0) }
    }

    fn now(&self) -> Arc<Served> {
        Arc::clone(&self.served.borrow())
    }

    /// A name that no other answer of this node has; only its being different matters.
    fn answer_id(&self) -> String {
        let number = self.answers.fetch_add(1, Ordering::Relaxed);
        format!("{:x}-{:x}-{number:x}", std::process::id(), self.metrics.started())
    }
}

/// When the log is told of an answer: whoever reads the log would otherwise be woken before kubelet is.
const AFTER_THE_ANSWER: Duration = Duration::from_millis(5);

/// What every plugin of this agent can do.
pub(crate) const OPTIONS: DevicePluginOptions =
    DevicePluginOptions { pre_start_required: false, get_preferred_allocation_available: true };

/// Tells kubelet what there is, at once and whenever that has changed, until it goes or the server ends.
pub(crate) fn tell<T: Send + Sync + 'static>(
    mut facts: watch::Receiver<T>,
    mut stop: watch::Receiver<bool>,
    list: impl Fn(&T) -> ListAndWatchResponse + Send + 'static,
) -> ReceiverStream<Result<ListAndWatchResponse, Status>> {
    let (lists, stream) = mpsc::channel(4);
    tokio::spawn(async move {
        let mut told: Option<ListAndWatchResponse> = None;
        loop {
            let list = list(&facts.borrow_and_update());
            if told.as_ref() != Some(&list) {
                told = Some(list.clone());
                if lists.send(Ok(list)).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                changed = facts.changed() => if changed.is_err() { return },
                _ = stop.wait_for(|stop| *stop) => return,
                () = lists.closed() => return,
            }
        }
    });
    ReceiverStream::new(stream)
}

#[tonic::async_trait]
impl DevicePlugin for Plugin {
    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(OPTIONS))
    }

    type ListAndWatchStream = ReceiverStream<Result<ListAndWatchResponse, Status>>;

    async fn list_and_watch(&self, _: Request<Empty>) -> Result<Response<Self::ListAndWatchStream>, Status> {
        let lists = tell(self.served.clone(), self.stop.clone(), |served| served.list());
        Ok(Response::new(lists))
    }

    async fn get_preferred_allocation(
        &self,
        request: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        let served = self.now();
        let one = |request| {
            choose(&served, request).map(|device_ids| ContainerPreferredAllocationResponse { device_ids })
        };
        let container_responses =
            request.get_ref().container_requests.iter().map(one).collect::<Result<_, _>>();
        match container_responses {
            Ok(container_responses) => Ok(Response::new(PreferredAllocationResponse { container_responses })),
            Err(error) => Err(Status::unknown(error.to_string())),
        }
    }

    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        let served = self.now();
        let resource = served.resource.name.to_string();
        let mut container_responses = Vec::new();
        for container in &request.get_ref().container_requests {
            let context = AnswerContext {
                control_nodes: served.control_nodes.clone(),
                id: self.answer_id(),
                flat: served.flattened.clone(),
                absent: served.absent.clone(),
            };
            match answer(&served.resource, &container.devices_ids, &served.settings, &context) {
                Ok(answer) => {
                    container_responses.push(on_the_wire(answer));
                    let (resource, devices) = (resource.clone(), container.devices_ids.join(","));
                    tokio::spawn(async move {
                        tokio::time::sleep(AFTER_THE_ANSWER).await;
                        tracing::info!(resource, devices, "allocated");
                    });
                }
                Err(error) => {
                    self.metrics.allocation(&resource, false);
                    tracing::warn!(resource, devices = container.devices_ids.join(","), %error, "refused");
                    return Err(Status::unknown(error.to_string()));
                }
            }
        }
        self.metrics.allocation(&resource, true);
        Ok(Response::new(AllocateResponse { container_responses }))
    }

    async fn pre_start_container(
        &self,
        _: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        Ok(Response::new(PreStartContainerResponse {}))
    }
}

fn on_the_wire(answer: Answer) -> ContainerAllocateResponse {
    let mounts = answer.mounts.into_iter().map(|mount| Mount {
        container_path: mount.container_path,
        host_path: mount.host_path,
        read_only: mount.read_only,
    });
    let devices = answer.devices.into_iter().map(|node| DeviceSpec {
        container_path: node.container_path,
        host_path: node.host_path,
        permissions: "rw".to_owned(),
    });
    ContainerAllocateResponse {
        envs: answer.envs,
        mounts: mounts.collect(),
        devices: devices.collect(),
        annotations: answer.annotations,
        cdi_devices: answer.cdi_devices.into_iter().map(|name| CdiDevice { name }).collect(),
    }
}
