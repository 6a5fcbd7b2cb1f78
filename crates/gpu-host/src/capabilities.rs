//! Minor numbers of the capability devices that guard MIG (`/dev/nvidia-caps/nvidia-capN`).
//!
//! The driver numbers them once for all instances that could ever exist: two for the whole machine, then for every
//! GPU fifteen GPU instances with one number each and eight compute instances with one number each.

use carve_gpu_model::{CapabilityMinor, ComputeInstanceId, GpuInstanceId};

/// Minor of the device that allows changing MIG configurations.
pub const MIG_CONFIG_MINOR: CapabilityMinor = CapabilityMinor(1);
/// Minor of the device that allows watching MIG devices.
pub const MIG_MONITOR_MINOR: CapabilityMinor = CapabilityMinor(2);

const FIRST: u32 = 3;
const GPU_INSTANCES: u32 = 15;
const COMPUTE_INSTANCES: u32 = 8;
const PER_GPU_INSTANCE: u32 = 1 + COMPUTE_INSTANCES;

/// Minor that guards a GPU instance of `/dev/nvidia<gpu_minor>`.
pub const fn gpu_instance_minor(gpu_minor: u32, instance: GpuInstanceId) -> CapabilityMinor {
    CapabilityMinor(FIRST + (gpu_minor * GPU_INSTANCES + instance.0) * PER_GPU_INSTANCE)
}

/// Minor that guards a compute instance.
pub const fn compute_instance_minor(
    gpu_minor: u32,
    instance: GpuInstanceId,
    compute: ComputeInstanceId,
) -> CapabilityMinor {
    CapabilityMinor(gpu_instance_minor(gpu_minor, instance).0 + 1 + compute.0)
}

/// The text of `/proc/driver/nvidia-caps/mig-minors` for a machine with so many GPUs.
pub fn mig_minors(gpus: u32) -> String {
    let mut text = format!("config {MIG_CONFIG_MINOR}\nmonitor {MIG_MONITOR_MINOR}\n");
    for gpu in 0..gpus {
        for instance in (0..GPU_INSTANCES).map(GpuInstanceId) {
            text.push_str(&format!("gpu{gpu}/gi{instance}/access {}\n", gpu_instance_minor(gpu, instance)));
            for compute in (0..COMPUTE_INSTANCES).map(ComputeInstanceId) {
                let minor = compute_instance_minor(gpu, instance, compute);
                text.push_str(&format!("gpu{gpu}/gi{instance}/ci{compute}/access {minor}\n"));
            }
        }
    }
    text
}
