//! The rules of the house that no compiler checks.

use crate::run::read;
use crate::{links, root};
use anyhow::{Context, Result, bail};
use carve_test_support::book::{self, Needs};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Crates that do no IO, and what they may depend on. A new name here is a decision, not a detail.
const PURE: &[(&str, &[&str])] = &[
    ("gpu-model", &["serde", "thiserror"]),
    ("admission", &["carve-formats", "carve-gpu-model", "serde", "serde_json", "sha2", "thiserror"]),
    (
        "advisor",
        &[
            "carve-economics",
            "carve-formats",
            "carve-gpu-model",
            "carve-karpenter",
            "carve-planner",
            "carve-study",
            "serde",
            "serde_json",
            "thiserror",
        ],
    ),
    ("dra", &["carve-formats", "carve-gpu-host", "carve-gpu-model", "serde_json", "thiserror"]),
    ("bookings", &["carve-formats", "carve-gpu-model", "serde", "serde_json", "thiserror"]),
    ("economics", &["carve-gpu-model", "jiff", "serde", "serde_json", "thiserror"]),
    ("usage", &["carve-gpu-model"]),
    (
        "extender",
        &[
            "carve-admission",
            "carve-bookings",
            "carve-formats",
            "carve-gpu-model",
            "serde",
            "serde_json",
            "thiserror",
        ],
    ),
    (
        "fleet-plan",
        &[
            "carve-economics",
            "carve-formats",
            "carve-gpu-host",
            "carve-gpu-model",
            "carve-placement",
            "carve-planner",
            "thiserror",
        ],
    ),
    ("fleet-picture", &["schemars", "serde"]),
    ("formats", &["carve-gpu-model", "serde_json", "thiserror"]),
    ("gpu-host", &["carve-gpu-model", "serde", "serde-saphyr", "thiserror"]),
    (
        "karpenter",
        &[
            "carve-admission",
            "carve-bookings",
            "carve-economics",
            "carve-gpu-model",
            "carve-planner",
            "carve-slicing",
            "serde_json",
            "thiserror",
        ],
    ),
    ("planner", &["carve-gpu-model", "thiserror"]),
    (
        "repartition",
        &["carve-formats", "carve-gpu-model", "carve-planner", "serde", "serde_json", "thiserror"],
    ),
    ("oci-image", &["flate2", "serde_json", "sha2", "tar", "thiserror"]),
    ("placement", &["carve-gpu-host", "carve-gpu-model", "thiserror"]),
    (
        "simulator",
        &["carve-gpu-model", "carve-placement", "carve-planner", "serde", "serde_json", "thiserror"],
    ),
    ("slicing", &["carve-formats", "carve-gpu-host", "carve-gpu-model", "thiserror"]),
    ("study", &["carve-gpu-model", "plotters", "serde", "serde_json", "thiserror"]),
];

/// A name that says nothing about what is in it.
const DRAWERS: &[&str] = &["util", "utils", "common", "shared", "helpers", "misc"];

/// Longer than this and a file is a tangle; flat tables excepted.
const MOST_LINES: usize = 600;
const FLAT_TABLES: &[&str] = &["crates/nvml-sim/src/not_supported.rs"];

/// Checks all rules and reports everything that breaks one.
pub(crate) fn tidy() -> Result<()> {
    let files = read(
        Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .current_dir(root()),
    )?;
    let mut findings = Vec::new();
    for file in files.lines().filter(|file| root().join(file).exists()) {
        check_path(file, &mut findings);
        if file.ends_with(".rs") {
            let text = fs::read_to_string(root().join(file)).with_context(|| file.to_owned())?;
            check_source(file, &text, &mut findings);
        }
    }
    for (name, allowed) in PURE {
        check_pure(name, allowed, &mut findings)?;
    }
    check_manifests(&mut findings)?;
    check_version(&mut findings)?;
    check_links(&files, &mut findings)?;
    check_book(&files, &mut findings);
    if findings.is_empty() {
        return Ok(());
    }
    for finding in &findings {
        eprintln!("tidy: {finding}");
    }
    bail!("{} rule(s) broken", findings.len());
}

fn check_path(file: &str, findings: &mut Vec<String>) {
    let drawer = Path::new(file).components().find_map(|part| {
        let part = part.as_os_str().to_str()?;
        DRAWERS.iter().find(|drawer| part == **drawer || part == format!("{drawer}.rs"))
    });
    if let Some(drawer) = drawer {
        findings.push(format!("{file}: '{drawer}' names a drawer, not a thing"));
    }
}

fn check_source(file: &str, text: &str, findings: &mut Vec<String>) {
    let opening = text.lines().find(|line| !line.is_empty() && !line.starts_with("#!["));
    // A fuzz target opens with the attribute that takes away its main.
    if !opening.is_some_and(|line| line.starts_with("//! ")) {
        findings.push(format!("{file}: opens without a sentence that says what it is for"));
    }
    let lines = text.lines().count();
    if lines > MOST_LINES && !FLAT_TABLES.contains(&file) {
        findings.push(format!("{file}: {lines} lines; split it by what it is about"));
    }
}

