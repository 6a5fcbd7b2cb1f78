//! Writes what is to be applied into a folder.

use crate::failure::{Failure, Outcome};
use crate::output;
use carve_advisor::Advice;
use std::path::{Component, Path};

/// Writes every file and says so on stderr. A file that is there and different is not written over.
pub(crate) fn write(folder: &Path, advice: &Advice) -> Outcome {
    let failed = |path: &Path, error: std::io::Error| {
        Failure::new(format!("{}: can not write it: {error}", path.display()))
    };
    if advice.diffs.is_empty() {
        eprintln!("nothing to apply, nothing is written");
        return Ok(());
    }
    for diff in &advice.diffs {
        // Names of objects come from the cluster; none of them leads out of the folder.
        let inside = Path::new(&diff.file).components().all(|part| matches!(part, Component::Normal(_)));
        if !inside {
            return Err(Failure::new(format!("nothing is written: '{}' is no name of a file", diff.file)));
        }
        let path = folder.join(&diff.file);
        if std::fs::read(&path).is_ok_and(|there| there != diff.text.as_bytes()) {
            let what = format!("{}: is there already and says something else", path.display());
            return Err(Failure::new(what).hint("choose an empty folder"));
        }
    }
    for diff in &advice.diffs {
        let path = folder.join(&diff.file);
        let parent = path.parent().unwrap_or(folder);
        std::fs::create_dir_all(parent).map_err(|error| failed(parent, error))?;
        output::put(&path, diff.text.as_bytes()).map_err(|error| failed(&path, error))?;
        eprintln!("wrote {}: {}", path.display(), diff.apply);
    }
    Ok(())
}
