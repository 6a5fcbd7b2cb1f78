//! What the facts mean.

use crate::facts::{Driver, Facts, Program};
use crate::version::Version;
use serde::Serialize;

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// As it should be.
    Well,
    /// Not there, and not needed by everybody.
    Absent,
    /// It works, and may hurt.
    Doubtful,
    /// It does not work, or is dangerous.
    Wrong,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// What it is about.
    pub about: &'static str,
    /// How it is.
    pub verdict: Verdict,
    /// In words.
    pub words: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub todo: Option<String>,
}

fn finding(about: &'static str, verdict: Verdict, words: impl Into<String>, todo: &str) -> Finding {
    let todo = Some(todo.to_owned()).filter(|todo| !todo.is_empty());
    Finding { about, verdict, words: words.into(), todo }
}

/// Oldest driver whose limits of MPS and MIG were tried with.
const DRIVER: [u64; 2] = [525, 60];
/// From here on containerd puts CDI devices into containers where its configuration says so, and from the second one on without being told.
const CONTAINERD_CDI: ([u64; 2], [u64; 2]) = ([1, 7], [2, 0]);

/// Weaknesses of NVIDIA's container toolkit: up to which version, in which it was mended, what it is.
const WEAKNESSES: [([u64; 3], [u64; 3], &str); 4] = [
    (
        [1, 16, 1],
        [1, 16, 2],
        "CVE-2024-0132: a container can reach the host's files, unless devices come by CDI",
    ),
    ([1, 17, 2], [1, 17, 3], "CVE-2024-0135, -0136 and -0137: a container can reach what is not its own"),
    ([1, 17, 3], [1, 17, 4], "CVE-2025-23359: the mending of CVE-2024-0132 can be got around"),
    ([1, 17, 7], [1, 17, 8], "CVE-2025-23266: an image can run programs as root on the host"),
];

/// Everything that is to be said, in the order in which things depend on each other.
pub fn judge(facts: &Facts) -> Vec<Finding> {
    let mut all = vec![driver(facts)];
    if facts.driver.as_ref().is_some_and(Result::is_ok) {
        all.push(permissions(facts));
        all.push(mps(facts));
    }
    all.extend([toolkit(facts.toolkit.as_ref()), runtime(facts), kubelet(facts), kernel(facts)]);
    if facts.selinux {
        all.push(finding(
            "SELinux",
            Verdict::Doubtful,
            "it is enforced; containers may not open device files that were put into them",
            "setsebool -P container_use_devices 1, or a policy that lets containers use GPUs",
        ));
    }
    all
}

fn driver(facts: &Facts) -> Finding {
    let about = "driver";
    match &facts.driver {
        None => finding(
            about,
            Verdict::Absent,
            "no NVIDIA driver is installed here; carve simulates machines",
            "install NVIDIA's driver to use GPUs of this machine",
        ),
        Some(Err(why)) => finding(
            about,
            Verdict::Wrong,
            format!("it is there and does not answer: {why}"),
            "nvidia-smi and dmesg | grep NVRM say more; after an update of the driver the machine, or its modules, must be restarted",
        ),
        Some(Ok(Driver { gpus: 0, version, .. })) => finding(
            about,
            Verdict::Wrong,
            format!("{version} finds no GPU"),
            "lspci | grep -i nvidia says whether one is there; a container must be given it",
        ),
        Some(Ok(driver)) if driver.lost > 0 => finding(
            about,
            Verdict::Wrong,
            format!("{}: {} of {} GPUs answer nothing any more", driver.version, driver.lost, driver.gpus),
            "dmesg | grep Xid says since when and why; such a GPU needs a reset or a restart of the machine",
        ),
        Some(Ok(driver)) => {
            let (major, minor) = driver.cuda;
            let mig = match driver.mig_capable {
                0 => "none of them can be cut by MIG".to_owned(),
                count if count == driver.gpus => "all of them can be cut by MIG".to_owned(),
                count => format!("{count} of them can be cut by MIG"),
            };
            let words = format!("{}, CUDA {major}.{minor}, {} GPU(s), {mig}", driver.version, driver.gpus);
            match Version::find(&driver.version).is_some_and(|version| version < Version::new(&DRIVER)) {
                true => finding(
                    about,
                    Verdict::Doubtful,
                    format!("{words}; older than what carve was tried with"),
                    "update to 525.60 or later",
                ),
                false => finding(about, Verdict::Well, words, ""),
            }
        }
    }
}

fn permissions(facts: &Facts) -> Finding {
    let about = "permissions";
    match (facts.control_device, facts.control_device_opens, facts.root) {
        (false, _, _) => finding(
            about,
            Verdict::Wrong,
            "/dev/nvidiactl is missing, so no program can use a GPU",
            "nvidia-modprobe -u -c=0, or nvidia-smi as root, makes the device files",
        ),
        (true, false, _) => finding(
            about,
            Verdict::Wrong,
            "/dev/nvidiactl can not be opened",
            "join the group that owns it (ls -l /dev/nvidiactl), or run as root",
        ),
        (true, true, false) => finding(
            about,
            Verdict::Doubtful,
            "GPUs can be used; they can not be cut by MIG without root",
            "sudo carve mig …",
        ),
        (true, true, true) => finding(about, Verdict::Well, "GPUs can be used and changed", ""),
    }
}

