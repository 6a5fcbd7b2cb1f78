//! Writes a config in the two forms of `nvidia-mig-parted export`.

use super::{ConfigEntry, Devices, MigPartedConfig};
use crate::kubernetes_yaml::write_json_string;
use crate::yaml_print::{Context, flow_list, natural_order, scalar};

impl MigPartedConfig {
    /// As `nvidia-mig-parted export -o yaml`.
    pub fn to_yaml(&self) -> String {
        let mut text = "version: v1\n".to_owned();
        if self.configs.is_empty() {
            return text;
        }
        text.push_str("mig-configs:\n");
        let mut names: Vec<&String> = self.configs.keys().collect();
        names.sort_by(|left, right| natural_order(left, right));
        for name in names {
            text.push_str(&format!("  {}:\n", scalar(name, Context::Key)));
            for entry in self.configs.get(name).into_iter().flatten() {
                push_entry(entry, &mut text);
            }
        }
        text
    }

    /// As `nvidia-mig-parted export -o json`.
    pub fn to_json(&self) -> String {
        if self.configs.is_empty() {
            return "{\n  \"version\": \"v1\"\n}\n".to_owned();
        }
        let configs = self.configs.iter().map(|(name, entries)| {
            let entries: Vec<String> = entries.iter().map(json_entry).collect();
            format!("    {}: [\n{}\n    ]", json_text(name), entries.join(",\n"))
        });
        let configs: Vec<String> = configs.collect();
        format!("{{\n  \"version\": \"v1\",\n  \"mig-configs\": {{\n{}\n  }}\n}}\n", configs.join(",\n"))
    }
}

/// A filter of one is written without a list, unless it would then mean no filter.
fn single_filter(entry: &ConfigEntry) -> Option<&String> {
    match entry.filter.as_slice() {
        [one] if !one.is_empty() => Some(one),
        _ => None,
    }
}

fn push_entry(entry: &ConfigEntry, text: &mut String) {
    let mut lines = Vec::new();
    if let Some(filter) = single_filter(entry) {
        lines.push(format!("device-filter: {}", scalar(filter, Context::Block)));
    } else if !entry.filter.is_empty() {
        let items: Vec<String> = entry.filter.iter().map(|item| scalar(item, Context::Flow)).collect();
        lines.push(format!("device-filter: {}", flow_list(&items, 19, 6)));
    }
    lines.push(match &entry.devices {
        Devices::All => "devices: all".to_owned(),
        Devices::Listed(indices) => {
            let items: Vec<String> = indices.iter().map(i64::to_string).collect();
            format!("devices: {}", flow_list(&items, 13, 6))
        }
    });
    lines.push(format!("mig-enabled: {}", entry.mig_enabled));
    if entry.mig_devices.is_empty() {
        lines.push("mig-devices: {}".to_owned());
    } else {
        lines.push("mig-devices:".to_owned());
        let mut profiles: Vec<_> = entry.mig_devices.iter().collect();
        profiles.sort_by(|left, right| natural_order(&left.written, &right.written));
        for profile in profiles {
            lines.push(format!("  {}: {}", scalar(&profile.written, Context::Key), profile.count));
        }
    }
    for (index, line) in lines.iter().enumerate() {
        text.push_str(if index == 0 { "  - " } else { "    " });
        text.push_str(line);
        text.push('\n');
    }
}

fn json_entry(entry: &ConfigEntry) -> String {
    let mut fields = Vec::new();
    if let Some(filter) = single_filter(entry) {
        fields.push(format!("\"device-filter\": {}", json_text(filter)));
    } else if !entry.filter.is_empty() {
        let items: Vec<String> = entry.filter.iter().map(|item| json_text(item)).collect();
        fields.push(format!("\"device-filter\": {}", json_list(&items)));
    }
    fields.push(match &entry.devices {
        Devices::All => "\"devices\": \"all\"".to_owned(),
        Devices::Listed(indices) => {
            let items: Vec<String> = indices.iter().map(i64::to_string).collect();
            format!("\"devices\": {}", json_list(&items))
        }
    });
    fields.push(format!("\"mig-enabled\": {}", entry.mig_enabled));
    let mut profiles: Vec<_> = entry.mig_devices.iter().collect();
    profiles.sort_by(|left, right| left.written.cmp(&right.written));
    if profiles.is_empty() {
        fields.push("\"mig-devices\": {}".to_owned());
    } else {
        let profiles: Vec<String> = profiles
            .iter()
            .map(|profile| format!("          {}: {}", json_text(&profile.written), profile.count))
            .collect();
        fields.push(format!("\"mig-devices\": {{\n{}\n        }}", profiles.join(",\n")));
    }
    let fields: Vec<String> = fields.iter().map(|field| format!("        {field}")).collect();
    format!("      {{\n{}\n      }}", fields.join(",\n"))
}

fn json_list(items: &[String]) -> String {
    if items.is_empty() {
        return "[]".to_owned();
    }
    let items: Vec<String> = items.iter().map(|item| format!("          {item}")).collect();
    format!("[\n{}\n        ]", items.join(",\n"))
}

fn json_text(text: &str) -> String {
    let mut json = String::new();
    write_json_string(text, &mut json);
    json
}
