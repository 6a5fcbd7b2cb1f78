//! The chart's files, with what its links lead to instead of the links.

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Every file of a chart by its path in it, in the order of paths.
pub(crate) fn files(chart: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    collect(chart, "", &mut found)?;
    found.sort();
    Ok(found)
}

fn collect(folder: &Path, prefix: &str, found: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let name = format!("{prefix}{}", name.with_context(|| path.display().to_string())?);
        // Through links, which an archive of a chart must not have.
        if path.is_dir() {
            collect(&path, &format!("{name}/"), found)?;
        } else {
            found.push((name, fs::read(&path).with_context(|| path.display().to_string())?));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::files;

    #[test]
    fn links_are_followed_and_the_chart_has_what_its_templates_read() {
        let found = files(&crate::root().join("charts/carve")).unwrap();
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.contains(&"Chart.yaml") && names.is_sorted(), "{names:?}");
        for folder in ["files/crds/", "files/grafana/", "files/prometheus/"] {
            let inside =
                found.iter().filter(|(name, contents)| name.starts_with(folder) && !contents.is_empty());
            assert!(inside.count() > 0, "{folder}: {names:?}");
        }
        let gone = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("nowhere", gone.path().join("link")).unwrap();
        assert!(files(gone.path()).is_err());
    }
}
