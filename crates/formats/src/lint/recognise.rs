//! Which format a document is, by the keys at its top.

use super::keys;
use crate::go_json::found;
use crate::kubernetes_yaml::{Node, Value};
use crate::suggestion::nearest;

/// A format this crate can check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// A mig-parted config, v1.
    MigPartedConfig,
    /// A mig-parted hooks file, v1.
    MigPartedHooks,
    /// A mig-parted checkpoint, v1.
    MigPartedCheckpoint,
    /// A device-plugin config, v1.
    DevicePluginConfig,
}

impl Format {
    /// What people call it.
    pub fn title(self) -> &'static str {
        match self {
            Format::MigPartedConfig => "mig-parted config",
            Format::MigPartedHooks => "mig-parted hooks",
            Format::MigPartedCheckpoint => "mig-parted checkpoint",
            Format::DevicePluginConfig => "device-plugin config",
        }
    }
}

/// The answer to what a document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recognised {
    Format(Format),
    /// Nothing in it.
    Empty,
    /// Nothing in it but a version.
    VersionOnly,
    /// Something else.
    Nothing,
}

/// The keys that give a format away.
const MARKS: [(&str, Format); 7] = [
    ("mig-configs", Format::MigPartedConfig),
    ("hooks", Format::MigPartedHooks),
    ("MigState", Format::MigPartedCheckpoint),
    ("sharing", Format::DevicePluginConfig),
    ("flags", Format::DevicePluginConfig),
    ("resources", Format::DevicePluginConfig),
    ("imex", Format::DevicePluginConfig),
];

/// Looks for a key that gives the format away, then for one that nearly does, so that a typo still gets its message.
pub(super) fn recognise(node: &Node) -> Recognised {
    let mapping = match &node.value {
        Value::Null => return Recognised::Empty,
        Value::Mapping(mapping) => mapping,
        _ => return Recognised::Nothing,
    };
    let keys = keys(node);
    let versioned = keys.iter().any(|key| key.eq_ignore_ascii_case("version"));
    if let Some((_, format)) = MARKS.iter().find(|(mark, _)| mapping.get(mark).is_some()) {
        // `resources` or `flags` among many other keys is somebody else's file.
        let known = keys.iter().filter(|key| MARKS.iter().any(|(mark, _)| mark == *key)).count();
        let foreign = *format == Format::DevicePluginConfig && !versioned && keys.len() > 2 * known;
        return if foreign { Recognised::Nothing } else { Recognised::Format(*format) };
    }
    match keys.as_slice() {
        [] => return Recognised::Empty,
        [only] if only.eq_ignore_ascii_case("version") => return Recognised::VersionOnly,
        _ => {}
    }
    // A slip of the pen is likely in a small file or one with a version, and a coincidence in any other.
    let near = keys.iter().filter(|_| versioned || keys.len() <= 3).find_map(|key| {
        let name = nearest(key, MARKS.iter().map(|(mark, _)| *mark))?;
        MARKS.iter().find(|(mark, _)| *mark == name)
    });
    match near {
        Some((_, format)) => Recognised::Format(*format),
        // With nothing but a version to go by: the device plugin takes such a file and ignores the rest of it.
        None if matches!(mapping.get("version"), Some(Node { value: Value::String(text), .. }) if text == "v1") => {
            Recognised::Format(Format::DevicePluginConfig)
        }
        None => Recognised::Nothing,
    }
}

/// Says what the document is instead.
pub(super) fn describe_unknown(node: &Node) -> String {
    let keys = keys(node);
    let seen = if keys.is_empty() {
        format!("it is {}", found(&node.value))
    } else {
        let shown: Vec<&str> = keys.iter().copied().take(5).collect();
        let more = if keys.len() > shown.len() { ", …" } else { "" };
        format!("it starts with the keys {}{more}", shown.join(", "))
    };
    format!(
        "this is YAML, but neither a mig-parted config (mig-configs:), nor mig-parted hooks (hooks:), nor a mig-parted \
         checkpoint (MigState), nor a device-plugin config (flags:, sharing:, resources: or imex:); {seen}"
    )
}
