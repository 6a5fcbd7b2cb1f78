//! What a graph asks for when it runs: its nodes are looked at, and those of the graphs in it.

use crate::driver::own::{
    cuGraphChildGraphNodeGetGraph, cuGraphGetNodes, cuGraphMemAllocNodeGetParams, cuGraphNodeGetType,
};
use crate::driver::{Code, SUCCESS};
use crate::memory::whole_blocks;
use crate::pages::fresh;
use crate::process::{PARTS, Process};

/// The kind of node that is another graph.
const CHILD: i32 = 4;
/// The kind of node that allocates.
pub(crate) const ALLOCATES: u32 = 10;
/// Memory of a device.
const ON_DEVICE: i32 = 1;
/// Graphs in graphs in graphs; nobody nests them deeper.
const DEPTH: u32 = 16;

/// What a graph asks for.
#[derive(Debug, Default)]
pub(crate) struct Demand {
    /// Bytes of each part.
    pub(crate) bytes: [u64; PARTS],
    /// Whether some of it could not be read.
    pub(crate) unknown: bool,
}

/// What `cuGraphMemAllocNodeGetParams` tells, and room for what later versions add.
#[derive(Debug, Default)]
#[repr(C)]
struct Allocation {
    kind: i32,
    handles: i32,
    place: i32,
    device: i32,
    rest: [u64; 9],
    access: [u64; 2],
    bytes: u64,
    address: u64,
    more: [u64; 17],
}

const _: () = assert!(core::mem::offset_of!(Allocation, bytes) == 104 && size_of::<Allocation>() == 256);

/// Adds up what the nodes of a graph ask for. Bodies of conditional nodes can not allocate, so they are not looked into.
pub(crate) fn demand(process: &Process, graph: usize) -> Demand {
    let mut demand = Demand::default();
    demand.add(process, graph, DEPTH);
    demand
}

impl Demand {
    fn add(&mut self, process: &Process, graph: usize, depth: u32) {
        let looked = depth > 0 && each_node(graph, |node| self.add_node(process, node, depth)).is_some();
        self.unknown |= !looked;
    }

    fn add_node(&mut self, process: &Process, node: usize, depth: u32) {
        let mut kind = -1;
        // SAFETY: the driver writes one number.
        let told = unsafe { cuGraphNodeGetType::call(node, &mut kind) };
        self.unknown |= told != SUCCESS;
        if kind == CHILD {
            let mut child = 0;
            // SAFETY: the driver writes one handle.
            match unsafe { cuGraphChildGraphNodeGetGraph::call(node, &mut child) } {
                SUCCESS => self.add(process, child, depth - 1),
                _ => self.unknown = true,
            }
        } else if kind == ALLOCATES as i32 {
            let mut allocation = Allocation::default();
            // SAFETY: the driver writes 120 bytes, and there is room for more.
            let told: Code =
                unsafe { cuGraphMemAllocNodeGetParams::call(node, (&raw mut allocation).cast()) };
            self.unknown |= told != SUCCESS;
            // Whatever the current context is: memory of the machine is nobody's share, and that of a device is its own.
            if allocation.place == ON_DEVICE
                && let Some(part) = process.part(allocation.device)
            {
                let bytes = &mut self.bytes[process.number(part) as usize];
                *bytes = bytes.saturating_add(whole_blocks(allocation.bytes));
            }
        }
    }
}

/// Goes through the nodes of a graph; nothing where the driver does not tell them.
fn each_node(graph: usize, mut look: impl FnMut(usize)) -> Option<()> {
    let mut count = 0;
    // SAFETY: the driver writes one number.
    let told = unsafe { cuGraphGetNodes::call(graph, core::ptr::null_mut(), &mut count) };
    if told != SUCCESS {
        return None;
    }
    if count == 0 {
        return Some(());
    }
    let size = count.checked_mul(size_of::<usize>())?;
    let nodes = fresh(size)?.cast::<usize>();
    let room = count;
    // SAFETY: there is room for so many.
    let told = unsafe { cuGraphGetNodes::call(graph, nodes, &mut count) };
    for at in 0..count.min(room) {
        if told == SUCCESS {
            // SAFETY: the driver has written so many.
            look(unsafe { nodes.add(at).read() });
        }
    }
    // SAFETY: it was mapped above, and nobody else knows of it.
    let _ = unsafe { rustix::mm::munmap(nodes.cast(), size) };
    (told == SUCCESS && count <= room).then_some(())
}
