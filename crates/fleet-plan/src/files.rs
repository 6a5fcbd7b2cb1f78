//! A plan as files to apply: MIG layouts, sharing, claims, and which node gets which.

use crate::demand::MPS_CLIENTS;
use crate::plan::{Landing, Plan, PlannedNode};
use carve_formats::device_plugin::{
    DeviceRef, ReplicatedDevices, ReplicatedResource, ReplicatedResources, ResourceName,
};
use carve_formats::diagnostic::At;
use carve_formats::mig_parted::{ConfigEntry, Devices, WantedProfile};
use carve_formats::workloads::{Dialect, Workload};
use carve_formats::{DevicePluginConfig, MigPartedConfig};
use carve_gpu_model::{Geometry, Mebibytes, Sharing};
use carve_planner::Way;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use thiserror::Error;

/// A file of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanFile {
    /// Its name.
    pub name: String,
    /// What is in it.
    pub text: String,
}

/// How the GPUs of a node that are not cut are shared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum NodeSharing {
    /// Not.
    Off,
    /// In shares of one size.
    Even { sharing: Sharing, replicas: u64, gpus: Vec<u64> },
    /// In parts of different sizes, which only claims can ask for.
    Uneven,
}

/// Pods of one workload were planned in ways that one pod template can not ask for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "its pods land in different ways ({}), and one pod template can not ask for all of them; plan it on machines of one kind, by a \
     nodeSelector nvidia.com/gpu.product, or divide it into several workloads",
    .ways.join(", ")
)]
pub struct MixedWays {
    /// The workload, by its place in the manifests.
    pub workload: usize,
    /// Each way, with how many pods.
    pub ways: Vec<String>,
}

/// The files of a plan. What they say, and only that, was planned.
pub fn files(plan: &Plan, workloads: &[Workload]) -> Result<Vec<PlanFile>, MixedWays> {
    let claims = claims(plan, workloads)?;
    let mut layouts: BTreeMap<String, Vec<ConfigEntry>> = BTreeMap::new();
    let mut sharings: BTreeMap<String, DevicePluginConfig> = BTreeMap::new();
    let mut labels = String::new();
    for (index, node) in plan.nodes.iter().enumerate().filter(|(_, node)| node.pods > 0) {
        let prefix = &plan.pools[node.pool].machine.name;
        let mut line = node.name.clone();
        if node.mig.iter().any(Option::is_some) {
            let name = numbered(&mut layouts, prefix, entries(node));
            let _ = write!(line, " nvidia.com/mig.config={name}");
        }
        if let Some(config) = sharing_config(plan, index) {
            let name = numbered(&mut sharings, prefix, config);
            let _ = write!(line, " nvidia.com/device-plugin.config={name}");
        }
        let _ = writeln!(labels, "{line}");
    }
    let mut files = Vec::new();
    if !layouts.is_empty() {
        let text = MigPartedConfig { configs: layouts }.to_yaml();
        files.push(PlanFile { name: "mig-parted.yaml".to_owned(), text });
    }
    for (name, config) in sharings {
        files.push(PlanFile { name: format!("device-plugin-{name}.yaml"), text: config.to_yaml() });
    }
    if !claims.is_empty() {
        files.push(PlanFile { name: "resource-claims.yaml".to_owned(), text: claims });
    }
    files.push(PlanFile { name: "node-labels.txt".to_owned(), text: labels });
    Ok(files)
}

/// The name under which a config is known, new or old: `TYPE-1`, `TYPE-2`, …
fn numbered<T: PartialEq>(configs: &mut BTreeMap<String, T>, prefix: &str, config: T) -> String {
    // A colon, as in PRODUCT:COUNT, is no part of a label's value.
    let prefix = prefix.replace(':', "-");
    for number in 1.. {
        let name = format!("{prefix}-{number}");
        match configs.get(&name) {
            Some(known) if *known == config => return name,
            Some(_) => {}
            None => {
                configs.insert(name.clone(), config);
                return name;
            }
        }
    }
    prefix
}

