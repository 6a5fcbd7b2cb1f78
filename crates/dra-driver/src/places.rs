//! Where the sockets of a driver are, by names that kubelet and later instances of the driver recognise.

use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// A path of a socket may have 108 bytes, and the last one ends it.
const LONGEST: usize = 107;
/// Letters of a hash that stand for a name that is too long: so few that the longest driver name leaves room for them.
const HASH: usize = 8;

/// Where the sockets of a driver are. Kubelet must see them under the same paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketPlaces {
    /// Kubelet's folder for plugins; the service is in a folder of the driver's below it.
    pub plugins: PathBuf,
    /// The folder that kubelet watches for plugins to register.
    pub registry: PathBuf,
    /// Name of the driver.
    pub driver: String,
    /// What tells two instances of the driver on a node apart, the uid of the pod. Without it there can be only one.
    pub instance: Option<String>,
}

/// Why a driver can have no sockets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacesError {
    #[error(
        "driver name '{0}': only lower case letters, digits, '-' and '.' are allowed, with a letter or digit at both ends; \
         choose a name such as gpu.carve.dev"
    )]
    DriverName(String),
    #[error("instance '{0}': only letters, digits, '-' and '.' are allowed; give it the uid of the pod")]
    InstanceName(String),
    #[error(
        "the socket {} would have {} bytes in its path, and {LONGEST} are possible; choose a shorter driver name, or a shorter \
         folder for kubelet",
        .0.display(), .0.as_os_str().len()
    )]
    TooLong(PathBuf),
}

impl SocketPlaces {
    /// The places below kubelet's folder, which is usually `/var/lib/kubelet`.
    pub fn below(kubelet: &Path, driver: &str, instance: Option<String>) -> Self {
        SocketPlaces {
            plugins: kubelet.join("plugins"),
            registry: kubelet.join("plugins_registry"),
            driver: driver.to_owned(),
            instance,
        }
    }

    /// The driver's own folder; all of its instances share it.
    pub fn folder(&self) -> PathBuf {
        self.plugins.join(&self.driver)
    }

    /// The socket with the service: `dra.sock`, or `dra-UID.sock` of an instance.
    pub fn service(&self) -> Result<PathBuf, PlacesError> {
        self.check()?;
        let names = match &self.instance {
            None => vec!["dra.sock".to_owned()],
            Some(instance) => vec![format!("dra-{instance}.sock"), format!("dra-{}.sock", hash(instance))],
        };
        first_that_fits(&self.folder(), names)
    }

    /// The socket that kubelet finds: `DRIVER-reg.sock`, or `DRIVER-UID-reg.sock` of an instance.
    pub fn registration(&self) -> Result<PathBuf, PlacesError> {
        self.check()?;
        let driver = &self.driver;
        let names = match &self.instance {
            None => vec![format!("{driver}-reg.sock"), format!("{}-reg.sock", hash(driver))],
            Some(instance) => vec![
                format!("{driver}-{instance}-reg.sock"),
                format!("{driver}-{}-reg.sock", hash(instance)),
                format!("{}-{}-reg.sock", hash(driver), hash(instance)),
            ],
        };
        first_that_fits(&self.registry, names)
    }

    /// Whether a file of the driver's folder has the name of an instance's service.
    pub(crate) fn is_service(&self, name: &str) -> bool {
        let middle = name.strip_prefix("dra").and_then(|rest| rest.strip_suffix(".sock"));
        middle.is_some_and(is_instance)
    }

    /// Whether a file of the registry has the name of an instance's registration. Another driver's name may begin with this one's.
    pub(crate) fn is_registration(&self, name: &str) -> bool {
        [self.driver.as_str(), &hash(&self.driver)].into_iter().any(|driver| {
            let middle = name.strip_prefix(driver).and_then(|rest| rest.strip_suffix("-reg.sock"));
            middle.is_some_and(is_instance)
        })
    }

    fn check(&self) -> Result<(), PlacesError> {
        let plain = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.');
        let driver = self.driver.as_str();
        let edges = [driver.chars().next(), driver.chars().last()];
        if !plain(driver)
            || driver.chars().any(|c| c.is_ascii_uppercase())
            || !edges.iter().all(|edge| edge.is_some_and(|c| c.is_ascii_alphanumeric()))
        {
            return Err(PlacesError::DriverName(self.driver.clone()));
        }
        match &self.instance {
            Some(instance) if instance.is_empty() || !plain(instance) => {
                Err(PlacesError::InstanceName(instance.clone()))
            }
            _ => Ok(()),
        }
    }
}

/// Whether the middle of a file name stands for an instance: nothing, or `-` and the uid of a pod or its hash.
fn is_instance(middle: &str) -> bool {
    let uid = |name: &str| name.len() >= HASH && name.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    middle.is_empty() || middle.strip_prefix('-').is_some_and(uid)
}

