//! A release: programs against an old C library, images, chart, what is in them, and checksums; tried before they are written.
//!
//! ```text
//!  build ─▶ carve, limiter ─┐
//!  Debian ─▶ C library ─────┼─▶ pack (twice, the same bytes) ─▶ check ─▶ target/dist
//!  chart, cargo tree, texts ┘
//! ```

mod build;
mod c_library;
mod chart;
mod check;
mod elf;
mod pack;
mod parts;

use crate::root;
use crate::run::{cargo, read};
use anyhow::{Context, Result, bail, ensure};
use build::Programs;
use c_library::{CLibrary, Freshness};
use carve_oci_image::Architecture;
use elf::Asks;
use pack::{Ingredients, Program, pack};
use parts::{Contents, Crates, TREE, checksums, document};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The one version, of the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What goes into the archives beside the programs.
const TEXTS: [&str; 4] = ["CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md"];

/// Which programs are packed, and so what is asked of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Release,
    /// Programs of tests, linked for this machine: shows that packing works.
    Quick,
}

/// `cargo xtask dist [--quick | --only x86_64|aarch64]`.
pub(crate) fn dist(words: &[&str]) -> Result<()> {
    let all = [Architecture::Amd64, Architecture::Arm64];
    let wanted: Vec<Architecture> = match words {
        ["--quick"] => return make(&[build::of_tests()?], Kind::Quick),
        [] => all.to_vec(),
        ["--only", name] => all.into_iter().filter(|known| known.compiler_name() == *name).collect(),
        _ => Vec::new(),
    };
    if wanted.is_empty() {
        bail!("cargo xtask dist takes --quick, or --only x86_64, or --only aarch64; not {}", words.join(" "));
    }
    let programs = wanted.into_iter().map(build::build).collect::<Result<Vec<_>>>()?;
    make(&programs, Kind::Release)
}

/// Packs carve as it was built last for tests, and tries the packages.
pub(crate) fn quick_of_built() -> Result<()> {
    if let Err(why) = c_library::reachable() {
        return check::skip(&format!("packages, for Debian's C library is not to be had: {why:#}"));
    }
    make(&[build::of_built()?], Kind::Quick)
}

fn make(programs: &[Programs], kind: Kind) -> Result<()> {
    let ingredients = gather(programs, kind)?;
    let files = pack(&ingredients)?;
    ensure!(pack(&ingredients)? == files, "the same input gave other packages the second time");
    // Quick ones have a place of their own, so that nobody takes them for a release.
    let folder = root().join(if kind == Kind::Release { "target/dist" } else { "target/dist-quick" });
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let scratch = root().join("target/dist-scratch");
    fs::create_dir_all(&folder)?;
    let checked = check(&files, programs, &scratch);
    if scratch.exists() {
        fs::remove_dir_all(&scratch)?;
    }
    checked?;
    for (name, bytes) in &files {
        fs::write(folder.join(name), bytes).with_context(|| name.clone())?;
        println!("{:>12}  {}", bytes.len(), folder.join(name).display());
    }
    Ok(())
}

fn check(files: &BTreeMap<String, Vec<u8>>, programs: &[Programs], scratch: &Path) -> Result<()> {
    fs::create_dir_all(scratch)?;
    check::sums(files)?;
    if programs.iter().any(|program| program.architecture == Architecture::OWN) {
        check::archive_runs(files, VERSION, scratch)?;
        check::image_runs(files, VERSION, scratch)?;
    }
    check::chart_renders(files, VERSION, scratch)
}

fn gather(programs: &[Programs], kind: Kind) -> Result<Ingredients> {
    let read_text = |name: &'static str| -> Result<(&'static str, Vec<u8>)> {
        Ok((name, fs::read(root().join(name)).with_context(|| name.to_owned())?))
    };
    let texts = TEXTS.into_iter().map(read_text).collect::<Result<Vec<_>>>()?;
    let programs = programs.iter().map(|program| load(program, kind)).collect::<Result<Vec<_>>>()?;
    let parts = parts_of(&programs)?;
    let chart = chart::files(&root().join("charts/carve"))?;
    Ok(Ingredients { version: VERSION.to_owned(), programs, chart, parts, texts })
}

/// Reads what was built, if it is what was promised, and what its image needs.
fn load(built: &Programs, kind: Kind) -> Result<Program> {
    let file = |path: &Path| fs::read(path).with_context(|| format!("{} was not built", path.display()));
    let carve = file(&built.carve)?;
    let c_library = (|| {
        let asks = Asks::of(&carve)?;
        ensure!(asks.architecture == built.architecture, "is for {}", asks.architecture.compiler_name());
        if kind == Kind::Release {
            asks.no_newer_than(&build::promised())?;
        }
        let freshness = if kind == Kind::Release { Freshness::Newest } else { Freshness::AnyThatIsThere };
        CLibrary::for_program(&asks, freshness)
    })()
    .with_context(|| built.carve.display().to_string())?;
    let limiter = built.limiter.as_deref().map(file).transpose()?;
    if let Some(library) = &limiter {
        let asks = Asks::of(library)?;
        // It is loaded into whatever people run, whose C library nobody knows.
        ensure!(
            asks.libraries.is_empty() && asks.oldest_glibc()?.is_none(),
            "the limiter must ask for no library and no version, and asks for {asks:?}"
        );
    }
    Ok(Program { architecture: built.architecture, carve, limiter, c_library })
}

fn parts_of(programs: &[Program]) -> Result<String> {
    let mut crates = Crates::default();
    for program in programs {
        let triple = format!("{}-unknown-linux-gnu", program.architecture.compiler_name());
        crates.add(&read(cargo().args(TREE).args(["--locked", "--target", &triple]))?)?;
    }
    let lock = fs::read_to_string(root().join("Cargo.lock")).context("Cargo.lock")?;
    let rust = read(Command::new("rustc").arg("--version").current_dir(root()))?;
    let rust = rust.split_whitespace().nth(1).context("rustc names no version")?.to_owned();
    let debian: Vec<_> = programs.iter().flat_map(|program| program.c_library.packages.clone()).collect();
    document(&Contents {
        version: VERSION,
        crates: &crates,
        checksums: &checksums(&lock)?,
        rust: &rust,
        debian: &debian,
    })
}
