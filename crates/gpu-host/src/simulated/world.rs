//! The world's side of a simulated machine: what happens to a driver rather than what is asked of it.

use super::state::ProcessState;
use super::{SimulatedHost, SimulatedState};
use crate::{GpuEvent, HostFailure, ProcessKind, RecoveryAction};
use carve_gpu_model::{Bytes, ComputeInstanceId, GpuIndex, GpuInstanceId, ModeSwitch, Product};

impl SimulatedHost {
    /// A process starts on a GPU, or in one of its compute instances; on a GPU in MIG mode it must name one.
    pub fn start_process(
        &mut self,
        gpu: GpuIndex,
        instance: Option<(GpuInstanceId, ComputeInstanceId)>,
        pid: u32,
        memory: Bytes,
        compute_percent: u32,
    ) -> Result<(), HostFailure> {
        let state = self.gpu_mut(gpu)?;
        let mig = state.mode.is_some_and(|mode| mode.current);
        let exists = match instance {
            None => !mig,
            Some((instance, compute)) => state
                .instances
                .iter()
                .any(|known| known.id == instance && known.compute.iter().any(|part| part.id == compute)),
        };
        if !exists {
            return Err(HostFailure::InvalidArgument);
        }
        let kind = ProcessKind::Compute;
        state.processes.push(ProcessState { pid, kind, memory, compute_percent, instance });
        Ok(())
    }

    /// A process ends on every GPU it held.
    pub fn end_process(&mut self, pid: u32) {
        for state in &mut self.state.gpus {
            state.processes.retain(|process| process.pid != pid);
        }
    }

    /// The driver reports an XID.
    pub fn raise(&mut self, event: GpuEvent) {
        self.state.events.push(event);
    }

    /// All events since the machine was switched on.
    pub fn events(&self) -> &[GpuEvent] {
        &self.state.events
    }

    /// A GPU falls off the bus: its processes die, and it answers nothing from now on.
    pub fn lose(&mut self, gpu: GpuIndex) {
        if let Some(state) = self.state.gpus.get_mut(gpu.0 as usize) {
            state.processes.clear();
            state.lost = true;
        }
    }

    /// The driver finds that a GPU needs something, or [`RecoveryAction::NoneNeeded`] any more.
    pub fn need_recovery(&mut self, gpu: GpuIndex, action: RecoveryAction) {
        if let Some(state) = self.state.gpus.get_mut(gpu.0 as usize) {
            state.recovery = action;
        }
    }

    /// A lost GPU comes back, empty.
    pub fn find_again(&mut self, gpu: GpuIndex) {
        if let Some(state) = self.state.gpus.get_mut(gpu.0 as usize) {
            state.lost = false;
            state.instances.clear();
        }
    }

    /// The machine reboots (or the driver is reloaded): instances vanish; MIG mode stays where it is kept on the
    /// board and goes where it is not.
    pub fn reboot(&mut self) {
        let products: Vec<Option<&Product>> = self.state.products().collect();
        for (state, product) in self.state.gpus.iter_mut().zip(products) {
            state.processes.clear();
            state.instances.clear();
            state.lost = false;
            state.recovery = RecoveryAction::NoneNeeded;
            if let Some(mode) = &mut state.mode {
                let kept = product.and_then(Product::mode_switch) == Some(ModeSwitch::NeedsReset);
                mode.current = kept && mode.pending;
                mode.pending = mode.current;
            }
        }
    }

    /// Takes over a state that another process changed, keeping count of the events already handed out.
    pub fn adopt(&mut self, state: SimulatedState) {
        if state.machine == self.state.machine {
            self.state = state;
        } else {
            *self = SimulatedHost::from_state(state);
        }
    }
}
