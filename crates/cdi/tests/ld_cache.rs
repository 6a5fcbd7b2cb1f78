//! The loader's cache: this machine's own comes back as ldconfig reads it, and hostile ones do no harm.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

use carve_cdi::ld_cache::{LdCache, LdCacheError, Machine};
use proptest::prelude::*;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What ldconfig says is in a cache; `None`, visibly, where there is no ldconfig.
fn listed(cache: &Path) -> Option<Vec<String>> {
    let output = Command::new("ldconfig")
        .env("PATH", "/sbin:/usr/sbin:/usr/bin")
        .arg("-p")
        .arg("-C")
        .arg(cache)
        .output();
    let Ok(output) = output else {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "ldconfig is missing, and CI must not skip");
        eprintln!("SKIPPED: no ldconfig here");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().lines().skip(1).map(str::to_owned).collect())
}

fn own_cache() -> Option<Vec<u8>> {
    let bytes = fs::read("/etc/ld.so.cache").ok();
    if bytes.is_none() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "no /etc/ld.so.cache, and CI must not skip");
        eprintln!("SKIPPED: no /etc/ld.so.cache here");
    }
    bytes
}

#[test]
fn this_machines_cache_comes_back_in_content_and_order() {
    let Some(bytes) = own_cache() else { return };
    let cache = LdCache::parse(&bytes).unwrap();
    assert!(!cache.entries().is_empty());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    fs::write(&path, cache.to_bytes()).unwrap();
    let Some(before) = listed(Path::new("/etc/ld.so.cache")) else { return };
    assert_eq!(listed(&path).unwrap(), before, "ldconfig lists the same, in the same order");
    assert_eq!(LdCache::parse(&cache.to_bytes()).unwrap().to_bytes(), cache.to_bytes());
}

#[test]
fn a_library_is_added_and_listed() {
    let Some(bytes) = own_cache() else { return };
    let mut cache = LdCache::parse(&bytes).unwrap();
    let before = cache.entries().len();
    cache.put(Machine::X86_64, "libcuda.so.1", "/odd place/libcuda.so.1");
    cache.put(Machine::X86_64, "libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1");
    cache.put(Machine::Aarch64, "libcuda.so.1", "/arm/libcuda.so.1");
    assert!(cache.entries().len() <= before + 2, "a name is once there for a machine");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    fs::write(&path, cache.to_bytes()).unwrap();
    let Some(lines) = listed(&path) else { return };
    for line in [
        "\tlibcuda.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libcuda.so.1",
        "\tlibcuda.so.1 (libc6,AArch64) => /arm/libcuda.so.1",
    ] {
        assert!(lines.iter().any(|listed| listed == line), "{line} is missing in {lines:#?}");
    }
}

/// A file of the newer layout, by hand.
fn by_hand(entries: &[(u32, &str, &str, u64)]) -> Vec<u8> {
    let mut texts = Vec::new();
    let mut table = Vec::new();
    let start = 48 + entries.len() * 24;
    for (flags, name, path, features) in entries {
        let mut place = |text: &str| {
            let at = (start + texts.len()) as u32;
            texts.extend(text.bytes());
            texts.push(0);
            at
        };
        let (name, path) = (place(name), place(path));
        for field in [*flags, name, path, 0] {
            table.extend(field.to_le_bytes());
        }
        table.extend(features.to_le_bytes());
    }
    let mut file = b"glibc-ld.so.cache1.1".to_vec();
    file.extend((entries.len() as u32).to_le_bytes());
    file.extend((texts.len() as u32).to_le_bytes());
    file.resize(48, 0);
    file.extend(table);
    file.extend(texts);
    file
}

#[test]
fn the_newer_layout_is_found_behind_the_older_one() {
    let newer = by_hand(&[(0x0303, "liba.so.1", "/lib/liba.so.1", 0)]);
    for old_entries in 0_u32..4 {
        let mut file = b"ld.so-1.7.0\0".to_vec();
        file.extend(old_entries.to_le_bytes());
        file.resize((16 + 12 * old_entries as usize).next_multiple_of(8), 0xee);
        file.extend(&newer);
        let cache = LdCache::parse(&file).unwrap();
        assert_eq!(cache.entries()[0].path, b"/lib/liba.so.1", "behind {old_entries}");
    }
}

