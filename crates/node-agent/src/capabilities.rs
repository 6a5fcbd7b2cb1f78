//! What the agent gives up of a privileged container's rights: Kubernetes gives all of them or none of those that GPUs need.

use rustix::io::{Errno, Result};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// What is kept: files and folders of any owner, device nodes, mounts and MIG (`SYS_ADMIN`), processes of pods and daemons, cgroups and limits, and what the
/// driver asks of whoever measures (`PERFMON`) or changes turns (`SYS_NICE`).
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::IPC_OWNER)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::SYS_ADMIN)
    .union(CapabilitySet::SYS_NICE)
    .union(CapabilitySet::SYS_RESOURCE)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::PERFMON);

/// Gives up what an agent never needs, for this thread, the threads it starts and the programs they start; none of them can take it back. `reboots` keeps what a
/// program for it may want.
pub fn give_up_capabilities(reboots: bool) -> Result<()> {
    let kept = if reboots { KEPT.union(CapabilitySet::SYS_BOOT) } else { KEPT };
    for (_, capability) in CapabilitySet::all().difference(kept).iter_names() {
        match capability_is_in_bounding_set(capability) {
            Ok(true) => remove_capability_from_bounding_set(capability)?,
            // Of a later kernel than this one.
            Ok(false) | Err(Errno::INVAL) => {}
            Err(error) => return Err(error),
        }
    }
    let CapabilitySets { effective, permitted, inheritable } = capabilities(None)?;
    let sets = CapabilitySets {
        effective: effective & kept,
        permitted: permitted & kept,
        inheritable: inheritable & kept,
    };
    set_capabilities(None, sets)
}

#[cfg(test)]
mod tests {
    use super::give_up_capabilities;
    use rustix::thread::{CapabilitySet, capabilities, capability_is_in_bounding_set};

    /// In a thread of its own, for the other tests keep what they have.
    fn after(reboots: bool) -> Option<(CapabilitySet, CapabilitySet, bool)> {
        let tried = std::thread::spawn(move || {
            let before = capabilities(None).expect("they can be read").effective;
            give_up_capabilities(reboots).ok()?;
            let bound = capability_is_in_bounding_set(CapabilitySet::NET_ADMIN).expect("the kernel knows it");
            Some((before, capabilities(None).expect("they can be read").effective, bound))
        });
        tried.join().expect("no panic")
    }

    #[test]
    fn modules_and_networks_are_given_up_and_mounts_are_not() {
        let Some((before, now, bound)) = after(false) else {
            eprintln!("SKIPPED: whoever is not root has nothing to give up");
            return;
        };
        let given_up = CapabilitySet::SYS_MODULE | CapabilitySet::NET_ADMIN | CapabilitySet::SYS_BOOT;
        assert!(!now.intersects(given_up), "{now:?}");
        assert_eq!(now & CapabilitySet::SYS_ADMIN, before & CapabilitySet::SYS_ADMIN);
        assert!(!bound, "programs that it starts would have it again");
        let (before, now, _) = after(true).expect("as before");
        assert_eq!(now & CapabilitySet::SYS_BOOT, before & CapabilitySet::SYS_BOOT);
    }
}
