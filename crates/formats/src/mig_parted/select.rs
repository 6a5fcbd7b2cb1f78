//! Which config of a file is meant, by mig-parted's rules.

use super::{ConfigEntry, MigPartedConfig};
use thiserror::Error;

/// No config can be chosen. The texts are mig-parted's own.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SelectError {
    /// Several configs and no name.
    #[error("missing required flag 'selected-config' when more than one config available")]
    Ambiguous,
    /// No config has that name (empty where none was asked for and there is none).
    #[error("selected mig-config not present: {0}")]
    NotPresent(String),
}

impl MigPartedConfig {
    /// The config with that name, or the only one where no name (or an empty one) is given.
    pub fn select(&self, name: Option<&str>) -> Result<(&str, &[ConfigEntry]), SelectError> {
        let wanted = name.unwrap_or_default();
        let found = if wanted.is_empty() {
            match self.configs.len() {
                0 | 1 => self.configs.iter().next(),
                _ => return Err(SelectError::Ambiguous),
            }
        } else {
            self.configs.get_key_value(wanted)
        };
        found
            .map(|(name, entries)| (name.as_str(), entries.as_slice()))
            .ok_or_else(|| SelectError::NotPresent(wanted.to_owned()))
    }
}