fn hash(name: &str) -> String {
    let mut letters: String = Sha256::digest(name).iter().map(|byte| format!("{byte:02x}")).collect();
    letters.truncate(HASH);
    letters
}

fn first_that_fits(folder: &Path, names: Vec<String>) -> Result<PathBuf, PlacesError> {
    let mut too_long = PathBuf::new();
    for name in names {
        let path = folder.join(name);
        if path.as_os_str().len() <= LONGEST {
            return Ok(path);
        }
        too_long = path;
    }
    Err(PlacesError::TooLong(too_long))
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, PlacesError, SocketPlaces, hash};
    use std::path::Path;

    const UID: &str = "3b7c4d54-6a5e-4a0f-9b1c-0123456789ab";

    fn places(driver: &str, instance: Option<&str>) -> SocketPlaces {
        SocketPlaces::below(Path::new("/var/lib/kubelet"), driver, instance.map(str::to_owned))
    }

    fn shown(places: &SocketPlaces) -> [String; 2] {
        [places.service(), places.registration()].map(|path| path.expect("a path").display().to_string())
    }

    #[test]
    fn usual_names_are_those_that_kubelets_helper_uses() {
        assert_eq!(
            shown(&places("gpu.carve.dev", None)),
            [
                "/var/lib/kubelet/plugins/gpu.carve.dev/dra.sock",
                "/var/lib/kubelet/plugins_registry/gpu.carve.dev-reg.sock"
            ]
        );
        assert_eq!(
            shown(&places("gpu.carve.dev", Some(UID))),
            [
                format!("/var/lib/kubelet/plugins/gpu.carve.dev/dra-{UID}.sock"),
                format!("/var/lib/kubelet/plugins_registry/gpu.carve.dev-{UID}-reg.sock"),
            ]
        );
    }

    /// A driver name may have 63 letters; two instances still have paths of their own, which a socket can have.
    #[test]
    fn a_long_driver_name_has_sockets_all_the_same() {
        for length in 1..=63 {
            let driver = "d".repeat(length);
            let mut seen = std::collections::BTreeSet::new();
            for instance in [None, Some(UID), Some("3b7c4d54-6a5e-4a0f-9b1c-0123456789ac")] {
                let places = places(&driver, instance);
                for path in [places.service(), places.registration()] {
                    let path = path.expect("a path");
                    assert!(path.as_os_str().len() <= LONGEST, "{path:?}");
                    let name = path.file_name().expect("a name").to_str().expect("text");
                    let ours = places.is_service(name) || places.is_registration(name);
                    assert!(ours, "{name} is recognised by the next instance");
                    assert!(seen.insert(path.clone()), "{path:?} is used twice");
                }
            }
        }
    }

    /// The limit is not a number somebody remembered: the system takes the longest path and refuses the next.
    #[test]
    fn the_longest_path_can_be_bound_and_a_longer_one_can_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let room = LONGEST - folder.path().as_os_str().len() - 1;
        let bind =
            |length: usize| std::os::unix::net::UnixListener::bind(folder.path().join("s".repeat(length)));
        bind(room).expect("bound");
        assert!(bind(room + 1).is_err());
    }

    #[test]
    fn a_folder_that_leaves_no_room_is_told() {
        let kubelet = Path::new("/var/lib").join("k".repeat(90));
        let places = SocketPlaces::below(&kubelet, "gpu.carve.dev", Some(UID.to_owned()));
        let error = places.registration().expect_err("no room").to_string();
        assert!(error.contains("107 are possible; choose a shorter driver name"), "{error}");
        assert!(matches!(places.service(), Err(PlacesError::TooLong(_))));
    }

    #[test]
    fn names_that_would_lead_elsewhere_are_refused() {
        for driver in ["", ".", "..", "../x", "a/b", "-a", "a-", ".hidden", "GPU.carve.dev", "a b", "a\0"] {
            assert!(matches!(places(driver, None).service(), Err(PlacesError::DriverName(_))), "{driver:?}");
        }
        for instance in ["", "/", "a/../b", "ä"] {
            let error = places("a", Some(instance)).registration();
            assert!(matches!(error, Err(PlacesError::InstanceName(_))), "{instance:?}");
        }
    }

    #[test]
    fn sockets_of_other_drivers_are_not_taken_for_ours() {
        let places = places("gpu.carve.dev", Some(UID));
        for theirs in [
            "gpu.carve.dev-mig-reg.sock",
            "gpu.carve.developer-reg.sock",
            "gpu.nvidia.com-reg.sock",
            "reg.sock",
        ] {
            assert!(!places.is_registration(theirs), "{theirs}");
        }
        for theirs in ["drama.sock", "dra-lock.sock", "dra.lock", "checkpoint.json"] {
            assert!(!places.is_service(theirs), "{theirs}");
        }
        for ours in
            [format!("{}-reg.sock", hash("gpu.carve.dev")), format!("gpu.carve.dev-{}-reg.sock", hash(UID))]
        {
            assert!(places.is_registration(&ours), "{ours}");
        }
    }
}
