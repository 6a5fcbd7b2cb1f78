//! What a flag does that stands one level too deep, under `plugin` or `gfd`.
//!
//! It is not merely passed over. On its way to JSON, `sigs.k8s.io/yaml` looks up where each value will go, takes the
//! embedded struct of all common flags for the target of `plugin` and `gfd`, and fills in every pointer it passes. So
//! `flags: {plugin: {migStrategy: mixed}}` sets `flags.migStrategy` to an empty text, and the plugin does not start.

use super::fields;
use super::{Duration, Flags};
use crate::diagnostic::{Finding, Place, Report};
use crate::go_json::Object;
use crate::kubernetes_yaml::Value;

/// Gives every flag that is named too deep its zero value, unless the file sets it where it belongs.
pub(super) fn zero_misplaced(flags_object: &Object<'_>, flags: &mut Flags, report: &mut Report) {
    for (field, _, section) in flags_object.struct_entries(fields::FLAGS) {
        if field.is_none() {
            continue;
        }
        let Some(object) = Object::of(&section) else { continue };
        for (field, key, value) in object.struct_entries(fields::FLAGS) {
            let Some(field) = field else { continue };
            let sets = zero(field, &value, flags);
            Finding::warning(
                &section,
                format!("'{field}' stands too deep here; NVIDIA's reader takes it for {sets}"),
            )
            .at(key.at)
            .hint("move it up, directly under 'flags'")
            .report(report);
        }
    }
}

fn zero(field: &str, value: &Place<'_>, flags: &mut Flags) -> &'static str {
    let text = match field {
        "migStrategy" => &mut flags.mig_strategy,
        "mpsRoot" => &mut flags.mps_root,
        "nvidiaDriverRoot" => &mut flags.nvidia_driver_root,
        "nvidiaDevRoot" => &mut flags.nvidia_dev_root,
        "deviceDiscoveryStrategy" => &mut flags.device_discovery_strategy,
        "plugin" | "gfd" => {
            zero_section(field, value, flags);
            return "an empty section";
        }
        _ => {
            let flag = match field {
                "failOnInitError" => &mut flags.fail_on_init_error,
                "gdrcopyEnabled" => &mut flags.gdrcopy_enabled,
                "gdsEnabled" => &mut flags.gds_enabled,
                "mofedEnabled" => &mut flags.mofed_enabled,
                _ => &mut flags.use_node_feature_api,
            };
            flag.get_or_insert(false);
            return "false";
        }
    };
    text.get_or_insert_default();
    "an empty text"
}

fn zero_section(section: &str, value: &Place<'_>, flags: &mut Flags) {
    let object = Object::of(value);
    let entries = |fields| object.iter().flat_map(move |object| object.struct_entries(fields));
    if section == "plugin" {
        let plugin = flags.plugin.get_or_insert_default();
        for (field, ..) in entries(fields::PLUGIN) {
            let text = match field {
                Some("passDeviceSpecs") => {
                    plugin.pass_device_specs.get_or_insert(false);
                    continue;
                }
                Some("deviceListStrategy") => {
                    plugin.device_list_strategy.get_or_insert_default();
                    continue;
                }
                Some("deviceIDStrategy") => &mut plugin.device_id_strategy,
                Some("cdiAnnotationPrefix") => &mut plugin.cdi_annotation_prefix,
                Some("nvidiaCTKPath") => &mut plugin.nvidia_ctk_path,
                Some("containerDriverRoot") => &mut plugin.container_driver_root,
                Some("sharedDevicesAllocationPolicy") => &mut plugin.shared_devices_allocation_policy,
                _ => continue,
            };
            text.get_or_insert_default();
        }
    } else {
        let gfd = flags.gfd.get_or_insert_default();
        for (field, ..) in entries(fields::GFD) {
            match field {
                Some("oneshot") => {
                    gfd.oneshot.get_or_insert(false);
                }
                Some("noTimestamp") => {
                    gfd.no_timestamp.get_or_insert(false);
                }
                Some("sleepInterval") => {
                    gfd.sleep_interval.get_or_insert(Duration::from_nanoseconds(0));
                }
                Some("outputFile") => {
                    gfd.output_file.get_or_insert_default();
                }
                Some("machineTypeFile") => {
                    gfd.machine_type_file.get_or_insert_default();
                }
                _ => {}
            }
        }
    }
}

impl<'a> Object<'a> {
    /// The map at a place, if there is one. Says nothing if there is none.
    fn of(place: &Place<'a>) -> Option<Self> {
        match &place.node.value {
            Value::Mapping(mapping) => Some(Object::new(place.clone(), mapping)),
            _ => None,
        }
    }
}
