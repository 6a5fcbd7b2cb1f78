//! Reads a mig-parted config, refusing what mig-parted refuses, in its words beside ours.

use super::{ConfigEntry, Devices, MigPartedConfig, WantedProfile, doubts};
use crate::diagnostic::{At, Finding, Parsed, Place, Report};
use crate::go_json::{self, Object, cannot_unmarshal, found};
use crate::kubernetes_yaml::{self, Node, Value};
use crate::suggestion::did_you_mean;
use crate::yaml_print::natural_order;
use carve_gpu_model::ProfileName;

const RAW_MAP: &str = "Go value of type map[string]json.RawMessage";
const ENTRY_FIELDS: [&str; 4] = ["device-filter", "devices", "mig-enabled", "mig-devices"];

impl MigPartedConfig {
    /// Reads the text of a config file.
    pub fn parse(text: &str) -> Parsed<Self> {
        match kubernetes_yaml::parse(text) {
            Ok(node) => Self::from_node(&node),
            Err(error) => {
                let mut report = Report::default();
                report.syntax(error);
                report.finish(None)
            }
        }
    }

    /// Reads a document that was parsed already.
    pub fn from_node(node: &Node) -> Parsed<Self> {
        let mut report = Report::default();
        let place = Place::root(node);
        // An empty document never reaches mig-parted's own checks.
        let config =
            if place.is_null() { Some(MigPartedConfig::default()) } else { read_config(&place, &mut report) };
        if let Some(config) = &config
            && !report.has_errors()
        {
            doubts::check(config, node, &mut report);
        }
        report.finish(config)
    }
}

fn read_config(place: &Place<'_>, report: &mut Report) -> Option<MigPartedConfig> {
    let object = go_json::object(place, RAW_MAP, report)?;
    check_version(&object, report)?;
    let mut config = MigPartedConfig::default();
    for (key, field) in object.entries() {
        match key.text.as_str() {
            "version" => {}
            "mig-configs" => read_configs(&field, &mut config, report),
            other => {
                Finding::error(place, format!("'{other}' is no field of a mig-parted config"))
                    .at(key.at)
                    .hint(did_you_mean(other, ["version", "mig-configs"]).unwrap_or_else(|| {
                        "only 'version' and 'mig-configs' may stand at the top".to_owned()
                    }))
                    .upstream(format!("unexpected field: {other}"))
                    .report(report)
            }
        }
    }
    Some(config)
}

fn check_version(object: &Object<'_>, report: &mut Report) -> Option<()> {
    let version = match object.get("version") {
        Some(field) => {
            let version = go_json::text(&field, "Go value of type string", report)?;
            if version == "v1" {
                return Some(());
            }
            version
        }
        None if object.entries().next().is_some() => {
            Finding::error(&object.place, "there is no 'version'")
                .hint("put 'version: v1' at the top")
                .upstream("unable to parse with missing 'version' field")
                .report(report);
            return None;
        }
        None => String::new(),
    };
    let place = object.get("version").unwrap_or_else(|| object.place.clone());
    Finding::error(&place, format!("version '{version}' is not known; only 'v1' is"))
        .hint("write 'version: v1'")
        .upstream(format!("unknown version: {version}"))
        .report(report);
    None
}

fn read_configs(place: &Place<'_>, config: &mut MigPartedConfig, report: &mut Report) {
    let Some(object) = go_json::object(place, "Go value of type map[string]v1.MigConfigSpecSlice", report)
    else {
        return;
    };
    if object.entries().next().is_none() {
        Finding::error(place, "'mig-configs' holds no config")
            .hint("name at least one, such as 'all-disabled'")
            .upstream("at least one entry in 'mig-configs' is required")
            .report(report);
    }
    for (key, field) in object.entries() {
        let Some(items) = go_json::items(&field, "Go value of type v1.MigConfigSpecSlice", report) else {
            continue;
        };
        if items.is_empty() {
            Finding::error(&field, format!("config '{}' has no entry", key.text))
                .at(key.at)
                .hint("give it a list with at least one entry: '- devices: all'")
                .upstream(format!("at least one entry in '{}' is required", key.text))
                .report(report);
        }
        let entries = items.iter().filter_map(|item| read_entry(item, report)).collect();
        config.configs.insert(key.text.clone(), entries);
    }
}

