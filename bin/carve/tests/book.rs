//! The book's command blocks, tried as a reader would: in an empty folder with carve and a shell, or while `carve up` runs. What needs a cluster is tried in the lab
//! (`cluster-tests/tests/book_plugin.rs`, `book_claims.rs`).

mod running;

use carve_test_support::book::{Block, Needs, blocks, book};
use running::Up;
use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const CARVE: &str = env!("CARGO_BIN_EXE_carve");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn book_blocks() -> Vec<Block> {
    book(&root().join("docs")).unwrap_or_else(|wrong| panic!("{}", wrong.join("\n")))
}

/// Those of the README, seen from the book's folder. What begins with cargo is tried elsewhere: `first_minutes.rs` types what follows `carve up`.
fn readme_blocks() -> Vec<Block> {
    let text = std::fs::read_to_string(root().join("README.md")).expect("a README");
    let mut found = blocks("../README.md", &text).unwrap_or_else(|wrong| panic!("{wrong}"));
    found.retain(|block| !block.typed.iter().any(|typed| typed.command.starts_with("cargo ")));
    found
}

/// Types what stands in a block; says what is not as the page says.
fn try_block(block: &Block, folder: &Path, state: &Path) -> Vec<String> {
    let programs = state.join("programs");
    std::fs::create_dir_all(&programs).expect("a folder");
    let _ = symlink(CARVE, programs.join("carve"));
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let mut wrong = Vec::new();
    for typed in &block.typed {
        let mut shell = Command::new("bash");
        shell
            .args(["-c", &typed.command])
            .current_dir(folder)
            .env("PATH", &path)
            .env("XDG_STATE_HOME", state);
        shell.env_remove("KUBECONFIG").env_remove("CARVE_STATE_DIR").env("NO_COLOR", "1");
        let output = shell.output().expect("a shell");
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let place = format!(
            "docs/{}:{}: {}",
            block.page,
            block.line,
            typed.command.lines().next().unwrap_or_default()
        );
        if output.status.success() == typed.is_refused() {
            wrong.push(format!("{place}\n  ended with {}:\n{said}", output.status));
        } else if let Some(line) = typed.missing(&said) {
            wrong.push(format!("{place}\n  does not print '{line}':\n{said}"));
        }
    }
    wrong
}

#[test]
fn blocks_that_need_nothing_do_what_they_say() {
    let mut pages: BTreeMap<String, Vec<Block>> = BTreeMap::new();
    let all = book_blocks().into_iter().chain(readme_blocks());
    for block in all.filter(|block| block.needs == Needs::Nothing) {
        pages.entry(block.page.clone()).or_default().push(block);
    }
    let mut wrong = Vec::new();
    for blocks in pages.values() {
        // A page is read from its beginning: what a block has made, the next one has.
        let (folder, state) =
            (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        // Whoever reads the README has the repository.
        if blocks.iter().any(|block| block.page.starts_with("..")) {
            symlink(root().join("examples"), folder.path().join("examples")).expect("a link");
        }
        for block in blocks {
            wrong.extend(try_block(block, folder.path(), state.path()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn blocks_that_need_carve_up_do_what_they_say() {
    let blocks: Vec<Block> = book_blocks().into_iter().filter(|block| block.needs == Needs::Up).collect();
    let state = tempfile::tempdir().expect("a folder");
    let at = state.path().to_owned();
    let _up = Up::start(state, &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let wrong: Vec<String> = blocks.iter().flat_map(|block| try_block(block, folder.path(), &at)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