fn entries(node: &PlannedNode) -> Vec<ConfigEntry> {
    let mut groups: Vec<(Option<&Geometry>, Vec<i64>)> = Vec::new();
    for (gpu, geometry) in node.mig.iter().enumerate() {
        let geometry = geometry.as_ref();
        match groups.iter_mut().find(|(known, _)| *known == geometry) {
            Some((_, gpus)) => gpus.push(gpu as i64),
            None => groups.push((geometry, vec![gpu as i64])),
        }
    }
    let all = groups.len() == 1;
    let wanted = |geometry: &Geometry| {
        let one = |(name, count): (&carve_gpu_model::ProfileName, u32)| WantedProfile {
            written: name.to_string(),
            name: name.clone(),
            count: u64::from(count),
            at: At::default(),
        };
        geometry.iter().filter(|(_, count)| *count > 0).map(one).collect()
    };
    groups
        .into_iter()
        .map(|(geometry, gpus)| ConfigEntry {
            filter: Vec::new(),
            devices: if all { Devices::All } else { Devices::Listed(gpus) },
            mig_enabled: geometry.is_some(),
            mig_devices: geometry.map(wanted).unwrap_or_default(),
            at: At::default(),
        })
        .collect()
}

fn sharing_of(node: &PlannedNode, shares: u32) -> NodeSharing {
    if node.by_claims {
        return NodeSharing::Uneven;
    }
    let shared = |way: &Way| match way {
        Way::Shared(sharing) => Some(*sharing),
        _ => None,
    };
    let parts: BTreeSet<(Sharing, u16)> =
        node.parts.iter().flatten().filter_map(|part| Some((shared(&part.way)?, part.compute))).collect();
    match parts.iter().collect::<Vec<_>>().as_slice() {
        [] => NodeSharing::Off,
        [(sharing, compute)] => {
            let on = |parts: &[crate::Part]| parts.iter().any(|part| shared(&part.way).is_some());
            let gpus =
                node.parts.iter().enumerate().filter(|(_, parts)| on(parts)).map(|(gpu, _)| gpu as u64);
            // Shares without a size were rounded down, so that their number is not that of such parts.
            let even = u32::from(*compute) == 1000 / shares.max(1);
            let replicas = if even { u64::from(shares) } else { u64::from(1000 / (*compute).max(1)) };
            let most = if *sharing == Sharing::Mps { u64::from(MPS_CLIENTS) } else { u64::MAX };
            let replicas = replicas.clamp(2, most);
            NodeSharing::Even { sharing: *sharing, replicas, gpus: gpus.collect() }
        }
        _ => NodeSharing::Uneven,
    }
}

fn sharing_config(plan: &Plan, index: usize) -> Option<DevicePluginConfig> {
    let node = &plan.nodes[index];
    let mut config = DevicePluginConfig::default();
    let cut = node.mig.iter().any(Option::is_some);
    config.flags.mig_strategy = cut.then(|| "mixed".to_owned());
    let (mut turns, mut mps) = (Vec::new(), Vec::new());
    if let NodeSharing::Even { sharing, replicas, gpus } = sharing_of(node, plan.shares) {
        let whole = node.mig.iter().filter(|geometry| geometry.is_none()).count();
        let devices = if gpus.len() == whole {
            ReplicatedDevices::All
        } else {
            ReplicatedDevices::List(gpus.into_iter().map(DeviceRef::gpu_index).collect())
        };
        let resource = ReplicatedResource {
            name: ResourceName::gpu(),
            rename: None,
            devices,
            replicas,
            at: At::default(),
        };
        match sharing {
            Sharing::Mps => mps.push(resource),
            Sharing::TimeSlicing => turns.push(resource),
            // The limiter divides GPUs that are offered whole.
            Sharing::Limiter => {}
        }
    }
    let layered: BTreeSet<String> = plan
        .workloads
        .iter()
        .flat_map(|workload| &workload.landings)
        .filter(|landing| landing.node == index)
        .filter_map(|landing| match &landing.way {
            Some(Way::Layered(profile, _)) => Some(format!("nvidia.com/mig-{}", profile.resource_form())),
            _ => None,
        })
        .collect();
    for name in layered.iter().filter_map(|name| name.parse().ok()) {
        // MPS does not go together with devices offered by profile, so shares of MIG devices take turns.
        let replicas = u64::from(plan.shares);
        turns.push(ReplicatedResource {
            name,
            rename: None,
            devices: ReplicatedDevices::All,
            replicas,
            at: At::default(),
        });
    }
    if turns.is_empty() && mps.is_empty() && !cut {
        return None;
    }
    // The program has no default of its own; this is where its chart keeps them.
    config.flags.mps_root = (!mps.is_empty()).then(|| "/run/nvidia/mps".to_owned());
    let resources = |resources: Vec<ReplicatedResource>| {
        (!resources.is_empty()).then_some(ReplicatedResources {
            rename_by_default: true,
            fail_requests_greater_than_one: None,
            resources,
        })
    };
    (config.sharing.time_slicing, config.sharing.mps) = (resources(turns), resources(mps));
    Some(config)
}

