//! What a program asks of the machine it is loaded on: which libraries, and how new a C library.

use anyhow::{Context, Result, bail};
use carve_oci_image::Architecture;
use object::elf::{DT_NEEDED, EM_AARCH64, EM_X86_64, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, ReadRef, StringTable};
use std::collections::BTreeSet;
use std::fmt;

/// A version of the C library, such as 2.28 or 2.2.5.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Glibc(Vec<u32>);

impl Glibc {
    pub(crate) fn new(major: u32, minor: u32) -> Self {
        Glibc(vec![major, minor])
    }

    /// `GLIBC_2.28` as a symbol's version has it.
    fn of_symbol(version: &str) -> Option<Self> {
        let numbers = version.strip_prefix("GLIBC_")?.split('.').map(|number| number.parse().ok());
        numbers.collect::<Option<Vec<u32>>>().map(Glibc)
    }
}

impl fmt::Display for Glibc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&numbers.join("."))
    }
}

/// What a program or library asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asks {
    pub(crate) architecture: Architecture,
    /// The program that loads it; a library names none.
    pub(crate) loader: Option<String>,
    /// Names of the libraries that are loaded with it.
    pub(crate) libraries: BTreeSet<String>,
    /// Versions of symbols, of any library.
    versions: BTreeSet<String>,
}

impl Asks {
    /// Reads them from a file's contents.
    pub(crate) fn of(bytes: &[u8]) -> Result<Self> {
        let header = FileHeader64::<Endianness>::parse(bytes).context("not a 64-bit ELF file")?;
        let endian = header.endian()?;
        let architecture = match header.e_machine(endian) {
            EM_X86_64 => Architecture::Amd64,
            EM_AARCH64 => Architecture::Arm64,
            other => bail!("made for a processor that no image is made for (ELF machine {other:?})"),
        };
        let loader = header.program_headers(endian, bytes)?.iter().find_map(|segment| {
            let name = segment.interpreter(endian, bytes).ok()??;
            Some(String::from_utf8_lossy(name).into_owned())
        });
        let sections = header.sections(endian, bytes)?;
        let mut libraries = BTreeSet::new();
        if let Some((entries, link)) = sections.dynamic(endian, bytes)? {
            let strings = sections.strings(endian, bytes, link)?;
            for entry in entries.iter().filter(|entry| entry.tag(endian) == DT_NEEDED) {
                libraries.insert(text(strings, entry.val(endian))?);
            }
        }
        let mut versions = BTreeSet::new();
        if let Some((mut needs, link)) = sections.gnu_verneed(endian, bytes)? {
            let strings = sections.strings(endian, bytes, link)?;
            while let Some((_, mut names)) = needs.next()? {
                while let Some(version) = names.next()? {
                    versions.insert(String::from_utf8_lossy(version.name(endian, strings)?).into_owned());
                }
            }
        }
        Ok(Asks { architecture, loader, libraries, versions })
    }

    /// The oldest C library that has everything; none where no version is asked for.
    pub(crate) fn oldest_glibc(&self) -> Result<Option<Glibc>> {
        let mut oldest = None;
        for version in self.versions.iter().filter(|version| version.starts_with("GLIBC_")) {
            // GLIBC_PRIVATE and GLIBC_ABI_… are of one version or of none that can be told.
            let version = Glibc::of_symbol(version)
                .with_context(|| format!("asks for {version}, which has no number"))?;
            oldest = oldest.max(Some(version));
        }
        Ok(oldest)
    }

    /// Fails where a machine with this C library could not load it.
    pub(crate) fn no_newer_than(&self, promised: &Glibc) -> Result<()> {
        match self.oldest_glibc()? {
            Some(asked) if asked > *promised => {
                bail!("needs a C library of version {asked}, and {promised} is promised")
            }
            _ => Ok(()),
        }
    }
}

fn text<'a>(strings: StringTable<'a, impl ReadRef<'a>>, offset: u64) -> Result<String> {
    let name = strings.get(u32::try_from(offset)?).ok().context("a name is not among the file's strings")?;
    Ok(String::from_utf8_lossy(name).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{Architecture, Asks, Glibc};

    /// Two functions of C that call memcpy and strchr, linked for a C library of version 2.17 on x86_64.
    const SMALL: &[u8] = include_bytes!("asks_2_14.so");

    #[test]
    fn a_small_library_is_read() {
        let asks = Asks::of(SMALL).unwrap();
        assert_eq!(asks.architecture, Architecture::Amd64);
        assert_eq!(asks.loader, None);
        assert_eq!(asks.libraries, ["libc.so.6".to_owned()].into());
        assert_eq!(asks.oldest_glibc().unwrap(), Some(Glibc::new(2, 14)));
        asks.no_newer_than(&Glibc::new(2, 14)).unwrap();
        let refused = asks.no_newer_than(&Glibc::new(2, 13)).unwrap_err().to_string();
        assert_eq!(refused, "needs a C library of version 2.14, and 2.13 is promised");
    }

    #[test]
    fn a_program_names_its_loader_and_a_text_is_no_program() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let asks = Asks::of(&own).unwrap();
        assert!(asks.loader.is_some_and(|loader| loader.contains("ld-linux")));
        assert!(asks.libraries.contains("libc.so.6"));
        assert!(Asks::of(b"#!/bin/sh\n").is_err());
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let version = |text: &str| Glibc::of_symbol(text).unwrap();
        assert!(version("GLIBC_2.2.5") < version("GLIBC_2.14"));
        assert!(version("GLIBC_2.28") < version("GLIBC_2.34"));
        assert_eq!(version("GLIBC_2.2.5").to_string(), "2.2.5");
        assert_eq!(Glibc::of_symbol("GLIBC_PRIVATE"), None);
    }
}
