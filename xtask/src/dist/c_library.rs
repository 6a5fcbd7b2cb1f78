//! The C library that goes into images: Debian's, of it only what programs load.

use crate::dist::elf::Asks;
use anyhow::{Context, Result, bail};
use carve_lab::{Packaged, Places, debian_package_for};
use carve_oci_image::{Architecture, Image};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

/// Debian's stable suite. The C library is newer than what carve is linked against, and what it loads of the driver is older than both.
const SUITE: &str = "trixie";

/// Which library is in which package.
const LIBRARIES: &[(&str, &str)] = &[
    ("libc.so.6", "libc6"),
    ("libdl.so.2", "libc6"),
    ("libm.so.6", "libc6"),
    ("libpthread.so.0", "libc6"),
    ("librt.so.1", "libc6"),
    ("libgcc_s.so.1", "libgcc-s1"),
];

/// What the driver's libraries ask for, which carve loads on a node.
const FOR_THE_DRIVER: &[&str] = &["libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1"];

/// Whether Debian is asked for its newest, as a release wants it, or what was fetched last will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freshness {
    Newest,
    AnyThatIsThere,
}

/// A package of Debian, as far as an image has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DebianPart {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) architecture: String,
    pub(crate) suite: String,
    /// Of the package's file.
    pub(crate) sha256: String,
}

/// The files for one image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CLibrary {
    /// By their place.
    files: BTreeMap<PathBuf, (Vec<u8>, bool)>,
    /// Where loaders are looked for, and where they are.
    links: Vec<(&'static str, &'static str)>,
    pub(crate) packages: Vec<DebianPart>,
}

impl CLibrary {
    /// Fetches what a program with these needs, and the driver's libraries, ask for.
    pub(crate) fn for_program(asks: &Asks, freshness: Freshness) -> Result<Self> {
        let platform = Platform::of(asks.architecture);
        if let Some(loader) = &asks.loader
            && *loader != platform.loader
        {
            bail!("is loaded by {loader}, which is not Debian's {}", platform.loader);
        }
        let mut library =
            CLibrary { files: BTreeMap::new(), links: platform.links.to_vec(), packages: Vec::new() };
        for (package, names) in wanted(asks)? {
            let newest = freshness == Freshness::Newest;
            let (places, processor) = (Places::usual(), asks.architecture.name());
            let fetched = debian_package_for(&places, SUITE, package, processor, newest)?;
            library.add(&fetched, platform, &names)?;
        }
        Ok(library)
    }

    fn add(&mut self, package: &Packaged, platform: &Platform, names: &BTreeSet<&str>) -> Result<()> {
        let mut take = |path: String, executable: bool| -> Result<()> {
            let source = package.folder.join(&path);
            let contents = fs::read(&source).with_context(|| source.display().to_string())?;
            self.files.insert(PathBuf::from("/").join(path), (contents, executable));
            Ok(())
        };
        let folder = format!("usr/lib/{}", platform.folder);
        for name in names {
            take(format!("{folder}/{name}"), false)?;
        }
        if package.name == "libc6" {
            let name = platform.loader.rsplit('/').next().unwrap_or_default();
            take(format!("{folder}/{name}"), true)?;
            // Its licence goes with it.
            take("usr/share/doc/libc6/copyright".to_owned(), false)?;
        }
        let archive = fs::read(&package.archive).with_context(|| package.archive.display().to_string())?;
        self.packages.push(DebianPart {
            name: package.name.clone(),
            version: package.version.clone(),
            architecture: package.architecture.clone(),
            suite: package.suite.clone(),
            sha256: carve_oci_image::sha256(&archive),
        });
        Ok(())
    }

    /// Puts the files into an image.
    pub(crate) fn put(&self, mut image: Image) -> Image {
        for (path, (contents, executable)) in &self.files {
            image = image.file(path, contents.clone(), *executable);
        }
        for (path, target) in &self.links {
            image = image.link(path, target);
        }
        image
    }
}

/// Whether there is any for this machine.
pub(crate) fn reachable() -> Result<()> {
    debian_package_for(&Places::usual(), SUITE, "libc6", Architecture::OWN.name(), false).map(drop)
}

/// Which libraries of which package.
fn wanted(asks: &Asks) -> Result<BTreeMap<&'static str, BTreeSet<&'static str>>> {
    let mut wanted: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let loader = |name: &&str| name.starts_with("ld-linux");
    let asked = asks.libraries.iter().map(String::as_str).filter(|name| !loader(name));
    for name in asked.chain(FOR_THE_DRIVER.iter().copied()) {
        let known = LIBRARIES.iter().find(|(library, _)| *library == name);
        let (library, package) = known
            .with_context(|| format!("asks for {name}, which images do not have; they have {LIBRARIES:?}"))?;
        wanted.entry(package).or_default().insert(library);
    }
    Ok(wanted)
}

/// Where Debian has things on a processor.
#[derive(Debug)]
struct Platform {
    folder: &'static str,
    /// As programs name it.
    loader: &'static str,
    links: [(&'static str, &'static str); 3],
}

impl Platform {
    fn of(architecture: Architecture) -> &'static Platform {
        match architecture {
            Architecture::Amd64 => &Platform {
                folder: "x86_64-linux-gnu",
                loader: "/lib64/ld-linux-x86-64.so.2",
                links: [
                    ("lib", "usr/lib"),
                    ("lib64", "usr/lib64"),
                    ("usr/lib64/ld-linux-x86-64.so.2", "../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"),
                ],
            },
            Architecture::Arm64 => &Platform {
                folder: "aarch64-linux-gnu",
                loader: "/lib/ld-linux-aarch64.so.1",
                links: [
                    ("lib", "usr/lib"),
                    ("lib64", "usr/lib"),
                    ("usr/lib/ld-linux-aarch64.so.1", "aarch64-linux-gnu/ld-linux-aarch64.so.1"),
                ],
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FOR_THE_DRIVER, wanted};
    use crate::dist::elf::Asks;

    #[test]
    fn only_what_is_asked_for_is_taken_and_what_nobody_has_is_told() {
        let mut asks = Asks::of(include_bytes!("asks_2_14.so")).unwrap();
        let packages = wanted(&asks).unwrap();
        assert_eq!(packages.keys().collect::<Vec<_>>(), [&"libc6"]);
        assert_eq!(packages["libc6"].len(), FOR_THE_DRIVER.len());
        asks.libraries.extend(["libgcc_s.so.1".to_owned(), "ld-linux-x86-64.so.2".to_owned()]);
        assert!(wanted(&asks).unwrap()["libgcc-s1"].contains("libgcc_s.so.1"));
        asks.libraries.insert("libssl.so.3".to_owned());
        assert!(wanted(&asks).unwrap_err().to_string().starts_with("asks for libssl.so.3"));
    }
}
