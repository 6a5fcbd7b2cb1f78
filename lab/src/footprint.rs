//! What the lab changes on the machine outside its namespaces, and how it is put back: sysctls and cgroups.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Kernel settings that kubelet changes for the whole machine.
const SYSCTLS: &[&str] = &["vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops"];

/// The file in which they are written down.
const SAVED: &str = "sysctls";

/// Where cgroups are mounted.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Writes down the kernel settings as they are, or as they were before a lab that runs already.
pub(crate) fn save(folder: &Path, other: Option<&Path>) -> Result<()> {
    if let Some(known) = other.and_then(|other| fs::read_to_string(other.join(SAVED)).ok()) {
        return Ok(fs::write(folder.join(SAVED), known)?);
    }
    let mut saved = String::new();
    for name in SYSCTLS {
        let path = Path::new("/proc/sys").join(name);
        let value = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        saved.push_str(&format!("{name} {}\n", value.trim()));
    }
    fs::write(folder.join(SAVED), saved)?;
    Ok(())
}

/// Puts the kernel settings back.
pub(crate) fn restore(folder: &Path) -> Result<()> {
    let saved = fs::read_to_string(folder.join(SAVED)).unwrap_or_default();
    for (name, value) in saved.lines().filter_map(|line| line.split_once(' ')) {
        let path = Path::new("/proc/sys").join(name);
        if fs::read_to_string(&path).is_ok_and(|now| now.trim() != value) {
            fs::write(&path, value).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

/// The mounted hierarchies of the first version, or the one of the second.
fn hierarchies() -> Vec<PathBuf> {
    let root = PathBuf::from(CGROUPS);
    if root.join("cgroup.controllers").exists() {
        return vec![root];
    }
    let entries = fs::read_dir(&root).into_iter().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.is_dir() && !path.is_symlink() && path.file_name().is_some_and(|name| name != "unified")
        })
        .collect();
    found.sort();
    found
}

/// Makes the cgroup under which a node's pods live.
pub(crate) fn make_cgroup(name: &str) -> Result<()> {
    for hierarchy in hierarchies() {
        let group = hierarchy.join(name);
        fs::create_dir_all(&group).with_context(|| group.display().to_string())?;
        // A cpuset starts empty, and nothing runs in an empty one.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if let Ok(value) = fs::read_to_string(hierarchy.join(file))
                && group.join(file).exists()
            {
                let _ = fs::write(group.join(file), value.trim());
            }
        }
    }
    Ok(())
}

/// Takes the cgroup away, children first. Processes that were just killed may hold it for a moment.
pub(crate) fn remove_cgroup(name: &str) -> bool {
    let give_up = Instant::now() + Duration::from_secs(5);
    loop {
        let mut hierarchies = hierarchies();
        hierarchies.push(Path::new(CGROUPS).join("unified"));
        let left: Vec<PathBuf> =
            hierarchies.iter().map(|hierarchy| hierarchy.join(name)).filter(|group| group.exists()).collect();
        if left.is_empty() {
            return true;
        }
        for group in &left {
            remove_tree(group);
        }
        if Instant::now() > give_up {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Only folders can be removed in a cgroup, from the leaves up.
fn remove_tree(group: &Path) {
    for child in fs::read_dir(group).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())) {
        if child.is_dir() {
            remove_tree(&child);
        }
    }
    let _ = fs::remove_dir(group);
}

#[cfg(test)]
mod tests {
    use super::{SAVED, save};
    use std::fs;

    #[test]
    fn a_second_lab_knows_how_things_were_before_the_first() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        save(first.path(), None).unwrap();
        let real = fs::read_to_string(first.path().join(SAVED)).unwrap();
        assert_eq!(real.lines().count(), super::SYSCTLS.len());
        fs::write(first.path().join(SAVED), "vm/overcommit_memory 7\n").unwrap();
        save(second.path(), Some(first.path())).unwrap();
        assert_eq!(fs::read_to_string(second.path().join(SAVED)).unwrap(), "vm/overcommit_memory 7\n");
    }
}