#[test]
fn names_are_in_the_order_the_loader_searches() {
    // Worked out by hand from the loader's rule: downwards, runs of digits as numbers, a digit above every letter.
    let order = ["lib1.so", "libz.so.1", "libb.so.10", "libb.so.9", "libb.so.1.2", "libb.so.1", "libb.so"];
    let upwards: Vec<_> = order.iter().rev().map(|name| (0x0303, *name, "/x", 0)).collect();
    let written = LdCache::parse(&by_hand(&upwards)).unwrap().to_bytes();
    let names: Vec<String> = LdCache::parse(&written)
        .unwrap()
        .entries()
        .iter()
        .map(|entry| String::from_utf8(entry.name.clone()).unwrap())
        .collect();
    assert_eq!(names, order);
}

#[test]
fn entries_the_loader_could_not_use_are_dropped_and_the_rest_is_kept() {
    let mut file = by_hand(&[
        (0x0303, "liba.so.1", "/lib/liba.so.1", 0),
        (0x0303, "libbroken.so", "/lib/x", 0),
        (0x0303, "libnofeature.so", "/lib/x", 1 << 62),
    ]);
    file[48 + 24 + 4..48 + 24 + 8].copy_from_slice(&u32::MAX.to_le_bytes());
    let cache = LdCache::parse(&file).unwrap();
    assert_eq!(cache.entries().len(), 1);
    assert_eq!(cache.entries()[0].name, b"liba.so.1");
}

#[test]
fn what_is_no_cache_is_told_apart_from_what_is_too_much() {
    for bytes in [&b""[..], b"ld.so-1.7.0", b"glibc-ld.so.cache1.1", b"\x7fELF", &[0xff; 100]] {
        assert_eq!(LdCache::parse(bytes), Err(LdCacheError::Layout));
    }
    let mut promised = by_hand(&[]);
    promised[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(LdCache::parse(&promised), Err(LdCacheError::Layout), "more entries than bytes");
    // Many entries that all name one long text would take a thousand times the room of the file.
    let long = "x".repeat(4000);
    let mut file = by_hand(&vec![(0x0303, "liba.so", "y", 0); 40_000]);
    let at = file.len() as u32;
    file.extend(long.bytes());
    file.push(0);
    for entry in 0..40_000 {
        let place = 48 + entry * 24 + 8;
        file[place..place + 4].copy_from_slice(&at.to_le_bytes());
    }
    assert_eq!(LdCache::parse(&file), Err(LdCacheError::TooLarge));
}

fn name() -> impl Strategy<Value = String> {
    "(lib)?[a-z0-9]{1,4}(\\.so)?[.0-9é]{0,6}".prop_filter("not empty", |name| !name.is_empty())
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..400), valid_start in any::<bool>()) {
        let mut file = if valid_start { by_hand(&[(0x0303, "a", "b", 0); 3]) } else { Vec::new() };
        let len = file.len();
        file.extend(&bytes);
        if valid_start && bytes.len() > 8 {
            // Changes some fields of the header and the table.
            for pair in bytes.chunks_exact(2) {
                let at = 20 + pair[0] as usize % (len - 20);
                file[at] = pair[1];
            }
        }
        if let Ok(cache) = LdCache::parse(&file) {
            let again = LdCache::parse(&cache.to_bytes()).unwrap();
            prop_assert_eq!(again.entries().len(), cache.entries().len());
            prop_assert_eq!(again.to_bytes(), cache.to_bytes());
        }
    }

    #[test]
    fn a_damaged_real_cache_is_read_without_harm(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..60)) {
        if let Some(mut bytes) = own_cache() {
            for (at, value) in changes {
                // The header, the first entries and the end, where numbers stand.
                let at = at.index(600.min(bytes.len()));
                let at = if value % 2 == 0 { at } else { bytes.len() - 1 - at };
                bytes[at] = value;
            }
            if let Ok(cache) = LdCache::parse(&bytes) {
                LdCache::parse(&cache.to_bytes()).unwrap();
            }
        }
    }

    #[test]
    fn what_is_put_is_found_and_nothing_else_is_lost(
        before in prop::collection::btree_map(name(), "/[a-z]{1,8}", 0..30),
        added in prop::collection::btree_map(name(), "/[a-z]{1,8}", 0..10),
    ) {
        let entries: Vec<_> = before.iter().map(|(name, path)| (0x0303, name.as_str(), path.as_str(), 0)).collect();
        let mut cache = LdCache::parse(&by_hand(&entries)).unwrap();
        for (name, path) in &added {
            cache.put(Machine::X86_64, name, path);
        }
        let mut expected = before.clone();
        expected.extend(added);
        let cache = LdCache::parse(&cache.to_bytes()).unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let found = cache.entries().iter().map(|entry| (text(&entry.name), text(&entry.path))).collect();
        prop_assert_eq!(expected, found);
    }
}
