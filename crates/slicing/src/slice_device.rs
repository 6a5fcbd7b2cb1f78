//! The CDI device of one token: a GPU, and what holds the container to its part of it.

use crate::cdi::{DriverFiles, HookPath, for_every_container, whole_nodes};
use carve_formats::cdi::{ContainerEdits, Device, Mount, Spec};

/// The oldest version of the interface that has all fields used here.
const CDI_VERSION: &str = "0.5.0";
/// What tokens are called towards container runtimes.
const KIND: &str = "carve.dev/slice";
const FILE_PREFIX: &str = "carve.dev-slice_";

/// What kubelet passes on for a token.
pub fn slice_device_name(token: &str) -> String {
    format!("{KIND}={token}")
}

/// The file of a token.
pub fn slice_file_name(token: &str) -> String {
    format!("{FILE_PREFIX}{token}.json")
}

/// The token whose file this is.
pub fn token_of_file(name: &str) -> Option<&str> {
    name.strip_prefix(FILE_PREFIX)?.strip_suffix(".json")
}

/// The file of a token. Only one token of a container brings the driver's files and the hook: the hook would run once for each.
pub fn slice_spec(
    token: &str,
    minor: u32,
    files: &DriverFiles,
    dev_root: &str,
    driver: Option<&HookPath>,
    mounts: Vec<Mount>,
) -> Spec {
    let mut edits = driver.map_or_else(ContainerEdits::default, |hook| for_every_container(files, hook));
    edits.device_nodes.extend(whole_nodes(minor, files, dev_root));
    edits.mounts.extend(mounts);
    Spec {
        cdi_version: CDI_VERSION.to_owned(),
        kind: KIND.to_owned(),
        devices: vec![Device { name: token.to_owned(), container_edits: edits }],
        container_edits: ContainerEdits::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::{slice_device_name, slice_file_name, slice_spec, token_of_file};
    use crate::cdi::{DriverFiles, HookPath};
    use carve_formats::cdi::Mount;

    #[test]
    fn one_token_of_a_container_brings_the_driver() {
        let hook = HookPath::new("/carve").unwrap();
        let files = DriverFiles::default();
        let limits = Mount {
            host_path: "/limits/a".to_owned(),
            container_path: "/limits".to_owned(),
            options: Vec::new(),
        };
        let first = slice_spec("slice-000", 3, &files, "/", Some(&hook), vec![limits.clone()]);
        let second = slice_spec("slice-001", 4, &files, "/", None, vec![limits.clone()]);
        let edits = |spec: &carve_formats::cdi::Spec| spec.devices[0].container_edits.clone();
        assert_eq!(edits(&first).env, ["NVIDIA_VISIBLE_DEVICES=void"]);
        assert_eq!(edits(&first).device_nodes[0].path, "/dev/nvidia3");
        assert!(edits(&second).env.is_empty());
        assert_eq!(edits(&second).device_nodes[0].path, "/dev/nvidia4");
        assert_eq!(edits(&second).mounts, [limits]);
        assert_eq!(slice_device_name("slice-001"), format!("{}={}", second.kind, second.devices[0].name));
    }

    #[test]
    fn files_of_others_are_not_taken_for_ours() {
        assert_eq!(token_of_file(&slice_file_name("slice-007")), Some("slice-007"));
        for other in ["nvidia.yaml", "k8s.gpu.carve.dev-claim_a.json", "carve.dev-slice_slice-007.json.new"] {
            assert_eq!(token_of_file(other), None, "{other}");
        }
    }
}
