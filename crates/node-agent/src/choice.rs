//! Which free devices kubelet should take, asked of `placement`.

use crate::plugin::Served;
use carve_kubelet_api::device_plugin::ContainerPreferredAllocationRequest;
use carve_placement::preferred::{
    Candidate, DeviceId, Kind, PartId, Policy, Pool, PreferredError, Request, preferred,
};
use carve_slicing::{AllocationPolicy, Mechanism, Resource, Settings};

/// The devices of a resource, as `placement` knows them.
pub(crate) fn pool(resource: &Resource) -> Pool {
    Pool::new(resource.devices.iter().map(|device| Candidate {
        id: DeviceId::new(device.id.to_string()),
        part: PartId::new(device.part.to_string()),
        gpu: device.gpu,
        numa: device.numa_node,
    }))
}

/// By what to choose among the devices of a resource.
fn kind(resource: &Resource, settings: &Settings) -> Kind {
    let whole = |device: &carve_slicing::Device| {
        device.share.mechanism == Mechanism::Exclusive && device.part.as_str() == device.gpu_uuid.0
    };
    if resource.devices.iter().all(whole) {
        return Kind::WholeGpus;
    }
    Kind::Parts(match settings.policy {
        AllocationPolicy::Distributed => Policy::Distributed,
        AllocationPolicy::Packed => Policy::Packed,
    })
}

/// The best devices for one container.
pub(crate) fn choose(
    served: &Served,
    request: &ContainerPreferredAllocationRequest,
) -> Result<Vec<String>, PreferredError> {
    let ids = |texts: &[String]| texts.iter().map(DeviceId::new).collect::<Vec<_>>();
    let chosen = preferred(&Request {
        pool: &served.pool,
        topology: &served.topology,
        available: &ids(&request.available_device_ids),
        must_include: &ids(&request.must_include_device_ids),
        size: usize::try_from(request.allocation_size).unwrap_or(0),
        kind: kind(&served.resource, &served.settings),
    })?;
    Ok(chosen.into_iter().map(String::from).collect())
}
