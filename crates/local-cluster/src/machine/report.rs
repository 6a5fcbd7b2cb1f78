//! What the controller is told of a machine, to plan for it.

use super::Machine;
use carve_mig_manager::{GpuState, inventory};
use carve_repartition::{GpuReport, Instance, InstanceReport, NodeReport};

impl Machine {
    /// GPUs that can be cut, what they hold, and who has it.
    pub(crate) fn report(&self) -> NodeReport {
        let mut report = NodeReport { order: self.order.clone(), ..NodeReport::default() };
        // Nobody plans for what is not cut.
        if !self.may_cut {
            return report;
        }
        report.manual = self.asked.as_ref().map(|(name, _)| name.clone());
        for state in inventory(&*self.host).unwrap_or_default().iter().filter(|state| state.trouble.is_none())
        {
            let (Some(table), Some(_)) = (&state.table, state.mode) else { continue };
            let product = state.gpu.name.clone();
            report.tables.entry(product.clone()).or_insert_with(|| table.clone());

            let uuid = state.gpu.uuid.0.as_str();
            let held = self.in_parts().contains(uuid)
                || self.devices_held().any(|(_, device)| device.part.as_str() == uuid);
            report.gpus.push(GpuReport {
                uuid: state.gpu.uuid.clone(),
                index: state.gpu.index.0,
                product,
                mig: state.mig_enabled(),
                held: held && !state.mig_enabled(),
                instances: self.instances(state),
            });
        }
        report
    }

    fn instances(&self, state: &GpuState) -> Vec<InstanceReport> {
        let Some(table) = &state.table else { return Vec::new() };
        let devices = self.host.mig_devices(state.gpu.index).unwrap_or_default();
        let one = |instance: &carve_planner::PresentInstance| {
            let profile = table.get(instance.placed.profile)?.name.clone();
            let mine = devices.iter().filter(|device| device.gpu_instance == instance.id);
            let uuids: Vec<&str> = mine.map(|device| device.uuid.0.as_str()).collect();
            let holding = self.devices_held().filter(|(_, device)| uuids.contains(&device.part.as_str()));
            let mut pods: Vec<String> = holding.map(|(tenant, _)| tenant.pod()).collect();
            pods.sort();
            pods.dedup();
            let placed = Instance { profile, start: instance.placed.start, compute: instance.division() };
            Some(InstanceReport { instance: placed, held: !pods.is_empty(), pods })
        };
        let mut all: Vec<InstanceReport> = state.instances.iter().filter_map(one).collect();
        all.sort_by_key(|report| report.instance.start);
        all
    }
}