fn read_entry(place: &Place<'_>, report: &mut Report) -> Option<ConfigEntry> {
    let object = go_json::object(place, RAW_MAP, report)?;
    let mut complete = true;
    for required in ["devices", "mig-enabled"] {
        if object.get(required).is_none() {
            let near = object.entries().find(|(key, _)| {
                !ENTRY_FIELDS.contains(&key.text.as_str())
                    && crate::suggestion::nearest(&key.text, [required]).is_some()
            });
            Finding::error(place, format!("this entry has no '{required}'"))
                .maybe_hint(near.map(|(key, _)| format!("'{}' should be '{required}'", key.text)))
                .upstream(format!("missing required field: {required}"))
                .report(report);
            complete = false;
        }
    }
    let mut filter = Some(Vec::new());
    let mut devices = None;
    let mut mig_enabled = None;
    let mut mig_devices = Some(None);
    for (key, field) in object.entries() {
        match key.text.as_str() {
            "device-filter" => filter = read_filter(&field, report),
            "devices" => devices = read_devices(&field, report),
            "mig-enabled" => mig_enabled = go_json::boolean(&field, "Go value of type bool", report),
            "mig-devices" => mig_devices = read_mig_devices(&field, report),
            other => {
                Finding::error(place, format!("'{other}' is no field of an entry"))
                    .at(key.at)
                    .hint(did_you_mean(other, ENTRY_FIELDS).unwrap_or_else(|| {
                        format!("an entry may have {}", ENTRY_FIELDS.map(|f| format!("'{f}'")).join(", "))
                    }))
                    .upstream(format!("unexpected field: {other}"))
                    .report(report);
                complete = false;
            }
        }
    }
    if !complete {
        return None;
    }
    let (filter, devices, mig_enabled, mig_devices) = (filter?, devices?, mig_enabled?, mig_devices?);
    match (mig_enabled, &mig_devices) {
        (true, None) => Finding::error(place, "MIG is enabled here, but there are no 'mig-devices'")
            .hint("write 'mig-devices: {}' to enable MIG without creating any device")
            .upstream("missing required field 'mig-devices' when 'mig-enabled' is true")
            .report(report),
        (false, Some(devices)) if !devices.is_empty() => {
            Finding::error(place, "MIG is disabled here, but there are 'mig-devices'")
                .hint("set 'mig-enabled: true' or remove 'mig-devices'")
                .upstream("MIG devices included when 'mig-enabled' is false")
                .report(report);
        }
        _ => {}
    }
    let at = At::from(place.node.at);
    Some(ConfigEntry { filter, devices, mig_enabled, mig_devices: mig_devices.unwrap_or_default(), at })
}

fn read_filter(place: &Place<'_>, report: &mut Report) -> Option<Vec<String>> {
    match &place.node.value {
        Value::Null => return Some(Vec::new()),
        // An empty text filters nothing.
        Value::String(text) if text.is_empty() => return Some(Vec::new()),
        Value::String(text) => return Some(vec![text.clone()]),
        _ => {}
    }
    let mut attempt = Report::default();
    let list = go_json::items(place, "Go value of type []string", &mut attempt).and_then(|items| {
        let texts = items
            .iter()
            .enumerate()
            .map(|(index, item)| go_json::text(item, &format!(".{index} of type string"), &mut attempt));
        texts.collect::<Option<Vec<_>>>()
    });
    if list.is_none() {
        one_or_list(place, "a PCI id such as '0x20B010DE', or a list of them", attempt, report);
    }
    list
}

