//! Whether what was packed is what was promised: it unpacks, it runs with nothing but itself, and Helm takes the chart.

use crate::cache;
use crate::dist::pack::{SUMS, image_name};
use crate::run::{is_ci, read, run};
use anyhow::{Context, Result, bail, ensure};
use carve_oci_image::{Architecture, sha256};
use flate2::read::GzDecoder;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;

/// Says that something is not tried; CI must try everything.
pub(crate) fn skip(what: &str) -> Result<()> {
    if is_ci() {
        bail!("not tried: {what}; CI must not skip");
    }
    eprintln!("SKIPPED: {what}");
    Ok(())
}

/// Every file's checksum holds, and none is without one.
pub(crate) fn sums(files: &BTreeMap<String, Vec<u8>>) -> Result<()> {
    let sums = files.get(SUMS).context("there are no checksums")?;
    let sums = String::from_utf8_lossy(sums);
    let mut named = 0;
    for line in sums.lines() {
        let (sum, name) = line.split_once("  ").with_context(|| format!("{SUMS} says {line}"))?;
        let bytes = files.get(name).with_context(|| format!("{SUMS} names {name}, which is not there"))?;
        ensure!(sha256(bytes) == sum, "{name} is not what {SUMS} says");
        named += 1;
    }
    ensure!(named + 1 == files.len(), "{SUMS} names {named} of {} files", files.len() - 1);
    Ok(())
}

/// The image's own carve runs where there is nothing but the image: as root, and as the user of the controller.
pub(crate) fn image_runs(files: &BTreeMap<String, Vec<u8>>, version: &str, scratch: &Path) -> Result<()> {
    let name = image_name(version);
    let image = files.get(&name).with_context(|| format!("{name} is not there"))?;
    let layer = layer_of(image, Architecture::OWN).context(name)?;
    let root = scratch.join("image");
    unpack(&layer, &root)?;
    let shells: Vec<&str> =
        ["bin/sh", "usr/bin/sh", "bin/bash"].into_iter().filter(|path| root.join(path).exists()).collect();
    ensure!(shells.is_empty(), "the image has a shell: {}", shells.join(", "));
    if !rustix::process::geteuid().is_root() {
        return skip("carve in its image, which only root can try");
    }
    for user in ["0:0", "65532:65532"] {
        let mut command = Command::new("chroot");
        command.arg(format!("--userspec={user}")).arg(&root).args(["/usr/bin/carve", "--version"]);
        says_version(&mut command, version)
            .with_context(|| format!("as {user} with nothing but the image"))?;
    }
    Ok(())
}

/// The archive for this machine unpacks, and what is in it runs here.
pub(crate) fn archive_runs(files: &BTreeMap<String, Vec<u8>>, version: &str, scratch: &Path) -> Result<()> {
    let folder = format!("carve-{version}-{}-linux", Architecture::OWN.compiler_name());
    let name = format!("{folder}.tar.gz");
    let archive = files.get(&name).with_context(|| format!("{name} is not there"))?;
    let unpacked = scratch.join("archive");
    unpack(&unzipped(archive)?, &unpacked)?;
    says_version(Command::new(unpacked.join(folder).join("carve")).arg("--version"), version)
}

fn says_version(command: &mut Command, version: &str) -> Result<()> {
    let said = read(command)?;
    ensure!(
        said.trim() == format!("carve {version}"),
        "carve --version says '{}', not {version}",
        said.trim()
    );
    Ok(())
}

/// Helm finds nothing wrong with the chart and makes manifests of it, which name the image of this version.
pub(crate) fn chart_renders(files: &BTreeMap<String, Vec<u8>>, version: &str, scratch: &Path) -> Result<()> {
    let helm = cache().join("incumbents/bin/helm");
    if !helm.exists() {
        return skip("Helm's opinion of the chart; 'cargo xtask incumbents' builds Helm");
    }
    let name = format!("carve-chart-{version}.tgz");
    let chart = scratch.join(&name);
    fs::write(&chart, files.get(&name).with_context(|| format!("{name} is not there"))?)?;
    run(Command::new(&helm).args(["lint", "--quiet"]).arg(&chart))?;
    let manifests = read(Command::new(&helm).args(["template", "carve"]).arg(&chart))?;
    let image = format!("image: carve:{version}");
    ensure!(manifests.contains(&image), "the chart's manifests do not name '{image}'");
    ensure!(manifests.contains("kind: CustomResourceDefinition"), "the chart has lost its definitions");
    Ok(())
}

/// The one layer of a platform's image in a layout, by way of every digest that leads there.
pub(crate) fn layer_of(layout: &[u8], architecture: Architecture) -> Result<Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(layout).entries()? {
        let mut entry = entry?;
        let (path, mut bytes) = (entry.path()?.display().to_string(), Vec::new());
        entry.read_to_end(&mut bytes)?;
        files.insert(path, bytes);
    }
    let blob = |descriptor: &Value| -> Result<&Vec<u8>> {
        let digest = descriptor["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
        let digest = digest.with_context(|| format!("{descriptor} has no digest"))?;
        let bytes =
            files.get(&format!("blobs/sha256/{digest}")).with_context(|| format!("{digest} is not there"))?;
        ensure!(sha256(bytes) == digest, "{digest} is something else");
        ensure!(descriptor["size"] == bytes.len(), "{digest} is of another size");
        Ok(bytes)
    };
    let index = files.get("index.json").context("there is no index.json")?;
    let index: Value = serde_json::from_slice(index)?;
    let mut top = index["manifests"][0].clone();
    if top["mediaType"] == "application/vnd.oci.image.index.v1+json" {
        let platforms: Value = serde_json::from_slice(blob(&top)?)?;
        let own = |entry: &&Value| entry["platform"]["architecture"] == architecture.name();
        let entry = platforms["manifests"].as_array().and_then(|entries| entries.iter().find(own));
        top = entry.with_context(|| format!("no image is for {}", architecture.name()))?.clone();
    }
    let manifest: Value = serde_json::from_slice(blob(&top)?)?;
    let config: Value = serde_json::from_slice(blob(&manifest["config"])?)?;
    ensure!(config["architecture"] == architecture.name(), "the config is of another processor");
    let layer = unzipped(blob(&manifest["layers"][0])?)?;
    let promised = format!("sha256:{}", sha256(&layer));
    ensure!(config["rootfs"]["diff_ids"][0] == promised, "the layer is not the one of the config");
    Ok(layer)
}

fn unzipped(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut out)?;
    Ok(out)
}

fn unpack(tar: &[u8], folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let mut archive = tar::Archive::new(tar);
    archive.set_preserve_permissions(true);
    archive.unpack(folder).with_context(|| folder.display().to_string())
}