fn mps(facts: &Facts) -> Finding {
    match facts.mps {
        true => finding("MPS", Verdict::Well, "nvidia-cuda-mps-control is there", ""),
        false => finding(
            "MPS",
            Verdict::Absent,
            "nvidia-cuda-mps-control is not there; GPUs can be shared by turns, by MIG and by the limiter",
            "it comes with the driver's compute packages (nvidia-compute-utils, libnvidia-compute)",
        ),
    }
}

fn toolkit(toolkit: Option<&Program>) -> Finding {
    let about = "container toolkit";
    let Some(toolkit) = toolkit else {
        return finding(
            about,
            Verdict::Absent,
            "nvidia-ctk is not there; carve gives devices by CDI and does not need it",
            "",
        );
    };
    let Some(version) = &toolkit.version else {
        return finding(
            about,
            Verdict::Doubtful,
            format!("it does not say its version: {}", toolkit.said.trim()),
            "nvidia-ctk --version",
        );
    };
    let open: Vec<&([u64; 3], [u64; 3], &str)> =
        WEAKNESSES.iter().filter(|(last, _, _)| *version <= Version::new(last)).collect();
    match open.iter().map(|(_, mended, _)| Version::new(mended)).max() {
        None => {
            finding(about, Verdict::Well, format!("{version}, without a weakness that is known here"), "")
        }
        Some(mended) => {
            let words: Vec<&str> = open.iter().map(|(_, _, what)| *what).collect();
            let todo = format!("update the toolkit to {mended} or later");
            finding(
                about,
                Verdict::Wrong,
                format!("{version} has known weaknesses: {}", words.join("; ")),
                &todo,
            )
        }
    }
}

/// Whether a text of containerd's configuration switches CDI on.
fn cdi_in(config: Option<&str>) -> bool {
    let lines = config.unwrap_or_default().lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let plain = lines.map(|line| line.split_whitespace().collect::<String>());
    plain.into_iter().any(|line| line == "enable_cdi=true")
}

fn runtime(facts: &Facts) -> Finding {
    let about = "container runtime";
    if let Some(program) = &facts.containerd {
        let Some(version) = &program.version else {
            return finding(
                about,
                Verdict::Doubtful,
                "containerd does not say its version",
                "containerd --version",
            );
        };
        let (told, itself) = (Version::new(&CONTAINERD_CDI.0), Version::new(&CONTAINERD_CDI.1));
        let words = |what: &str| format!("containerd {version}{what}");
        return if *version < told {
            let what = " can not put CDI devices into containers";
            finding(
                about,
                Verdict::Doubtful,
                words(what),
                "update to 1.7 or later, or run the agent with --device-list-strategy envvar and NVIDIA's runtime",
            )
        } else if *version >= itself || cdi_in(facts.containerd_config.as_deref()) {
            finding(about, Verdict::Well, words(" puts CDI devices into containers"), "")
        } else {
            let todo = "write enable_cdi = true under [plugins.\"io.containerd.grpc.v1.cri\"] in /etc/containerd/config.toml and restart it";
            finding(
                about,
                Verdict::Doubtful,
                words(" does not put CDI devices into containers as it is configured"),
                todo,
            )
        };
    }
    let other = |name: &str, program: &Program| {
        let version = program.version.as_ref().map_or_else(String::new, |version| format!(" {version}"));
        finding(about, Verdict::Well, format!("{name}{version}"), "")
    };
    match (&facts.crio, &facts.docker) {
        (Some(program), _) => other("CRI-O", program),
        (None, Some(program)) => other("Docker", program),
        (None, None) => {
            finding(about, Verdict::Absent, "none is there; carve run and carve up need none", "")
        }
    }
}

fn kubelet(facts: &Facts) -> Finding {
    let about = "kubelet";
    let version = facts.kubelet.as_ref().and_then(|program| program.version.as_ref());
    let named = version.map_or_else(|| "kubelet".to_owned(), |version| format!("kubelet {version}"));
    match (facts.kubelet.is_some() || facts.device_plugins, facts.device_plugins) {
        (false, _) => finding(about, Verdict::Absent, "this is no node of a cluster", ""),
        (true, false) => finding(
            about,
            Verdict::Wrong,
            format!("{named} is there, and /var/lib/kubelet/device-plugins is not"),
            "is kubelet running, and is its folder elsewhere? carve agent --kubelet-dir names it",
        ),
        (true, true) => {
            let claims =
                match (facts.dra_plugins, version.is_none_or(|version| *version >= Version::new(&[1, 34]))) {
                    (true, true) => "devices and claims",
                    _ => "devices",
                };
            finding(about, Verdict::Well, format!("{named} takes {claims}"), "")
        }
    }
}