/// A pure crate depends on what its line allows and switches the lint on.
fn check_pure(name: &str, allowed: &[&str], findings: &mut Vec<String>) -> Result<()> {
    let folder = root().join("crates").join(name);
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).with_context(|| name.to_owned())?;
    let allowed: BTreeSet<&str> = allowed.iter().copied().collect();
    for dependency in section(&manifest, "[dependencies]") {
        if !allowed.contains(dependency) {
            findings.push(format!("crates/{name}: pure, and must not depend on {dependency}"));
        }
    }
    let lib = fs::read_to_string(folder.join("src/lib.rs")).with_context(|| name.to_owned())?;
    if !lib.contains("#![warn(clippy::disallowed_methods)]") {
        findings.push(format!("crates/{name}: pure, and must warn about clippy::disallowed_methods"));
    }
    Ok(())
}

/// Names in a section of a manifest.
fn section<'a>(manifest: &'a str, header: &str) -> Vec<&'a str> {
    let lines = manifest.lines().skip_while(|line| *line != header).skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    lines
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name.trim().trim_end_matches(".workspace"))
        .collect()
}

/// The manifest of every crate.
fn manifests() -> Result<Vec<PathBuf>> {
    let crates = fs::read_dir(root().join("crates"))?.filter_map(|entry| Some(entry.ok()?.path()));
    let others =
        ["bin/carve", "cluster-tests", "conformance", "lab", "xtask"].map(|folder| root().join(folder));
    let mut manifests: Vec<PathBuf> = crates.chain(others).map(|folder| folder.join("Cargo.toml")).collect();
    manifests.sort();
    Ok(manifests)
}

/// Every crate takes its lints from the workspace.
fn check_manifests(findings: &mut Vec<String>) -> Result<()> {
    for manifest in manifests()? {
        let text = fs::read_to_string(&manifest).with_context(|| manifest.display().to_string())?;
        if !text.contains("[lints]\nworkspace = true") {
            findings.push(format!("{}: does not take its lints from the workspace", manifest.display()));
        }
    }
    Ok(())
}

/// Links between pages lead somewhere.
fn check_links(files: &str, findings: &mut Vec<String>) -> Result<()> {
    let mut pages = BTreeMap::new();
    for file in files.lines().filter(|file| file.ends_with(".md") && root().join(file).exists()) {
        pages
            .insert(file.to_owned(), fs::read_to_string(root().join(file)).with_context(|| file.to_owned())?);
    }
    for page in pages.keys() {
        findings.extend(links::broken(page, &pages, |path| root().join(path).exists()));
    }
    Ok(())
}

/// Every page is in the book, every command block says where it can be tried, and hardly any can not be.
fn check_book(files: &str, findings: &mut Vec<String>) {
    let docs = root().join("docs");
    let pages = book::pages(&docs).unwrap_or_default();
    let all =
        files.lines().filter_map(|file| file.strip_prefix("docs/")).filter(|file| file.ends_with(".md"));
    for page in all.filter(|page| *page != "SUMMARY.md" && !pages.iter().any(|known| known == page)) {
        findings.push(format!("docs/{page}: docs/SUMMARY.md does not name it"));
    }
    match book::book(&docs) {
        Err(wrong) => findings.extend(wrong.into_iter().map(|why| format!("docs/{why}"))),
        Ok(blocks) => {
            let not_run = blocks.iter().filter(|block| block.needs == Needs::NotRun).count();
            if not_run * 10 > blocks.len() {
                findings.push(format!(
                    "docs: {not_run} of {} command blocks are not run; at most one in ten may be",
                    blocks.len()
                ));
            }
        }
    }
}

/// The version is the workspace's; the chart and the changelog have it as well, because others read it there.
fn check_version(findings: &mut Vec<String>) -> Result<()> {
    let read = |file: &str| fs::read_to_string(root().join(file)).with_context(|| file.to_owned());
    findings.extend(other_versions(
        env!("CARGO_PKG_VERSION"),
        &read("charts/carve/Chart.yaml")?,
        &read("CHANGELOG.md")?,
    ));
    Ok(())
}

fn other_versions(version: &str, chart: &str, changelog: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for key in ["version", "appVersion"] {
        let line = chart.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        let found = line.map_or("", |value| value.trim().trim_matches('"'));
        if found != version {
            findings.push(format!(
                "charts/carve/Chart.yaml: {key} is '{found}', and the workspace's is {version}"
            ));
        }
    }
    let heading = changelog.lines().find(|line| line.starts_with("## ")).unwrap_or_default();
    if !heading.split([' ', '(', ')']).any(|word| word == version) {
        findings.push(format!("CHANGELOG.md: begins with '{heading}', which does not name {version}"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::other_versions;

    #[test]
    fn a_version_that_was_forgotten_somewhere_is_found() {
        let chart = "apiVersion: v2\nversion: 0.2.0\nappVersion: \"0.2.0\"\n";
        let changelog = "# Changelog\n\n## Unreleased (0.2.0)\n\n## 0.1.0\n";
        assert_eq!(other_versions("0.2.0", chart, changelog), Vec::<String>::new());
        assert_eq!(other_versions("0.2.0", &chart.replace("appVersion: \"0.2.0\"", ""), changelog).len(), 1);
        assert_eq!(other_versions("0.3.0", chart, changelog).len(), 3);
        assert_eq!(other_versions("0.2.0", chart, &changelog.replace("0.2.0", "10.2.0")).len(), 1);
    }
}
