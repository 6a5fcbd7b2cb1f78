//! Everything about a simulated machine that can change, in a form that can be saved.

use crate::machine::GpuGroup;
use crate::{GpuEvent, Machine, MigMode, ProcessKind, RecoveryAction};
use carve_gpu_model::{
    Bytes, ComputeInstanceId, ComputeProfileIndex, GpuInstanceId, Placement, Product, ProfileId,
};
use serde::{Deserialize, Serialize};

/// A saved simulated machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimulatedState {
    /// What the machine is made of.
    pub machine: Machine,
    pub(super) gpus: Vec<GpuState>,
    /// Every event since the machine was switched on.
    pub(super) events: Vec<GpuEvent>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct GpuState {
    /// `None` without MIG.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) mode: Option<MigMode>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) instances: Vec<InstanceState>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) processes: Vec<ProcessState>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) lost: bool,
    #[serde(default, skip_serializing_if = "needs_nothing")]
    pub(super) recovery: RecoveryAction,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InstanceState {
    pub(super) id: GpuInstanceId,
    pub(super) profile: ProfileId,
    pub(super) placement: Placement,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) compute: Vec<ComputeState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ComputeState {
    pub(super) id: ComputeInstanceId,
    pub(super) profile: ComputeProfileIndex,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProcessState {
    pub(super) pid: u32,
    pub(super) kind: ProcessKind,
    pub(super) memory: Bytes,
    pub(super) compute_percent: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) instance: Option<(GpuInstanceId, ComputeInstanceId)>,
}

impl SimulatedState {
    /// The state of a machine that was just switched on.
    pub fn switched_on(machine: Machine) -> Self {
        let gpus = each_gpu(&machine)
            .map(|(group, _)| GpuState {
                mode: Product::by_key(&group.product)
                    .filter(|product| product.is_mig_capable())
                    .map(|_| MigMode { current: group.mig_enabled, pending: group.mig_enabled }),
                ..GpuState::default()
            })
            .collect();
        SimulatedState { machine, gpus, events: Vec::new() }
    }

    /// Whether the parts belong together; a file may hold anything.
    pub fn is_consistent(&self) -> bool {
        self.gpus.len() == each_gpu(&self.machine).count()
    }

    /// Product of each GPU in turn.
    pub(super) fn products(&self) -> impl Iterator<Item = Option<&'static Product>> {
        each_gpu(&self.machine).map(|(group, _)| Product::by_key(&group.product))
    }

    /// The group of a GPU, and its place in the group.
    pub(super) fn group(&self, index: usize) -> Option<(&GpuGroup, usize)> {
        each_gpu(&self.machine).nth(index)
    }
}

/// Healthy GPUs do not fill the file with saying so.
fn needs_nothing(action: &RecoveryAction) -> bool {
    *action == RecoveryAction::NoneNeeded
}

/// Each GPU of a machine with its group and its place in the group.
fn each_gpu(machine: &Machine) -> impl Iterator<Item = (&GpuGroup, usize)> {
    machine.groups().iter().flat_map(|group| (0..group.count as usize).map(move |place| (group, place)))
}
