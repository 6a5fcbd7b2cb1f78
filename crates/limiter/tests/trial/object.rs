//! The shared object itself: what it exports, and what it asks of the machine.

use crate::stage::limiter;
use object::elf::{DT_NEEDED, FileHeader64};
use object::read::elf::{Dyn, ElfFile64, FileHeader};
use object::{Endianness, Object, ObjectSymbol};
use std::path::Path;

/// What a shared object exports, and what it wants from others.
fn symbols(path: &Path) -> (Vec<String>, Vec<String>) {
    let bytes = std::fs::read(path).unwrap();
    let file = ElfFile64::<Endianness>::parse(&*bytes).unwrap();
    let (wanted, exported): (Vec<_>, Vec<_>) =
        file.dynamic_symbols().partition(|symbol| symbol.is_undefined());
    let names = |symbols: Vec<object::read::elf::ElfSymbol64<'_, '_>>| {
        symbols.iter().map(|symbol| symbol.name().unwrap().to_owned()).collect()
    };
    (names(exported), names(wanted))
}

/// What a shared object exports.
pub(crate) fn exported(path: &Path) -> Vec<String> {
    symbols(path).0
}

/// The functions of the driver that the limiter stands in for.
pub(crate) fn hooks() -> Vec<String> {
    exported(&limiter()).into_iter().filter(|name| name != "dlsym").collect()
}

#[test]
fn it_exports_functions_of_the_driver_and_dlsym_and_nothing_else() {
    let exported = exported(&limiter());
    let strangers: Vec<_> = exported
        .iter()
        .filter(|name| !(name.starts_with("cu") || name.starts_with("nvml") || *name == "dlsym"))
        .collect();
    assert!(strangers.is_empty(), "{strangers:?}");
    assert!(exported.iter().any(|name| name == "dlsym"));
    assert!(exported.len() > 50, "{exported:?}");
}

#[test]
fn it_needs_no_library_and_nothing_that_old_c_libraries_do_not_have() {
    let (_, wanted) = symbols(&limiter());
    assert!(wanted.iter().all(|name| WANTED.contains(&name.as_str())), "{wanted:?}");
    let bytes = std::fs::read(limiter()).unwrap();
    let data = &*bytes;
    let header = FileHeader64::<Endianness>::parse(data).unwrap();
    let endian = header.endian().unwrap();
    let sections = header.sections(endian, data).unwrap();
    let (entries, _) =
        sections.dynamic(endian, data).unwrap().expect("a shared object has a dynamic section");
    let needed = entries.iter().filter(|entry| entry.tag(endian) == DT_NEEDED).count();
    assert_eq!(needed, 0, "libraries are needed");
    let Some((mut versions, link)) = sections.gnu_verneed(endian, data).unwrap() else { return };
    let strings = sections.strings(endian, data, link).unwrap();
    while let Some((_, mut names)) = versions.next().unwrap() {
        while let Some(version) = names.next().unwrap() {
            let name = String::from_utf8_lossy(version.name(endian, strings).unwrap());
            let number = name.strip_prefix("GLIBC_2.").and_then(|rest| rest.split('.').next()?.parse().ok());
            assert!(number.is_some_and(|minor: u32| minor <= 17), "{name}");
        }
    }
}

/// What every C library since glibc 2.17 has.
const WANTED: &[&str] = &["dl_iterate_phdr", "memcpy", "memmove", "memset", "memcmp", "bcmp", "strlen"];