fn kernel(facts: &Facts) -> Finding {
    let about = "kernel";
    let version = facts.kernel.as_deref().and_then(Version::find);
    let named = version.map_or_else(|| "Linux".to_owned(), |version| format!("Linux {version}"));
    match facts.cgroup2 {
        true => finding(about, Verdict::Well, format!("{named}, control groups of version 2"), ""),
        false => finding(
            about,
            Verdict::Doubtful,
            format!("{named}, control groups of version 1; Kubernetes is leaving them behind"),
            "boot with systemd.unified_cgroup_hierarchy=1",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{Finding, Verdict, judge};
    use crate::facts::{Driver, Facts, Program};
    use crate::version::Version;

    fn program(said: &str) -> Option<Program> {
        Some(Program { said: said.to_owned(), version: Version::find(said) })
    }

    fn well() -> Facts {
        let driver =
            Driver { version: "580.159.04".to_owned(), cuda: (13, 0), gpus: 8, lost: 0, mig_capable: 8 };
        Facts {
            driver: Some(Ok(driver)),
            control_device: true,
            control_device_opens: true,
            root: true,
            toolkit: program("NVIDIA Container Toolkit CLI version 1.17.8"),
            mps: true,
            containerd: program("containerd v2.1.0"),
            kubelet: program("Kubernetes v1.36.4"),
            device_plugins: true,
            dra_plugins: true,
            kernel: Some("Linux version 6.1.0-18-amd64".to_owned()),
            cgroup2: true,
            ..Facts::default()
        }
    }

    fn about(facts: &Facts, what: &str) -> Finding {
        judge(facts)
            .into_iter()
            .find(|finding| finding.about == what)
            .unwrap_or_else(|| panic!("nothing about {what}"))
    }

    #[test]
    fn a_machine_that_is_well_is_said_to_be() {
        let findings = judge(&well());
        assert!(
            findings.iter().all(|finding| finding.verdict == Verdict::Well && finding.todo.is_none()),
            "{findings:#?}"
        );
        let bare = judge(&Facts { cgroup2: true, ..Facts::default() });
        assert!(
            bare.iter().all(|finding| matches!(finding.verdict, Verdict::Well | Verdict::Absent)),
            "{bare:#?}"
        );
    }

    #[test]
    fn every_trouble_has_its_remedy() {
        type Change = fn(&mut Facts);
        let cases: [(&str, Change, Verdict, &str); 12] = [
            (
                "driver",
                |facts| facts.driver = Some(Err("version mismatch".to_owned())),
                Verdict::Wrong,
                "version mismatch",
            ),
            (
                "driver",
                |facts| {
                    facts.driver =
                        facts.driver.clone().map(|one| one.map(|driver| Driver { gpus: 0, ..driver }))
                },
                Verdict::Wrong,
                "finds no GPU",
            ),
            (
                "driver",
                |facts| {
                    facts.driver =
                        facts.driver.clone().map(|one| one.map(|driver| Driver { lost: 2, ..driver }))
                },
                Verdict::Wrong,
                "2 of 8",
            ),
            (
                "driver",
                |facts| {
                    facts.driver = facts
                        .driver
                        .clone()
                        .map(|one| one.map(|driver| Driver { version: "470.82.01".to_owned(), ..driver }))
                },
                Verdict::Doubtful,
                "older",
            ),
            ("permissions", |facts| facts.control_device = false, Verdict::Wrong, "missing"),
            ("permissions", |facts| facts.control_device_opens = false, Verdict::Wrong, "can not be opened"),
            ("permissions", |facts| facts.root = false, Verdict::Doubtful, "without root"),
            (
                "container toolkit",
                |facts| facts.toolkit = program("version 1.17.7"),
                Verdict::Wrong,
                "CVE-2025-23266",
            ),
            (
                "container toolkit",
                |facts| facts.toolkit = program("version 1.13.1"),
                Verdict::Wrong,
                "CVE-2024-0132",
            ),
            (
                "container runtime",
                |facts| facts.containerd = program("containerd v1.7.24"),
                Verdict::Doubtful,
                "as it is configured",
            ),
            ("kubelet", |facts| facts.device_plugins = false, Verdict::Wrong, "device-plugins is not"),
            ("kernel", |facts| facts.cgroup2 = false, Verdict::Doubtful, "version 1"),
        ];
        for (what, change, verdict, words) in cases {
            let mut facts = well();
            change(&mut facts);
            let finding = about(&facts, what);
            assert!(finding.verdict == verdict && finding.words.contains(words), "{what}: {finding:#?}");
            assert!(finding.todo.is_some(), "{what}: {finding:#?}");
        }
        let old = Facts { toolkit: program("version 1.13.1"), ..well() };
        assert!(about(&old, "container toolkit").todo.is_some_and(|todo| todo.contains("1.17.8")));
    }

    #[test]
    fn cdi_counts_where_the_configuration_says_so() {
        let with = |config: &str| {
            let facts = Facts {
                containerd: program("containerd v1.7.24"),
                containerd_config: Some(config.to_owned()),
                ..well()
            };
            about(&facts, "container runtime").verdict
        };
        assert_eq!(with("[plugins.\"io.containerd.grpc.v1.cri\"]\n  enable_cdi = true\n"), Verdict::Well);
        assert_eq!(with("# enable_cdi = true\nenable_cdi = false\n"), Verdict::Doubtful);
    }
}
