//! What two programs answered to the same questions, and where carve answers otherwise on purpose.
//!
//! One table of intended differences serves every comparison: against a kubelet of the tests, and on a real one.

mod differences;
mod table;

use carve_kubelet_api::device_plugin::{ContainerAllocateResponse, DeviceSpec};
use std::collections::{BTreeMap, BTreeSet};

pub use differences::{Difference, Intended, between, check, check_some};
pub use table::{LABELS, PLUGIN, PODS};

/// What was asked, and what was answered.
pub type Told = BTreeMap<String, String>;

/// Adds what a container is given, piece by piece. `any_order`: lists are compared as sets, where whoever asked
/// gave no order or NVIDIA's is random.
pub fn tell_container(place: &str, container: &ContainerAllocateResponse, any_order: bool, told: &mut Told) {
    let list = |text: &str| {
        let mut names: Vec<&str> = text.split(',').collect();
        if any_order {
            names.sort_unstable();
        }
        names.join(",")
    };
    for (name, value) in &container.envs {
        told.insert(format!("{place} env {name}"), list(value));
    }
    for (name, value) in &container.annotations {
        // What follows is random.
        let name = name.split_inclusive("nvidia-device-plugin_").next().unwrap_or(name);
        told.insert(format!("{place} annotation {name}"), list(value));
    }
    let names: Vec<&str> = container.cdi_devices.iter().map(|device| device.name.as_str()).collect();
    told.insert(format!("{place} cdi"), list(&names.join(",")));
    // The order of mounts and nodes has no meaning, and NVIDIA's is that of a Go map; how many there are has.
    let mounts = container.mounts.iter().map(|mount| {
        format!("{} on {} read-only {}", mount.host_path, mount.container_path, mount.read_only)
    });
    told.insert(format!("{place} mounts"), sorted(mounts));
    told.insert(format!("{place} nodes named"), container.devices.len().to_string());
    let node =
        |node: &DeviceSpec| format!("{} as {} {}", node.host_path, node.container_path, node.permissions);
    let distinct: BTreeSet<String> = container.devices.iter().map(node).collect();
    told.insert(format!("{place} nodes"), sorted(distinct.into_iter()));
}

fn sorted(texts: impl Iterator<Item = String>) -> String {
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    texts.join("; ")
}