fn read_devices(place: &Place<'_>, report: &mut Report) -> Option<Devices> {
    let word = match &place.node.value {
        Value::Null => Some(String::new()),
        Value::String(text) => Some(text.clone()),
        _ => None,
    };
    if let Some(word) = word {
        if word == "all" {
            return Some(Devices::All);
        }
        Finding::error(place, format!("'devices' is '{word}', but the only word it may be is 'all'"))
            .hint("write 'devices: all' or a list of GPU indices such as 'devices: [0, 1]'")
            .upstream(format!("invalid string input for 'devices': {word}"))
            .report(report);
        return None;
    }
    let mut attempt = Report::default();
    let list = go_json::items(place, "Go value of type []int", &mut attempt).and_then(|items| {
        let indices = items
            .iter()
            .enumerate()
            .map(|(index, item)| go_json::integer(item, &format!(".{index} of type int"), &mut attempt));
        indices.collect::<Option<Vec<_>>>()
    });
    if list.is_none() {
        one_or_list(place, "'all' or a list of GPU indices such as [0, 1]", attempt, report);
    }
    list.map(Devices::Listed)
}

/// The error for a field that is neither of the two things it may be: mig-parted tries both and prints both refusals.
fn one_or_list(place: &Place<'_>, expected: &str, attempt: Report, report: &mut Report) {
    let as_text = cannot_unmarshal(&place.node.value, "Go value of type string");
    let as_list = attempt.finish::<()>(None).diagnostics.into_iter().next();
    let (at, as_list) = match as_list {
        Some(first) => (first.at, first.upstream.unwrap_or_default()),
        None => (None, String::new()),
    };
    Finding::error(place, format!("expected {expected}, found {}", found(&place.node.value)))
        .at(at.unwrap_or(place.node.at))
        .upstream(format!("({as_text}, {as_list})"))
        .report(report);
}

/// `Some(None)` for null: it counts as not written. `None` if it can not be read.
fn read_mig_devices(place: &Place<'_>, report: &mut Report) -> Option<Option<Vec<WantedProfile>>> {
    let object = go_json::object(place, "Go value of type types.MigConfig", report)?;
    if place.is_null() {
        return Some(None);
    }
    let mut profiles = Vec::new();
    let mut readable = true;
    for (key, field) in object.entries() {
        let into = format!("Go struct field MigConfig.{} of type int", key.text);
        let Some(count) = go_json::integer(&field, &into, report) else {
            readable = false;
            continue;
        };
        let name = match key.text.parse::<ProfileName>() {
            Ok(name) => name,
            Err(error) => {
                Finding::error(&field, format!("'{}' is not a MIG profile name: {error}", key.text))
                    .at(key.at)
                    .hint("a name looks like 1g.5gb, 1c.3g.20gb or 1g.5gb+me")
                    .upstream(format!(
                        "error validating values in 'mig-devices' field: invalid format for '{}': {error}",
                        key.text
                    ))
                    .report(report);
                readable = false;
                continue;
            }
        };
        match u64::try_from(count) {
            Ok(count) => {
                profiles.push(WantedProfile { written: key.text.clone(), name, count, at: key.at.into() });
            }
            Err(_) => {
                Finding::error(&field, format!("{count} instances of {} can not be had", key.text))
                    .hint("write how many instances there shall be, or remove the line")
                    .upstream(format!(
                        "error validating values in 'mig-devices' field: invalid count for '{count}': <nil>"
                    ))
                    .report(report);
                readable = false;
            }
        }
    }
    if !readable {
        return None;
    }
    if !profiles.is_empty() && profiles.iter().all(|profile| profile.count == 0) {
        Finding::error(place, "every profile here has the count 0")
            .hint("write 'mig-devices: {}' for no devices at all")
            .upstream("error validating values in 'mig-devices' field: all counts for all MigProfiles are 0")
            .report(report);
        return None;
    }
    profiles.sort_by(|left, right| natural_order(&left.written, &right.written));
    Some(Some(profiles))
}
