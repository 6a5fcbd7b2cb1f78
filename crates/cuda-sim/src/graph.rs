//! Graphs: work that is written down once and runs as often as wanted.
//!
//! Nodes run in the order in which they were added: what a node comes after was there before it.

use crate::error::{Answer, Code};
use crate::handle::{Handle, Numbered, Thing};
use crate::session::Session;
use crate::stream::Zero;
use crate::work::Work;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};

/// Flag of graphs that free what their last run allocated before they run again.
const AUTO_FREE: u64 = 1;

/// Flag of graphs that have what they will allocate as soon as they are ready.
const UPLOAD: u64 = 2;

/// All flags of graphs that are made ready.
const FLAGS: u64 = 15;

/// A node.
#[derive(Debug, Clone)]
struct Node {
    graph: u32,
    work: Work,
    after: Vec<u32>,
}

/// A graph made ready to run.
#[derive(Debug)]
struct Executable {
    /// The graph as it was then, for captures that it becomes a step of.
    graph: u32,
    steps: Vec<Work>,
    flags: u64,
}

/// All graphs of the process.
#[derive(Debug, Default)]
pub(crate) struct Graphs {
    graphs: Numbered<Vec<u32>>,
    nodes: Numbered<Node>,
    executables: Numbered<Executable>,
}

impl Graphs {
    /// Makes an empty graph.
    pub(crate) fn add_graph(&mut self) -> u32 {
        self.graphs.add(Vec::new())
    }

    /// Ends a graph with its nodes.
    pub(crate) fn remove_graph(&mut self, graph: u32) -> Answer {
        self.graphs.remove(graph)?;
        self.nodes.retain(|node| node.graph != graph);
        Ok(())
    }

    /// Adds a node after others.
    pub(crate) fn add_node(&mut self, graph: u32, after: Vec<u32>, work: Work) -> Answer<u32> {
        if after.iter().any(|node| self.nodes.get(*node).map_or(true, |node| node.graph != graph)) {
            return Err(Code::INVALID_VALUE);
        }
        self.graphs.get(graph)?;
        let number = self.nodes.add(Node { graph, work, after });
        self.graphs.get_mut(graph)?.push(number);
        Ok(number)
    }

    /// The nodes of a graph, in order.
    pub(crate) fn nodes_of(&self, graph: u32) -> Answer<Vec<u32>> {
        self.graphs.get(graph).cloned()
    }

    /// What a node does.
    pub(crate) fn work(&self, node: u32) -> Option<&Work> {
        self.nodes.get(node).ok().map(|node| &node.work)
    }

    /// Lets a node do something else of its kind.
    pub(crate) fn set_work(&mut self, node: u32, work: Work) -> Answer {
        self.nodes.get_mut(node)?.work = work;
        Ok(())
    }

    /// A copy of a graph.
    fn copy(&mut self, original: u32) -> Answer<u32> {
        let nodes = self.graphs.get(original)?.clone();
        let copy = self.add_graph();
        let mut copies: Vec<(u32, u32)> = Vec::new();
        for number in nodes {
            let node = self.nodes.get(number)?.clone();
            let after =
                copies.iter().filter(|(old, _)| node.after.contains(old)).map(|(_, new)| *new).collect();
            copies.push((number, self.add_node(copy, after, node.work)?));
        }
        Ok(copy)
    }

    /// Whether work that comes after some nodes could be that of a node: all but its kind, its order and memory may differ.
    pub(crate) fn is_like(&self, node: u32, after: &[u32], work: &Work) -> bool {
        let Ok(node) = self.nodes.get(node) else { return false };
        node.work.is_like(work) && node.after == after
    }

    /// The work of a graph, in order.
    fn steps(&self, graph: u32) -> Answer<Vec<Work>> {
        self.graphs.get(graph)?.iter().map(|node| Ok(self.nodes.get(*node)?.work.clone())).collect()
    }

