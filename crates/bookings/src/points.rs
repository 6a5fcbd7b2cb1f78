//! How good a node is for a pod that fits there.

use crate::room::{Held, Room};
use crate::slices::Slices;

/// The most that an extender may give.
pub const MOST_POINTS: u8 = 10;

/// Points of a node: GPUs in use before free ones, nodes in use before free ones, and of those the one where least is left on the GPUs that
/// are taken, so that whole GPUs and whole nodes stay for whoever needs them.
pub fn points(room: &Room, slices: &Slices) -> u8 {
    let held = slices.held();
    let (mut opened, mut filled, mut touched) = (0u64, 0u64, 0u64);
    for (gpu, left) in &room.gpus {
        let Some(taken) = held.get(&gpu.uuid) else { continue };
        touched += 1;
        opened += u64::from(Room::is_untouched(gpu, *left));
        filled += full(gpu.memory.0, left.less(*taken));
    }
    if touched == 0 {
        return 0;
    }
    let node_in_use = room.gpus.iter().any(|(gpu, left)| !Room::is_untouched(gpu, *left));
    // Three points for not opening GPUs, two for not opening a node, five for how full the GPUs are afterwards.
    let points =
        3 * (touched - opened) / touched + 2 * u64::from(node_in_use) + filled * 5 / (touched * 1000);
    u8::try_from(points).unwrap_or(MOST_POINTS).min(MOST_POINTS)
}

/// How full a GPU is, in thousandths of whichever of memory and compute there is less left of.
fn full(memory: u64, left: Held) -> u64 {
    let free = left.memory.0.saturating_mul(1000) / memory.max(1);
    1000 - free.min(u64::from(left.compute.0)).min(1000)
}
