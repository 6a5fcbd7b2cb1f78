//! Builds the Kubernetes of the lab: one program from its Go module, once for each release.

use crate::places::Places;
use crate::programs::follow;
use crate::release::Release;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Changes when the sources under `lab/kubernetes` do in a way that matters.
const EDITION: &str = "1";

/// The folder with the program and its names (`kubelet`, `kubectl`, …), built if it is not there.
pub(crate) fn built(places: &Places, release: Release) -> Result<PathBuf> {
    let folder = places.cache().join(format!("kubernetes-{}-{EDITION}", release.version));
    let program = folder.join("kubernetes");
    if !program.exists() {
        eprintln!("building Kubernetes {}; this takes some minutes, once", release.version);
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
    fs::create_dir_all(&work)?;
    let manifest = fs::read_to_string(source.join("go.mod")).context("lab/kubernetes/go.mod")?;
    let default = Release::DEFAULT;
    let manifest =
        manifest.replace(default.version, release.version).replace(default.staging, release.staging);
    fs::write(work.join("go.mod"), manifest)?;
    fs::copy(source.join("main.go"), work.join("main.go"))?;
    if release == default {
        fs::copy(source.join("go.sum"), work.join("go.sum"))?;
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
    let new = folder.with_extension("new");
    if new.exists() {
        fs::remove_dir_all(&new)?;
    }
    fs::create_dir_all(&new)?;
    let mut go = Command::new("go");
    go.args(["build", "-v", "-trimpath", "-ldflags", &flags.join(" "), "-o"])
        .arg(new.join("kubernetes"))
        .arg(".")
        .current_dir(&work)
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-mod=mod -buildvcs=false")
        .env("GOWORK", "off");
    follow(&mut go).context("building Kubernetes from its Go module")?;
    for name in ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl"] {
        std::os::unix::fs::symlink("kubernetes", new.join(name))?;
    }
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::rename(&new, folder)?;
    fs::remove_dir_all(&work)?;
    Ok(())
}
