//! Pages of the reference that are made of code: held against what stands in `docs/reference`, or written anew.

mod series;

pub use series::{series_table, untold};

use std::path::PathBuf;

/// Set to anything, pages are written anew; `cargo xtask reference` sets it.
const UPDATE: &str = "UPDATE_REFERENCE";

/// Holds a page against what the code says; panics with the lines that differ.
pub fn check_page(name: &str, made: &str) {
    check(name, name, |_| made.to_owned());
}

/// Holds one section of a page against what the code says; the rest of it is somebody else's. `made` has no heading.
pub fn check_section(name: &str, heading: &str, made: &str) {
    check(name, &format!("{name}, {heading}"), |page| with_section(page, heading, made));
}

#[allow(clippy::panic, reason = "a test helper: the panic is the test's failure")]
fn check(name: &str, what: &str, made: impl FnOnce(&str) -> String) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let made = made(&kept);
    if kept == made {
        return;
    }
    if std::env::var_os(UPDATE).is_some() {
        return std::fs::write(&path, made).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let differs = crate::lines_that_differ(&kept, &made);
    panic!("docs/reference/{what} is not what the code says; `cargo xtask reference` writes it:\n{differs}");
}

/// The page with another section; one that is not there comes at the end.
fn with_section(page: &str, heading: &str, made: &str) -> String {
    let title = format!("## {heading}\n");
    let section = format!("{title}\n{}\n", made.trim_end());
    let Some(start) = page.find(&format!("\n{title}")).map(|at| at + 1) else {
        return format!("{}\n\n{section}", page.trim_end());
    };
    let after = &page[start + title.len()..];
    match after.find("\n## ") {
        Some(end) => format!("{}{section}{}", &page[..start], &after[end..]),
        None => format!("{}{section}", &page[..start]),
    }
}

/// A sentence as it can stand in a cell of a table: options are set as code, so that nothing makes one dash of two, and no sign means anything else.
pub fn cell(text: &str) -> String {
    let words: Vec<String> = text.split_whitespace().map(word).collect();
    words.join(" ")
}

fn word(word: &str) -> String {
    let word = word.replace('|', "\\|");
    if word.contains('`') {
        return word;
    }
    let bare = word.trim_start_matches('(');
    let end = bare.trim_end_matches([',', ';', ':', '.', ')', '…']);
    let is_code = bare.starts_with("--") || end.contains(['<', '*']) || (end.contains('_') && end.len() > 1);
    if is_code && !end.is_empty() {
        let (before, after) = (&word[..word.len() - bare.len()], &bare[end.len()..]);
        return format!("{before}`{end}`{after}");
    }
    word
}

#[cfg(test)]
mod tests {
    use super::{cell, with_section};

    #[test]
    fn a_section_is_replaced_and_nothing_else() {
        let page = "# Page\n\nWords.\n\n## One\n\nold\n\n## Two\n\nkept\n";
        let changed = with_section(page, "One", "new\n");
        assert_eq!(changed, "# Page\n\nWords.\n\n## One\n\nnew\n\n## Two\n\nkept\n");
        assert_eq!(with_section(page, "Two", "new"), page.replace("kept", "new"));
        assert_eq!(with_section(page, "Three", "new"), format!("{page}\n## Three\n\nnew\n"));
    }

    #[test]
    fn nothing_in_a_cell_means_anything_else() {
        let said = "With --dra, or (see --listen): a|b, `kept_as is`, nvidia.com/mig-*, MIG_PARTED_X.";
        let cell = cell(said);
        assert_eq!(
            cell,
            "With `--dra`, or (see `--listen`): a\\|b, `kept_as is`, `nvidia.com/mig-*`, `MIG_PARTED_X`."
        );
    }
}
