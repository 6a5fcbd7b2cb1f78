//! Writes the configuration of a plan into a folder.

use super::show::title;
use crate::failure::{Failure, Outcome};
use crate::output;
use carve_fleet_plan::{Plan, files};
use carve_formats::workloads::Workload;
use std::path::Path;

/// Writes every file and says so on stderr. A file that is there and different is not written over.
pub(crate) fn write(folder: &Path, plan: &Plan, workloads: &[Workload]) -> Outcome {
    let failed = |path: &Path, error: std::io::Error| {
        Failure::new(format!("{}: can not write it: {error}", path.display()))
    };
    let files = files(plan, workloads).map_err(|mixed| {
        let name = workloads.get(mixed.workload).map(title).unwrap_or_default();
        Failure::new(format!("nothing is written: {name}: {mixed}"))
    })?;
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    for file in &files {
        let path = folder.join(&file.name);
        if std::fs::read(&path).is_ok_and(|there| there != file.text.as_bytes()) {
            return Err(Failure::new(format!(
                "{}: is there already and says something else",
                path.display()
            ))
            .hint("choose an empty folder"));
        }
    }
    for file in files {
        let path = folder.join(&file.name);
        output::put(&path, file.text.as_bytes()).map_err(|error| failed(&path, error))?;
        eprintln!("wrote {}", path.display());
    }
    Ok(())
}
