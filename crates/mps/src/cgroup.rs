//! A cgroup of their own for MPS daemons, outside the one that is killed with the agent's container.
//!
//! A runtime ends a container by killing every process in its cgroup, whoever started it and whatever its process group
//! is. A daemon that goes with the agent takes the GPU state of all its clients along.

use rustix::io::Errno;
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

/// How often it is tried to move a daemon into a cgroup that is there and then is not.
const TRIES: u32 = 100;

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
                remarks
                    .push(format!("the MPS daemon could not be moved into {path} ({error}); {CONSEQUENCE}"));
            }
        }
        if remarks.is_empty() {
            remarks.extend(self.look_after(process));
        }
        remarks
    }

    /// Takes the cgroup away in every hierarchy; where a daemon still is in it, the kernel keeps it.
    pub fn remove(&self) {
        for hierarchy in self.hierarchies() {
            let _ = fs::remove_dir(hierarchy.join(&self.name));
        }
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
        // Another agent that leaves the machine takes the cgroup away while nobody is in it, also right after it was made here.
        let taken_away = |error: &io::Error| {
            error.kind() == io::ErrorKind::NotFound || Errno::from_io_error(error) == Some(Errno::NODEV)
        };
        let mut tries = 1..TRIES;
        loop {
            match self.try_to_enter(hierarchy, process) {
                Err(error) if taken_away(&error) && tries.next().is_some() => {}
                done => return done,
            }
        }
    }

    fn try_to_enter(&self, hierarchy: &Path, process: u32) -> io::Result<()> {
        let home = hierarchy.join(&self.name);
        fs::create_dir_all(&home)?;
        // In the first version a new cgroup may use no processor and no memory until it is told which.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if let Ok(own) = fs::read_to_string(home.join(file))
                && own.trim().is_empty()
                && let Ok(all) = fs::read_to_string(hierarchy.join(file))
            {
                // If that fails, so does the move, and says so.
                let _ = put(&home.join(file), all.trim());
            }
        }
        put(&home.join("cgroup.procs"), &process.to_string())
    }

    /// Looks whether the move led out of this process's own cgroups. The root may be the container's view of them, where
    /// every move stays inside.
    fn look_after(&self, process: u32) -> Option<String> {
        let read = |whose: &str| fs::read_to_string(format!("/proc/{whose}/cgroup")).unwrap_or_default();
        let (agent, daemon, first) = (read("self"), read(&process.to_string()), read("1"));
        let inside = still_inside(&agent, &daemon, &first);
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
    let line = |line| {
        let mut fields = str::splitn(line, 3, ':').skip(1);
        Some((fields.next()?, fields.next()?))
    };
    text.lines().filter_map(line).collect()
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

#[cfg(test)]
mod tests {
    use super::{CgroupHome, still_inside};
    use std::path::Path;

    const POD: &str = "/kubepods.slice/kubepods-pod1.slice/cri-containerd-2.scope";

    #[test]
    fn a_daemon_below_the_agents_cgroup_is_found_out() {
        let inside = |agent: &str, daemon: &str, first: &str| -> Vec<String> {
            let text = |path: &str| format!("0::{path}\n");
            let (agent, daemon, first) = (text(agent), text(daemon), text(first));
            still_inside(&agent, &daemon, &first).into_iter().map(str::to_owned).collect()
        };
        let yes = vec![String::new()];
        // With the machine's own view: moved out, not moved, moved below, and a name that only begins alike.
        assert!(inside(POD, "/carve-mps", "/init.scope").is_empty());
        assert_eq!(inside(POD, POD, "/init.scope"), yes);
        assert_eq!(inside(POD, &format!("{POD}/carve-mps"), "/init.scope"), yes);
        assert!(inside(POD, &format!("{POD}2"), "/init.scope").is_empty());
        // With a container's view, where the agent is at the top of what it sees.
        assert_eq!(inside("/", "/carve-mps", "/../../../init.scope"), yes);
        assert!(inside("/", "/../../../carve-mps", "/../../../init.scope").is_empty());
        // On a machine without containers.
        assert!(inside("/", "/carve-mps", "/").is_empty());
        assert!(inside("/", "/", "/").is_empty());
    }

    #[test]
    fn hierarchies_of_the_first_version_are_told_one_by_one() {
        let agent = format!("4:memory:{POD}\n3:cpu,cpuacct:{POD}\n1:name=systemd:{POD}\n0::/\n");
        let daemon = format!("4:memory:/carve-mps\n3:cpu,cpuacct:{POD}/x\n1:name=systemd:{POD}\n0::/\n");
        assert_eq!(still_inside(&agent, &daemon, "0::/\n"), ["cpu,cpuacct", "name=systemd"]);
    }

    #[test]
    fn what_can_not_be_done_is_told_with_its_consequence() {
        let folder = tempfile::tempdir().unwrap();
        let home = CgroupHome::new(folder.path());
        let remarks = home.take_in(1);
        assert_eq!(remarks.len(), 1);
        assert!(remarks[0].contains("holds no cgroups") && remarks[0].contains("cut off"), "{remarks:?}");

        // Folders that look like hierarchies and are none: each is named, and one by its two names only once.
        for name in ["devices", "cpu,cpuacct"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            std::fs::write(folder.path().join(name).join("cgroup.procs"), "").unwrap();
        }
        std::os::unix::fs::symlink("cpu,cpuacct", folder.path().join("cpu")).unwrap();
        std::fs::create_dir(folder.path().join("other")).unwrap();
        let remarks = home.take_in(1);
        assert_eq!(remarks.len(), 2, "{remarks:?}");
        assert!(remarks[0].contains("cpu,cpuacct/carve-mps (No such file"), "{remarks:?}");
        assert!(remarks.iter().all(|remark| remark.contains("MPS clients would be cut off")), "{remarks:?}");

        std::fs::write(folder.path().join("cgroup.controllers"), "").unwrap();
        let remarks = home.take_in(1);
        assert_eq!(remarks.len(), 1, "the second version is one hierarchy: {remarks:?}");
        assert!(Path::new(folder.path()).join("carve-mps").is_dir());
    }
}
