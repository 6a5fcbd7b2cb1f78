//! Nodes of graphs.

use crate::abi::{Arguments, HostCall, In, Out};
use crate::error::{Answer, Code};
use crate::handle::Handle;
use crate::session::{Session, with};
use crate::structs::{AllocationNode, FillNode, HostNode, KernelNode, KernelNode2, Location};
use crate::work::Work;
use std::ffi::c_uint;

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
            let work = kernel(session, &parameters.get()?.first)?;
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
            if told.pool.location.kind != Location::DEVICE {
                return Err(Code::INVALID_VALUE);
            }
            let (made, address) = session.add_allocation(graph, &after, told.pool.location.number, told.bytes)?;
            told.address = address;
            parameters.set(told)?;
            node.set(made)
        })
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

    11040 fn cuGraphMemFreeNodeGetParams(node: Handle, address: Out<u64>) {
        with(|session| match session.node_work(node)? {
            Work::Free(freed) => address.set(*freed),
            _ => Err(Code::INVALID_VALUE),
        })
    }
}
