//! What is in a release, as a CycloneDX document: every crate in the program, Rust's library, and Debian's packages in the images.

use crate::dist::c_library::DebianPart;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What `cargo tree` must be asked, so that only what is in the program is listed: no macros, no build scripts, no tests.
pub(crate) const TREE: [&str; 8] = [
    "tree",
    "--package",
    "carve",
    "--edges",
    "normal,no-proc-macro",
    "--prefix",
    "depth",
    "--format=|{p}|{l}",
];

/// A crate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Crate {
    name: String,
    version: String,
}

impl Crate {
    /// The address that tools know it by.
    fn purl(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, escaped(&self.version))
    }
}

/// The crates of a program, and which of them names which.
#[derive(Debug, Clone, Default)]
pub(crate) struct Crates {
    licences: BTreeMap<Crate, String>,
    names: BTreeMap<Crate, BTreeSet<Crate>>,
}

impl Crates {
    /// Adds what `cargo tree` says; a program for several processors has the crates of all.
    pub(crate) fn add(&mut self, tree: &str) -> Result<()> {
        let mut above: Vec<Crate> = Vec::new();
        for line in tree.lines().filter(|line| !line.is_empty()) {
            let strange = || format!("cargo tree says {line}");
            let mut fields = line.splitn(3, '|');
            let mut field = || fields.next().with_context(strange);
            let (depth, package, licence) = (field()?, field()?, field()?);
            let depth: usize = depth.parse().with_context(strange)?;
            let mut words = package.split_whitespace();
            let (name, version) = (words.next().with_context(strange)?, words.next().with_context(strange)?);
            let version = version.strip_prefix('v').with_context(strange)?;
            let found = Crate { name: name.to_owned(), version: version.to_owned() };
            above.truncate(depth);
            if let Some(parent) = above.last() {
                self.names.entry(parent.clone()).or_default().insert(found.clone());
            }
            // The mark of a crate that was listed before.
            let licence = licence.strip_suffix(" (*)").unwrap_or(licence);
            self.licences.insert(found.clone(), expression(licence));
            self.names.entry(found.clone()).or_default();
            above.push(found);
        }
        Ok(())
    }
}

/// Licences as SPDX writes them; older crates have a slash for "or".
fn expression(licence: &str) -> String {
    licence.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ")
}

/// Checksums of crates by name and version, as the lock file has them.
pub(crate) fn checksums(lock: &str) -> Result<BTreeMap<(String, String), String>> {
    let lock: toml::Table = lock.parse().context("Cargo.lock")?;
    let packages =
        lock.get("package").and_then(toml::Value::as_array).context("Cargo.lock names no package")?;
    let text =
        |package: &toml::Value, key: &str| package.get(key).and_then(toml::Value::as_str).map(str::to_owned);
    let sums = packages.iter().filter_map(|package| {
        Some(((text(package, "name")?, text(package, "version")?), text(package, "checksum")?))
    });
    Ok(sums.collect())
}

/// What a document is about.
#[derive(Debug)]
pub(crate) struct Contents<'a> {
    pub(crate) version: &'a str,
    pub(crate) crates: &'a Crates,
    pub(crate) checksums: &'a BTreeMap<(String, String), String>,
    /// The compiler's version, whose library is in the program.
    pub(crate) rust: &'a str,
    pub(crate) debian: &'a [DebianPart],
}

/// The document: no clock and nothing by chance, so that the same release has the same.
pub(crate) fn document(of: &Contents<'_>) -> Result<String> {
    let root = Crate { name: "carve".to_owned(), version: of.version.to_owned() };
    let licence = of.crates.licences.get(&root).context("cargo tree does not name carve itself")?;
    let mut components = Vec::new();
    for (found, licence) in of.crates.licences.iter().filter(|(found, _)| **found != root) {
        let mut component = library(&found.name, &found.version, &found.purl(), licence);
        if let Some(sum) = of.checksums.get(&(found.name.clone(), found.version.clone())) {
            component["hashes"] = hashes(sum);
        }
        components.push(component);
    }
    let rust = format!("pkg:generic/rust@{}", of.rust);
    components.push(library("rust", of.rust, &rust, "MIT OR Apache-2.0"));
    for part in of.debian {
        components.push(of_debian(part));
    }
    let mut dependencies: Vec<Value> = Vec::new();
    for (found, named) in &of.crates.names {
        let mut named: Vec<String> = named.iter().map(Crate::purl).collect();
        if *found == root {
            named.push(rust.clone());
            named.extend(of.debian.iter().map(debian_purl));
        }
        named.sort();
        dependencies.push(json!({"ref": found.purl(), "dependsOn": named}));
    }
    let mut document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": root.purl(),
                "name": "carve",
                "version": of.version,
                "purl": root.purl(),
                "licenses": [{"expression": licence}],
            },
        },
        "components": components,
        "dependencies": dependencies,
    });
    document["serialNumber"] = json!(serial_number(&document.to_string()));
    Ok(format!("{document:#}\n"))
}

fn library(name: &str, version: &str, purl: &str, licence: &str) -> Value {
    json!({
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "licenses": [{"expression": licence}],
    })
}

fn of_debian(part: &DebianPart) -> Value {
    let licence = match part.name.as_str() {
        "libgcc-s1" => "GPL-3.0-or-later WITH GCC-exception-3.1",
        _ => "LGPL-2.1-or-later",
    };
    let mut component = library(&part.name, &part.version, &debian_purl(part), licence);
    component["hashes"] = hashes(&part.sha256);
    component
}

