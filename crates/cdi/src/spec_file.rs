//! Leaves the CDI files where container runtimes look for them.

use crate::beneath::Folder;
use carve_formats::cdi::Spec;
use carve_slicing::cdi::HOOK_VERB;
use carve_slicing::{CdiClass, ClassSpecs};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The folder for files that may be gone after a reboot, on the host.
pub const SPEC_DIR: &str = "/var/run/cdi";

/// What writing one file came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// The file says it already, or is rightly not there.
    Unchanged,
    /// The file is new.
    New,
    /// There is no device, and a runtime refuses a file without one: the file is gone.
    Removed,
}

/// Why a file can not be written or taken away.
#[derive(Debug, Error)]
#[error(
    "cannot bring {} up to date; containers that ask for what it names would get something old or not start. \
     Check that the folder is mounted and writable", path.display()
)]
pub struct WriteError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// Brings the files of all classes up to date, and takes away those of classes that are not asked for any more.
///
/// A file that can not be written does not keep the others from being written; the first error is told.
pub fn write_all(folder: &Path, gpus: &Spec, beside: &ClassSpecs) -> Result<(), WriteError> {
    let nothing = Spec::default();
    let mut first = Ok(());
    for class in CdiClass::ALL {
        let spec = match class {
            CdiClass::Gpu => gpus,
            _ => beside.specs.get(&class).unwrap_or(&nothing),
        };
        first = first.and(write_class(folder, class, spec).map(|_| ()));
    }
    first
}

/// Writes the file of the GPUs, all at once, unless it is there already.
pub fn write_spec(folder: &Path, spec: &Spec) -> Result<Written, WriteError> {
    write_class(folder, CdiClass::Gpu, spec)
}

/// Takes the files of all classes away, if they are ours. Tells whether there were any.
///
/// NVIDIA's plugin gives its files the same names; ours call `cdi-hook`. The file of the GPUs decides for all, and goes last:
/// who is interrupted finds it the next time.
pub fn remove_ours(folder: &Path) -> Result<bool, WriteError> {
    let path = folder.join(CdiClass::Gpu.file_name());
    let ours = std::fs::read_to_string(&path).is_ok_and(|text| {
        Spec::parse(&text).is_ok_and(|spec| {
            let devices = spec.devices.iter().map(|device| &device.container_edits);
            let mut hooks =
                devices.chain(std::iter::once(&spec.container_edits)).flat_map(|edits| &edits.hooks);
            hooks.any(|hook| hook.args.get(1).is_some_and(|verb| verb == HOOK_VERB))
        })
    });
    if !ours {
        return Ok(false);
    }
    let (gpus, others): (Vec<CdiClass>, Vec<CdiClass>) =
        CdiClass::ALL.into_iter().partition(|class| *class == CdiClass::Gpu);
    for class in others.into_iter().chain(gpus) {
        write_class(folder, class, &Spec::default())?;
    }
    Ok(true)
}

/// Writes a file by its name, all at once, unless it says that already.
pub fn write_named(folder: &Path, name: &str, spec: &Spec) -> Result<Written, WriteError> {
    write(folder, name, spec).map_err(|source| WriteError { path: folder.join(name), source })
}

/// Takes a file away by its name; tells whether it was there.
pub fn remove_named(folder: &Path, name: &str) -> Result<bool, WriteError> {
    let error = |source| WriteError { path: folder.join(name), source };
    match std::fs::remove_file(folder.join(name)) {
        Ok(()) => Ok(true),
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(error(source)),
    }
}

fn write_class(folder: &Path, class: CdiClass, spec: &Spec) -> Result<Written, WriteError> {
    write_named(folder, &class.file_name(), spec)
}

fn write(path: &Path, name: &str, spec: &Spec) -> io::Result<Written> {
    std::fs::create_dir_all(path)?;
    let folder = Folder::trusted(path)?;
    if spec.devices.is_empty() {
        let was_there = folder.remove(name)?;
        return Ok(if was_there { Written::Removed } else { Written::Unchanged });
    }
    let content = spec.to_json();
    // What can not be read is written anew.
    if std::fs::read(path.join(name)).is_ok_and(|found| found == content.as_bytes()) {
        return Ok(Written::Unchanged);
    }
    folder.put_file(name, content.as_bytes(), 0o644)?;
    Ok(Written::New)
}
