//! The files of started pods: a record for each, limits, and a CDI file for each token; each is there whole or not at all.
//!
//! A record is written before anything of its pod and removed after everything of it, so that whatever a kill leaves is named in one.

use crate::dra::shares::Found;
use carve_bookings::{ContainerSlices, Slice, Started};
use carve_cdi::{remove_named, write_named};
use carve_dra_driver::{ContextMemory, NodeFiles, Places, leave_preload};
use carve_gpu_model::GpuUuid;
use carve_limiter_host::{Limits, Share};
use carve_mig_manager::write_whole;
use carve_slicing::{slice_file_name, slice_spec, token_of_file};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Where everything is.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    /// Of records.
    pub(crate) folder: PathBuf,
    pub(crate) cdi_folder: PathBuf,
    pub(crate) places: Places,
    pub(crate) context: ContextMemory,
}

/// What containers need of the node.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeParts {
    pub(crate) files: NodeFiles,
    /// Numbers of device nodes.
    pub(crate) minors: BTreeMap<GpuUuid, u32>,
}

fn at(path: &Path, doing: &str) -> impl FnOnce(io::Error) -> String {
    let path = path.display().to_string();
    move |error| {
        format!(
            "{path}: can not {doing}: {error}; make room or make the folder writable, kubelet tries again"
        )
    }
}

impl Store {
    /// Keeps other agents of this node out as long as the file lives.
    pub(crate) fn lock(&self) -> Result<File, String> {
        fs::create_dir_all(&self.folder).map_err(at(&self.folder, "make"))?;
        let path = self.folder.join("lock");
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(at(&path, "open"))?;
        file.lock().map_err(at(&path, "lock"))?;
        Ok(file)
    }

    /// Everything that was started, by uid. A record that does not read is told and passed over: its pod is known again when it starts again.
    pub(crate) fn records(&self) -> Result<BTreeMap<String, Started>, String> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(at(&self.folder, "read")(error)),
        };
        let mut records = BTreeMap::new();
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let text = fs::read(&path).map_err(at(&path, "read"))?;
            match serde_json::from_slice::<Started>(&text) {
                Ok(record) => drop(records.insert(record.uid.clone(), record)),
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "a record of a started pod does not read")
                }
            }
        }
        Ok(records)
    }

    fn record_path(&self, uid: &str) -> Result<PathBuf, String> {
        // It becomes a name of files here and of a folder where limits are.
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        if uid.is_empty() || !uid.chars().all(plain) {
            return Err(format!("'{uid}' is not the uid of a pod"));
        }
        Ok(self.folder.join(format!("{uid}.json")))
    }

    /// Writes a record.
    pub(crate) fn put(&self, record: &Started) -> Result<(), String> {
        let path = self.record_path(&record.uid)?;
        let text = serde_json::to_vec_pretty(record).map_err(|error| error.to_string())?;
        write_whole(&path, &text).map_err(at(&path, "write"))
    }

    /// Writes limits and CDI files of a container whose record is there.
    pub(crate) fn write(
        &self,
        uid: &str,
        container: &ContainerSlices,
        tokens: &BTreeSet<String>,
        parts: &NodeParts,
    ) -> Result<(), String> {
        let hook = parts
            .files
            .hook
            .as_ref()
            .ok_or("the driver's files were not found yet; see the agent's events")?;
        if self.places.limiter.is_some() {
            let path = self.places.preload();
            leave_preload(&path).map_err(at(&path, "write"))?;
        }
        for (number, (token, slice)) in tokens.iter().zip(&container.slices).enumerate() {
            let minor = parts.minors.get(&slice.gpu).ok_or_else(|| format!("{} is not here", slice.gpu))?;
            let share = share_name(&container.name, token);
            let limits = self.limits(slice);
            Share::create(&self.places.shares_of(uid), &slice.gpu.0, &share, &limits)
                .map_err(|error| with_source(&error))?;
            let mounts = self.places.share_mounts(uid, &slice.gpu.0, &share);
            let (files, driver) = (&parts.files, (number == 0).then_some(hook));
            let spec = slice_spec(token, *minor, &files.driver, &files.dev_root, driver, mounts);
            write_named(&self.cdi_folder, &slice_file_name(token), &spec)
                .map_err(|error| with_source(&error))?;
        }
        Ok(())
    }

    /// The shares of all containers that were started.
    pub(crate) fn shares(&self) -> Option<Found> {
        let mut found = Found::new();
        for record in self.records().ok()?.into_values() {
            for container in &record.slices {
                let tokens = record.tokens.get(&container.name).into_iter().flatten();
                for (token, slice) in tokens.zip(&container.slices) {
                    let share = (record.uid.clone(), share_name(&container.name, token));
                    found.entry(slice.gpu.0.clone()).or_default().insert(share);
                }
            }
        }
        Some(found)
    }

    fn limits(&self, slice: &Slice) -> Limits {
        Limits {
            memory: slice.memory.bytes().0,
            // Thousandths here, ten-thousandths there.
            compute: slice.compute.0.min(1000) * 10,
            context: self.context.of(&slice.gpu.0, false),
            burst: slice.burst,
            pass: false,
            mps: false,
        }
    }

    /// Removes everything of a pod, its record last. Tokens that others have by now stay.
    pub(crate) fn forget(&self, record: &Started, others: &BTreeSet<String>) -> Result<(), String> {
        let path = self.record_path(&record.uid)?;
        for token in record.all_tokens().difference(others) {
            remove_named(&self.cdi_folder, &slice_file_name(token)).map_err(|error| with_source(&error))?;
        }
        let limits = self.places.shares_of(&record.uid);
        match fs::remove_dir_all(&limits) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(at(&limits, "remove")(error));
            }
            _ => {}
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(&path, "remove")(error)),
            _ => Ok(()),
        }
    }

    /// Tokens that have a CDI file.
    pub(crate) fn tokens_with_files(&self) -> BTreeSet<String> {
        let entries = fs::read_dir(&self.cdi_folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| token_of_file(&name).map(str::to_owned)).collect()
    }

    /// Removes the CDI file of a token that no record names.
    pub(crate) fn remove_file_of(&self, token: &str) -> Result<(), String> {
        let removed = remove_named(&self.cdi_folder, &slice_file_name(token));
        removed.map(drop).map_err(|error| with_source(&error))
    }
}

/// What the share of a container is called where limits are kept. Init containers leave their tokens to others of their pod.
pub(super) fn share_name(container: &str, token: &str) -> String {
    format!("{container}.{token}")
}

fn with_source(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"))
}
