//! Which exported function a name, a CUDA version and flags mean: what `cuGetProcAddress` answers.

use crate::error::{Answer, Code};
use crate::session::driver_version;
use crate::symbols;
use std::ffi::{c_int, c_uint};

/// Functions that mean the thread's own stream came with CUDA 7.0; what is older has been so since.
const FIRST_PER_THREAD: c_int = 7000;

/// Flag that asks for functions that mean the legacy stream.
const LEGACY: u64 = 1;

/// Flag that asks for functions that mean the thread's own stream, where there are such.
const PER_THREAD: u64 = 2;

/// An exported function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Procedure {
    symbol: &'static str,
    since: c_int,
    per_thread: bool,
    address: *const (),
}

impl Procedure {
    /// A function that stands for its base name from a CUDA version on.
    pub(crate) const fn new(
        symbol: &'static str,
        since: c_int,
        per_thread: bool,
        address: *const (),
    ) -> Self {
        let since = if per_thread && since < FIRST_PER_THREAD { FIRST_PER_THREAD } else { since };
        Procedure { symbol, since, per_thread, address }
    }
}

/// A symbol without the version and the stream that its end tells.
fn base(symbol: &str) -> &str {
    let plain = symbol.strip_suffix("_ptsz").or_else(|| symbol.strip_suffix("_ptds")).unwrap_or(symbol);
    match plain.rsplit_once("_v") {
        Some((name, version)) if version.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => plain,
    }
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Address(*const ()),
    /// No function is called so.
    Nothing,
    /// One is, but it came after the version that was asked for.
    Newer,
}

impl Found {
    /// The address, and the status as C writes it.
    pub(crate) fn told(self) -> (*const (), c_uint) {
        match self {
            Found::Address(address) => (address, 0),
            Found::Nothing => (std::ptr::null(), 1),
            Found::Newer => (std::ptr::null(), 2),
        }
    }
}

/// Looks for a function by its base name, as it was in a version of CUDA.
pub(crate) fn find(name: &str, version: c_int, flags: u64) -> Answer<Found> {
    if flags & !(LEGACY | PER_THREAD) != 0 || version > driver_version()? {
        return Err(Code::INVALID_VALUE);
    }
    Ok(choose(name, version, flags & PER_THREAD != 0))
}

fn choose(name: &str, version: c_int, per_thread: bool) -> Found {
    let all = symbols::ALL.iter().copied().flatten();
    let named: Vec<&Procedure> = all.filter(|procedure| base(procedure.symbol) == name).collect();
    if named.is_empty() {
        return Found::Nothing;
    }
    let fitting = named
        .into_iter()
        .filter(|procedure| procedure.since <= version && (per_thread || !procedure.per_thread));
    // The thread's own where that is wanted and there, then the newest.
    let best = fitting.max_by_key(|procedure| (procedure.per_thread, procedure.since));
    best.map_or(Found::Newer, |procedure| Found::Address(procedure.address))
}

#[cfg(test)]
mod tests {
    use super::{Found, base, choose};
    use crate::symbols;

    #[test]
    fn names_lose_what_tells_version_and_stream() {
        for (symbol, expected) in [
            ("cuInit", "cuInit"),
            ("cuMemAlloc_v2", "cuMemAlloc"),
            ("cuMemcpyHtoD_v2_ptds", "cuMemcpyHtoD"),
            ("cuLaunchKernel_ptsz", "cuLaunchKernel"),
        ] {
            assert_eq!(base(symbol), expected);
        }
    }

    #[test]
    fn version_and_stream_choose_among_functions_of_one_name() {
        let symbol = |name: &str, version, per_thread| {
            let Found::Address(address) = choose(name, version, per_thread) else { return None };
            let mut all = symbols::ALL.iter().copied().flatten();
            all.find(|procedure| procedure.address == address).map(|procedure| procedure.symbol)
        };
        assert_eq!(symbol("cuStreamGetCaptureInfo", 11020, false), Some("cuStreamGetCaptureInfo"));
        assert_eq!(symbol("cuStreamGetCaptureInfo", 11030, false), Some("cuStreamGetCaptureInfo_v2"));
        assert_eq!(symbol("cuStreamGetCaptureInfo", 13000, false), Some("cuStreamGetCaptureInfo_v3"));
        assert_eq!(symbol("cuStreamGetCaptureInfo", 13000, true), Some("cuStreamGetCaptureInfo_v3_ptsz"));
        assert_eq!(
            symbol("cuLaunchKernel", 6050, true),
            Some("cuLaunchKernel"),
            "before threads had streams"
        );
        assert_eq!(symbol("cuMemAlloc", 13000, true), Some("cuMemAlloc_v2"), "there is no other");
        assert_eq!(symbol("cuMemAlloc", 3010, false), Some("cuMemAlloc"), "with 32 bits");
        assert_eq!(choose("cuMemAllocAsync", 11010, false), Found::Newer);
        assert_eq!(choose("cuMemAlloc_v2", 13000, false), Found::Nothing);
        assert_eq!(choose("cuNothing", 13000, false), Found::Nothing);
    }
}
