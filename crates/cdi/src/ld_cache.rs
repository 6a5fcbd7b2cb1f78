//! The file `/etc/ld.so.cache`, from which glibc's loader learns where libraries are: read, changed, written.
//!
//! The layout is the one glibc has used since 2.2 (`glibc-ld.so.cache1.1`), alone or behind the older one. Whatever a file
//! says, reading it neither fails loudly nor takes more than a bounded amount of memory; an entry that the loader could not
//! use is dropped. Written is the newer layout alone, in the order in which the loader searches.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use thiserror::Error;

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const OLD_MAGIC: &[u8] = b"ld.so-1.7.0";
const HEADER: usize = 48;
const ENTRY: usize = 24;
const OLD_HEADER: usize = 16;
const OLD_ENTRY: usize = 12;
/// Where the header says in which byte order the file is; 0 is unsaid and 2 is little-endian.
const BYTE_ORDER_AT: usize = 28;
const EXTENSION_AT: usize = 32;
const EXTENSION_MAGIC: u32 = 0xeaa4_2174;
const GENERATOR: u32 = 0;
const HWCAPS: u32 = 1;
/// Marks an entry whose `hwcap` is a place in the list of names of processor features.
const BY_NAME: u64 = 1 << 62;
/// Paths are no longer than this.
const MOST_NAME: usize = 4096;
/// Far more than any image has; a file beyond it was made to hurt.
const MOST_ENTRIES: usize = 200_000;
const MOST_TEXT: usize = 64 << 20;

/// Machines whose libraries are put into caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// 64-bit Intel and AMD.
    X86_64,
    /// 64-bit Arm.
    Aarch64,
}

impl Machine {
    /// The machine this program was built for, if caches are known for it.
    pub fn this() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Machine::X86_64),
            "aarch64" => Some(Machine::Aarch64),
            _ => None,
        }
    }

    /// How glibc marks a library of this machine in a cache.
    pub fn flags(self) -> u32 {
        match self {
            Machine::X86_64 => 0x0303,
            Machine::Aarch64 => 0x0a03,
        }
    }

    /// Where glibc's loader is, by which a root shows that it has glibc.
    pub fn loader(self) -> &'static str {
        match self {
            Machine::X86_64 => "/lib64/ld-linux-x86-64.so.2",
            Machine::Aarch64 => "/lib/ld-linux-aarch64.so.1",
        }
    }
}

/// A cache.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LdCache {
    entries: Vec<Entry>,
    /// Names of processor features, in the order in which entries refer to them.
    features: Vec<Vec<u8>>,
    generator: Vec<u8>,
}

/// Where a library is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// For which machine and C library.
    pub flags: u32,
    /// The name programs ask for.
    pub name: Vec<u8>,
    /// The file.
    pub path: Vec<u8>,
    /// The oldest kernel it runs on; unused today.
    pub os_version: u32,
    /// Processor features it needs.
    pub features: u64,
}

/// Why a file is no cache that could be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LdCacheError {
    /// Not the layout; the loader passes over such a file as well.
    #[error("it is not in the layout of glibc 2.2 and later")]
    Layout,
    /// Larger than any that ldconfig makes.
    #[error("it has more entries or longer names than ldconfig writes")]
    TooLarge,
}

impl LdCache {
    /// Reads a file.
    pub fn parse(bytes: &[u8]) -> Result<Self, LdCacheError> {
        let start = newer_part(bytes).ok_or(LdCacheError::Layout)?;
        let part = bytes.get(start..).ok_or(LdCacheError::Layout)?;
        if !part.starts_with(MAGIC) || part.len() < HEADER || part[BYTE_ORDER_AT] & 3 & !2 != 0 {
            return Err(LdCacheError::Layout);
        }
        let count = number(part, MAGIC.len()).ok_or(LdCacheError::Layout)? as usize;
        if count > (part.len() - HEADER) / ENTRY {
            return Err(LdCacheError::Layout);
        }
        if count > MOST_ENTRIES {
            return Err(LdCacheError::TooLarge);
        }
        let (features, generator) = extension(bytes, part, number(part, EXTENSION_AT).unwrap_or(0));
        let mut cache = LdCache { entries: Vec::with_capacity(count), features, generator };
        let mut held = 0;
        for at in (0..count).map(|place| HEADER + place * ENTRY) {
            let Some(entry) = entry(part, at) else { continue };
            // The loader can not use a feature that is not in the list.
            if entry.features & BY_NAME != 0 && (entry.features as u32) as usize >= cache.features.len() {
                continue;
            }
            held += entry.name.len() + entry.path.len();
            if held > MOST_TEXT {
                return Err(LdCacheError::TooLarge);
            }
            cache.entries.push(entry);
        }
        Ok(cache)
    }

