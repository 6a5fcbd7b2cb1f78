//! What the kernel says about processes: who they are in their own pid namespace, when they began, and whose they are.

use carve_limiter_host::Owner;
use carve_usage::pod_of;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// What an MPS server is called, as far as the kernel keeps a name.
const MPS: &str = "nvidia-cuda-mps";

/// A process, as it writes itself down where it counts its use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    /// By its number in its own pid namespace.
    pub(super) owner: Owner,
    /// That namespace.
    pub(super) namespace: u64,
    /// When it was started, in ticks after the machine.
    pub(super) start: u64,
}

/// The kernel's folder about processes.
#[derive(Debug, Clone)]
pub(crate) struct Processes {
    root: PathBuf,
    /// UID of the pod that the agent runs in.
    own_pod: Option<String>,
}

/// The processes of some pid namespaces.
#[derive(Debug)]
pub(super) struct Census {
    own: Option<u64>,
    /// Whether processes of other namespaces than the agent's can be seen.
    pub(super) sees_others: bool,
    living: BTreeSet<(u64, u64)>,
}

impl Census {
    /// Whether a process lives, or may live: of one that could not be seen from here nothing is known.
    pub(super) fn may_live(&self, owner: Owner, namespace: u64) -> bool {
        let visible = namespace != 0 && (self.sees_others || self.own == Some(namespace));
        !visible || self.living.contains(&(namespace, owner.to_bits()))
    }
}

impl Processes {
    pub(crate) fn new(root: PathBuf, own_pod: Option<String>) -> Self {
        Processes { root, own_pod }
    }

    fn read(&self, pid: impl std::fmt::Display, file: &str) -> Option<String> {
        let bytes = fs::read(self.root.join(pid.to_string()).join(file)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn namespace(&self, pid: impl std::fmt::Display) -> Option<u64> {
        fs::metadata(self.root.join(pid.to_string()).join("ns/pid")).ok().map(|found| found.ino())
    }

    /// Who a process of this number is; none where there is none that lives.
    pub(super) fn identify(&self, pid: u32) -> Option<Identity> {
        let stat = Stat::read(&self.read(pid, "stat")?)?;
        let status = self.read(pid, "status")?;
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        let inside = numbers.split_whitespace().next_back()?.parse().ok()?;
        let namespace = self.namespace(pid)?;
        Some(Identity { owner: Owner::new(inside, stat.start), namespace, start: stat.start })
    }

    /// Whether the process that began then lives.
    pub(super) fn lives(&self, pid: u32, start: u64) -> bool {
        self.read(pid, "stat").and_then(|text| Stat::read(&text)).is_some_and(|stat| stat.start == start)
    }

    /// Whether there is a process of this number at all, dead ones that nobody has collected included.
    pub(super) fn knows(&self, pid: u32) -> bool {
        self.root.join(pid.to_string()).exists()
    }

    /// Who lives in these namespaces. `sees_others` is what an earlier one found.
    pub(super) fn census(&self, namespaces: &BTreeSet<u64>, sees_others: bool) -> Census {
        let mut census = Census { own: self.namespace("self"), sees_others, living: BTreeSet::new() };
        if namespaces.is_empty() {
            return census;
        }
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
            let Some(namespace) = self.namespace(pid) else { continue };
            census.sees_others |= census.own.is_some_and(|own| own != namespace);
            if namespaces.contains(&namespace)
                && let Some(found) = self.identify(pid)
            {
                census.living.insert((namespace, found.owner.to_bits()));
            }
        }
        census
    }

    /// What the kernel calls it. A process chooses that itself, so of what it chose only plain letters are kept.
    pub(super) fn name(&self, pid: u32) -> String {
        let name = self.read(pid, "comm").unwrap_or_default();
        name.trim_end().chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
    }

    /// Its list of cgroups.
    pub(crate) fn cgroups(&self, pid: u32) -> Option<String> {
        self.read(pid, "cgroup")
    }

    /// UID of its pod.
    pub(super) fn pod(&self, pid: u32) -> Option<String> {
        pod_of(&self.cgroups(pid)?)
    }

    /// Whether it belongs to the agent: of its pod, started by it, or the server of an MPS daemon, which may outlive its agent. A pod
    /// can give its processes any name, so a server is one outside of pods.
    pub(crate) fn is_ours(&self, pid: u32) -> bool {
        let pod = self.pod(pid);
        if pod.is_some() {
            return pod == self.own_pod;
        }
        self.name(pid).starts_with(MPS) || self.descends(pid)
    }

    fn descends(&self, pid: u32) -> bool {
        let own = std::process::id();
        let mut pid = pid;
        // No family is that old; the kernel's answers are not of one moment and could go in circles.
        for _ in 0..64 {
            if pid == own {
                return true;
            }
            match self.read(pid, "stat").and_then(|text| Stat::read(&text)) {
                Some(stat) if stat.parent > 1 => pid = stat.parent,
                _ => return false,
            }
        }
        false
    }
}

/// What is needed of `/proc/PID/stat`.
struct Stat {
    parent: u32,
    start: u64,
}

impl Stat {
    /// None for a process that has ended.
    fn read(text: &str) -> Option<Self> {
        // The name may contain anything, so fields are counted from its end.
        let mut fields = text[text.rfind(')')? + 1..].split_whitespace();
        if matches!(fields.next()?, "Z" | "X") {
            return None;
        }
        let parent = fields.next()?.parse().ok()?;
        let start = fields.nth(17)?.parse().ok()?;
        Some(Stat { parent, start })
    }
}

#[cfg(test)]
mod tests {
    use super::{Processes, Stat};
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    #[test]
    fn this_process_is_found_as_the_limiter_writes_it_down() {
        let processes = Processes::new(PathBuf::from("/proc"), None);
        let me = processes.identify(std::process::id()).expect("this process");
        assert_eq!(me.owner.start(), me.start & (u64::MAX >> 22));
        assert!(processes.lives(std::process::id(), me.start));
        assert!(!processes.lives(std::process::id(), me.start + 1));
        assert!(processes.is_ours(std::process::id()));
        let census = processes.census(&BTreeSet::from([me.namespace]), false);
        assert!(census.may_live(me.owner, me.namespace));
        let other = carve_limiter_host::Owner::new(me.owner.pid(), me.start + 1);
        assert!(!census.may_live(other, me.namespace), "in its own namespace the agent sees everybody");
        let elsewhere = me.namespace + 1;
        assert!(!processes.census(&BTreeSet::from([elsewhere]), true).may_live(other, elsewhere));
        assert!(census.may_live(other, 0), "where a process could not say its namespace, nothing is known");
        assert_eq!(processes.identify(u32::MAX), None);
        assert!(!processes.knows(u32::MAX));
    }

    #[test]
    fn the_kernels_line_is_read_whatever_the_name() {
        let line =
            "7 (a ) S 3) R 5 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4711 1000 1 18446744073709551615";
        let stat = Stat::read(line).expect("a process");
        assert_eq!((stat.parent, stat.start), (5, 4711));
        assert!(Stat::read(&line.replace(") R", ") Z")).is_none());
        assert!(Stat::read("").is_none() && Stat::read("7 (a)").is_none());
    }
}
