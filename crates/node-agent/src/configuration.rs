//! Which configuration holds: the newest good one.
//!
//! Named configurations come from a folder (a mounted ConfigMap) or from the API server; a label on the node chooses, a
//! SlicePolicy or a default stands in, and where nobody says anything the one called `default`, or the only one there is. A configuration
//! that does not read or can not be used is refused with its reason, and the one before stays in force.

use crate::options::{AgentOptions, ConfigSource};
use carve_cluster_api::{NodeView, names};
use carve_formats::{DevicePluginConfig, Severity};
use carve_slicing::{Settings, SettingsError};
use std::collections::BTreeMap;
use std::path::Path;

/// Named texts, or why there are none.
pub(crate) type Named = Result<BTreeMap<String, String>, String>;

/// A configuration as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// What it is called, for messages.
    pub(crate) title: String,
    /// Its text.
    pub(crate) text: String,
}

/// Why no configuration can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("{0}")]
    Unreadable(String),
    #[error(
        "the node's label {label} asks for configuration '{wanted}', which is not there; there are {known}"
    )]
    NoSuchName { label: String, wanted: String, known: String },
    #[error("the default configuration '{wanted}' is not there; there are {known}")]
    NoSuchDefault { wanted: String, known: String },
    #[error(
        "no configuration is chosen: the node has no label {label}, no default is set, none is called 'default', and \
         there are {count}"
    )]
    NoneChosen { label: String, count: usize },
    #[error("configuration {title}: {problem}")]
    Refused { title: String, problem: String },
    #[error("configuration {title}: {source}")]
    Unusable { title: String, source: SettingsError },
}

/// Finds the text of the configuration that should hold.
pub(crate) fn find(
    options: &AgentOptions,
    named: &Named,
    view: Option<&NodeView>,
) -> Result<Found, ConfigError> {
    let label = view.and_then(|view| view.labels.get(&options.config_label)).map(String::as_str);
    let policy = view.and_then(|view| view.annotations.get(names::POLICY_CONFIG)).map(|text| Found {
        title: format!("of a SlicePolicy (annotation {})", names::POLICY_CONFIG),
        text: text.clone(),
    });
    match (&options.config, policy) {
        (ConfigSource::Flags, Some(policy)) => Ok(policy),
        (ConfigSource::Flags, None) => {
            Ok(Found { title: "of the command line".to_owned(), text: String::new() })
        }
        (ConfigSource::File(path), _) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| ConfigError::Unreadable(format!("{}: {error}", path.display())))?;
            Ok(Found { title: path.display().to_string(), text })
        }
        (ConfigSource::Folder(_) | ConfigSource::ConfigMap { .. }, policy) => {
            let named = named.as_ref().map_err(|why| ConfigError::Unreadable(why.clone()))?;
            // What a person chose for this node by label wins over a policy, and a policy over what all nodes have.
            let chosen = label.is_some_and(|label| named.contains_key(label));
            match policy.filter(|_| !chosen) {
                Some(policy) => Ok(policy),
                None => choose(options, named, label),
            }
        }
    }
}

fn choose(
    options: &AgentOptions,
    named: &BTreeMap<String, String>,
    label: Option<&str>,
) -> Result<Found, ConfigError> {
    let known = || named.keys().cloned().collect::<Vec<_>>().join(", ");
    let found =
        |name: &str| named.get(name).map(|text| Found { title: format!("'{name}'"), text: text.clone() });
    if let Some(wanted) = label.filter(|label| !label.is_empty()) {
        return found(wanted).ok_or_else(|| ConfigError::NoSuchName {
            label: options.config_label.clone(),
            wanted: wanted.to_owned(),
            known: known(),
        });
    }
    if let Some(wanted) = options.default_config.as_deref().filter(|name| !name.is_empty()) {
        return found(wanted)
            .ok_or_else(|| ConfigError::NoSuchDefault { wanted: wanted.to_owned(), known: known() });
    }
    let only = || if named.len() == 1 { named.keys().next().and_then(|name| found(name)) } else { None };
    found("default")
        .or_else(only)
        .ok_or_else(|| ConfigError::NoneChosen { label: options.config_label.clone(), count: named.len() })
}

/// Reads a configuration and puts flags over it. Warnings come along.
pub(crate) fn read(
    options: &AgentOptions,
    found: &Found,
) -> Result<(Settings, DevicePluginConfig, Vec<String>), ConfigError> {
    let parsed = DevicePluginConfig::parse(&found.text);
    let texts = |severity: Severity| {
        let of = parsed.diagnostics.iter().filter(move |finding| finding.severity == severity);
        of.map(ToString::to_string).collect::<Vec<_>>()
    };
    // What NVIDIA's plugin ignores is no warning where it is honoured.
    let honoured = |warning: &String| {
        options.honour_choices && (warning.contains("ignores") || warning.contains("no effect"))
    };
    let warnings: Vec<String> =
        texts(Severity::Warning).into_iter().filter(|warning| !honoured(warning)).collect();
    let errors = texts(Severity::Error).join("; ");
    let Some(mut config) = parsed.value else {
        return Err(ConfigError::Refused { title: found.title.clone(), problem: errors });
    };
    options.overlay(&mut config);
    let settings = Settings::new(&config, options.honour_choices)
        .map_err(|source| ConfigError::Unusable { title: found.title.clone(), source })?;
    Ok((settings, config, warnings))
}

/// The named configurations of a folder. Names that start with a dot belong to the volume, not to people.
pub(crate) fn read_folder(folder: &Path) -> Named {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut named = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        // The links of a mounted ConfigMap lead to files.
        if name.starts_with('.') || !entry.path().is_file() {
            continue;
        }
        let text = std::fs::read_to_string(entry.path())
            .map_err(|error| format!("{}: {error}", entry.path().display()))?;
        named.insert(name, text);
    }
    Ok(named)
}
