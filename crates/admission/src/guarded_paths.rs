//! Folders from which GPUs are given out and held: of the host, and inside containers.

/// Folders of the host that pods with parts of GPUs do not get. `/var/run` is `/run` there.
const HOST: &[&str] = &[
    // Sockets by which kubelet is told about devices, and volumes of all pods.
    "/var/lib/kubelet",
    // What container runtimes give to whom.
    "/etc/cdi",
    "/run/cdi",
    // Records, limits and the limiter.
    "/var/lib/carve",
    "/run/carve",
    // Pipes of MPS daemons.
    "/run/nvidia",
    "/tmp/nvidia-mps",
    // Whoever speaks to a container runtime starts containers past everybody.
    "/run/containerd",
    "/run/docker.sock",
    "/run/crio",
    "/var/lib/containerd",
    "/var/lib/docker",
    "/var/lib/containers",
    // Devices, and ways to them and to other processes.
    "/dev",
    "/proc",
    "/sys",
];

/// Below these, what has nothing to do with GPUs is often mounted and does no harm.
const HARMLESS: &[&str] = &["/dev/shm", "/dev/hugepages", "/dev/infiniband", "/dev/net", "/dev/fuse"];

/// What holds a container to its part, where the container sees it.
const MOUNTS: &[&str] = &["/etc/ld.so.preload", "/run/carve"];

/// The guarded folder that a path of the host reaches: by lying in it, or above it.
pub(crate) fn guarded_host(path: &str) -> Option<&'static str> {
    let path = plain(path);
    if HARMLESS.iter().any(|harmless| is_within(&path, harmless)) {
        return None;
    }
    HOST.iter().find(|folder| is_within(&path, folder) || is_within(folder, &path)).copied()
}

/// Whether a volume there would hide what holds the container. One above it does not: the runtime mounts what lies deeper later.
pub(crate) fn guarded_mount(path: &str) -> bool {
    let path = plain(path);
    MOUNTS.iter().any(|guarded| is_within(&path, guarded))
}

fn is_within(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A path without `.`, `..`, repeated slashes and the other name of `/run`.
fn plain(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    if let [first, second, ..] = parts.as_slice()
        && (*first, *second) == ("var", "run")
    {
        parts.remove(0);
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::{guarded_host, guarded_mount};

    #[test]
    fn folders_are_found_however_they_are_written() {
        for (path, found) in [
            ("/", true),
            ("", true),
            ("/var", true),
            ("/var/lib", true),
            ("/var/lib/kubelet/device-plugins/", true),
            ("//var/lib/../lib/./kubelet", true),
            ("/var/run/cdi/x.json", true),
            ("/var/run", true),
            ("/run", true),
            ("/var/run/docker.sock", true),
            ("/dev/nvidia0", true),
            ("/dev", true),
            ("/dev/shm", false),
            ("/dev/shm/../nvidia0", true),
            ("/var/lib/kubelets", false),
            ("/var/log", false),
            ("/data", false),
            ("/var/lib/carved", false),
        ] {
            assert_eq!(guarded_host(path).is_some(), found, "{path}");
        }
    }

    #[test]
    fn only_mounts_over_what_holds_a_container_are_found() {
        for (path, found) in [
            ("/etc/ld.so.preload", true),
            ("/etc/./ld.so.preload/", true),
            ("/var/run/carve/limits", true),
            ("/run/carve", true),
            ("/etc", false),
            ("/run", false),
            ("/etc/ld.so.preload.d", false),
        ] {
            assert_eq!(guarded_mount(path), found, "{path}");
        }
    }
}
