//! Writes a config back as YAML: only what is set, in the order of NVIDIA's documentation.

use super::{DevicePluginConfig, Flags, ReplicatedDevices, ReplicatedResources, ResourceRule};
use crate::yaml_print::{Context, flow_list, scalar};

impl DevicePluginConfig {
    /// The config as YAML. Reading it gives the same config.
    pub fn to_yaml(&self) -> String {
        let mut page = Page { text: "version: v1\n".to_owned() };
        page.flags(&self.flags);
        if !self.resources.gpus.is_empty() || !self.resources.mig.is_empty() {
            page.line(0, "resources:");
            page.rules("gpus", &self.resources.gpus);
            page.rules("mig", &self.resources.mig);
        }
        if self.sharing.time_slicing.is_some() || self.sharing.mps.is_some() {
            page.line(0, "sharing:");
            page.replicated("timeSlicing", self.sharing.time_slicing.as_ref());
            page.replicated("mps", self.sharing.mps.as_ref());
        }
        if !self.imex.channel_ids.is_empty() || self.imex.required {
            page.line(0, "imex:");
            let ids: Vec<String> = self.imex.channel_ids.iter().map(i64::to_string).collect();
            page.line(1, &format!("channelIDs: {}", flow_list(&ids, 14, 4)));
            page.line(1, &format!("required: {}", self.imex.required));
        }
        page.text
    }
}

struct Page {
    text: String,
}

impl Page {
    fn line(&mut self, depth: usize, line: &str) {
        self.text.push_str(&"  ".repeat(depth));
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn bool(&mut self, depth: usize, name: &str, value: Option<bool>) {
        if let Some(value) = value {
            self.line(depth, &format!("{name}: {value}"));
        }
    }

    fn string(&mut self, depth: usize, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.line(depth, &format!("{name}: {}", scalar(value, Context::Block)));
        }
    }

    fn flags(&mut self, flags: &Flags) {
        if *flags == Flags::default() {
            return;
        }
        self.line(0, "flags:");
        self.string(1, "migStrategy", flags.mig_strategy.as_deref());
        self.bool(1, "failOnInitError", flags.fail_on_init_error);
        self.string(1, "mpsRoot", flags.mps_root.as_deref());
        self.string(1, "nvidiaDriverRoot", flags.nvidia_driver_root.as_deref());
        self.string(1, "nvidiaDevRoot", flags.nvidia_dev_root.as_deref());
        self.bool(1, "gdrcopyEnabled", flags.gdrcopy_enabled);
        self.bool(1, "gdsEnabled", flags.gds_enabled);
        self.bool(1, "mofedEnabled", flags.mofed_enabled);
        self.bool(1, "useNodeFeatureAPI", flags.use_node_feature_api);
        self.string(1, "deviceDiscoveryStrategy", flags.device_discovery_strategy.as_deref());
        if let Some(plugin) = &flags.plugin {
            self.section(1, "plugin", |page| {
                page.bool(2, "passDeviceSpecs", plugin.pass_device_specs);
                if let Some(strategies) = &plugin.device_list_strategy {
                    let items: Vec<String> = strategies.iter().map(|s| scalar(s, Context::Flow)).collect();
                    page.line(2, &format!("deviceListStrategy: {}", flow_list(&items, 24, 6)));
                }
                page.string(2, "deviceIDStrategy", plugin.device_id_strategy.as_deref());
                page.string(2, "cdiAnnotationPrefix", plugin.cdi_annotation_prefix.as_deref());
                page.string(2, "nvidiaCTKPath", plugin.nvidia_ctk_path.as_deref());
                page.string(2, "containerDriverRoot", plugin.container_driver_root.as_deref());
                let policy = plugin.shared_devices_allocation_policy.as_deref();
                page.string(2, "sharedDevicesAllocationPolicy", policy);
            });
        }
        if let Some(gfd) = &flags.gfd {
            self.section(1, "gfd", |page| {
                page.bool(2, "oneshot", gfd.oneshot);
                page.bool(2, "noTimestamp", gfd.no_timestamp);
                page.string(2, "sleepInterval", gfd.sleep_interval.map(|d| d.to_string()).as_deref());
                page.string(2, "outputFile", gfd.output_file.as_deref());
                page.string(2, "machineTypeFile", gfd.machine_type_file.as_deref());
            });
        }
    }

    /// A section that is there but says nothing is written as `{}`, so that it stays there.
    fn section(&mut self, depth: usize, name: &str, write: impl FnOnce(&mut Page)) {
        let mut inner = Page { text: String::new() };
        write(&mut inner);
        if inner.text.is_empty() {
            self.line(depth, &format!("{name}: {{}}"));
        } else {
            self.line(depth, &format!("{name}:"));
            self.text.push_str(&inner.text);
        }
    }

    fn rules(&mut self, name: &str, rules: &[ResourceRule]) {
        if rules.is_empty() {
            return;
        }
        self.line(1, &format!("{name}:"));
        for rule in rules {
            self.line(1, &format!("- pattern: {}", scalar(&rule.pattern, Context::Block)));
            self.line(1, &format!("  name: {}", rule.name));
        }
    }

    fn replicated(&mut self, name: &str, replicated: Option<&ReplicatedResources>) {
        let Some(replicated) = replicated else { return };
        self.line(1, &format!("{name}:"));
        if replicated.rename_by_default {
            self.line(2, "renameByDefault: true");
        }
        self.bool(2, "failRequestsGreaterThanOne", replicated.fail_requests_greater_than_one);
        self.line(2, "resources:");
        for resource in &replicated.resources {
            self.line(2, &format!("- name: {}", resource.name));
            if let Some(rename) = &resource.rename {
                self.line(2, &format!("  rename: {rename}"));
            }
            match &resource.devices {
                ReplicatedDevices::All => {}
                ReplicatedDevices::Count(count) => self.line(2, &format!("  devices: {count}")),
                ReplicatedDevices::List(devices) => {
                    let items: Vec<String> =
                        devices.iter().map(|device| scalar(device.as_str(), Context::Flow)).collect();
                    self.line(2, &format!("  devices: {}", flow_list(&items, 15, 8)));
                }
            }
            self.line(2, &format!("  replicas: {}", resource.replicas));
        }
    }
}
