//! A folder of links to the driver's own libraries, for its programs that this process starts.
//!
//! In a container the driver's root is mounted somewhere. Its library folders can not simply be searched: they hold the
//! host's C library too, which does not go with the container's loader. The folder has the driver's libraries and no others.

use crate::options::AgentOptions;
use carve_cdi::{HostRoot, find_driver_files};
use carve_slicing::cdi::DriverFiles;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the links are, and how they are made.
#[derive(Debug, Clone)]
pub(crate) struct DriverLinks {
    root: PathBuf,
    folder: PathBuf,
}

impl DriverLinks {
    pub(crate) fn new(options: &AgentOptions) -> Self {
        let folder = options.driver_links();
        DriverLinks { root: options.container_driver_root.clone(), folder }
    }

    /// Where the driver's root is for this process, if it is mounted.
    pub(crate) fn root(&self) -> Option<&Path> {
        let mounted = fs::read_dir(&self.root).is_ok_and(|mut entries| entries.next().is_some());
        mounted.then_some(self.root.as_path())
    }

    /// Makes the links, and says where they are. `None` where the driver is at home and the loader finds it by itself.
    pub(crate) fn make(&self, driver_root: &str, version: &str) -> Option<PathBuf> {
        let root = self.root()?;
        let host = HostRoot { on_host: driver_root.to_owned(), here: root.to_owned() };
        let files = match find_driver_files(&host, &host, version) {
            Ok(found) => found.files,
            Err(error) => {
                tracing::warn!(%error, "the driver's libraries can not be linked; its programs may not start");
                return None;
            }
        };
        match self.link(&files, driver_root, root) {
            Ok(()) => Some(self.folder.clone()),
            Err(error) => {
                tracing::warn!(%error, folder = %self.folder.display(), "the driver's libraries can not be linked");
                None
            }
        }
    }

    fn link(&self, files: &DriverFiles, driver_root: &str, root: &Path) -> std::io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        for library in &files.libraries {
            let within = library.file.host_path.strip_prefix(driver_root.trim_end_matches('/'));
            let target = root.join(within.unwrap_or(&library.file.host_path).trim_start_matches('/'));
            let links = library.links.iter().map(|link| link.path.as_str());
            for name in std::iter::once(library.file.container_path.as_str()).chain(links) {
                let Some(name) = Path::new(name).file_name() else { continue };
                let (link, new) = (self.folder.join(name), self.folder.join(".new"));
                if fs::read_link(&link).is_ok_and(|there| there == target) {
                    continue;
                }
                let _ = fs::remove_file(&new);
                std::os::unix::fs::symlink(&target, &new)?;
                fs::rename(&new, &link)?;
            }
        }
        Ok(())
    }
}
