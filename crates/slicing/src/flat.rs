//! A CDI file put into kubelet's words, for container runtimes that do not read such files.
//!
//! Kubelet can pass device nodes, mounts and variables, but no hook. What the hook would link is mounted under the name of
//! the link instead, so that programs find `libcuda.so.1` where the loader looks by itself.

use crate::answer::{Answer, DeviceNode, Mount};
use crate::cdi::DriverFiles;
use crate::classes::ClassSpecs;
use carve_formats::cdi::{ContainerEdits, Spec};
use std::collections::BTreeMap;

/// What a container gets, without any help of its runtime.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FlatEdits {
    nodes: BTreeMap<String, Vec<DeviceNode>>,
    every_node: Vec<DeviceNode>,
    mounts: Vec<Mount>,
}

/// Puts a CDI file into kubelet's words.
pub fn flat_edits(spec: &Spec, files: &DriverFiles) -> FlatEdits {
    let mut mounts: BTreeMap<String, Mount> = BTreeMap::new();
    for known in &spec.container_edits.mounts {
        mounts.insert(known.container_path.clone(), mount(&known.container_path, &known.host_path));
    }
    for library in &files.libraries {
        for link in &library.links {
            mounts.insert(link.path.clone(), mount(&link.path, &library.file.host_path));
        }
    }
    FlatEdits {
        nodes: spec
            .devices
            .iter()
            .map(|device| (device.name.clone(), nodes(&device.container_edits)))
            .collect(),
        every_node: nodes(&spec.container_edits),
        mounts: mounts.into_values().collect(),
    }
}

fn nodes(edits: &ContainerEdits) -> Vec<DeviceNode> {
    let one = |node: &carve_formats::cdi::DeviceNode| DeviceNode {
        container_path: node.path.clone(),
        host_path: if node.host_path.is_empty() { node.path.clone() } else { node.host_path.clone() },
    };
    edits.device_nodes.iter().map(one).collect()
}

fn mount(container_path: &str, host_path: &str) -> Mount {
    Mount { container_path: container_path.to_owned(), host_path: host_path.to_owned(), read_only: true }
}

impl FlatEdits {
    /// Adds what every container with a GPU gets beside it.
    pub fn with_classes(mut self, classes: &ClassSpecs) -> Self {
        for device in classes.specs.values().flat_map(|spec| &spec.devices) {
            let edits = &device.container_edits;
            self.every_node.extend(nodes(edits));
            self.mounts
                .extend(edits.mounts.iter().map(|known| mount(&known.container_path, &known.host_path)));
        }
        self
    }

    /// Adds everything that these devices need to an answer. A device that is not known is named, for a container must
    /// not start without what it asked for.
    pub(crate) fn add(&self, names: &[String], answer: &mut Answer) -> Result<(), String> {
        let nodes = |name: &String| self.nodes.get(name).ok_or_else(|| name.clone());
        let own = names.iter().map(nodes).collect::<Result<Vec<_>, _>>()?;
        for node in own.into_iter().flatten().chain(&self.every_node) {
            if !answer.devices.contains(node) {
                answer.devices.push(node.clone());
            }
        }
        answer.mounts.extend(self.mounts.iter().cloned());
        // NVIDIA's runtime, where there is one, must not put in what is here already.
        answer.envs.insert("NVIDIA_VISIBLE_DEVICES".to_owned(), "void".to_owned());
        Ok(())
    }
}
