//! The fields of the file, level by level, and what to say about one that stands where it is not read.

use crate::diagnostic::{Finding, Place, Report};
use crate::kubernetes_yaml::Key;
use crate::suggestion::nearest;

pub(super) const TOP: &[&str] = &["version", "flags", "resources", "sharing", "imex"];
pub(super) const FLAGS: &[&str] = &[
    "migStrategy",
    "failOnInitError",
    "mpsRoot",
    "nvidiaDriverRoot",
    "nvidiaDevRoot",
    "gdrcopyEnabled",
    "gdsEnabled",
    "mofedEnabled",
    "useNodeFeatureAPI",
    "deviceDiscoveryStrategy",
    "plugin",
    "gfd",
];
pub(super) const PLUGIN: &[&str] = &[
    "passDeviceSpecs",
    "deviceListStrategy",
    "deviceIDStrategy",
    "cdiAnnotationPrefix",
    "nvidiaCTKPath",
    "containerDriverRoot",
    "sharedDevicesAllocationPolicy",
];
pub(super) const GFD: &[&str] = &["oneshot", "noTimestamp", "sleepInterval", "outputFile", "machineTypeFile"];
pub(super) const RESOURCES: &[&str] = &["gpus", "mig"];
pub(super) const RULE: &[&str] = &["pattern", "name"];
pub(super) const SHARING: &[&str] = &["timeSlicing", "mps"];
pub(super) const REPLICATED: &[&str] = &["renameByDefault", "failRequestsGreaterThanOne", "resources"];
pub(super) const REPLICA: &[&str] = &["name", "rename", "devices", "replicas"];
pub(super) const IMEX: &[&str] = &["channelIDs", "required"];

/// Every level with its name for people, most specific names first.
const LEVELS: &[(&str, &[&str])] = &[
    ("sharing.timeSlicing (or sharing.mps)", REPLICATED),
    ("flags", FLAGS),
    ("flags.plugin", PLUGIN),
    ("flags.gfd", GFD),
    ("sharing", SHARING),
    ("imex", IMEX),
    ("the top of the file", TOP),
    ("an item of sharing.timeSlicing.resources", REPLICA),
    ("resources", RESOURCES),
];

/// NVIDIA's programs pass over fields they do not know. The value is then nowhere.
pub(super) fn warn_unknown(level: &Place<'_>, key: &Key, known: &[&str], report: &mut Report) {
    let name = key.text.as_str();
    let elsewhere = LEVELS.iter().find(|(_, fields)| *fields != known && fields.contains(&name));
    let hint = match (nearest(name, known.iter().copied()), elsewhere) {
        (_, Some((home, _))) => format!("it belongs under {home}"),
        (Some(near), None) => format!("did you mean '{near}'?"),
        (None, None) => {
            let near = LEVELS.iter().find_map(|(home, fields)| {
                nearest(name, fields.iter().copied())
                    .map(|near| format!("did you mean '{near}' under {home}?"))
            });
            near.unwrap_or_else(|| format!("known here: {}", known.join(", ")))
        }
    };
    Finding::warning(level, format!("'{name}' is not read here, so it has no effect"))
        .at(key.at)
        .hint(hint)
        .report(report);
}
