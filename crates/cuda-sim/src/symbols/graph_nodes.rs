//! Nodes of graphs.

use crate::abi::{Arguments, HostCall, HostMemory, In, Out};
use crate::error::{Answer, Code};
use crate::handle::Handle;
use crate::session::{Session, with};
use crate::settings::Fault;
use crate::structs::{AllocationNode, AnyNode, FillNode, HostNode, KernelNode, KernelNode2, Location};
use crate::work::Work;
use std::ffi::{c_int, c_uint};

/// Adds a node whose work is known.
fn add(
    session: &mut Session,
    node: Out<Handle>,
    graph: Handle,
    (after, count): (In<Handle>, usize),
    work: Work,
) -> Answer {
    let (node, after) = (node.required()?, after.list(count)?);
    node.set(session.add_node(graph, &after, work)?)
}

fn kernel(session: &mut Session, parameters: &KernelNode) -> Answer<Work> {
    let arguments = Arguments::new(parameters.arguments, parameters.extra);
    let shape = (parameters.blocks, parameters.threads);
    Ok(Work::Kernel(session.call(parameters.function, shape, arguments)?))
}

fn kernel_or_function(session: &mut Session, mut parameters: KernelNode2) -> Answer<Work> {
    if parameters.first.function.is_null() {
        parameters.first.function = parameters.kernel;
    }
    kernel(session, &parameters.first)
}

/// The device of an allocation that a graph makes.
fn device(parameters: &AllocationNode) -> Answer<c_int> {
    let location = parameters.pool.location;
    if location.kind == Location::DEVICE { Ok(location.number) } else { Err(Code::INVALID_VALUE) }
}

/// Adds a node of a kind that is told beside what it needs.
fn add_any(
    session: &mut Session,
    node: Out<Handle>,
    graph: Handle,
    after: (In<Handle>, usize),
    parameters: Out<AnyNode>,
) -> Answer {
    let mut told = parameters.get()?;
    let work = match told.kind {
        0 => kernel_or_function(session, told.kernel())?,
        5 => Work::Nothing,
        10 => {
            let (node, after) = (node.required()?, after.0.list(after.1)?);
            let allocation = told.allocation();
            let (made, address) =
                session.add_allocation(graph, &after, device(allocation)?, allocation.bytes)?;
            allocation.address = address;
            parameters.set(told)?;
            return node.set(made);
        }
        11 => Work::Free(told.address()),
        _ => return Err(Code::NOT_SUPPORTED),
    };
    add(session, node, graph, after, work)
}

export! {
    10000 fn cuGraphAddKernelNode(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        parameters: In<KernelNode>,
    ) {
        with(|session| {
            let work = kernel(session, &parameters.get()?)?;
            add(session, node, graph, (after, count), work)
        })
    }

    12000 fn cuGraphAddKernelNode_v2(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        parameters: In<KernelNode2>,
    ) {
        with(|session| {
            let work = kernel_or_function(session, parameters.get()?)?;
            add(session, node, graph, (after, count), work)
        })
    }

    11040 fn cuGraphAddMemAllocNode(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        parameters: Out<AllocationNode>,
    ) {
        with(|session| {
            let (node, after, mut told) = (node.required()?, after.list(count)?, parameters.get()?);
            let (made, address) = session.add_allocation(graph, &after, device(&told)?, told.bytes)?;
            told.address = address;
            parameters.set(told)?;
            node.set(made)
        })
    }

    12020 fn cuGraphAddNode(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        parameters: Out<AnyNode>,
    ) {
        with(|session| add_any(session, node, graph, (after, count), parameters))
    }

    12030 fn cuGraphAddNode_v2(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        _edges: HostMemory,
        count: usize,
        parameters: Out<AnyNode>,
    ) {
        with(|session| add_any(session, node, graph, (after, count), parameters))
    }

    13040 fn cuGraphAddNode_v3(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        _edges: HostMemory,
        count: usize,
        parameters: Out<AnyNode>,
    ) {
        with(|session| add_any(session, node, graph, (after, count), parameters))
    }

    11040 fn cuGraphAddMemFreeNode(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        address: u64,
    ) {
        with(|session| add(session, node, graph, (after, count), Work::Free(address)))
    }

    10000 fn cuGraphAddMemsetNode(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        parameters: In<FillNode>,
        _context: Handle,
    ) {
        with(|session| {
            let told = parameters.get()?;
            if !matches!(told.element_size, 1 | 2 | 4) {
                return Err(Code::INVALID_VALUE);
            }
            let work = Work::Fill {
                to: told.to,
                pitch: told.pitch as u64,
                value: told.value,
                size: told.element_size as usize,
                width: told.width as u64,
                height: told.height as u64,
            };
            add(session, node, graph, (after, count), work)
        })
    }

    10000 fn cuGraphAddHostNode(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        parameters: In<HostNode>,
    ) {
        with(|session| {
            let told = parameters.get()?;
            let work = Work::Host(HostCall::new(told.function, told.data)?);
            add(session, node, graph, (after, count), work)
        })
    }

    10000 fn cuGraphAddChildGraphNode(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        child: Handle,
    ) {
        with(|session| {
            let work = session.graph_as_step(child)?;
            add(session, node, graph, (after, count), work)
        })
    }

    10000 fn cuGraphAddEmptyNode(node: Out<Handle>, graph: Handle, after: In<Handle>, count: usize) {
        with(|session| add(session, node, graph, (after, count), Work::Nothing))
    }

    11010 fn cuGraphAddEventRecordNode(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        event: Handle,
    ) {
        with(|session| {
            let work = Work::Record(session.event_number(event)?);
            add(session, node, graph, (after, count), work)
        })
    }

    11010 fn cuGraphAddEventWaitNode(
        node: Out<Handle>,
        graph: Handle,
        after: In<Handle>,
        count: usize,
        event: Handle,
    ) {
        with(|session| {
            let work = Work::Wait(session.event_number(event)?);
            add(session, node, graph, (after, count), work)
        })
    }

    10000 fn cuGraphGetNodes(graph: Handle, nodes: Out<Handle>, count: Out<usize>) {
        with(|session| {
            let all = session.nodes(graph)?;
            if nodes.is_null() {
                return count.set(all.len());
            }
            let room = count.get()?.min(all.len());
            nodes.set_all(&all[..room])?;
            count.set(room)
        })
    }

    10000 fn cuGraphNodeGetType(node: Handle, kind: Out<c_uint>) {
        with(|session| kind.set(session.node_work(node)?.node_type()))
    }

    10000 fn cuGraphChildGraphNodeGetGraph(node: Handle, graph: Out<Handle>) {
        with(|session| graph.set(session.child_of(node)?))
    }

    11040 fn cuGraphMemAllocNodeGetParams(node: Handle, parameters: Out<AllocationNode>) {
        with(|session| match session.node_work(node)? {
            _ if session.fault == Some(Fault::NodesUntold) => Err(Code::NOT_SUPPORTED),
            Work::Allocate { device, address, bytes } => {
                parameters.set(AllocationNode::of(*device as c_int, *address, *bytes as usize))
            }
            _ => Err(Code::INVALID_VALUE),
        })
    }

    11040 fn cuGraphMemFreeNodeGetParams(node: Handle, address: Out<u64>) {
        with(|session| match session.node_work(node)? {
            Work::Free(freed) => address.set(*freed),
            _ => Err(Code::INVALID_VALUE),
        })
    }
}
