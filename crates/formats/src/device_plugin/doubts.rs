//! What NVIDIA's plugin accepts and then discards, or what can not have the effect it seems to ask for.

use super::{
    DevicePluginConfig, ReplicatedDevices, ReplicatedResource, ReplicatedResources, SharingStrategy,
};
use crate::diagnostic::{Finding, Place, Report};
use crate::kubernetes_yaml::{Node, Position, Value};
use carve_gpu_model::ProfileName;

/// Replicas that the MPS control daemon of NVIDIA allows on one GPU.
const MPS_CLIENTS: u64 = 48;

/// Adds the warnings for a config that was accepted.
pub(super) fn check(config: &DevicePluginConfig, root: &Place<'_>, report: &mut Report) {
    if !config.resources.gpus.is_empty() || !config.resources.mig.is_empty() {
        warn(root, "resources", "NVIDIA's plugin reads 'resources' and then ignores it")
            .hint("resource names can not be changed; remove the section")
            .upstream("Customizing the 'resources' field is not yet supported in the config. Ignoring...")
            .report(report);
    }
    if config.sharing.strategy() == SharingStrategy::Mps && config.sharing.time_slicing.is_some() {
        warn(root, "sharing.timeSlicing", "with 'mps' beside it, 'timeSlicing' has no effect")
            .hint("remove one of the two: a node shares its GPUs in one way only")
            .report(report);
    }
    let sharing = [("timeSlicing", &config.sharing.time_slicing), ("mps", &config.sharing.mps)];
    for (name, replicated) in sharing.into_iter().filter_map(|(name, r)| r.as_ref().map(|r| (name, r))) {
        for (index, resource) in replicated.resources.iter().enumerate() {
            let path = format!("sharing.{name}.resources[{index}]");
            check_ignored(replicated, resource, name, &path, root, report);
            check_name(config, resource, name, &path, root, report);
            if replicated.resources.iter().take(index).any(|earlier| earlier.name == resource.name) {
                warn_at(
                    root,
                    resource,
                    &path,
                    format!("{} is listed twice; the last one counts", resource.name),
                )
                .hint("keep one of them")
                .report(report);
            }
            if name == "mps" && resource.replicas > MPS_CLIENTS {
                let message = format!("MPS allows {MPS_CLIENTS} clients on a GPU, not {}", resource.replicas);
                warn_at(root, resource, &path, message)
                    .hint("the MPS control daemon will not start with more")
                    .upstream(format!(
                        "invalid device maximum allowed replicas exceeded: {} > {MPS_CLIENTS}",
                        resource.replicas
                    ))
                    .report(report);
            }
        }
    }
}

fn check_ignored(
    replicated: &ReplicatedResources,
    resource: &ReplicatedResource,
    sharing: &str,
    path: &str,
    root: &Place<'_>,
    report: &mut Report,
) {
    let default_rename = replicated.rename_by_default.then(|| resource.name.shared());
    if let Some(rename) = &resource.rename
        && Some(rename) != default_rename.as_ref()
    {
        let offered = replicated.offered_name(resource);
        let message = format!("NVIDIA's plugin ignores 'rename: {rename}' and offers {offered}");
        warn_at(root, resource, &format!("{path}.rename"), message)
            .hint("use 'renameByDefault: true' for names that end in .shared")
            .upstream(format!(
                "Setting the 'rename' field in sharing.{sharing}.resources is not yet supported in the config. Ignoring..."
            ))
            .report(report);
    }
    if resource.devices != ReplicatedDevices::All {
        let message = "NVIDIA's plugin ignores the choice of devices and shares all of them".to_owned();
        warn_at(root, resource, &format!("{path}.devices"), message)
            .hint("remove 'devices'")
            .upstream(format!(
                "Customizing the 'devices' field in sharing.{sharing}.resources is not yet supported in the config. Ignoring..."
            ))
            .report(report);
    }
}

/// A resource that the plugin never offers is passed over there without a word.
fn check_name(
    config: &DevicePluginConfig,
    resource: &ReplicatedResource,
    sharing: &str,
    path: &str,
    root: &Place<'_>,
    report: &mut Report,
) {
    let (message, hint) = match resource.name.local().strip_prefix("mig-") {
        None if resource.name.local() == "gpu" => return,
        None => (
            format!("{} matches no resource that the plugin has, so nothing is shared by it", resource.name),
            "the names are nvidia.com/gpu and nvidia.com/mig-<profile>, such as nvidia.com/mig-1g.5gb",
        ),
        Some(profile) if !is_profile_resource(profile) => (
            format!("'{profile}' is no MIG profile, so nothing is shared by it"),
            "a profile looks like 1g.5gb; '+' is written as '.', as in mig-1g.5gb.me",
        ),
        Some(_) if sharing == "mps" => (
            format!("MPS can not share MIG devices, and {} are some", resource.name),
            "share them with timeSlicing",
        ),
        Some(_) if matches!(config.flags.mig_strategy.as_deref(), Some("none" | "single")) => (
            format!("{} exists only with migStrategy 'mixed', and this file sets another", resource.name),
            "with 'single', MIG devices are called nvidia.com/gpu",
        ),
        Some(_) => return,
    };
    warn_at(root, resource, &format!("{path}.name"), message).hint(hint).report(report);
}

/// Whether the part behind `mig-` can come from a profile: `1g.5gb`, `1g.5gb.me`, `1g.24gb-me`.
fn is_profile_resource(text: &str) -> bool {
    let attributed = text.replacen("gb.", "gb+", 1);
    [text, attributed.as_str()].iter().any(|text| text.parse::<ProfileName>().is_ok())
}

fn warn(root: &Place<'_>, path: &str, message: &str) -> Finding {
    let at = position_of(root.node, path).unwrap_or(root.node.at);
    Finding::warning(&Place { node: root.node, path: path.to_owned() }, message).at(at)
}

fn warn_at(root: &Place<'_>, resource: &ReplicatedResource, path: &str, message: String) -> Finding {
    let place = Place { node: root.node, path: path.to_owned() };
    Finding::warning(&place, message).at(resource.at.0.unwrap_or(root.node.at))
}

/// Where the value at a dotted path stands. Keys match as Go matches them, without regard to case.
pub(super) fn position_of(node: &Node, path: &str) -> Option<Position> {
    let mut node = node;
    for step in path.split('.') {
        let Value::Mapping(mapping) = &node.value else { return None };
        node = mapping.iter().find(|(key, _)| key.text.eq_ignore_ascii_case(step)).map(|(_, value)| value)?;
    }
    Some(node.at)
}
