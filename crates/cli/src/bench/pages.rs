//! The pages of a study as files, and what of it is said at once.

use crate::failure::Failure;
use carve_mig_manager::write_whole;
use carve_study::{Study, report, verdicts};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// What pages are called where nobody names them.
pub(crate) const NAME: &str = "report";

/// The folder of the pictures of pages with a name.
fn pictures_of(name: &str) -> &str {
    if name == NAME { "pictures" } else { name }
}

/// Writes the pages of a study into a folder; answers the one for browsers.
pub(crate) fn write(study: &Study, folder: &Path, name: &str) -> Result<PathBuf, Failure> {
    let refused = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| Failure::new(format!("{path}: can not write it: {error}"))
    };
    let pictures = folder.join(pictures_of(name));
    let page = folder.join(format!("{name}.html"));
    std::fs::create_dir_all(&pictures).map_err(refused(&pictures))?;
    let mut files = vec![
        (page.clone(), report::html(study)),
        (folder.join(format!("{name}.md")), report::markdown(study, pictures_of(name))),
    ];
    files.extend(
        report::pictures(study)
            .into_iter()
            .map(|picture| (pictures.join(format!("{}.svg", picture.name)), picture.svg)),
    );
    for (path, text) in files {
        write_whole(&path, text.as_bytes()).map_err(refused(&path))?;
    }
    Ok(page)
}

/// What follows from a study, in the words of its pages.
pub(crate) fn answer(study: &Study) -> String {
    let mut text = String::new();
    for verdict in verdicts(study) {
        // Writing into a string does not fail.
        let _ = writeln!(text, "{verdict}");
    }
    text
}
