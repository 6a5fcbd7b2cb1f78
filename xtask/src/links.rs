//! Links between the pages of the project: each leads to a file that is there, and to a heading that is in it; none leads out of the book. Files that pages name are there.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Links of a page that lead nowhere. `pages` are the texts of all pages by path, `exists` says whether another file is there.
pub(crate) fn broken(
    page: &str,
    pages: &BTreeMap<String, String>,
    exists: impl Fn(&str) -> bool,
) -> Vec<String> {
    let Some(text) = pages.get(page) else { return Vec::new() };
    let mut wrong = Vec::new();
    for link in links(text) {
        let (path, heading) =
            link.split_once('#').map_or((link, None), |(path, heading)| (path, Some(heading)));
        let target = if path.is_empty() { page.to_owned() } else { beside(page, path) };
        if !pages.contains_key(&target) && !exists(&target) {
            wrong.push(format!("{page}: '{link}' leads to {target}, which is not there"));
        } else if page.starts_with(BOOK) && !target.starts_with(BOOK) {
            wrong.push(format!(
                "{page}: '{link}' leads out of docs, where the book has nothing; name it: `{target}`"
            ));
        } else if let (Some(heading), Some(text)) = (heading, pages.get(&target))
            && !headings(text).iter().any(|known| known == heading)
        {
            wrong.push(format!("{page}: '{link}': {target} has no such heading"));
        }
    }
    let gone = named(text).filter(|file| !exists(file));
    wrong.extend(gone.map(|file| format!("{page}: names `{file}`, which is not there")));
    wrong
}

/// What the book is made of.
const BOOK: &str = "docs/";

/// Folders whose files pages name in words.
const FOLDERS: [&str; 12] = [
    "bench/",
    "bin/",
    "charts/",
    "cluster-tests/",
    "conformance/",
    "crates/",
    "deploy/",
    "examples/",
    "fuzz/",
    "lab/",
    "monitoring/",
    "xtask/",
];

/// Files of the project that stand in a page as code; what has a placeholder in it is none.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let is_path = |word: &&str| {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
        FOLDERS.iter().any(|folder| word.starts_with(folder)) && word.chars().all(plain)
    };
    prose(text).flat_map(|line| line.split('`').skip(1).step_by(2)).filter(is_path)
}

/// Lines outside of blocks, which hold no links and no headings.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !fence && !inside
    })
}

/// Links to files of the project.
fn links(text: &str) -> Vec<&str> {
    let of_line = |line| {
        let starts = |line: &str| line.match_indices("](").map(|(at, _)| at + 2).collect::<Vec<_>>();
        let line: &str = line;
        starts(line).into_iter().filter_map(move |at| line[at..].split(')').next())
    };
    let ours = |link: &&str| !link.contains("://") && !link.starts_with("mailto:") && !link.is_empty();
    prose(text).flat_map(of_line).filter(ours).collect()
}

/// Where a link leads, seen from the root.
fn beside(page: &str, path: &str) -> String {
    let mut found = PathBuf::new();
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    for part in folder.join(path).components() {
        match part {
            Component::ParentDir => drop(found.pop()),
            Component::CurDir => {}
            other => found.push(other),
        }
    }
    found.display().to_string()
}

/// Headings as links name them: small letters, no signs, dashes for spaces.
fn headings(text: &str) -> Vec<String> {
    let mut known: Vec<String> = Vec::new();
    for line in prose(text).filter(|line| line.starts_with('#')) {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let plain: String = title
            .chars()
            .filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter))
            .map(|letter| if letter == ' ' { '-' } else { letter })
            .collect();
        // A title that comes again gets a number.
        let again =
            known.iter().filter(|one| **one == plain || one.starts_with(&format!("{plain}-"))).count();
        known.push(if known.contains(&plain) { format!("{plain}-{again}") } else { plain });
    }
    known
}

#[cfg(test)]
mod tests {
    use super::broken;
    use std::collections::BTreeMap;

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let page = "# One\n[a](two.md) [b](two.md#its-part) [c](#one) [d](x.png) [e](https://x.example)\n```\n[no](link)\n```\n";
        let wrong = "[f](three.md) [g](two.md#other) [h](#two)\n";
        let pages = BTreeMap::from([
            ("docs/one.md".to_owned(), format!("{page}{wrong}")),
            ("docs/two.md".to_owned(), "# Two\n## `Its` part!\n".to_owned()),
        ]);
        let found = broken("docs/one.md", &pages, |path| path == "docs/x.png");
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("docs/three.md") && found[1].contains("no such heading"), "{found:?}");
        assert!(broken("docs/two.md", &pages, |_| false).is_empty());
    }

    #[test]
    fn nothing_leads_out_of_the_book_and_files_are_where_pages_say() {
        let text = "[a](../README.md) `crates/x/src/y.rs` `crates/x/src/z.rs` `crates/*/tests` `lab/`\n";
        let pages = BTreeMap::from([
            ("docs/one.md".to_owned(), text.to_owned()),
            ("README.md".to_owned(), text.replace("../README", "docs/one")),
        ]);
        let there = |path: &str| path == "crates/x/src/y.rs" || path == "lab/";
        let found = broken("docs/one.md", &pages, there);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("`README.md`") && found[1].contains("z.rs"), "{found:?}");
        assert_eq!(broken("README.md", &pages, there).len(), 1);
    }
}
