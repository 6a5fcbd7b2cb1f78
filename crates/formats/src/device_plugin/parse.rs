//! Reads a device-plugin config, refusing what NVIDIA's programs refuse when they read the file.
//!
//! Fields of structs are found without regard to case and assigned in byte order of their spelling, so that of `Flags`
//! and `flags` both count; sharing and resource rules are read as maps there, so their keys must be spelled exactly.

use super::fields::{self, warn_unknown};
use super::{
    DevicePluginConfig, DeviceRef, Duration, Flags, GfdFlags, Imex, PluginFlags, ReplicatedDevices,
    ReplicatedResource, ReplicatedResources, ResourceName, ResourceRule, Resources, Sharing, doubts,
    misplaced,
};
use crate::diagnostic::{Finding, Parsed, Place, Report};
use crate::go_json::{self, found};
use crate::kubernetes_yaml::{self, Key, Node, Value};

const RAW_MAP: &str = "Go value of type map[string]json.RawMessage";
const BOOL: &str = "Go value of type bool";
const TEXT: &str = "Go value of type string";
const INT: &str = "Go value of type int";

impl DevicePluginConfig {
    /// Reads the text of a config file: what NVIDIA's programs refuse when they read it.
    pub fn parse(text: &str) -> Parsed<Self> {
        Self::read(kubernetes_yaml::parse(text), false)
    }

    /// As [`parse`](Self::parse), and then as the plugin does if its command line and environment say nothing.
    pub fn parse_alone(text: &str) -> Parsed<Self> {
        Self::read(kubernetes_yaml::parse(text), true)
    }

    /// Reads a document that was parsed already, as [`parse_alone`](Self::parse_alone).
    pub fn from_node(node: &Node) -> Parsed<Self> {
        Self::read(Ok(node.clone()), true)
    }

    fn read(document: Result<Node, kubernetes_yaml::SyntaxError>, alone: bool) -> Parsed<Self> {
        let mut report = Report::default();
        let node = match document {
            Ok(node) => node,
            Err(error) => {
                report.syntax(error);
                return report.finish(None);
            }
        };
        let place = Place::root(&node);
        let mut config = DevicePluginConfig::default();
        read_config(&place, &mut config, &mut report);
        if !report.has_errors() {
            if alone && let Err(error) = config.validate_flags() {
                super::validate::report(&error, &place, &mut report);
            }
            doubts::check(&config, &place, &mut report);
        }
        report.finish(Some(config))
    }
}

fn read_config(place: &Place<'_>, config: &mut DevicePluginConfig, report: &mut Report) {
    let Some(object) = go_json::object(place, "Go value of type v1.Config", report) else { return };
    let mut version = None;
    for (field, key, value) in object.struct_entries(fields::TOP) {
        match field {
            Some("version") => {
                let into = "Go struct field Config.version of type string";
                version = go_json::coerced_text(&value, into, report).map(|version| (version, value));
            }
            Some("flags") => read_flags(&value, &mut config.flags, report),
            Some("resources") => read_resources(&value, &mut config.resources, report),
            Some("sharing") => read_sharing(&value, &mut config.sharing, report),
            Some("imex") => read_imex(&value, &mut config.imex, report),
            _ => warn_unknown(place, key, fields::TOP, report),
        }
    }
    if let Some((version, value)) = version
        && !version.is_empty()
        && version != "v1"
    {
        Finding::error(&value, format!("version '{version}' is not known; only 'v1' is"))
            .hint("write 'version: v1'")
            .upstream(format!("unknown version: {version}"))
            .report(report);
    }
}

