//! `cargo xtask cuda-symbols`: the table of CUDA functions compared with NVIDIA's headers, so that none goes unnoticed.

mod compare;
mod fetch;
mod header;

use crate::run::is_ci;
use anyhow::{Context, Result, bail};
use carve_cuda_symbols::SYMBOLS;
use compare::{Differences, compare, guess};
use fetch::Version;
use header::{Function, Header};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Compares with the headers of every release.
pub(crate) fn check() -> Result<()> {
    check_with(&fetch::folders()?)
}

/// The same as a step of the tests: where headers can not be had it says so, unless nothing may be skipped.
pub(crate) fn for_tests() -> Result<()> {
    match fetch::folders() {
        Ok(folders) => check_with(&folders),
        Err(error) if is_ci() => Err(error.context("CUDA's headers are missing, and CI must not skip")),
        Err(error) => {
            eprintln!(
                "SKIPPED: the table of CUDA functions is not compared with NVIDIA's headers: {error:#}"
            );
            Ok(())
        }
    }
}

fn check_with(folders: &[(Version, PathBuf)]) -> Result<()> {
    let mut releases: Vec<(String, Header)> = Vec::new();
    let mut before = 0;
    for (version, folder) in folders {
        let header = read_folder(folder).with_context(|| format!("CUDA {version}"))?;
        let names: BTreeSet<&str> = header.functions.iter().map(|function| function.name.as_str()).collect();
        // Releases have only ever added functions, earlier versions of a function included.
        if names.is_empty() || names.len() < before {
            bail!(
                "the headers of CUDA {version} in {} show {} functions, and those of the release before {before}: \
                 if they are written in a new way, teach xtask/src/cuda_symbols/header.rs; \
                 if the folder is damaged, remove it",
                folder.display(),
                names.len()
            );
        }
        before = names.len();
        releases.push((version.to_string(), header));
    }
    report(&compare(SYMBOLS, &releases), &releases)
}

/// Everything that the headers in a folder tell of.
fn read_folder(folder: &Path) -> Result<Header> {
    let mut whole = Header::default();
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.sort();
    for file in files {
        let text = fs::read(&file).with_context(|| file.display().to_string())?;
        let header = header::read(&String::from_utf8_lossy(&text));
        whole.functions.extend(header.functions);
        whole.pointers.extend(header.pointers);
    }
    Ok(whole)
}

fn report(differences: &Differences, releases: &[(String, Header)]) -> Result<()> {
    let Differences { lacking, unknown, functions } = differences;
    for (Function { name, prototype }, release) in lacking {
        println!("{name}: in CUDA {release} and not in the table");
        println!("    {prototype}");
        println!("    {}", guess(&Function { name: name.clone(), prototype: prototype.clone() }));
    }
    for name in unknown {
        println!("{name}: in the table and in no header");
    }
    let newest = releases.last().map_or("none", |(version, _)| version.as_str());
    if !(lacking.is_empty() && unknown.is_empty()) {
        bail!(
            "the table of CUDA functions lacks {} and has {} that no header up to CUDA {newest} knows; decide what \
             each does and put it into a list of crates/cuda-symbols/src, as docs/design/limiter-symbols.md says",
            lacking.len(),
            unknown.len()
        );
    }
    println!("{functions} CUDA functions, up to CUDA {newest}: all in the table");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Function, Header, compare, report};
    use carve_cuda_symbols::SYMBOLS;

    /// A header that tells of exactly what the table has.
    fn same() -> Header {
        let function =
            |name: &str| Function { name: name.to_owned(), prototype: format!("CUresult {name}(void)") };
        Header {
            functions: SYMBOLS.iter().map(|symbol| function(symbol.name)).collect(),
            pointers: Vec::new(),
        }
    }

    #[test]
    fn a_function_more_or_less_fails() {
        let mut releases = vec![("13.4".to_owned(), same())];
        assert!(report(&compare(SYMBOLS, &releases), &releases).is_ok());
        releases[0].1.functions.extend(super::header::read("CUresult CUDAAPI cuNew(void);").functions);
        let error = report(&compare(SYMBOLS, &releases), &releases).unwrap_err().to_string();
        assert!(error.contains("lacks 1 and has 0"), "{error}");
        releases[0].1 = same();
        releases[0].1.functions.pop();
        let error = report(&compare(SYMBOLS, &releases), &releases).unwrap_err().to_string();
        assert!(error.contains("lacks 0 and has 1"), "{error}");
    }
}
