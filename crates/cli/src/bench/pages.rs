//! The pages of a study as files, and what of it is said at once.

use crate::failure::{Failure, Outcome};
use carve_mig_manager::write_whole;
use carve_study::{Study, report, verdicts};
use std::fmt::Write;
use std::path::Path;

/// The page for browsers.
pub(crate) const PAGE: &str = "report.html";
const MARKDOWN: &str = "report.md";
const PICTURES: &str = "pictures";

/// Writes the pages of a study into a folder.
pub(crate) fn write(study: &Study, folder: &Path) -> Outcome {
    let refused = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| Failure::new(format!("{path}: can not write it: {error}"))
    };
    let pictures = folder.join(PICTURES);
    std::fs::create_dir_all(&pictures).map_err(refused(&pictures))?;
    let mut files = vec![
        (folder.join(PAGE), report::html(study)),
        (folder.join(MARKDOWN), report::markdown(study, PICTURES)),
    ];
    files.extend(
        report::pictures(study)
            .into_iter()
            .map(|picture| (pictures.join(format!("{}.svg", picture.name)), picture.svg)),
    );
    for (path, text) in files {
        write_whole(&path, text.as_bytes()).map_err(refused(&path))?;
    }
    Ok(())
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
