//! The driver's libraries under a root: all of one version, with the links by which programs reach them.

use crate::beneath::Beneath;
use crate::driver::HostRoot;
use crate::elf;
use carve_slicing::cdi::{DriverFile, Library, Link};
use std::collections::{BTreeMap, BTreeSet};

/// Folders for 64-bit libraries, the real ones of a merged /usr first, so that a library is called by its usual path.
const FOLDERS: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/lib64",
    "/lib",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/usr/lib64/nvidia",
    "/usr/local/nvidia/lib64",
    "/usr/local/lib",
    "/run/opengl-driver/lib",
    "/opt/nvidia/lib64",
];

/// What a search found.
#[derive(Debug, Default)]
pub(crate) struct FoundLibraries {
    pub(crate) libraries: Vec<Library>,
    /// Versions of `libcuda` and `libnvidia-ml` that were seen and are not the wanted one.
    pub(crate) other_versions: BTreeSet<String>,
    pub(crate) remarks: Vec<String>,
}

/// Looks through all usual folders.
pub(crate) fn find(root: &Beneath, host: &HostRoot, version: &str) -> FoundLibraries {
    let mut found = FoundLibraries::default();
    let mut libraries: BTreeMap<String, Library> = BTreeMap::new();
    let ending = format!(".so.{version}");
    for folder in FOLDERS {
        let Ok(names) = root.folder(folder).and_then(|folder| folder.names()) else { continue };
        for name in names {
            if !name.ends_with(&ending) {
                found.other_versions.extend(other_version(&name));
                continue;
            }
            if !name.starts_with("lib") || libraries.contains_key(&name) {
                continue;
            }
            let path = format!("{folder}/{name}");
            match library(root, host, folder, &name) {
                Ok(Some(library)) => {
                    libraries.insert(name, library);
                }
                // For another machine: 32-bit libraries carry the same names.
                Ok(None) => {}
                Err(why) => found.remarks.push(format!(
                    "{}: {why}; containers will not have it. Reinstall the driver's libraries if they need it",
                    host.path(&path)
                )),
            }
        }
    }
    found.libraries = libraries.into_values().collect();
    found
}

/// The version of one of the two libraries that every driver has.
fn other_version(name: &str) -> Option<String> {
    let version = ["libcuda.so.", "libnvidia-ml.so."].iter().find_map(|start| name.strip_prefix(start))?;
    // `libcuda.so.1` is the link, not a version.
    version.contains('.').then(|| version.to_owned())
}

fn library(root: &Beneath, host: &HostRoot, folder: &str, name: &str) -> Result<Option<Library>, String> {
    let path = format!("{folder}/{name}");
    let file = root.file(&path).map_err(|error| error.to_string())?;
    let Some(elf) = elf::read(file) else {
        // A 32-bit library is an ELF file too, of the other class.
        let start = root.read_start(&path, 5).map_err(|error| error.to_string())?;
        return if start == b"\x7fELF\x01" { Ok(None) } else { Err("it is no ELF library".to_owned()) };
    };
    if !elf.for_this_machine {
        return Ok(None);
    }
    let real = root.without_links(&path).map_err(|error| error.to_string())?;
    let links = links(root, folder, name, elf.soname.as_deref());
    let file = DriverFile { host_path: host.path(&real), container_path: path };
    Ok(Some(Library { file, soname: elf.soname, links }))
}

/// The links that the driver's installer makes, as far as containers need them.
fn links(root: &Beneath, folder: &str, name: &str, soname: Option<&str>) -> Vec<Link> {
    let mut links = Vec::new();
    let mut add = |target: &str, path: String| {
        let link = Link { path, target: target.to_owned() };
        if !links.contains(&link) {
            links.push(link);
        }
    };
    let soname = soname.unwrap_or(name);
    if soname != name {
        add(name, format!("{folder}/{soname}"));
    }
    let stem = name.split(".so.").next().unwrap_or(name);
    let bare = format!("{folder}/{stem}.so");
    // Many programs ask for these two without a version, whether the node has the link or not.
    let always = matches!(stem, "libcuda" | "libnvidia-opticalflow");
    if soname != format!("{stem}.so") && (always || root.has_name(&bare)) {
        add(soname, bare);
    }
    match stem {
        "libGLX_nvidia" => add(name, format!("{folder}/libGLX_indirect.so.0")),
        "libnvidia-allocator" => {
            let gbm = format!("{folder}/gbm/nvidia-drm_gbm.so");
            if root.has_name(&gbm) {
                add(&format!("../{soname}"), gbm);
            }
        }
        _ => {}
    }
    links
}
