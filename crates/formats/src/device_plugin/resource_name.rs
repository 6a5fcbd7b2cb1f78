//! Extended resource names as NVIDIA's programs form and check them.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A resource name with `nvidia.com/` in front.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceName(String);

const PREFIX: &str = "nvidia.com/";
const MAX_LENGTH: usize = 63;

/// A text that can not become a resource name. The texts are NVIDIA's own.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ResourceNameError {
    /// Too long with the prefix.
    #[error("fully-qualified resource name must be 63 characters or less: {0}")]
    TooLong(String),
    /// Not made of lower-case labels.
    #[error(
        "incorrect format for resource name '{0}': [a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
         characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used \
         for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')]"
    )]
    Format(String),
}

impl ResourceName {
    /// `nvidia.com/gpu`, what a whole GPU is called unless something else was asked for.
    pub fn gpu() -> Self {
        ResourceName(format!("{PREFIX}gpu"))
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part behind `nvidia.com/`.
    pub fn local(&self) -> &str {
        self.0.strip_prefix(PREFIX).unwrap_or(&self.0)
    }

    /// The name that replicas get by default. It is not checked again, so it may be too long, as in NVIDIA's plugin.
    pub fn shared(&self) -> ResourceName {
        ResourceName(format!("{}.shared", self.0))
    }
}

impl FromStr for ResourceName {
    type Err = ResourceNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let full = if text.starts_with(PREFIX) { text.to_owned() } else { format!("{PREFIX}{text}") };
        if full.len() > MAX_LENGTH {
            return Err(ResourceNameError::TooLong(full));
        }
        let name = ResourceName(full);
        if name.local().split('.').all(is_label) { Ok(name) } else { Err(ResourceNameError::Format(name.0)) }
    }
}

fn is_label(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    text.bytes().next().is_some_and(plain)
        && text.bytes().next_back().is_some_and(plain)
        && text.bytes().all(|b| plain(b) || b == b'-')
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
