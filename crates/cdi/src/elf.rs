//! What a library says about itself: for which machine it is and under which name programs ask for it.

use object::elf::{DT_NULL, DT_SONAME, DT_STRTAB, EM_AARCH64, EM_X86_64, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, ReadCache, ReadRef};
use std::fs::File;

/// No name of a library is longer.
const MOST_NAME: u64 = 255;

/// A 64-bit ELF library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Elf {
    /// The name programs ask for, if the library carries a usable one.
    pub(crate) soname: Option<String>,
    /// Whether it is for the machine this program was built for.
    pub(crate) for_this_machine: bool,
}

/// Reads as little of a file as is needed. `None` is for what is no 64-bit ELF file.
pub(crate) fn read(file: File) -> Option<Elf> {
    let data = ReadCache::new(file);
    let header = FileHeader64::<Endianness>::parse(&data).ok()?;
    let endian = header.endian().ok()?;
    let machine = match std::env::consts::ARCH {
        "aarch64" => EM_AARCH64,
        _ => EM_X86_64,
    };
    let for_this_machine = header.e_machine(endian) == machine;
    Some(Elf { soname: soname(header, endian, &data).filter(|name| is_plain(name)), for_this_machine })
}

fn soname<'data, R: ReadRef<'data>>(
    header: &FileHeader64<Endianness>,
    endian: Endianness,
    data: R,
) -> Option<String> {
    let segments = header.program_headers(endian, data).ok()?;
    let dynamic = segments.iter().find_map(|segment| segment.dynamic(endian, data).ok().flatten())?;
    let (mut name_at, mut names) = (None, None);
    for entry in dynamic {
        match entry.tag(endian) {
            DT_NULL => break,
            DT_SONAME => name_at = Some(entry.val(endian)),
            DT_STRTAB => names = Some(entry.val(endian)),
            _ => {}
        }
    }
    let address = names?.checked_add(name_at?)?;
    // An address in memory; the segment that is loaded there says where in the file it is.
    let offset = segments.iter().find_map(|segment| {
        let within = address.checked_sub(segment.p_vaddr(endian))?;
        (within < segment.p_filesz(endian)).then(|| segment.p_offset(endian).checked_add(within))?
    })?;
    let end = offset.saturating_add(MOST_NAME).min(data.len().ok()?);
    let name = data.read_bytes_at_until(offset..end, 0).ok()?;
    Some(std::str::from_utf8(name).ok()?.to_owned())
}

/// Whether a name is a name of a file and nothing more: it will be one in a container.
fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+".contains(&byte);
    !name.is_empty() && name.bytes().all(plain) && !name.starts_with('.')
}
