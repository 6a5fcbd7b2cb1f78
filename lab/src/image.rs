//! Container images without a registry or a container engine: an OCI layout in a tar file, the same bytes every time.

use crate::programs::run;
use anyhow::{Context, Result};
use carve_test_support::libraries_of;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file in an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFile {
    /// Its contents.
    pub contents: Vec<u8>,
    /// Whether it may be executed.
    pub executable: bool,
}

/// An image in the making: one layer, one entry point.
#[derive(Debug, Clone)]
pub struct Image {
    name: String,
    files: BTreeMap<PathBuf, ImageFile>,
    entrypoint: Vec<String>,
    environment: Vec<String>,
}

impl Image {
    /// An empty image with a name such as `localhost/carve:test`.
    pub fn new(name: &str) -> Self {
        Image {
            name: name.to_owned(),
            files: BTreeMap::new(),
            entrypoint: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a file.
    pub fn file(mut self, path: impl Into<PathBuf>, contents: Vec<u8>, executable: bool) -> Self {
        self.files.insert(path.into(), ImageFile { contents, executable });
        self
    }

    /// Adds a program with the shared libraries it needs, at the places where its loader looks for them.
    pub fn program(mut self, source: &Path, path: &str) -> Result<Self> {
        let read = |file: &Path| fs::read(file).with_context(|| file.display().to_string());
        for library in libraries_of(source).with_context(|| source.display().to_string())? {
            let contents = read(&library)?;
            self.files.insert(library, ImageFile { contents, executable: true });
        }
        Ok(self.file(path, read(source)?, true))
    }

    /// What runs when a pod names no command.
    pub fn entrypoint<const N: usize>(mut self, words: [&str; N]) -> Self {
        self.entrypoint = words.map(str::to_owned).to_vec();
        self
    }

    /// Adds an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push(format!("{name}={value}"));
        self
    }

    /// Writes the image as a tar file that `ctr images import` takes.
    pub fn write(&self, path: &Path) -> Result<()> {
        let layer = self.layer()?;
        let config = json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "config": {"Entrypoint": self.entrypoint, "Env": self.environment, "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [digest(&layer)]},
        });
        let config = serde_json::to_vec(&config)?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
            "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", &layer)],
        });
        let manifest = serde_json::to_vec(&manifest)?;
        let mut top = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
        top["annotations"] = json!({"io.containerd.image.name": self.name});
        let index = json!({"schemaVersion": 2, "manifests": [top]});
        let mut tar = tar::Builder::new(Vec::new());
        append(&mut tar, "oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#, 0o644)?;
        append(&mut tar, "index.json", &serde_json::to_vec(&index)?, 0o644)?;
        for blob in [&layer, &config, &manifest] {
            append(&mut tar, &blob_path(blob), blob, 0o644)?;
        }
        fs::write(path, tar.into_inner()?).with_context(|| path.display().to_string())
    }

    /// The one layer. Folders come before what is in them, because unpacking makes none by itself.
    fn layer(&self) -> Result<Vec<u8>> {
        let mut tar = tar::Builder::new(Vec::new());
        let inside = |path: &Path| path.strip_prefix("/").unwrap_or(path).to_owned();
        let folders: BTreeSet<PathBuf> = self
            .files
            .keys()
            .flat_map(|path| inside(path).ancestors().skip(1).map(Path::to_owned).collect::<Vec<_>>())
            .chain(["tmp", "proc", "sys", "dev", "etc"].map(PathBuf::from))
            .filter(|path| !path.as_os_str().is_empty())
            .collect();
        for folder in folders {
            let mut header = header(0, if folder.as_os_str() == "tmp" { 0o1777 } else { 0o755 });
            header.set_entry_type(tar::EntryType::Directory);
            header.set_cksum();
            tar.append_data(&mut header, &folder, std::io::empty())?;
        }
        for (path, file) in &self.files {
            let path = inside(path);
            append(
                &mut tar,
                &path.display().to_string(),
                &file.contents,
                if file.executable { 0o755 } else { 0o644 },
            )?;
        }
        Ok(tar.into_inner()?)
    }
}

/// No clock, no owner: the same image is the same bytes.
fn header(size: u64, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(mode);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

fn append(tar: &mut tar::Builder<Vec<u8>>, path: &str, contents: &[u8], mode: u32) -> Result<()> {
    let mut header = header(contents.len() as u64, mode);
    header.set_cksum();
    Ok(tar.append_data(&mut header, path, contents)?)
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(bytes))
}

fn blob_path(bytes: &[u8]) -> String {
    format!("blobs/sha256/{}", hex(bytes))
}

fn descriptor(kind: &str, bytes: &[u8]) -> serde_json::Value {
    json!({"mediaType": kind, "digest": digest(bytes), "size": bytes.len()})
}

/// The pause image, made of a static program.
pub(crate) fn pause(go_module: &Path, cache: &Path) -> Result<PathBuf> {
    let tar = cache.join("pause-1.tar");
    if tar.exists() {
        return Ok(tar);
    }
    let program = cache.join("pause");
    let mut go = Command::new("go");
    go.args(["build", "-trimpath", "-ldflags", "-s -w", "-o"]).arg(&program).arg("pause/main.go");
    run(go
        .current_dir(go_module)
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-buildvcs=false")
        .env("GOWORK", "off"))?;
    let image = Image::new(crate::config::PAUSE).program(&program, "/pause")?.entrypoint(["/pause"]);
    let new = tar.with_extension("new");
    image.write(&new)?;
    fs::rename(&new, &tar)?;
    Ok(tar)
}

#[cfg(test)]
mod tests {
    use super::Image;
    use std::path::{Path, PathBuf};

    #[test]
    fn the_same_image_is_the_same_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let image = Image::new("localhost/x:1")
            .program(Path::new("/bin/sh"), "/bin/sh")
            .unwrap()
            .entrypoint(["/bin/sh"]);
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        image.write(&one).unwrap();
        image.write(&two).unwrap();
        let bytes = std::fs::read(&one).unwrap();
        assert_eq!(bytes, std::fs::read(&two).unwrap());
        let names: Vec<PathBuf> = tar::Archive::new(&bytes[..])
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().into_owned())
            .collect();
        assert!(names.contains(&PathBuf::from("index.json")) && names.len() == 5, "{names:?}");
    }
}
