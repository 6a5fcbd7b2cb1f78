//! Each crate checked by itself: a manifest that only works because another crate switches a feature on is found here.
//!
//! Some forty checks with features of their own would build most of the workspace many times, so only those are made whose sources changed.

use crate::passed::{Sources, unless_passed};
use crate::root;
use crate::run::{cargo, read, run};
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Checks every crate by itself that has not passed as it is.
pub(crate) fn each_crate() -> Result<()> {
    let crates = crates(&read(cargo().args(["metadata", "--no-deps", "--format-version=1"]))?)?;
    let all = Sources::committed();
    let mut known = 0;
    for (name, member) in &crates {
        let sources = all.as_ref().map(|all| sources_of(name, &crates, all));
        let manifest = member.folder.join("Cargo.toml");
        let check = || run(cargo().args(["check", "--quiet", "--manifest-path"]).arg(&manifest));
        known += usize::from(unless_passed(&format!("alone-{name}"), sources.as_deref(), check)?);
    }
    eprintln!("{} crates, {known} of them as they were when they passed", crates.len());
    Ok(())
}

/// A crate of the workspace.
#[derive(Debug, PartialEq, Eq)]
struct Member {
    folder: PathBuf,
    /// Which others it is built with.
    needs: BTreeSet<String>,
}

/// The workspace's crates by their names.
fn crates(metadata: &str) -> Result<BTreeMap<String, Member>> {
    let metadata: Value = serde_json::from_str(metadata).context("cargo's metadata")?;
    let mut members = BTreeMap::new();
    for package in metadata["packages"].as_array().context("a workspace has packages")? {
        let name = package["name"].as_str().context("a package has a name")?;
        let manifest = Path::new(package["manifest_path"].as_str().context("a package has a manifest")?);
        let folder = manifest.parent().context("a manifest is in a folder")?.to_owned();
        let dependencies = package["dependencies"].as_array().context("a package has dependencies")?;
        // Neither tests nor what only they need is checked.
        let ours = dependencies.iter().filter(|needed| needed["path"].is_string() && needed["kind"] != "dev");
        let needs = ours.filter_map(|needed| Some(needed["name"].as_str()?.to_owned())).collect();
        members.insert(name.to_owned(), Member { folder, needs });
    }
    Ok(members)
}

/// The files that decide whether a crate passes: its own, those of all crates it is built with, and what the workspace says.
fn sources_of(name: &str, crates: &BTreeMap<String, Member>, all: &Sources) -> String {
    let (mut found, mut next) = (BTreeSet::new(), vec![name]);
    while let Some(name) = next.pop() {
        let Some(member) = crates.get(name) else { continue };
        if found.insert(member.folder.strip_prefix(root()).unwrap_or(&member.folder)) {
            next.extend(member.needs.iter().map(String::as_str));
        }
    }
    all.name(|file| {
        // Manifests and settings of the workspace, and of cargo.
        file.parent() == Some(Path::new(""))
            || file.starts_with(".cargo")
            || found.iter().any(|folder| {
                file.strip_prefix(folder).is_ok_and(|inside| {
                    !["tests", "benches", "examples"].iter().any(|other| inside.starts_with(other))
                })
            })
    })
}

#[cfg(test)]
mod tests {
    use super::{crates, sources_of};
    use crate::passed::Sources;
    use crate::root;

    /// Three crates of which the first is built with the second, and tested with the third.
    fn workspace() -> String {
        let manifest = |name: &str| root().join(name).join("Cargo.toml").display().to_string();
        let needed =
            |name: &str, kind: &str| format!(r#"{{"name":"{name}","path":"/{name}","kind":{kind}}}"#);
        let package = |name: &str, needs: &str| {
            format!(r#"{{"name":"{name}","manifest_path":"{}","dependencies":[{needs}]}}"#, manifest(name))
        };
        let first = [needed("second", "null"), needed("third", "\"dev\"")].join(",");
        let others = r#"{"name":"serde","path":null,"kind":null}"#;
        let packages = [package("first", &first), package("second", others), package("third", "")];
        format!(r#"{{"packages":[{}]}}"#, packages.join(","))
    }

    #[test]
    fn a_crate_passes_again_where_nothing_it_is_built_of_changed() {
        let crates = crates(&workspace()).unwrap();
        let files = |changed: &str| {
            let all = [
                "Cargo.lock",
                "Cargo.toml",
                "README.md",
                "first/Cargo.toml",
                "first/src/lib.rs",
                "first/tests/all.rs",
                "second/src/lib.rs",
                "third/src/lib.rs",
            ];
            all.map(|file| format!("{} {file}\n", if file == changed { "b" } else { "a" })).concat()
        };
        let sources = |changed: &str| sources_of("first", &crates, &Sources::for_test(&files(changed)));
        let before = sources("");
        for changed in
            ["Cargo.lock", "Cargo.toml", "first/Cargo.toml", "first/src/lib.rs", "second/src/lib.rs"]
        {
            assert_ne!(sources(changed), before, "{changed}");
        }
        for changed in ["README.md", "first/tests/all.rs", "third/src/lib.rs"] {
            assert_eq!(sources(changed), before, "{changed}");
        }
    }
}
