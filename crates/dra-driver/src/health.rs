//! Tells kubelet how the devices are, for as long as it listens.

use carve_kubelet_api::dra_health::{DeviceHealth, NodeWatchResourcesResponse};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

/// What kubelet reads.
pub(crate) type HealthStream = ReceiverStream<Result<NodeWatchResourcesResponse, Status>>;

/// What every watch of kubelet needs.
#[derive(Debug, Clone)]
pub(crate) struct Health {
    pub(crate) devices: watch::Receiver<Vec<DeviceHealth>>,
    /// Whether the server is to stop.
    pub(crate) stop: watch::Receiver<bool>,
    /// How often the list is sent when nothing changes.
    pub(crate) again: Duration,
}

impl Health {
    /// The whole list now, at every change, and again before kubelet takes it for outdated. It ends with the server, or when
    /// nobody watches the devices any more: then kubelet shows them as unknown, which is the truth.
    pub(crate) fn watch(&self) -> HealthStream {
        let (lists, stream) = mpsc::channel(1);
        let Health { mut devices, mut stop, again } = self.clone();
        tokio::spawn(async move {
            loop {
                let mut devices_now = devices.borrow_and_update().clone();
                // Kubelet takes what was found out long ago for unknown.
                let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
                for device in devices_now.iter_mut().filter(|device| device.last_updated_time == 0) {
                    device.last_updated_time = i64::try_from(now).unwrap_or(i64::MAX);
                }
                let list = NodeWatchResourcesResponse { devices: devices_now };
                tokio::select! {
                    sent = lists.send(Ok(list)) => if sent.is_err() { return },
                    _ = stop.wait_for(|stop| *stop) => return,
                }
                tokio::select! {
                    changed = devices.changed() => if changed.is_err() { return },
                    () = tokio::time::sleep(again) => {}
                    _ = stop.wait_for(|stop| *stop) => return,
                    () = lists.closed() => return,
                }
            }
        });
        ReceiverStream::new(stream)
    }
}
