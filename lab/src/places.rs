//! Where things are: what is built once and kept, and what one run writes.

use std::path::{Path, PathBuf};

/// Variable that names the lab which is meant, where several live side by side.
pub const NAMED: &str = "CARVE_LAB";

/// The folders of a lab.
#[derive(Debug, Clone)]
pub struct Places {
    cache: PathBuf,
    /// Of a lab beside the usual one.
    name: Option<String>,
}

impl Places {
    /// Places under `~/.cache/carve/lab` (or `XDG_CACHE_HOME`) of the lab that `CARVE_LAB` names, or of the one without a name.
    pub fn usual() -> Self {
        let name = std::env::var(NAMED).ok().filter(|name| !name.is_empty());
        Places { cache: cache(), name }
    }

    /// Places of a lab with a name, which lives beside the usual one.
    pub fn named(name: &str) -> Self {
        Places { cache: cache(), name: Some(name.to_owned()) }
    }

    /// Everything that outlives a run. All labs share it.
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// What a run writes; gone after `down`. Not under /run, which the lab covers with a tmpfs of its own.
    pub fn run(&self) -> PathBuf {
        self.cache.join(match &self.name {
            None => RUN.to_owned(),
            Some(name) => format!("{RUN}-{name}"),
        })
    }

    /// Where tests put files that nodes of this lab see.
    pub fn scratch(&self) -> PathBuf {
        let base = std::env::temp_dir();
        self.name.as_ref().map_or(base.clone(), |name| base.join(format!("carve-lab-{name}")))
    }

    /// What runs of all labs have written.
    pub(crate) fn runs(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.cache).into_iter().flatten();
        let of_a_run =
            |name: &str| name == RUN || name.strip_prefix(RUN).is_some_and(|rest| rest.starts_with('-'));
        entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(of_a_run))
            .collect()
    }
}

/// Name of the folder that a run writes, and how those of other labs begin.
const RUN: &str = "run";

fn cache() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    base.unwrap_or_else(std::env::temp_dir).join("carve/lab")
}