/// What the pod template of a workload has to ask for, so that a landing is what it gets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    /// What it asks for already.
    OwnWords,
    /// A MIG device of one of the profiles that were planned.
    MigDevice,
    /// A part with so much memory.
    Memory(Mebibytes),
}

fn need(plan: &Plan, workload: usize, landing: &Landing) -> Need {
    let node = &plan.nodes[landing.node];
    match &landing.way {
        Some(Way::Mig(_)) => Need::MigDevice,
        Some(Way::Shared(Sharing::Mps)) if node.by_claims => {
            let own = node.parts.iter().flatten().find(|part| part.workload == workload);
            Need::Memory(own.map_or(Mebibytes(0), |part| part.memory))
        }
        _ => Need::OwnWords,
    }
}

/// Claims for pods whose own words do not reach what was planned for them: parts of different sizes on one node, and MIG
/// devices for pods that did not name a profile. One for each workload, since all its pods are made from one template.
fn claims(plan: &Plan, workloads: &[Workload]) -> Result<String, MixedWays> {
    let mut text = String::new();
    for planned in &plan.workloads {
        let Some(workload) = workloads.get(planned.workload) else { continue };
        if workload.pod.gpus.iter().any(|ask| ask.dialect == Dialect::Dra || ask.mig.is_some()) {
            continue;
        }
        let needs: BTreeSet<Need> =
            planned.landings.iter().map(|landing| need(plan, planned.workload, landing)).collect();
        let mut needs = needs.into_iter();
        let request = match (needs.next(), needs.next()) {
            (None | Some(Need::OwnWords), None) => continue,
            (Some(Need::MigDevice), None) => mig_request(&planned.landings),
            (Some(Need::Memory(memory)), None) => format!(
                "          deviceClassName: gpu.nvidia.com\n          count: COUNT\n          capacity:\n            requests:\n              \
                 memory: {}Mi\n",
                memory.0
            ),
            (_, Some(_)) => {
                return Err(MixedWays {
                    workload: planned.workload,
                    ways: ways(plan, planned.workload, &planned.landings),
                });
            }
        };
        let count: u32 = workload.pod.gpus.iter().map(|ask| ask.count).sum();
        let request = request.replace("COUNT", &count.to_string());
        if !text.is_empty() {
            text.push_str("---\n");
        }
        let _ = write!(
            text,
            "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata:\n  name: {}-gpu\n  namespace: {}\nspec:\n  spec:\n    \
             devices:\n      requests:\n      - name: gpu\n        exactly:\n{request}",
            workload.name, workload.namespace,
        );
    }
    Ok(text)
}

/// A request for any of the profiles that were planned: products have different ones.
fn mig_request(landings: &[Landing]) -> String {
    let profiles: BTreeSet<String> = landings
        .iter()
        .filter_map(|landing| match &landing.way {
            Some(Way::Mig(profile)) => Some(format!("'{profile}'")),
            _ => None,
        })
        .collect();
    let profiles: Vec<String> = profiles.into_iter().collect();
    let is = match profiles.as_slice() {
        [one] => format!("== {one}"),
        several => format!("in [{}]", several.join(", ")),
    };
    format!(
        "          deviceClassName: mig.nvidia.com\n          count: COUNT\n          selectors:\n          - cel:\n              \
         expression: \"device.attributes['gpu.nvidia.com'].profile {is}\"\n"
    )
}

/// Every way in which pods of a workload land, with how many of them.
fn ways(plan: &Plan, workload: usize, landings: &[Landing]) -> Vec<String> {
    let mut ways: BTreeMap<String, u32> = BTreeMap::new();
    for landing in landings {
        let way = landing.way.as_ref().map_or_else(|| "no GPU".to_owned(), ToString::to_string);
        let way = match need(plan, workload, landing) {
            Need::Memory(memory) => format!("{way} with {memory} by claim"),
            Need::OwnWords | Need::MigDevice => way,
        };
        *ways.entry(way).or_default() += landing.pods;
    }
    ways.into_iter().map(|(way, pods)| format!("{pods} by {way}")).collect()
}
