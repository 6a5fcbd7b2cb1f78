//! What the arguments of `carve agent` mean.

use super::args::{AgentArgs, ConfigurationArgs, JobName, LabelsTo, PluginArgs};
use crate::args::MachineArgs;
use crate::failure::Failure;
use carve_formats::device_plugin::{Flags, GfdFlags, PluginFlags};
use carve_formats::workloads::Quantity;
use carve_node_agent::{AgentOptions, ConfigSource, DraOptions, Job, LabelTarget, MigOptions, PriceOptions};
use std::path::PathBuf;
use std::time::Duration;

/// Where the agent keeps what must survive a restart.
const STATE: &str = "/var/lib/carve";
/// Where the image has the limiter's library.
const SHIPPED_LIMITER: &str = "/usr/lib/carve/libcarve_limiter.so";

pub(super) fn options(machine: &MachineArgs, args: &AgentArgs) -> Result<AgentOptions, Failure> {
    let job = |name: &JobName| match name {
        JobName::DevicePlugin => Job::DevicePlugin,
        JobName::Labels => Job::Labels,
        JobName::Mig => Job::Mig,
        JobName::Validation => Job::Validation,
    };
    let mut left_out: Vec<Job> = args.node.without.iter().map(job).collect();
    // NVIDIA's plugin serves without registering then, which nobody would notice; without a kubelet there is nothing to do.
    if args.places.kubelet_socket.as_os_str().is_empty() {
        left_out.push(Job::DevicePlugin);
    }
    // A GPU has one master: kubelet's counts, a label, or claims.
    left_out.extend(left_to_others(args.dra.dra, args.dra.slices)?);
    let mode = args.dra.dra_mode.parse().map_err(|error| Failure::new(format!("--dra-mode: {error}")))?;
    let label_target = match (&args.labels.output_file, args.labels.labels_to) {
        (Some(path), _) => LabelTarget::File(path.clone()),
        (None, LabelsTo::Auto) => LabelTarget::Auto,
        (None, LabelsTo::Node) => LabelTarget::Node,
        (None, LabelsTo::NodeFeature) => LabelTarget::NodeFeature,
    };
    let places = &args.places;
    Ok(AgentOptions {
        jobs: Job::ALL.iter().map(|(job, _)| *job).filter(|job| !left_out.contains(job)).collect(),
        node_name: args.node.node_name.clone().filter(|name| !name.is_empty()),
        namespace: args.node.namespace.clone(),
        kubeconfig: args.node.kubeconfig.clone().filter(|path| !path.as_os_str().is_empty()),
        kubelet_socket: places.kubelet_socket.clone(),
        pod_resources_socket: places.pod_resources_socket.clone(),
        config: config_source(&args.config)?,
        default_config: args.config.default_config.clone().filter(|name| !name.is_empty()),
        config_label: args.config.node_label.clone(),
        flags: flags(args),
        imex_channels: args.plugin.imex_channel_ids.clone(),
        honour_choices: args.config.honour_choices,
        take_over: args.node.take_over,
        label_target,
        label_aliases: args.labels.label_aliases,
        mig: MigOptions {
            config_file: args.mig.mig_config_file.clone().filter(|path| !path.as_os_str().is_empty()),
            default_config: args.mig.default_mig_config.clone().filter(|name| !name.is_empty()),
            evict: args.mig.mig_evict,
            reboot: args.mig.with_reboot,
            reboot_program: args.mig.reboot_program.clone().filter(|path| !path.as_os_str().is_empty()),
        },
        container_driver_root: places.driver_root_ctr_path.clone(),
        cdi_folder: places.cdi_root.clone(),
        hook_program: places.nvidia_cdi_hook_path.clone(),
        hook_program_here: places.hook_here.clone().unwrap_or_else(|| places.nvidia_cdi_hook_path.clone()),
        containerd_config: places.containerd_config.clone(),
        cgroup_root: places.cgroup_root.clone().filter(|path| !path.as_os_str().is_empty()),
        mps_cgroup: places.mps_cgroup.clone(),
        validations: places.validations.clone(),
        state_dir: machine.state_dir.clone().unwrap_or_else(|| PathBuf::from(STATE)),
        listen: args.node.listen().map_err(Failure::new)?,
        probe: Duration::from_secs(args.node.probe_seconds.max(1)),
        disable_health: args.node.disable_healthchecks.clone(),
        enable_health: args.node.enable_healthchecks.clone(),
        dra: DraOptions {
            driver_name: args.dra.driver_name.clone(),
            mode,
            plugins: args.dra.kubelet_plugins.clone(),
            registry: args.dra.kubelet_registry.clone(),
            instance: args.dra.pod_uid.clone().filter(|uid| !uid.is_empty()),
            limiter: args.dra.limiter.clone().filter(|path| !path.as_os_str().is_empty()),
            // One that is named wins, and an empty name is none.
            shipped_limiter: args.dra.limiter.is_none().then(|| PathBuf::from(SHIPPED_LIMITER)),
            limiter_context: limiter_context(&args.dra.limiter_context)
                .map_err(|why| Failure::new(format!("--limiter-context: {why}")))?,
            limits: args.dra.limits.clone(),
        },
        prices: PriceOptions {
            file: places.prices.clone().filter(|path| !path.as_os_str().is_empty()),
            karpenter: places.karpenter_metrics.clone().filter(|url| !url.is_empty()),
        },
    })
}

