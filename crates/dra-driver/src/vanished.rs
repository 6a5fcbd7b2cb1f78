//! Instances that claims were given and that are no longer there: a GPU that was lost or reset comes back without them.

use crate::preparer::Preparer;
use crate::record::{RecordError, Stage, UsageRecord};
use carve_dra::{DeviceName, MigPlace};
use carve_gpu_host::GpuHost;
use carve_gpu_model::GpuUuid;

/// An instance that is gone, and whose it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vanished {
    /// Namespace and name of the claim.
    pub claim: String,
    /// The GPU, which is there.
    pub gpu: GpuUuid,
    /// Where the instance was.
    pub place: MigPlace,
}

impl Preparer {
    /// What containers still believe to have. A GPU that does not answer is not asked: it may come back with everything.
    pub fn vanished(&self, host: &dyn GpuHost) -> Result<Vec<Vanished>, RecordError> {
        let records = self.records()?;
        let gpus = host.gpus().unwrap_or_default();
        let mut vanished = Vec::new();
        for record in records.claims.values().filter(|record| record.stage == Stage::Ready) {
            for device in record.devices.iter().filter(|device| device.usage != UsageRecord::Watch) {
                let place = device.device.parse::<DeviceName>().ok().and_then(|name| name.mig);
                let gpu = gpus.iter().find(|gpu| gpu.uuid.0 == device.gpu);
                let (Some(place), Some(gpu), Some(part)) = (place, gpu, &device.part) else { continue };
                let there = host.mig_devices(gpu.index).map(|all| all.iter().any(|mig| mig.uuid.0 == *part));
                if there.is_ok_and(|there| !there) {
                    vanished.push(Vanished { claim: record.title(), gpu: gpu.uuid.clone(), place });
                }
            }
        }
        Ok(vanished)
    }
}