    /// Says where a library is, in place of all that was said about the name for this machine.
    pub fn put(&mut self, machine: Machine, name: &str, path: &str) {
        let flags = machine.flags();
        self.entries.retain(|entry| entry.flags != flags || entry.name != name.as_bytes());
        let (name, path) = (name.as_bytes().to_vec(), path.as_bytes().to_vec());
        self.entries.push(Entry { flags, name, path, os_version: 0, features: 0 });
    }

    /// The entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut entries: Vec<&Entry> = self.entries.iter().collect();
        entries.sort_by(|one, other| search_order(one, other));
        let mut texts = Texts::starting_at(HEADER + entries.len() * ENTRY);
        let mut table = Vec::with_capacity(entries.len() * ENTRY);
        for entry in &entries {
            table.extend(entry.flags.to_le_bytes());
            table.extend(texts.place(&entry.name).to_le_bytes());
            table.extend(texts.place(&entry.path).to_le_bytes());
            table.extend(entry.os_version.to_le_bytes());
            table.extend(entry.features.to_le_bytes());
        }
        let features: Vec<u8> =
            self.features.iter().flat_map(|name| texts.place(name).to_le_bytes()).collect();
        let mut extension_at = 0;
        let mut extension = Vec::new();
        if !self.features.is_empty() || !self.generator.is_empty() {
            texts.align();
            extension_at = texts.end();
            let sections: Vec<(u32, &[u8])> = [(HWCAPS, features.as_slice()), (GENERATOR, &self.generator)]
                .into_iter()
                .filter(|(_, content)| !content.is_empty())
                .collect();
            let mut content_at = extension_at + 8 + 16 * sections.len() as u32;
            extension.extend(EXTENSION_MAGIC.to_le_bytes());
            extension.extend((sections.len() as u32).to_le_bytes());
            for (tag, content) in &sections {
                for value in [*tag, 0, content_at, content.len() as u32] {
                    extension.extend(value.to_le_bytes());
                }
                content_at += content.len() as u32;
            }
            sections.iter().for_each(|(_, content)| extension.extend(*content));
        }
        let mut out = MAGIC.to_vec();
        out.extend((entries.len() as u32).to_le_bytes());
        out.extend((texts.bytes.len() as u32).to_le_bytes());
        out.extend([2, 0, 0, 0]);
        out.extend(extension_at.to_le_bytes());
        out.resize(HEADER, 0);
        out.extend(table);
        out.extend(texts.bytes);
        out.extend(extension);
        out
    }
}

/// Texts of a file, each once.
struct Texts {
    start: usize,
    bytes: Vec<u8>,
    places: BTreeMap<Vec<u8>, u32>,
}

impl Texts {
    fn starting_at(start: usize) -> Self {
        Texts { start, bytes: Vec::new(), places: BTreeMap::new() }
    }

    fn end(&self) -> u32 {
        (self.start + self.bytes.len()) as u32
    }

    fn place(&mut self, text: &[u8]) -> u32 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.end();
        self.bytes.extend(text);
        self.bytes.push(0);
        self.places.insert(text.to_vec(), place);
        place
    }

    fn align(&mut self) {
        while !self.end().is_multiple_of(4) {
            self.bytes.push(0);
        }
    }
}