/// Null leaves a flag unset.
fn flag<T>(
    place: &Place<'_>,
    into: &mut Option<T>,
    report: &mut Report,
    read: impl FnOnce(&Place<'_>, &mut Report) -> Option<T>,
) {
    *into = if place.is_null() { None } else { read(place, report) };
}

fn flag_bool(place: &Place<'_>, into: &mut Option<bool>, report: &mut Report) {
    flag(place, into, report, |place, report| go_json::boolean(place, BOOL, report));
}

fn flag_text(place: &Place<'_>, into: &mut Option<String>, report: &mut Report) {
    flag(place, into, report, |place, report| go_json::text(place, TEXT, report));
}

fn read_flags(place: &Place<'_>, flags: &mut Flags, report: &mut Report) {
    let into = "Go struct field Config.flags of type v1.Flags";
    let Some(object) = go_json::object(place, into, report) else { return };
    misplaced::zero_misplaced(&object, flags, report);
    for (field, key, value) in object.struct_entries(fields::FLAGS) {
        match field {
            Some("migStrategy") => flag_text(&value, &mut flags.mig_strategy, report),
            Some("failOnInitError") => flag_bool(&value, &mut flags.fail_on_init_error, report),
            Some("mpsRoot") => flag_text(&value, &mut flags.mps_root, report),
            Some("nvidiaDriverRoot") => flag_text(&value, &mut flags.nvidia_driver_root, report),
            Some("nvidiaDevRoot") => flag_text(&value, &mut flags.nvidia_dev_root, report),
            Some("gdrcopyEnabled") => flag_bool(&value, &mut flags.gdrcopy_enabled, report),
            Some("gdsEnabled") => flag_bool(&value, &mut flags.gds_enabled, report),
            Some("mofedEnabled") => flag_bool(&value, &mut flags.mofed_enabled, report),
            Some("useNodeFeatureAPI") => flag_bool(&value, &mut flags.use_node_feature_api, report),
            Some("deviceDiscoveryStrategy") => {
                flag_text(&value, &mut flags.device_discovery_strategy, report);
            }
            Some("plugin") if value.is_null() => flags.plugin = None,
            Some("plugin") => read_plugin(&value, flags.plugin.get_or_insert_default(), report),
            Some("gfd") if value.is_null() => flags.gfd = None,
            Some("gfd") => read_gfd(&value, flags.gfd.get_or_insert_default(), report),
            _ => warn_unknown(place, key, fields::FLAGS, report),
        }
    }
}

fn read_plugin(place: &Place<'_>, plugin: &mut PluginFlags, report: &mut Report) {
    let into = "Go value of type v1.PluginCommandLineFlags";
    let Some(object) = go_json::object(place, into, report) else { return };
    for (field, key, value) in object.struct_entries(fields::PLUGIN) {
        match field {
            Some("passDeviceSpecs") => flag_bool(&value, &mut plugin.pass_device_specs, report),
            Some("deviceListStrategy") => {
                flag(&value, &mut plugin.device_list_strategy, report, read_device_list_strategy);
            }
            Some("deviceIDStrategy") => flag_text(&value, &mut plugin.device_id_strategy, report),
            Some("cdiAnnotationPrefix") => flag_text(&value, &mut plugin.cdi_annotation_prefix, report),
            Some("nvidiaCTKPath") => flag_text(&value, &mut plugin.nvidia_ctk_path, report),
            Some("containerDriverRoot") => flag_text(&value, &mut plugin.container_driver_root, report),
            Some("sharedDevicesAllocationPolicy") => {
                flag_text(&value, &mut plugin.shared_devices_allocation_policy, report);
            }
            _ => warn_unknown_flag(place, key, fields::PLUGIN, report),
        }
    }
}

/// A common flag under `plugin` or `gfd` got its warning already, and it is not without effect.
fn warn_unknown_flag(place: &Place<'_>, key: &Key, known: &[&str], report: &mut Report) {
    if go_json::field_for(&key.text, fields::FLAGS).is_none() {
        warn_unknown(place, key, known, report);
    }
}

fn read_device_list_strategy(place: &Place<'_>, report: &mut Report) -> Option<Vec<String>> {
    let strategies = match &place.node.value {
        Value::String(one) => Some(vec![one.clone()]),
        Value::Sequence(items) => items
            .iter()
            .map(|item| match &item.value {
                Value::String(text) => Some(text.clone()),
                Value::Null => Some(String::new()),
                _ => None,
            })
            .collect(),
        _ => None,
    };
    if strategies.is_none() {
        Finding::error(
            place,
            format!("expected a strategy or a list of them, found {}", found(&place.node.value)),
        )
        .hint("strategies: envvar, volume-mounts, cdi-annotations, cdi-cri")
        .upstream(format!("invalid deviceListStrategy: {}", place.node.to_json()))
        .report(report);
    }
    strategies
}

fn read_gfd(place: &Place<'_>, gfd: &mut GfdFlags, report: &mut Report) {
    let into = "Go value of type v1.GFDCommandLineFlags";
    let Some(object) = go_json::object(place, into, report) else { return };
    for (field, key, value) in object.struct_entries(fields::GFD) {
        match field {
            Some("oneshot") => flag_bool(&value, &mut gfd.oneshot, report),
            Some("noTimestamp") => flag_bool(&value, &mut gfd.no_timestamp, report),
            Some("sleepInterval") => flag(&value, &mut gfd.sleep_interval, report, read_duration),
            Some("outputFile") => flag_text(&value, &mut gfd.output_file, report),
            Some("machineTypeFile") => flag_text(&value, &mut gfd.machine_type_file, report),
            _ => warn_unknown_flag(place, key, fields::GFD, report),
        }
    }
}

fn read_duration(place: &Place<'_>, report: &mut Report) -> Option<Duration> {
    let hint = "write a number with a unit, such as 60s or 5m, or 'infinite'";
    let error = match &place.node.value {
        Value::Number(number) => {
            let duration = Duration::from_number(number.as_f64());
            Finding::warning(
                place,
                format!("a number without a unit counts nanoseconds: this is {duration}"),
            )
            .hint(hint)
            .report(report);
            return Some(duration);
        }
        Value::String(text) => match text.parse() {
            Ok(duration) => return Some(duration),
            Err(error) => super::DurationError::to_string(&error),
        },
        _ => "invalid duration".to_owned(),
    };
    Finding::error(place, format!("expected a duration, found {}", found(&place.node.value)))
        .hint(hint)
        .upstream(error)
        .report(report);
    None
}

fn read_resources(place: &Place<'_>, resources: &mut Resources, report: &mut Report) {
    let into = "Go struct field Config.resources of type v1.Resources";
    let Some(object) = go_json::object(place, into, report) else { return };
    for (field, key, value) in object.struct_entries(fields::RESOURCES) {
        let rules = match field {
            Some("gpus") => &mut resources.gpus,
            Some("mig") => &mut resources.mig,
            _ => {
                warn_unknown(place, key, fields::RESOURCES, report);
                continue;
            }
        };
        if let Some(items) = go_json::items(&value, "Go value of type []v1.Resource", report) {
            *rules = items.iter().filter_map(|item| read_rule(item, report)).collect();
        }
    }
}

fn read_rule(place: &Place<'_>, report: &mut Report) -> Option<ResourceRule> {
    let object = go_json::object(place, RAW_MAP, report)?;
    for (key, _) in object.entries().filter(|(key, _)| !fields::RULE.contains(&key.text.as_str())) {
        warn_unknown(place, key, fields::RULE, report);
    }
    let missing = fields::RULE.iter().find(|field| object.get(field).is_none());
    if let Some(field) = missing {
        Finding::error(place, format!("this rule has no '{field}'"))
            .hint("a rule has a 'pattern' and a 'name'")
            .upstream(format!("resources must have a '{field}' field set"))
            .report(report);
        return None;
    }
    let pattern = go_json::text(&object.get("pattern")?, TEXT, report)?;
    let name = read_resource_name(&object.get("name")?, report)?;
    Some(ResourceRule { pattern, name })
}

fn read_resource_name(place: &Place<'_>, report: &mut Report) -> Option<ResourceName> {
    let text = go_json::text(place, TEXT, report)?;
    match text.parse() {
        Ok(name) => Some(name),
        Err(error) => {
            let foreign = text.contains('/') && !text.starts_with("nvidia.com/");
            Finding::error(place, format!("'{text}' is not a resource name"))
                .hint(if foreign {
                    "the part before the '/' is always nvidia.com; leave it out"
                } else {
                    "lower-case letters, digits, '-' and '.', at most 52 of them behind nvidia.com/"
                })
                .upstream(super::ResourceNameError::to_string(&error))
                .report(report);
            None
        }
    }
}

fn read_sharing(place: &Place<'_>, sharing: &mut Sharing, report: &mut Report) {
    let into = "Go struct field Config.sharing of type v1.Sharing";
    let Some(object) = go_json::object(place, into, report) else { return };
    for (field, key, value) in object.struct_entries(fields::SHARING) {
        match field {
            // Null here is not the same as absent: time-slicing without resources is refused.
            Some("timeSlicing") => sharing.time_slicing = read_replicated(&value, report),
            Some("mps") if value.is_null() => sharing.mps = None,
            Some("mps") => sharing.mps = read_replicated(&value, report),
            _ => warn_unknown(place, key, fields::SHARING, report),
        }
    }
}

fn read_replicated(place: &Place<'_>, report: &mut Report) -> Option<ReplicatedResources> {
    let object = go_json::object(place, RAW_MAP, report)?;
    for (key, _) in object.entries().filter(|(key, _)| !fields::REPLICATED.contains(&key.text.as_str())) {
        warn_unknown(place, key, fields::REPLICATED, report);
    }
    let rename_by_default = match object.get("renameByDefault") {
        Some(field) => go_json::boolean(&field, BOOL, report)?,
        None => false,
    };
    let mut fail_requests_greater_than_one = None;
    if let Some(field) = object.get("failRequestsGreaterThanOne")
        && !field.is_null()
    {
        fail_requests_greater_than_one = Some(go_json::boolean(&field, BOOL, report)?);
    }
    let items = match object.get("resources") {
        Some(field) => go_json::items(&field, "Go value of type []v1.ReplicatedResource", report)?,
        None => Vec::new(),
    };
    if items.is_empty() {
        Finding::error(place, "no resource is named here, so nothing would be shared")
            .hint("add 'resources:' with items such as '- {name: nvidia.com/gpu, replicas: 4}'")
            .upstream("no resources specified")
            .report(report);
        return None;
    }
    let resources = items.iter().filter_map(|item| read_replica(item, report)).collect();
    Some(ReplicatedResources { rename_by_default, fail_requests_greater_than_one, resources })
}

fn read_replica(place: &Place<'_>, report: &mut Report) -> Option<ReplicatedResource> {
    let object = go_json::object(place, RAW_MAP, report)?;
    for (key, _) in object.entries().filter(|(key, _)| !fields::REPLICA.contains(&key.text.as_str())) {
        warn_unknown(place, key, fields::REPLICA, report);
    }
    let Some(name) = object.get("name") else {
        Finding::error(place, "this item names no resource")
            .hint("add 'name: nvidia.com/gpu'")
            .upstream("no resource name specified")
            .report(report);
        return None;
    };
    let name = read_resource_name(&name, report)?;
    let devices = match object.get("devices") {
        Some(field) => read_devices(&field, report)?,
        None => ReplicatedDevices::All,
    };
    let Some(replicas) = object.get("replicas") else {
        Finding::error(place, format!("{name} has no 'replicas'"))
            .hint("add how often each device shall be offered, such as 'replicas: 4'")
            .upstream("no replicas specified")
            .report(report);
        return None;
    };
    let count = go_json::integer(&replicas, INT, report)?;
    let Some(count) = u64::try_from(count).ok().filter(|count| *count >= 2) else {
        Finding::error(&replicas, format!("{count} replicas is no sharing; there must be at least 2"))
            .hint("remove the item if the resource is not to be shared")
            .upstream("number of replicas must be >= 2")
            .report(report);
        return None;
    };
    let rename = match object.get("rename") {
        Some(field) => Some(read_resource_name(&field, report)?),
        None => None,
    };
    Some(ReplicatedResource { name, rename, devices, replicas: count, at: place.node.at.into() })
}

fn read_devices(place: &Place<'_>, report: &mut Report) -> Option<ReplicatedDevices> {
    let hint = "write 'all', a count such as 2, or a list such as [0, \"0:1\", GPU-…]";
    let (message, upstream) = match &place.node.value {
        Value::String(text) if text == "all" => return Some(ReplicatedDevices::All),
        Value::String(_) | Value::Null => {
            let text = go_json::text(place, TEXT, report)?;
            (
                format!("'devices' is '{text}', but the only word it may be is 'all'"),
                format!("devices set as '{text}' but the only valid string input is 'all'"),
            )
        }
        Value::Number(number) if number.as_i64().is_some() => {
            let count = number.as_i64()?;
            if let Some(count) = u64::try_from(count).ok().filter(|count| *count > 0) {
                return Some(ReplicatedDevices::Count(count));
            }
            (
                format!("{count} devices can not be shared"),
                format!("devices set as '{count}' but a count of devices must be > 0"),
            )
        }
        Value::Sequence(items) => {
            let items =
                items.iter().enumerate().map(|(index, item)| read_device(&place.item(index, item), report));
            return items.collect::<Option<Vec<_>>>().map(ReplicatedDevices::List);
        }
        other => (
            format!("expected 'all', a count or a list of devices, found {}", found(other)),
            format!("unrecognized type for devices spec: {}", place.node.to_json()),
        ),
    };
    Finding::error(place, message).hint(hint).upstream(upstream).report(report);
    None
}

fn read_device(place: &Place<'_>, report: &mut Report) -> Option<DeviceRef> {
    let text = match &place.node.value {
        // Null is read as the number 0.
        Value::Null => return Some(DeviceRef::gpu_index(0)),
        Value::Number(number) if number.as_u64().is_some() => {
            return number.as_u64().map(DeviceRef::gpu_index);
        }
        Value::String(text) => match text.parse() {
            Ok(device) => return Some(device),
            Err(_) => text.as_str(),
        },
        _ => "",
    };
    Finding::error(place, format!("{} names no device", found(&place.node.value)))
        .hint("a GPU index (0), a MIG index (\"0:1\"), or a UUID that begins with GPU- or MIG-")
        .upstream(format!("unsupported type for device in devices list: {text}, string"))
        .report(report);
    None
}

fn read_imex(place: &Place<'_>, imex: &mut Imex, report: &mut Report) {
    let into = "Go struct field Config.imex of type v1.Imex";
    let Some(object) = go_json::object(place, into, report) else { return };
    for (field, key, value) in object.struct_entries(fields::IMEX) {
        match field {
            Some("channelIDs") => {
                let into = "Go struct field Imex.imex.channelIDs of type int";
                if let Some(items) =
                    go_json::items(&value, "Go struct field Imex.imex.channelIDs of type []int", report)
                {
                    imex.channel_ids =
                        items.iter().filter_map(|item| go_json::integer(item, into, report)).collect();
                }
            }
            Some("required") if value.is_null() => {}
            Some("required") => {
                let into = "Go struct field Imex.imex.required of type bool";
                imex.required = go_json::boolean(&value, into, report).unwrap_or_default();
            }
            _ => warn_unknown(place, key, fields::IMEX, report),
        }
    }
}
