//! Builds the Kubernetes of the lab: one program from its Go module, and kubectl beside it, once for each release.

use crate::places::Places;
use crate::programs::follow;
use crate::release::Release;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Changes when the sources under `lab/kubernetes` do in a way that matters.
const EDITION: &str = "2";

/// The folder with the program, its names (`kubelet`, …) and kubectl, built if it is not there.
pub(crate) fn built(places: &Places, release: Release) -> Result<PathBuf> {
    let folder = places.cache().join(format!("kubernetes-{}-{EDITION}", release.version));
    let program = folder.join("kubernetes");
    if !program.exists() {
        eprintln!(
            "building Kubernetes {} once, some 2,400 packages; whoever interrupts it keeps what is compiled",
            release.version
        );
        build(places, release, &folder)?;
    }
    Ok(folder)
}

fn build(places: &Places, release: Release, folder: &Path) -> Result<()> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kubernetes");
    // Other releases need another go.mod; the copy keeps the repository as it is.
    let work = places.cache().join(format!("build-{}", release.version));
    if work.exists() {
        fs::remove_dir_all(&work)?;
    }
    fs::create_dir_all(work.join("kubectl"))?;
    let manifest = fs::read_to_string(source.join("go.mod")).context("lab/kubernetes/go.mod")?;
    for file in ["main.go", "kubectl/main.go"] {
        fs::copy(source.join(file), work.join(file)).context(file)?;
    }
    if release == Release::DEFAULT {
        fs::write(work.join("go.mod"), manifest)?;
        fs::copy(source.join("go.sum"), work.join("go.sum"))?;
    } else {
        fs::write(work.join("go.mod"), manifest_for(release, &manifest))?;
    }
    let (major, minor) = release.numbers();
    let told = |name: &str, value: &str| format!("-X k8s.io/component-base/version.{name}={value}");
    let flags = [
        "-s -w".to_owned(),
        told("gitVersion", release.version),
        told("gitMajor", major),
        told("gitMinor", minor),
        told("gitTreeState", "clean"),
        told("gitCommit", "unknown"),
        // The components compare their versions, and refuse a build without a date.
        told("buildDate", "1970-01-01T00:00:00Z"),
    ];
    let new = places.cache().join(format!("kubernetes-{}-new", release.version));
    if new.exists() {
        fs::remove_dir_all(&new)?;
    }
    fs::create_dir_all(&new)?;
    for (package, program) in [(".", "kubernetes"), ("./kubectl", "kubectl")] {
        let mut go = Command::new("go");
        go.args(["build", "-v", "-trimpath", "-ldflags", &flags.join(" "), "-o"])
            .arg(new.join(program))
            .arg(package)
            .current_dir(&work)
            .env("CGO_ENABLED", "0")
            .env("GOFLAGS", "-mod=mod -buildvcs=false")
            .env("GOWORK", "off");
        follow(&mut go).with_context(|| format!("building {program} from Kubernetes' Go module"))?;
    }
    for name in ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"] {
        std::os::unix::fs::symlink("kubernetes", new.join(name))?;
    }
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::rename(&new, folder)?;
    fs::remove_dir_all(&work)?;
    Ok(())
}

/// The go.mod of another release: Go finds the indirect modules anew, and staging modules that the release
/// does not have yet may not be replaced.
fn manifest_for(release: Release, default: &str) -> String {
    let versions = default
        .replace(Release::DEFAULT.version, release.version)
        .replace(Release::DEFAULT.staging, release.staging);
    let absent = |line: &str| release.absent.iter().any(|module| line.contains(&format!("k8s.io/{module} ")));
    versions
        .lines()
        .filter(|line| !line.ends_with("// indirect") && !absent(line))
        .map(|line| format!("{line}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::manifest_for;
    use crate::release::Release;

    #[test]
    fn another_release_has_its_own_manifest() {
        let older = Release::named("1.35").unwrap();
        let manifest = manifest_for(older, include_str!("../kubernetes/go.mod"));
        assert!(manifest.contains("k8s.io/kubernetes v1.35.4\n"), "{manifest}");
        assert!(manifest.contains("k8s.io/api => k8s.io/api v0.35.4\n"), "{manifest}");
        for gone in ["0.36", "1.36", "indirect", "streaming"] {
            assert!(!manifest.contains(gone), "{gone} in {manifest}");
        }
    }
}
