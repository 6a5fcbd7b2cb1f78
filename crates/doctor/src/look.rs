//! Looks at a machine.

use crate::facts::{Facts, Program};
use crate::version::Version;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where things are; a test has them elsewhere.
#[derive(Debug, Clone)]
pub struct Places {
    /// The root of files.
    pub root: PathBuf,
    /// Where programs are looked for; the usual path where it is absent.
    pub path: Option<String>,
}

impl Default for Places {
    fn default() -> Self {
        Places { root: PathBuf::from("/"), path: None }
    }
}

impl Places {
    fn file(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn program(&self, name: &str) -> Option<PathBuf> {
        let usual = std::env::var("PATH").unwrap_or_else(|_| "/usr/sbin:/usr/bin:/sbin:/bin".to_owned());
        let path = self.path.clone().unwrap_or(usual);
        path.split(':').map(|folder| Path::new(folder).join(name)).find(|file| file.is_file())
    }

    /// What a program says that it is.
    fn version_of(&self, name: &str) -> Option<Program> {
        let output = Command::new(self.program(name)?).arg("--version").output().ok()?;
        let said =
            String::from_utf8_lossy(if output.stdout.is_empty() { &output.stderr } else { &output.stdout })
                .into_owned();
        Some(Program { version: Version::find(&said), said })
    }
}

/// Everything but the driver, which whoever asks brings.
pub fn look(places: &Places) -> Facts {
    let control = places.file("/dev/nvidiactl");
    let text = |path: &str| std::fs::read_to_string(places.file(path)).ok();
    let uid = text("/proc/self/status").and_then(|status| {
        let line = status.lines().find(|line| line.starts_with("Uid:"))?.to_owned();
        line.split_whitespace().nth(2).map(str::to_owned)
    });
    Facts {
        driver: None,
        control_device: control.exists(),
        control_device_opens: std::fs::File::open(&control).is_ok(),
        root: uid.as_deref() == Some("0"),
        toolkit: places.version_of("nvidia-ctk"),
        mps: places.program("nvidia-cuda-mps-control").is_some(),
        containerd: places.version_of("containerd"),
        containerd_config: text("/etc/containerd/config.toml"),
        crio: places.version_of("crio"),
        docker: places.version_of("docker"),
        kubelet: places.version_of("kubelet"),
        device_plugins: places.file("/var/lib/kubelet/device-plugins").is_dir(),
        dra_plugins: places.file("/var/lib/kubelet/plugins_registry").is_dir(),
        kernel: text("/proc/version"),
        cgroup2: places.file("/sys/fs/cgroup/cgroup.controllers").exists(),
        selinux: text("/sys/fs/selinux/enforce").is_some_and(|text| text.trim() == "1"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Places, look};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_there_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let bin = folder.path().join("bin");
        for path in ["bin", "dev", "var/lib/kubelet/device-plugins", "etc/containerd", "sys/fs/cgroup"] {
            fs::create_dir_all(folder.path().join(path)).expect("a folder");
        }
        let script = bin.join("nvidia-ctk");
        fs::write(&script, "#!/bin/sh\necho NVIDIA Container Toolkit CLI version 1.17.4\n")
            .expect("a program");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("it runs");
        fs::write(folder.path().join("dev/nvidiactl"), "").expect("a file");
        fs::write(folder.path().join("etc/containerd/config.toml"), "enable_cdi = true\n").expect("a file");
        fs::write(folder.path().join("sys/fs/cgroup/cgroup.controllers"), "cpu").expect("a file");
        let facts = look(&Places { root: folder.path().to_owned(), path: Some(bin.display().to_string()) });
        let version = facts.toolkit.and_then(|program| program.version).map(|version| version.to_string());
        assert_eq!(version.as_deref(), Some("1.17.4"));
        assert!(facts.control_device && facts.control_device_opens && facts.device_plugins && facts.cgroup2);
        assert!(!facts.dra_plugins && !facts.selinux && facts.containerd.is_none());
        assert_eq!(facts.containerd_config.as_deref(), Some("enable_cdi = true\n"));
    }
}
