//! Leaves the CDI file where container runtimes look for it.

use crate::beneath::Folder;
use carve_formats::cdi::Spec;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The folder for files that may be gone after a reboot, on the host.
pub const SPEC_DIR: &str = "/var/run/cdi";
/// The file's name, by its kind as NVIDIA's plugin makes it.
pub const SPEC_FILE: &str = "k8s.device-plugin.nvidia.com-gpu.json";

/// What writing came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// The file says it already.
    Unchanged,
    /// The file is new.
    New,
    /// There is no device, and a runtime refuses a file without one: the file is gone.
    Removed,
}

/// Why the file can not be written.
#[derive(Debug, Error)]
#[error("cannot write {}; containers that ask for a GPU would get an old one or none. Check that the folder is mounted and writable", path.display())]
pub struct WriteError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// Writes the file, all at once, unless it is there already.
pub fn write_spec(folder: &Path, spec: &Spec) -> Result<Written, WriteError> {
    write(folder, spec).map_err(|source| WriteError { path: folder.join(SPEC_FILE), source })
}

fn write(path: &Path, spec: &Spec) -> io::Result<Written> {
    std::fs::create_dir_all(path)?;
    let folder = Folder::trusted(path)?;
    if spec.devices.is_empty() {
        let was_there = folder.remove(SPEC_FILE)?;
        return Ok(if was_there { Written::Removed } else { Written::Unchanged });
    }
    let content = spec.to_json();
    // What can not be read is written anew.
    if std::fs::read(path.join(SPEC_FILE)).is_ok_and(|found| found == content.as_bytes()) {
        return Ok(Written::Unchanged);
    }
    folder.put_file(SPEC_FILE, content.as_bytes(), 0o644)?;
    Ok(Written::New)
}