    /// Whether nodes are among others or come before them.
    pub(crate) fn all_before(&self, nodes: &[u32], ends: &[u32]) -> bool {
        let mut before = ends.to_vec();
        let mut position = 0;
        while let Some(node) = before.get(position).copied() {
            let after = self.nodes.get(node).map(|node| node.after.clone()).unwrap_or_default();
            before.extend(after.into_iter().filter(|node| !before.contains(node)).collect::<Vec<_>>());
            position += 1;
        }
        nodes.iter().all(|node| before.contains(node))
    }
}

/// Adds up what steps allocate, by device.
fn add_up(steps: &[Work], wanted: &mut BTreeMap<u32, u64>) {
    for step in steps {
        match step {
            Work::Allocate { device, bytes, .. } => {
                let all = wanted.entry(*device).or_default();
                *all = all.saturating_add(*bytes);
            }
            Work::Steps { steps, .. } => add_up(steps, wanted),
            _ => (),
        }
    }
}

impl Session {
    /// The graph that a handle means.
    pub(crate) fn graph_number(&self, graph: Handle) -> Answer<u32> {
        let Thing::Graph(number) = graph.thing().map_err(|_| Code::INVALID_VALUE)? else {
            return Err(Code::INVALID_VALUE);
        };
        self.graphs.graphs.get(number).map(|_| number).map_err(|_| Code::INVALID_VALUE)
    }

    /// The nodes that handles mean.
    pub(crate) fn node_numbers(&self, nodes: &[Handle]) -> Answer<Vec<u32>> {
        let number = |node: &Handle| match node.thing() {
            Ok(Thing::Node(number)) if self.graphs.nodes.get(number).is_ok() => Ok(number),
            _ => Err(Code::INVALID_VALUE),
        };
        nodes.iter().map(number).collect()
    }

    /// Makes an empty graph.
    pub(crate) fn create_graph(&mut self, flags: c_uint) -> Answer<Handle> {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        Ok(Handle::of(Thing::Graph(self.graphs.add_graph())))
    }

    /// Ends a graph. What was made ready of it stays.
    pub(crate) fn destroy_graph(&mut self, graph: Handle) -> Answer {
        let number = self.graph_number(graph)?;
        self.graphs.remove_graph(number)
    }

    /// Adds a node to a graph.
    pub(crate) fn add_node(&mut self, graph: Handle, after: &[Handle], work: Work) -> Answer<Handle> {
        let (graph, after) = (self.graph_number(graph)?, self.node_numbers(after)?);
        Ok(Handle::of(Thing::Node(self.graphs.add_node(graph, after, work)?)))
    }

    /// Adds a node that allocates, and answers its address, which is settled from now on.
    pub(crate) fn add_allocation(
        &mut self,
        graph: Handle,
        after: &[Handle],
        ordinal: c_int,
        bytes: usize,
    ) -> Answer<(Handle, u64)> {
        let work = self.promise(self.ordinal(ordinal)?, bytes)?;
        let Work::Allocate { address, .. } = work else { return Err(Code::UNKNOWN) };
        Ok((self.add_node(graph, after, work)?, address))
    }

