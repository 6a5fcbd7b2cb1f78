//! The numbers of the devices that guard MIG instances, as the driver publishes them.

use carve_gpu_host::{compute_instance_minor, gpu_instance_minor};
use carve_gpu_model::{CapabilityMinor, ComputeInstanceId, GpuInstanceId};
use std::collections::BTreeMap;

/// What `/proc/driver/nvidia-caps/mig-minors` says. Without the file, the numbers every driver so far has used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MigMinors {
    listed: BTreeMap<(u32, u32, Option<u32>), CapabilityMinor>,
}

impl MigMinors {
    /// Reads the file. Lines that are not about instances are passed over.
    pub fn parse(text: &str) -> Self {
        let line = |line: &str| {
            let (path, minor) = line.split_once(' ')?;
            let mut parts = path.strip_suffix("/access")?.split('/');
            let mut number = |prefix: &str| parts.next()?.strip_prefix(prefix)?.parse::<u32>().ok();
            let (gpu, instance) = (number("gpu")?, number("gi")?);
            Some(((gpu, instance, number("ci")), CapabilityMinor(minor.trim().parse().ok()?)))
        };
        MigMinors { listed: text.lines().filter_map(line).collect() }
    }

    /// Guard of a GPU instance, and guard of a compute instance in it, on `/dev/nvidia<gpu_minor>`.
    pub fn of(
        &self,
        gpu_minor: u32,
        instance: GpuInstanceId,
        compute: ComputeInstanceId,
    ) -> (CapabilityMinor, CapabilityMinor) {
        let listed = |compute: Option<u32>| self.listed.get(&(gpu_minor, instance.0, compute)).copied();
        (
            listed(None).unwrap_or_else(|| gpu_instance_minor(gpu_minor, instance)),
            listed(Some(compute.0)).unwrap_or_else(|| compute_instance_minor(gpu_minor, instance, compute)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::MigMinors;
    use carve_gpu_host::mig_minors;
    use carve_gpu_model::{CapabilityMinor, ComputeInstanceId, GpuInstanceId};

    #[test]
    fn the_file_wins_and_its_absence_is_no_trouble() {
        let guards = |minors: &MigMinors| minors.of(0, GpuInstanceId(7), ComputeInstanceId(0));
        let listed =
            MigMinors::parse("config 1\nmonitor 2\ngpu0/gi7/access 3\ngpu0/gi7/ci0/access 4\nnonsense\n");
        assert_eq!(guards(&listed), (CapabilityMinor(3), CapabilityMinor(4)));
        assert_eq!(guards(&MigMinors::default()), guards(&MigMinors::parse(&mig_minors(1))));
    }
}
