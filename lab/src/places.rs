//! Where things are: what is built once and kept, and what one run writes.

use std::path::{Path, PathBuf};

/// The folders of the lab.
#[derive(Debug, Clone)]
pub struct Places {
    cache: PathBuf,
}

impl Places {
    /// Places under `~/.cache/carve/lab` (or `XDG_CACHE_HOME`).
    pub fn usual() -> Self {
        let variable =
            |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let base = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
        Places { cache: base.unwrap_or_else(std::env::temp_dir).join("carve/lab") }
    }

    /// Everything that outlives a run.
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// What a run writes; gone after `down`. Not under /run, which the lab covers with a tmpfs of its own.
    pub fn run(&self) -> PathBuf {
        self.cache.join("run")
    }
}
