//! Which container a process belongs to, read from its list of cgroups.
//!
//! ```text
//!   systemd      /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1a_2b.slice/cri-containerd-64HEX.scope
//!   cgroupfs     /kubepods/burstable/pod1a-2b/64HEX
//!   a mixture    /system.slice/kubepods-burstable-pod1a_2b.slice:cri-containerd:64HEX
//! ```
//! containerd, CRI-O and Docker differ in what stands before the 64 digits. Whoever reads from within a container sees paths that begin with `/..`, and
//! of containers of its own pod nothing but the last part. What a container makes below its own cgroup is its own.

/// A container as the kernel names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerRef {
    /// The pod's uid as kubelet wrote it into the path. That of a static pod is not the one that the API server shows.
    pub pod: Option<String>,
    /// The container's id: 64 hexadecimal digits.
    pub id: String,
}

/// How many digits an id has.
const DIGITS: usize = 64;

/// The paths in `/proc/PID/cgroup`.
fn paths(cgroups: &str) -> impl Iterator<Item = &str> {
    cgroups.lines().filter_map(|line| line.splitn(3, ':').nth(2))
}

/// The pod in `/proc/PID/cgroup`, by its uid; also where the container is not known.
pub fn pod_of(cgroups: &str) -> Option<String> {
    paths(cgroups).find_map(|path| path.split(['/', ':']).find_map(pod_in))
}

/// The container in `/proc/PID/cgroup`; nothing for a process outside of containers.
pub fn container_of(cgroups: &str) -> Option<ContainerRef> {
    let found: Vec<ContainerRef> = paths(cgroups).filter_map(in_path).collect();
    // Of several hierarchies some may not know the pod.
    found.iter().find(|container| container.pod.is_some()).or(found.first()).cloned()
}

fn in_path(path: &str) -> Option<ContainerRef> {
    let mut pod = None;
    for part in path.split(['/', ':']) {
        if let Some(uid) = pod_in(part) {
            pod = Some(uid);
        } else if let Some(id) = id_in(part) {
            return Some(ContainerRef { pod, id: id.to_owned() });
        }
    }
    None
}

/// The uid in the name of a pod's cgroup.
fn pod_in(part: &str) -> Option<String> {
    let name = part.strip_suffix(".slice").unwrap_or(part);
    // In a cgroupfs name the uid has dashes of its own.
    let uid = match name.strip_prefix("pod") {
        Some(uid) => uid,
        None => name.rsplit_once("-pod")?.1,
    };
    let digits = uid.chars().filter(char::is_ascii_hexdigit).count();
    let plain = uid.chars().all(|one| one.is_ascii_hexdigit() || one == '-' || one == '_');
    (plain && digits == 32).then(|| uid.replace('_', "-"))
}

/// The id in the name of a container's cgroup, whoever made it.
fn id_in(part: &str) -> Option<&str> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let (maker, id) = name.rsplit_once('-').unwrap_or(("", name));
    let is_id = id.len() == DIGITS && id.chars().all(|one| one.is_ascii_hexdigit());
    // CRI-O's monitor of a container is not in it.
    (is_id && !maker.ends_with("conmon")).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::{container_of, pod_of};
    use proptest::prelude::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const OTHER: &str = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";
    const UID: &str = "6f1a2b3c-0d1e-4f50-8a7b-9c8d7e6f5a4b";

    fn told(cgroups: &str) -> Option<(Option<String>, String)> {
        container_of(cgroups).map(|container| (container.pod, container.id))
    }

    #[test]
    fn every_runtime_and_driver_is_read() {
        let slice = UID.replace('-', "_");
        let systemd = format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{slice}.slice");
        let guaranteed = format!("/kubepods.slice/kubepods-pod{slice}.slice");
        let kind = format!(
            "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod{slice}.slice"
        );
        // A static pod has a hash for its uid.
        let hash = UID.replace('-', "");
        for (path, uid) in [
            (format!("{systemd}/cri-containerd-{ID}.scope"), UID),
            (format!("{systemd}/crio-{ID}.scope"), UID),
            (format!("{systemd}/crio-{ID}.scope/container"), UID),
            (format!("{systemd}/docker-{ID}.scope"), UID),
            (format!("{guaranteed}/cri-containerd-{ID}.scope"), UID),
            (format!("{kind}/cri-containerd-{ID}.scope"), UID),
            (format!("/kubepods/burstable/pod{UID}/{ID}"), UID),
            (format!("/kubepods/pod{UID}/{ID}"), UID),
            (format!("/kubepods/besteffort/pod{hash}/{ID}"), hash.as_str()),
            (format!("/system.slice/kubepods-burstable-pod{slice}.slice:cri-containerd:{ID}"), UID),
            (format!("/../../kubepods-besteffort-pod{slice}.slice/cri-containerd-{ID}.scope"), UID),
            (format!("{systemd}/cri-containerd-{ID}.scope/init.scope"), UID),
            (format!("{systemd}/cri-containerd-{ID}.scope/docker/{OTHER}"), UID),
        ] {
            let expected = Some((Some(uid.to_owned()), ID.to_owned()));
            assert_eq!(told(&format!("0::{path}\n")), expected, "{path}");
            assert_eq!(told(&format!("12:devices:{path}\n3:name=systemd:{path}\n")), expected, "{path}");
        }
    }

    #[test]
    fn without_a_pod_the_container_is_known() {
        for path in [
            format!("/../cri-containerd-{ID}.scope"),
            format!("/docker/{ID}"),
            format!("/system.slice/docker-{ID}.scope"),
        ] {
            assert_eq!(told(&format!("0::{path}")), Some((None, ID.to_owned())), "{path}");
        }
    }

    #[test]
    fn pods_are_known_also_without_their_container() {
        let slice = UID.replace('-', "_");
        for path in [
            format!("0::/kubepods/burstable/pod{UID}/0123"),
            format!("4:memory:/kubelet/kubepods/pod{UID}"),
            format!("1:cpu:/\n0::/../../kubepods-pod{slice}.slice/crio-0.scope"),
        ] {
            assert_eq!(pod_of(&path).as_deref(), Some(UID), "{path}");
        }
        for path in ["0::/", "0::/system.slice/podman.service", "0::/user.slice/tripod0", ""] {
            assert_eq!(pod_of(path), None, "{path}");
        }
    }

    #[test]
    fn the_hierarchy_that_knows_the_pod_counts() {
        let text = format!("9:cpu:/docker/{ID}\n8:memory:/kubepods/burstable/pod{UID}/{ID}\n");
        assert_eq!(told(&text), Some((Some(UID.to_owned()), ID.to_owned())));
    }

    #[test]
    fn whoever_is_in_no_container_is_in_none() {
        for path in [
            "/".to_owned(),
            "/user.slice/user-1000.slice/session-1.scope".to_owned(),
            "/system.slice/kubelet.service".to_owned(),
            format!("/kubepods/burstable/pod{UID}"),
            format!("/kubepods.slice/crio-conmon-{ID}.scope"),
            format!("/kubepods/pod{UID}/{}", &ID[1..]),
        ] {
            assert_eq!(told(&format!("0::{path}\n")), None, "{path}");
        }
        assert_eq!(told(""), None);
    }

    proptest! {
        #[test]
        fn nothing_that_a_file_holds_upsets_it(text in "[ -~\\n]{0,200}", bytes in any::<String>()) {
            for text in [text, bytes] {
                if let Some(container) = container_of(&text) {
                    prop_assert_eq!(container.id.len(), 64);
                }
            }
        }
    }
}
