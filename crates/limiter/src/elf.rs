//! Which libraries a process has loaded and where their functions are, read from memory without the help of the C library.
//!
//! `dlsym` itself is one of our hooks, and the name under which new C libraries have it does not exist in old ones.

use core::ffi::{CStr, c_char, c_int, c_void};

/// A library in memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Library {
    base: usize,
    headers: *const ProgramHeader,
    count: usize,
    name: *const c_char,
}

#[repr(C)]
struct ProgramHeader {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    in_file: u64,
    in_memory: u64,
    alignment: u64,
}

#[repr(C)]
struct LoaderInfo {
    base: usize,
    name: *const c_char,
    headers: *const ProgramHeader,
    count: u16,
}

#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const STRINGS: u64 = 5;
const SYMBOLS: u64 = 6;
const HASH: u64 = 4;
const GNU_HASH: u64 = 0x6fff_fef5;

unsafe extern "C" {
    fn dl_iterate_phdr(
        callback: unsafe extern "C" fn(*const LoaderInfo, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
}

/// Calls something for each library in the order in which they were loaded, until it says to stop.
pub(crate) fn each(mut visit: impl FnMut(&Library) -> bool) {
    unsafe extern "C" fn step<F: FnMut(&Library) -> bool>(
        info: *const LoaderInfo,
        _: usize,
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes its own structure, and `data` is the closure below for as long as it calls.
        let (info, visit) = unsafe { (&*info, &mut *data.cast::<F>()) };
        let library = Library {
            base: info.base,
            headers: info.headers,
            count: usize::from(info.count),
            name: info.name,
        };
        c_int::from(visit(&library))
    }
    fn go<F: FnMut(&Library) -> bool>(visit: &mut F) {
        // SAFETY: `step` gets the closure that it was made for, which lives until the call is over.
        unsafe { dl_iterate_phdr(step::<F>, core::ptr::from_mut(visit).cast()) };
    }
    go(&mut visit);
}

impl Library {
    /// The path under which it was loaded; empty for the program itself.
    pub(crate) fn path(&self) -> &'static [u8] {
        if self.name.is_null() {
            return &[];
        }
        // SAFETY: the loader's name of a library is a C string that stays while the library does.
        unsafe { CStr::from_ptr(self.name) }.to_bytes()
    }

    /// Whether its file has this name, or a name that goes on with a version.
    pub(crate) fn is_called(&self, name: &[u8]) -> bool {
        let path = self.path();
        let file = path.iter().rposition(|&byte| byte == b'/').map_or(path, |slash| &path[slash + 1..]);
        file.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest[0] == b'.')
    }

    fn headers(&self) -> &[ProgramHeader] {
        if self.headers.is_null() {
            return &[];
        }
        // SAFETY: the loader gives the address and number of the headers of a library that is loaded.
        unsafe { core::slice::from_raw_parts(self.headers, self.count) }
    }

    /// Whether an address is in it.
    pub(crate) fn contains(&self, address: usize) -> bool {
        self.headers().iter().filter(|header| header.kind == LOAD).any(|header| {
            let begin = self.base.wrapping_add(header.address as usize);
            address.wrapping_sub(begin) < header.in_memory as usize
        })
    }

    /// A function that it defines.
    pub(crate) fn function(&self, name: &[u8]) -> Option<usize> {
        let dynamic = self.headers().iter().find(|header| header.kind == DYNAMIC)?;
        let mut entry = self.base.wrapping_add(dynamic.address as usize) as *const [u64; 2];
        let (mut strings, mut symbols, mut hash, mut gnu) = (0, 0, 0, 0);
        loop {
            // SAFETY: the dynamic section is loaded and ends with an entry of kind zero.
            let [kind, value] = unsafe { entry.read() };
            match kind {
                0 => break,
                STRINGS => strings = self.placed(value),
                SYMBOLS => symbols = self.placed(value),
                HASH => hash = self.placed(value),
                GNU_HASH => gnu = self.placed(value),
                _ => {}
            }
            entry = entry.wrapping_add(1);
        }
        if strings == 0 || symbols == 0 {
            return None;
        }
        let (strings, symbols) = (strings as *const c_char, symbols as *const Symbol);
        let matches = |index: u32| -> Option<usize> {
            // SAFETY: the index comes from the library's own hash table, and so does the offset of the name.
            let symbol = unsafe { &*symbols.add(index as usize) };
            // SAFETY: see above.
            let called = unsafe { CStr::from_ptr(strings.add(symbol.name as usize)) };
            // Functions only (kind 2); those chosen at run time (10) would have to be asked first.
            let here = symbol.section != 0 && symbol.info & 0xf == 2;
            (here && called.to_bytes() == name).then(|| self.base.wrapping_add(symbol.value as usize))
        };
        // SAFETY: both tables are those of a loaded library.
        unsafe {
            match (gnu, hash) {
                (0, 0) => None,
                (0, hash) => by_hash(hash as *const u32, name, matches),
                (gnu, _) => by_gnu_hash(gnu as *const u32, name, matches),
            }
        }
    }

    /// Addresses in the dynamic section were moved by the loader, except where that section can not be written.
    fn placed(&self, value: u64) -> usize {
        let value = value as usize;
        if value < self.base { self.base + value } else { value }
    }
}

/// SAFETY: the table must be one of a loaded library.
unsafe fn by_gnu_hash(
    table: *const u32,
    name: &[u8],
    matches: impl Fn(u32) -> Option<usize>,
) -> Option<usize> {
    let wanted = name.iter().fold(5381u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)));
    // SAFETY: the head of the table says how long its parts are.
    unsafe {
        let (buckets, first, filters) = (table.read(), table.add(1).read(), table.add(2).read());
        if buckets == 0 {
            return None;
        }
        let bucket = table.add(4 + filters as usize * 2);
        let chain = bucket.add(buckets as usize);
        let mut index = bucket.add((wanted % buckets) as usize).read();
        while index >= first {
            let hash = chain.add((index - first) as usize).read();
            if hash | 1 == wanted | 1
                && let Some(found) = matches(index)
            {
                return Some(found);
            }
            if hash & 1 == 1 {
                return None;
            }
            index += 1;
        }
    }
    None
}

/// SAFETY: the table must be one of a loaded library.
unsafe fn by_hash(table: *const u32, name: &[u8], matches: impl Fn(u32) -> Option<usize>) -> Option<usize> {
    let wanted = name.iter().fold(0u32, |hash, &byte| {
        let hash = (hash << 4).wrapping_add(u32::from(byte));
        let high = hash & 0xf000_0000;
        (hash ^ (high >> 24)) & !high
    });
    // SAFETY: the head of the table says how long its parts are.
    unsafe {
        let buckets = table.read();
        if buckets == 0 {
            return None;
        }
        let chain = table.add(2 + buckets as usize);
        let mut index = table.add(2 + (wanted % buckets) as usize).read();
        while index != 0 {
            if let Some(found) = matches(index) {
                return Some(found);
            }
            index = chain.add(index as usize).read();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::each;
    extern crate std;

    #[test]
    fn functions_are_found_where_the_c_library_says() {
        unsafe extern "C" {
            fn getpid() -> i32;
        }
        let mut found = None;
        each(|library| {
            if library.is_called(b"libc.so") {
                found = library.function(b"getpid");
                assert_eq!(library.function(b"no_such_function"), None);
                assert!(library.contains(found.unwrap_or_default()));
            }
            found.is_some()
        });
        assert_eq!(found, Some(getpid as *const () as usize));
    }
}
