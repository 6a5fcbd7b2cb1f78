//! What the controller must know to plan for this node: GPUs, what they are cut into, who holds it, what became of the last order.

use super::attempt::mark_held;
use super::{MigManager, Wish};
use crate::holders::holders;
use carve_cluster_api::names;
use carve_gpu_host::GpuHost;
use carve_mig_manager::{GpuState, inventory};
use carve_repartition::{GpuReport, Instance, InstanceReport, NodeReport, OrderReport};
use carve_slicing::{Held, PartId};
use std::collections::{BTreeMap, BTreeSet};

/// What was told.
#[derive(Debug, Default)]
pub(super) struct Published {
    /// What became of the last order.
    pub(super) order: Option<OrderReport>,
    /// The text that the Node has, if it took it.
    pub(super) text: Option<String>,
}

impl MigManager {
    /// Tells it, where it is something new. What can not be known now is told later.
    pub(super) async fn publish(&self, wish: &Wish, published: &mut Published) {
        let Some(api) = &self.api else { return };
        let held = match holders(&self.pod_resources).await {
            Ok(held) => held.devices,
            Err(why) => {
                return tracing::debug!(
                    why,
                    "kubelet does not say who holds what; the controller is told later"
                );
            }
        };
        let sick = self.sick.borrow().clone();
        let read = self.machine.ask(move |host| read(host, &held, &sick)).await;
        let mut report = match read.map_err(|error| error.to_string()).and_then(|read| read) {
            Ok(report) => report,
            Err(why) => {
                return tracing::debug!(why, "the GPUs can not be read; the controller is told later");
            }
        };
        report.manual.clone_from(&wish.manual);
        report.order.clone_from(&published.order);
        let text = report.to_text();
        if published.text.as_ref() == Some(&text) {
            return;
        }
        let annotations = BTreeMap::from([(NodeReport::ANNOTATION.to_owned(), text.clone())]);
        match api.apply_labels(names::MIG_REPORT_MANAGER, &BTreeMap::new(), &annotations, true).await {
            Ok(()) => published.text = Some(text),
            Err(error) => tracing::warn!(%error, "the GPUs can not be told to the controller; trying again"),
        }
    }
}

/// What the GPUs hold and who uses it. A sick GPU is left out: what is free of it is given to nobody.
fn read(host: &mut dyn GpuHost, held: &[Held], sick: &BTreeSet<PartId>) -> Result<NodeReport, String> {
    let mut states = inventory(host).map_err(|error| error.to_string())?;
    let holding = mark_held(host, &mut states, held);
    let mut report = NodeReport::default();
    for state in states.iter().filter(|state| state.trouble.is_none()) {
        let (Some(table), Some(_)) = (&state.table, state.mode) else { continue };
        if sick.contains(&PartId::new(state.gpu.uuid.0.clone())) {
            continue;
        }
        let product = state.gpu.name.clone();
        report.tables.entry(product.clone()).or_insert_with(|| table.clone());
        let whole = holding.whole.contains_key(&state.gpu.index);
        report.gpus.push(GpuReport {
            uuid: state.gpu.uuid.clone(),
            index: state.gpu.index.0,
            product,
            mig: state.mig_enabled(),
            held: whole || !state.mig_enabled() && !state.processes.is_empty(),
            instances: instances(host, state, held, sick),
        });
    }
    Ok(report)
}

fn instances(
    host: &dyn GpuHost,
    state: &GpuState,
    held: &[Held],
    sick: &BTreeSet<PartId>,
) -> Vec<InstanceReport> {
    let Some(table) = &state.table else { return Vec::new() };
    let devices =
        if state.mig_enabled() { host.mig_devices(state.gpu.index).unwrap_or_default() } else { Vec::new() };
    let one = |instance: &carve_planner::PresentInstance| {
        let profile = table.get(instance.placed.profile)?.name.clone();
        let mine: Vec<_> = devices.iter().filter(|device| device.gpu_instance == instance.id).collect();
        // A sick one is as good as taken.
        let unfit = mine.iter().any(|device| sick.contains(&PartId::new(device.uuid.0.clone())));
        let holders =
            mine.iter().flat_map(|device| held.iter().filter(|held| held.part().as_str() == device.uuid.0));
        let mut pods: Vec<String> =
            holders.map(|held| format!("{}/{}", held.holder.namespace, held.holder.pod)).collect();
        pods.sort();
        pods.dedup();
        let placed = Instance { profile, start: instance.placed.start, compute: instance.division() };
        Some(InstanceReport { instance: placed, held: unfit || instance.in_use() || !pods.is_empty(), pods })
    };
    let mut all: Vec<InstanceReport> = state.instances.iter().filter_map(one).collect();
    all.sort_by_key(|report| report.instance.start);
    all
}