fn debian_purl(part: &DebianPart) -> String {
    let DebianPart { name, architecture, suite, .. } = part;
    format!("pkg:deb/debian/{name}@{}?arch={architecture}&distro={suite}", escaped(&part.version))
}

fn hashes(sum: &str) -> Value {
    json!([{"alg": "SHA-256", "content": sum}])
}

/// Versions may have letters that mean something in addresses.
fn escaped(version: &str) -> String {
    version.replace('+', "%2B").replace(':', "%3A").replace('~', "%7E")
}

/// A document's own number, made of what it says: a UUID of version 8, which is for such.
fn serial_number(text: &str) -> String {
    let mut digits = carve_oci_image::sha256(text.as_bytes());
    digits.replace_range(12..13, "8");
    digits.replace_range(16..17, "8");
    let part = |from: usize, to: usize| digits[from..to].to_owned();
    let parts = [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)];
    format!("urn:uuid:{}", parts.join("-"))
}

#[cfg(test)]
mod tests {
    use super::{Contents, Crates, TREE, checksums, document, escaped, expression};
    use crate::dist::c_library::DebianPart;
    use crate::run::{cargo, read};
    use cyclonedx_bom::models::bom::SpecVersion;
    use cyclonedx_bom::prelude::{Bom, Validate};
    use serde_json::Value;

    const SMALL: &str = "0|carve v1.0.0 (/somewhere)|Apache-2.0\n1|a v0.1.0+x|MIT/Apache-2.0\n2|b v2.0.0|MIT\n1|b v2.0.0|MIT (*)\n";

    fn debian() -> DebianPart {
        DebianPart {
            name: "libc6".to_owned(),
            version: "2.41-12+deb13u4".to_owned(),
            architecture: "arm64".to_owned(),
            suite: "trixie".to_owned(),
            sha256: "0".repeat(64),
        }
    }

    fn made(tree: &str, lock: &str, version: &str) -> String {
        let mut crates = Crates::default();
        crates.add(tree).unwrap();
        let sums = checksums(lock).unwrap();
        let debian = [debian()];
        document(&Contents { version, crates: &crates, checksums: &sums, rust: "1.95.0", debian: &debian })
            .unwrap()
    }

    #[test]
    fn a_tree_becomes_components_and_what_they_depend_on() {
        let sum = "1".repeat(64);
        let lock = format!("[[package]]\nname = \"b\"\nversion = \"2.0.0\"\nchecksum = \"{sum}\"\n");
        let text = made(SMALL, &lock, "1.0.0");
        assert_eq!(text, made(SMALL, &lock, "1.0.0"));
        let document: Value = serde_json::from_str(&text).unwrap();
        let purls: Vec<_> = document["components"]
            .as_array()
            .unwrap()
            .iter()
            .map(|part| part["purl"].as_str().unwrap())
            .collect();
        let libc = "pkg:deb/debian/libc6@2.41-12%2Bdeb13u4?arch=arm64&distro=trixie";
        assert_eq!(purls, ["pkg:cargo/a@0.1.0%2Bx", "pkg:cargo/b@2.0.0", "pkg:generic/rust@1.95.0", libc]);
        assert_eq!(document["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(document["components"][1]["hashes"][0]["content"], sum);
        let dependencies = document["dependencies"].as_array().unwrap();
        let of = |name: &str| &dependencies.iter().find(|entry| entry["ref"] == name).unwrap()["dependsOn"];
        assert_eq!(*of("pkg:cargo/a@0.1.0%2Bx"), serde_json::json!(["pkg:cargo/b@2.0.0"]));
        assert_eq!(of("pkg:cargo/carve@1.0.0").as_array().unwrap().len(), 4);
        assert!(Crates::default().add("what is this").is_err());
    }

    /// Somebody else's reading of the format, on what a release really has.
    #[test]
    fn the_document_of_a_release_is_valid() {
        let tree =
            read(cargo().args(TREE).args(["--locked", "--target", "x86_64-unknown-linux-gnu"])).unwrap();
        let lock = std::fs::read_to_string(crate::root().join("Cargo.lock")).unwrap();
        let text = made(&tree, &lock, env!("CARGO_PKG_VERSION"));
        let bom = Bom::parse_from_json_v1_5(text.as_bytes()).unwrap();
        let outcome = bom.validate_version(SpecVersion::V1_5);
        assert!(outcome.passed(), "{outcome:?}");
        let components = bom.components.unwrap().0;
        let names: Vec<String> = components.iter().map(|component| component.name.to_string()).collect();
        assert!(names.iter().any(|name| name == "tokio") && names.len() > 200, "{names:?}");
        assert!(!names.iter().any(|name| name == "serde_derive" || name == "proptest"), "{names:?}");
        for component in &components {
            assert!(component.purl.is_some() && component.licenses.is_some(), "{component:?}");
            let ours =
                component.name.to_string().starts_with("carve") || component.name.to_string() == "rust";
            assert!(ours || component.hashes.is_some(), "{component:?}");
        }
    }

    #[test]
    fn words_are_written_as_the_formats_want_them() {
        assert_eq!(expression("Apache-2.0 / MIT"), "Apache-2.0 OR MIT");
        assert_eq!(expression("(MIT OR Apache-2.0) AND Unicode-3.0"), "(MIT OR Apache-2.0) AND Unicode-3.0");
        assert_eq!(escaped("1:2~3+4"), "1%3A2%7E3%2B4");
    }
}
