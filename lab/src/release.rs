//! The Kubernetes releases the lab knows, and what each is made of.

use anyhow::{Result, bail};

/// One release of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// What people type: `1.36`.
    pub name: &'static str,
    /// Version of the main Go module.
    pub version: &'static str,
    /// Version of the staging modules.
    pub staging: &'static str,
    /// Staging modules that the default release has and this one does not.
    pub(crate) absent: &'static [&'static str],
}

const RELEASES: &[Release] = &[
    Release { name: "1.36", version: "v1.36.4", staging: "v0.36.4", absent: &[] },
    Release { name: "1.35", version: "v1.35.4", staging: "v0.35.4", absent: &["cri-streaming", "streaming"] },
];

impl Release {
    /// The release the tests run on.
    pub const DEFAULT: Release = RELEASES[0];

    /// The release with a name such as `1.36`.
    pub fn named(name: &str) -> Result<Self> {
        match RELEASES.iter().find(|release| release.name == name.trim_start_matches('v')) {
            Some(release) => Ok(*release),
            None => {
                let known: Vec<&str> = RELEASES.iter().map(|release| release.name).collect();
                bail!("the lab does not know Kubernetes {name}; it knows {}", known.join(", "))
            }
        }
    }

    /// `1` and `36`, as the version endpoint tells them.
    pub(crate) fn numbers(self) -> (&'static str, &'static str) {
        self.name.split_once('.').unwrap_or((self.name, ""))
    }
}