/// Jobs that are not this agent's, by the way in which it gives GPUs out.
fn left_to_others(dra: bool, slices: bool) -> Result<Vec<Job>, Failure> {
    match (dra, slices) {
        (true, true) => Err(Failure::new(
            "--dra and --slices are two ways to give out parts of the same GPUs, and neither would know of the other's; give one of \
             them: --dra where the cluster serves ResourceClaims, --slices where carve's scheduler places pods",
        )),
        (true, false) => Ok(vec![Job::DevicePlugin, Job::Mig, Job::Slices]),
        (false, true) => Ok(vec![Job::DevicePlugin, Job::Mig, Job::Claims]),
        (false, false) => Ok(vec![Job::Claims, Job::Slices]),
    }
}

/// Bytes, or nothing where they are to be measured.
fn limiter_context(text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() || text == "auto" {
        return Ok(None);
    }
    let quantity: Result<Quantity, _> = text.parse();
    let bytes = quantity.ok().and_then(Quantity::whole);
    match bytes {
        Some(bytes) if bytes == 0 || bytes >= 1 << 20 => Ok(Some(bytes)),
        _ => Err(format!(
            "'{text}' is neither auto nor 0 nor an amount of memory; write one with its unit, such as 526Mi"
        )),
    }
}

/// One place, or none: two would leave people guessing which holds.
fn config_source(args: &ConfigurationArgs) -> Result<ConfigSource, Failure> {
    let given = |path: &Option<PathBuf>| path.clone().filter(|path| !path.as_os_str().is_empty());
    let map = args.config_map.as_deref().filter(|text| !text.is_empty());
    match (given(&args.config_file), given(&args.config_file_srcdir), map) {
        (None, None, None) => Ok(ConfigSource::Flags),
        (Some(file), None, None) => Ok(ConfigSource::File(file)),
        (None, Some(folder), None) => Ok(ConfigSource::Folder(folder)),
        (None, None, Some(map)) => match map.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
                Ok(ConfigSource::ConfigMap { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            _ => Err(Failure::new(format!("--config-map '{map}': write NAMESPACE/NAME"))),
        },
        _ => {
            Err(Failure::new("give one of --config-file, --config-file-srcdir and --config-map, not several"))
        }
    }
}

fn flags(args: &AgentArgs) -> Flags {
    let plugin: &PluginArgs = &args.plugin;
    let text = |value: &Option<String>| value.clone().filter(|text| !text.is_empty());
    Flags {
        mig_strategy: text(&plugin.mig_strategy),
        fail_on_init_error: plugin.fail_on_init_error,
        mps_root: text(&plugin.mps_root),
        nvidia_driver_root: text(&plugin.driver_root),
        nvidia_dev_root: text(&plugin.dev_root),
        gdrcopy_enabled: plugin.gdrcopy_enabled,
        gds_enabled: plugin.gds_enabled,
        mofed_enabled: plugin.mofed_enabled,
        use_node_feature_api: None,
        device_discovery_strategy: text(&plugin.device_discovery_strategy),
        plugin: Some(PluginFlags {
            pass_device_specs: plugin.pass_device_specs,
            device_list_strategy: plugin
                .device_list_strategy
                .clone()
                .map(non_empty)
                .filter(|list| !list.is_empty()),
            device_id_strategy: text(&plugin.device_id_strategy),
            cdi_annotation_prefix: text(&plugin.cdi_annotation_prefix),
            shared_devices_allocation_policy: text(&plugin.shared_devices_allocation_policy),
            ..PluginFlags::default()
        }),
        gfd: Some(GfdFlags {
            no_timestamp: args.labels.no_timestamp,
            machine_type_file: text(&args.labels.machine_type_file),
            ..GfdFlags::default()
        }),
    }
}

/// A variable without a value is a list with one empty word.
fn non_empty(list: Vec<String>) -> Vec<String> {
    list.into_iter().filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::{left_to_others, limiter_context};
    use carve_node_agent::Job;

    #[test]
    fn a_gpu_has_one_master() {
        let all = [Job::DevicePlugin, Job::Mig, Job::Claims, Job::Slices];
        let own = |dra, slices| {
            let left = left_to_others(dra, slices).ok()?;
            Some(all.into_iter().filter(|job| !left.contains(job)).collect::<Vec<_>>())
        };
        assert_eq!(own(false, false), Some(vec![Job::DevicePlugin, Job::Mig]));
        assert_eq!(own(true, false), Some(vec![Job::Claims]));
        assert_eq!(own(false, true), Some(vec![Job::Slices]));
        assert_eq!(own(true, true), None);
    }

    #[test]
    fn a_context_is_measured_or_said() {
        assert_eq!(limiter_context("auto"), Ok(None));
        assert_eq!(limiter_context(""), Ok(None));
        assert_eq!(limiter_context("0"), Ok(Some(0)));
        assert_eq!(limiter_context("526Mi"), Ok(Some(526 << 20)));
        // Mebibytes were meant, most likely.
        assert!(limiter_context("526").is_err_and(|why| why.contains("526Mi")));
        assert!(limiter_context("some").is_err() && limiter_context("-1Mi").is_err());
    }
}
