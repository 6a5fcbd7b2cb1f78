//! Checks that depend on sources alone, remembered with the sources they passed with.
//!
//! In one working tree cargo does the same: what did not change is not checked again. It goes by times of files, which every clone has new
//! ones of, so here contents decide, by the names that git has for them.

use crate::run::read;
use crate::{cache, root};
use anyhow::{Context, Result};
use carve_oci_image::sha256;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What is checked: the files of the last commit, and the compiler that reads them.
#[derive(Debug)]
pub(crate) struct Sources {
    /// A line for each file: what git calls its contents, and where it is.
    files: String,
    /// Which compiler checks, and with which flags.
    compiler: String,
}

impl Sources {
    /// Nothing where files are not as they were committed: nobody knows what is checked there.
    pub(crate) fn committed() -> Option<Self> {
        let git = |words: &[&str]| read(Command::new("git").args(words).current_dir(root())).ok();
        if !git(&["status", "--porcelain"])?.is_empty() {
            return None;
        }
        let files = git(&["ls-tree", "-r", "--format=%(objectname) %(path)", "HEAD"])?;
        let version = read(Command::new("rustc").arg("-vV").current_dir(root())).ok()?;
        let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
        Some(Sources { files, compiler: format!("{version}\n{flags}") })
    }

    /// Those that decide, as one name. Pages never do.
    pub(crate) fn name(&self, decides: impl Fn(&Path) -> bool) -> String {
        let of = |line: &&str| {
            line.split_once(' ').is_some_and(|(_, file)| !file.ends_with(".md") && decides(Path::new(file)))
        };
        let lines: Vec<&str> = self.files.lines().filter(of).collect();
        sha256(format!("{}\n{}", self.compiler, lines.join("\n")).as_bytes())
    }

    #[cfg(test)]
    pub(crate) fn for_test(files: &str) -> Self {
        Sources { files: files.to_owned(), compiler: String::new() }
    }
}

/// Checks unless it passed with just these sources, and says whether it did.
pub(crate) fn unless_passed(
    check: &str,
    sources: Option<&str>,
    act: impl FnOnce() -> Result<()>,
) -> Result<bool> {
    let note = cache().join("passed").join(check);
    if sources.is_some() && fs::read_to_string(&note).ok().as_deref() == sources {
        return Ok(true);
    }
    act()?;
    if let Some(sources) = sources {
        let folder = note.parent().unwrap_or(&note);
        let kept = fs::create_dir_all(folder).and_then(|()| fs::write(&note, sources));
        kept.with_context(|| format!("{check} passed, but {} could not be written", note.display()))?;
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::Sources;

    #[test]
    fn sources_have_another_name_where_one_that_decides_is_another() {
        let all = |_: &std::path::Path| true;
        let name = |files: &str| Sources::for_test(files).name(all);
        let before = name("a src/lib.rs\nb docs/page.md");
        assert_eq!(before, name("a src/lib.rs\nc docs/page.md"), "pages are not compiled");
        assert_ne!(before, name("b src/lib.rs\nb docs/page.md"), "other contents");
        assert_ne!(before, name("a src/main.rs\nb docs/page.md"), "another file");
        assert_ne!(before, name("b docs/page.md"), "one file less");
        let compiler =
            Sources { files: "a src/lib.rs\nb docs/page.md".to_owned(), compiler: "1.96".to_owned() };
        assert_ne!(before, compiler.name(all), "another compiler");
    }
}