    /// An allocation that a graph will make when it runs.
    pub(crate) fn promise(&mut self, device: u32, bytes: usize) -> Answer<Work> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let address = self.memory.addresses(bytes as u64, 1)?;
        Ok(Work::Allocate { device, address, bytes: bytes as u64 })
    }

    /// Another graph as one step of a graph, as it is now.
    pub(crate) fn graph_as_step(&mut self, graph: Handle) -> Answer<Work> {
        let number = self.graph_number(graph)?;
        Ok(Work::Steps { steps: self.graphs.steps(number)?, graph: self.graphs.copy(number)? })
    }

    /// The graph that a node is.
    pub(crate) fn child_of(&self, node: Handle) -> Answer<Handle> {
        match self.node_work(node)? {
            Work::Steps { graph, .. } => Ok(Handle::of(Thing::Graph(*graph))),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// A copy of a graph.
    pub(crate) fn clone_graph(&mut self, graph: Handle) -> Answer<Handle> {
        let original = self.graph_number(graph)?;
        let copy = self.graphs.copy(original)?;
        Ok(Handle::of(Thing::Graph(copy)))
    }

    /// The nodes of a graph.
    pub(crate) fn nodes(&self, graph: Handle) -> Answer<Vec<Handle>> {
        let nodes = self.graphs.graphs.get(self.graph_number(graph)?)?;
        Ok(nodes.iter().map(|node| Handle::of(Thing::Node(*node))).collect())
    }

    /// What a node does.
    pub(crate) fn node_work(&self, node: Handle) -> Answer<&Work> {
        let Thing::Node(number) = node.thing().map_err(|_| Code::INVALID_VALUE)? else {
            return Err(Code::INVALID_VALUE);
        };
        self.graphs.nodes.get(number).map(|node| &node.work).map_err(|_| Code::INVALID_VALUE)
    }

    /// Makes a graph ready to run.
    pub(crate) fn instantiate(&mut self, graph: Handle, flags: u64) -> Answer<Handle> {
        if flags & !FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let number = self.graph_number(graph)?;
        let steps = self.graphs.steps(number)?;
        if flags & UPLOAD != 0 {
            self.reserve_for_steps(&steps)?;
        }
        let executable = Executable { graph: self.graphs.copy(number)?, steps, flags };
        Ok(Handle::of(Thing::Executable(self.graphs.executables.add(executable))))
    }

    fn executable_number(&self, executable: Handle) -> Answer<u32> {
        let Thing::Executable(number) = executable.thing().map_err(|_| Code::INVALID_VALUE)? else {
            return Err(Code::INVALID_VALUE);
        };
        self.graphs.executables.get(number).map(|_| number).map_err(|_| Code::INVALID_VALUE)
    }

    /// Takes over what the nodes of another graph do, if they are of the same kinds. Answers whether they are.
    pub(crate) fn update(&mut self, executable: Handle, graph: Handle) -> Answer<bool> {
        let (number, graph) = (self.executable_number(executable)?, self.graph_number(graph)?);
        let steps = self.graphs.steps(graph)?;
        let executable = self.graphs.executables.get_mut(number)?;
        let same = steps.len() == executable.steps.len()
            && steps.iter().zip(&executable.steps).all(|(new, old)| new.is_like(old));
        if same {
            executable.steps = steps;
        }
        Ok(same)
    }

    /// Ends it.
    pub(crate) fn destroy_executable(&mut self, executable: Handle) -> Answer {
        let number = self.executable_number(executable)?;
        self.graphs.executables.remove(number).map(drop)
    }

    /// Makes room for what a graph will allocate, before it runs.
    pub(crate) fn upload_graph(&mut self, executable: Handle) -> Answer {
        let number = self.executable_number(executable)?;
        let steps = self.graphs.executables.get(number)?.steps.clone();
        self.reserve_for_steps(&steps)
    }

    fn reserve_for_steps(&mut self, steps: &[Work]) -> Answer {
        let mut wanted = BTreeMap::new();
        add_up(steps, &mut wanted);
        wanted.into_iter().try_for_each(|(device, bytes)| self.reserve_for_graphs(device, bytes))
    }

    /// Runs a graph in a stream, or in a capture makes it a step of the other graph.
    pub(crate) fn launch_graph(&mut self, executable: Handle, stream: Handle, zero: Zero) -> Answer {
        let number = self.executable_number(executable)?;
        let stream = self.stream(stream, zero)?;
        let executable = self.graphs.executables.get(number)?;
        let (graph, steps, flags) = (executable.graph, executable.steps.clone(), executable.flags);
        if flags & AUTO_FREE != 0 {
            for step in &steps {
                if let Work::Allocate { address, .. } = step {
                    // What was never allocated, or is free already, needs no freeing.
                    let _ = self.take_back(*address);
                }
            }
        }
        self.submit(stream, Work::Steps { graph, steps })
    }
}
