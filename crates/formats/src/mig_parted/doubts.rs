//! What mig-parted accepts without a word although it can mean nothing good.

use super::{ConfigEntry, Devices, MigPartedConfig};
use crate::diagnostic::{At, Finding, Place, Report};
use crate::kubernetes_yaml::Node;
use carve_gpu_model::PciId;

/// Adds the warnings for a config that was accepted.
pub(super) fn check(config: &MigPartedConfig, document: &Node, report: &mut Report) {
    if config.configs.is_empty() {
        Finding::warning(
            &Place::root(document),
            "this file names no config, so nothing can be applied from it",
        )
        .hint("add 'mig-configs:' with at least one config")
        .report(report);
    }
    for (name, entries) in &config.configs {
        for (index, entry) in entries.iter().enumerate() {
            let doubt = Doubt { document, path: format!("mig-configs.{name}[{index}]"), at: entry.at };
            check_entry(entry, &doubt, report);
            // One is enough to say so, and keeps a long list from filling the screen.
            let mut earlier = entries.iter().enumerate().take(index);
            let _ =
                earlier.any(|(other_index, other)| check_overlap(entry, other, other_index, &doubt, report));
        }
    }
}

/// Where the entry stands that is doubted.
struct Doubt<'a> {
    document: &'a Node,
    path: String,
    at: At,
}

impl Doubt<'_> {
    fn warn(&self, field: &str, at: At, message: String, hint: &str, report: &mut Report) {
        let path = if field.is_empty() { self.path.clone() } else { format!("{}.{field}", self.path) };
        let place = Place { node: self.document, path };
        let at = at.0.or(self.at.0).unwrap_or(self.document.at);
        Finding::warning(&place, message).at(at).hint(hint).report(report);
    }
}

fn check_entry(entry: &ConfigEntry, doubt: &Doubt<'_>, report: &mut Report) {
    for filter in entry.filter.iter().filter(|filter| !is_filter(filter)) {
        doubt.warn(
            "device-filter",
            At::default(),
            format!("'{filter}' is no PCI id, so no GPU passes this filter"),
            "write 0xDDDDVVVV (device, vendor), optionally with ':0xSSSSVVVV' for the subsystem",
            report,
        );
    }
    if let Devices::Listed(indices) = &entry.devices {
        if indices.is_empty() {
            doubt.warn(
                "devices",
                At::default(),
                "this entry selects no GPU".to_owned(),
                "write 'devices: all' or name GPU indices",
                report,
            );
        }
        for index in indices.iter().filter(|index| **index < 0) {
            doubt.warn(
                "devices",
                At::default(),
                format!("no GPU has the index {index}"),
                "GPU indices count from 0",
                report,
            );
        }
    }
    for profile in entry.mig_devices.iter().filter(|profile| profile.count == 0) {
        doubt.warn(
            "mig-devices",
            profile.at,
            format!("{}: 0 creates nothing, but mig-parted's assert then never holds", profile.written),
            "remove the line",
            report,
        );
    }
}

fn check_overlap(
    entry: &ConfigEntry,
    other: &ConfigEntry,
    index: usize,
    doubt: &Doubt<'_>,
    report: &mut Report,
) -> bool {
    let same_filter = entry.filter.is_empty()
        || other.filter.is_empty()
        || entry.filter.iter().any(|filter| other.filter.iter().any(|o| o.eq_ignore_ascii_case(filter)));
    let shared = match (&entry.devices, &other.devices) {
        (Devices::All, Devices::All) => Some("every GPU".to_owned()),
        (Devices::Listed(indices), Devices::All) | (Devices::All, Devices::Listed(indices)) => {
            indices.iter().find(|index| **index >= 0).map(|index| format!("GPU {index}"))
        }
        (Devices::Listed(left), Devices::Listed(right)) => left
            .iter()
            .find(|index| **index >= 0 && right.contains(index))
            .map(|index| format!("GPU {index}")),
    };
    let Some(shared) = shared.filter(|_| same_filter) else { return false };
    if entry.mig_enabled == other.mig_enabled && entry.mig_devices == other.mig_devices {
        return false;
    }
    doubt.warn(
        "",
        entry.at,
        format!("this entry and entry [{index}] can both select {shared} and ask for different things"),
        "entries do not override each other: give each GPU to one entry only",
        report,
    );
    true
}

/// `0xDDDDVVVV`, or two of them with a colon for a certain subsystem.
fn is_filter(text: &str) -> bool {
    let is_id = |id: &str| id.parse::<PciId>().is_ok();
    match text.split_once(':') {
        Some((device, subsystem)) => is_id(device) && is_id(subsystem),
        None => is_id(text),
    }
}