/// Where the newer layout begins: at once, or behind the older one.
fn newer_part(bytes: &[u8]) -> Option<usize> {
    if !bytes.starts_with(OLD_MAGIC) {
        return Some(0);
    }
    let entries = number(bytes, OLD_MAGIC.len() + 1)? as usize;
    let end = entries.checked_mul(OLD_ENTRY)?.checked_add(OLD_HEADER)?;
    end.checked_next_multiple_of(8)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// The text that starts somewhere, up to its zero byte; nothing where it is empty, endless or longer than a path.
fn text(bytes: &[u8], at: u32) -> Option<Vec<u8>> {
    let rest = bytes.get(at as usize..)?;
    let rest = &rest[..rest.len().min(MOST_NAME + 1)];
    let end = rest.iter().position(|byte| *byte == 0)?;
    (end > 0).then(|| rest[..end].to_vec())
}

fn entry(part: &[u8], at: usize) -> Option<Entry> {
    let field = |place: usize| number(part, at + place);
    Some(Entry {
        flags: field(0)?,
        name: text(part, field(4)?)?,
        path: text(part, field(8)?)?,
        os_version: field(12)?,
        features: u64::from(field(16)?) | u64::from(field(20)?) << 32,
    })
}

/// Names of processor features and the generator's name; nothing where the extension makes no sense.
///
/// Its places count from the start of the file.
fn extension(bytes: &[u8], part: &[u8], at: u32) -> (Vec<Vec<u8>>, Vec<u8>) {
    let (mut features, mut generator) = (Vec::new(), Vec::new());
    let at = at as usize;
    if at == 0 || !at.is_multiple_of(4) || number(bytes, at) != Some(EXTENSION_MAGIC) {
        return (features, generator);
    }
    // glibc knows two kinds of section; a few more do no harm.
    let count = number(bytes, at + 4).unwrap_or(0).min(16) as usize;
    for section in (0..count).map(|place| at + 8 + place * 16) {
        let field = |place: usize| number(bytes, section + place).map(|value| value as usize);
        let (Some(tag), Some(start), Some(size)) = (number(bytes, section), field(8), field(12)) else {
            break;
        };
        let Some(content) = start.checked_add(size).and_then(|end| bytes.get(start..end)) else { continue };
        match tag {
            GENERATOR if size <= MOST_NAME => generator = content.to_vec(),
            // ldconfig counts names from the start of the newer part and reads them from the start of the file, which
            // differ behind the older layout. The names are where names begin.
            HWCAPS if size <= MOST_NAME => {
                features = feature_names(part, content)
                    .or_else(|| feature_names(bytes, content))
                    .unwrap_or_default();
            }
            _ => {}
        }
    }
    (features, generator)
}

/// The names at the given places, if each is a whole one; without one, those behind it would get a wrong place.
fn feature_names(bytes: &[u8], places: &[u8]) -> Option<Vec<Vec<u8>>> {
    let name = |at: u32| {
        let begins = bytes.get((at as usize).checked_sub(1)?) == Some(&0);
        text(bytes, at).filter(|name| begins && !name.contains(&b'/'))
    };
    places.chunks_exact(4).map(|place| name(number(place, 0)?)).collect()
}

/// The order of a cache: names downwards, and of one name what the loader should see first.
fn search_order(one: &Entry, other: &Entry) -> Ordering {
    let by_name = |entry: &Entry| entry.features & BY_NAME != 0;
    compare_names(&other.name, &one.name)
        .then_with(|| other.flags.cast_signed().cmp(&one.flags.cast_signed()))
        .then_with(|| by_name(other).cmp(&by_name(one)))
        .then_with(|| match by_name(one) && by_name(other) {
            true => (one.features as u32).cmp(&(other.features as u32)),
            false => other.features.cmp(&one.features),
        })
}

/// How the loader compares names: runs of digits as numbers, and a number above everything that is none.
fn compare_names(one: &[u8], other: &[u8]) -> Ordering {
    let (mut one, mut other) = (one, other);
    loop {
        let (first, second) = (one.first().copied().unwrap_or(0), other.first().copied().unwrap_or(0));
        match (first.is_ascii_digit(), second.is_ascii_digit()) {
            (true, true) => match leading_number(&mut one).cmp(&leading_number(&mut other)) {
                Ordering::Equal => {}
                unequal => return unequal,
            },
            // The end of a name is below a digit like any other character.
            (true, false) => return Ordering::Greater,
            (false, true) => return Ordering::Less,
            // Characters are signed on one machine and unsigned on the other, and the loader compares them as they are.
            (false, false) if first != second => {
                return (first as std::ffi::c_char).cmp(&(second as std::ffi::c_char));
            }
            (false, false) if first == 0 => return Ordering::Equal,
            (false, false) => (one, other) = (&one[1..], &other[1..]),
        }
    }
}

/// Takes the digits off the front. The loader's number is an `int` and wraps around.
fn leading_number(text: &mut &[u8]) -> i32 {
    let mut value = 0_i32;
    while let Some((digit, rest)) = text.split_first().filter(|(digit, _)| digit.is_ascii_digit()) {
        value = value.wrapping_mul(10).wrapping_add(i32::from(digit - b'0'));
        *text = rest;
    }
    value
}
