//! A machine that exists only in memory and behaves like a driver, deterministically.
//!
//! ```text
//!   MIG mode   off ──set on──▶ (reset, Ampere only) ──▶ on ──set off, no instances──▶ off
//!   GPU instance   ──create──▶ empty ──create CI──▶ divided ──process starts──▶ in use
//!                  ◀─destroy── empty ◀─destroy CI── divided ◀──process ends────
//! ```
//! An instance in use refuses to be destroyed, a placed one refuses a second in its slots, a lost GPU answers
//! nothing, a reset or a driver reload erases every instance.

mod identity;
mod state;
mod table;
mod verbs;
mod world;

pub use state::SimulatedState;

use crate::HostFailure;
use carve_gpu_model::{GpuIndex, ProfileTable};
use state::GpuState;

/// A simulated machine.
#[derive(Debug, Clone)]
pub struct SimulatedHost {
    state: SimulatedState,
    /// One table per GPU, `None` without MIG; follows from the machine and is not kept.
    tables: Vec<Option<ProfileTable>>,
    /// How many events this host has handed out.
    events_seen: u64,
}

impl SimulatedHost {
    /// A machine that was just switched on.
    pub fn new(machine: crate::Machine) -> Self {
        Self::from_state(SimulatedState::switched_on(machine))
    }

    /// A machine in a state that was saved before.
    pub fn from_state(state: SimulatedState) -> Self {
        let tables = state.products().map(table::simulated_table).collect();
        SimulatedHost { state, tables, events_seen: 0 }
    }

    /// The state, to be saved.
    pub fn state(&self) -> &SimulatedState {
        &self.state
    }

    fn gpu(&self, gpu: GpuIndex) -> Result<&GpuState, HostFailure> {
        let state = self.state.gpus.get(gpu.0 as usize).ok_or(HostFailure::InvalidArgument)?;
        if state.lost { Err(HostFailure::GpuLost) } else { Ok(state) }
    }

    fn gpu_mut(&mut self, gpu: GpuIndex) -> Result<&mut GpuState, HostFailure> {
        let state = self.state.gpus.get_mut(gpu.0 as usize).ok_or(HostFailure::InvalidArgument)?;
        if state.lost { Err(HostFailure::GpuLost) } else { Ok(state) }
    }

    fn table(&self, gpu: GpuIndex) -> Result<&ProfileTable, HostFailure> {
        self.gpu(gpu)?;
        self.tables.get(gpu.0 as usize).and_then(Option::as_ref).ok_or(HostFailure::NotSupported)
    }
}
