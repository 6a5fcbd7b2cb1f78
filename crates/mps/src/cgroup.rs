//! A cgroup of their own for MPS daemons, outside the one that is killed with the agent's container.
//!
//! A runtime ends a container by killing every process in its cgroup, whoever started it and whatever its process group
//! is. A daemon that goes with the agent takes the GPU state of all its clients along.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where MPS daemons live among the machine's cgroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupHome {
    /// The machine's own cgroup file systems, such as `/sys/fs/cgroup`, or where a container has them mounted.
    pub root: PathBuf,
    /// The cgroup below each of them. All daemons share it; it is made when needed and has no limits.
    pub name: String,
}

/// What becomes of a daemon that could not be moved.
const CONSEQUENCE: &str = "MPS clients would be cut off when the agent's container restarts";

/// The number of the second version among the hierarchies of a process; those of the first have names.
const UNIFIED: &str = "";

impl CgroupHome {
    /// The usual name below a root.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        CgroupHome { root: root.into(), name: "carve-mps".to_owned() }
    }

    /// Moves a process there in every hierarchy, and says which it could not be moved in and why. Does not fail: a
    /// daemon that may be cut off later still serves now.
    pub(crate) fn take_in(&self, process: u32) -> Vec<String> {
        let hierarchies = self.hierarchies();
        if hierarchies.is_empty() {
            return vec![format!(
                "{} holds no cgroups; mount the machine's /sys/fs/cgroup there, or {CONSEQUENCE}",
                self.root.display()
            )];
        }
        let mut remarks = Vec::new();
        for hierarchy in hierarchies {
            if let Err(error) = self.enter(&hierarchy, process) {
                let path = hierarchy.join(&self.name);
                let path = path.display();
                remarks.push(format!("the MPS daemon could not be moved into {path} ({error}); {CONSEQUENCE}"));
            }
        }
        if remarks.is_empty() {
            remarks.extend(self.look_after(process));
        }
        remarks
    }

    /// The root itself with cgroups of the second version; with those of the first, or both, what is mounted below.
    fn hierarchies(&self) -> Vec<PathBuf> {
        if self.root.join("cgroup.controllers").exists() {
            return vec![self.root.clone()];
        }
        let folders = fs::read_dir(&self.root).into_iter().flatten().flatten().map(|entry| entry.path());
        // Hierarchies of several controllers have a link under the name of each.
        let mut found: Vec<PathBuf> = folders
            .filter(|folder| folder.join("cgroup.procs").exists())
            .map(|folder| folder.canonicalize().unwrap_or(folder))
            .collect();
        found.sort();
        found.dedup();
        found
    }

    fn enter(&self, hierarchy: &Path, process: u32) -> io::Result<()> {
        let home = hierarchy.join(&self.name);
        fs::create_dir_all(&home)?;
        // In the first version a new cgroup may use no processor and no memory until it is told which.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if let Ok(own) = fs::read_to_string(home.join(file))
                && own.trim().is_empty()
                && let Ok(all) = fs::read_to_string(hierarchy.join(file))
            {
                put(&home.join(file), all.trim())?;
            }
        }
        put(&home.join("cgroup.procs"), &process.to_string())
    }

    /// Looks whether the move led out of this process's own cgroups. The root may be the container's view of them, where
    /// every move stays inside.
    fn look_after(&self, process: u32) -> Option<String> {
        let read = |whose: &str| fs::read_to_string(format!("/proc/{whose}/cgroup")).unwrap_or_default();
        let inside = still_inside(&read("self"), &read(&process.to_string()), &read("1"));
        (!inside.is_empty()).then(|| {
            let names: Vec<&str> =
                inside.iter().map(|name| if *name == UNIFIED { "unified" } else { name }).collect();
            format!(
                "the MPS daemon is still inside the agent's own cgroup ({}), because {} is the container's view; mount \
                 the machine's /sys/fs/cgroup there, or {CONSEQUENCE}",
                names.join(", "),
                self.root.display()
            )
        })
    }
}

/// Writes into a file that must be there already, as those of cgroups are.
fn put(file: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(file)?.write_all(text.as_bytes())
}

/// Path of a process in each hierarchy, from the text of `/proc/PID/cgroup`.
fn paths(text: &str) -> BTreeMap<&str, &str> {
    let line = |line: &'_ str| -> Option<(usize, usize)> {
        let (_, rest) = line.split_once(':')?;
        let (name, _) = rest.split_once(':')?;
        Some((line.len() - rest.len(), name.len()))
    };
    text.lines()
        .filter_map(|whole| {
            let (start, length) = line(whole)?;
            Some((whole.get(start..start + length)?, whole.get(start + length + 1..)?))
        })
        .collect()
}

/// Hierarchies in which a daemon is in the agent's own cgroup or below it, from the texts of `/proc/PID/cgroup` of the
/// agent, of the daemon and of the machine's first process.
fn still_inside<'a>(agent: &'a str, daemon: &'a str, first: &'a str) -> Vec<&'a str> {
    let (daemon, first) = (paths(daemon), paths(first));
    let inside = |(name, own): (&'a str, &'a str)| {
        let there = daemon.get(name)?;
        // Paths are told relative to the root that this process can see; what is outside of it begins so.
        let outside = |path: &str| path == "/.." || path.starts_with("/../");
        let is_inside = if outside(there) {
            false
        } else if own == "/" {
            // At the top of the machine nobody is killed with the agent; at the top of a container's view everybody is.
            first.get(name).is_some_and(|path| outside(path))
        } else {
            *there == own || there.strip_prefix(own).is_some_and(|rest| rest.starts_with('/'))
        };
        is_inside.then_some(name)
    };
    paths(agent).into_iter().filter_map(inside).collect()
}
