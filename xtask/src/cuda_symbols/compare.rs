//! Compares the table with what headers tell of, and guesses why a function that it lacks may matter.

use super::header::{Function, Header, plain};
use carve_cuda_symbols::{Symbol, find};
use std::collections::{BTreeMap, BTreeSet};

/// What the table and the headers do not agree on.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Differences {
    /// Functions that the table lacks, each with the first release that has it.
    pub(crate) lacking: Vec<(Function, String)>,
    /// Names of the table that no header has.
    pub(crate) unknown: Vec<&'static str>,
    /// How many functions the headers tell of.
    pub(crate) functions: usize,
}

/// Compares the table with headers of releases, the oldest first.
pub(crate) fn compare(table: &[Symbol], releases: &[(String, Header)]) -> Differences {
    let mut found: BTreeMap<&str, (&Function, &str)> = BTreeMap::new();
    for (release, header) in releases {
        for function in &header.functions {
            found.entry(&function.name).or_insert((function, release));
        }
    }
    let declared: BTreeSet<&str> = found.keys().map(|name| plain(name)).collect();
    for (release, header) in releases {
        for function in header.pointers.iter().filter(|function| !declared.contains(plain(&function.name))) {
            found.entry(&function.name).or_insert((function, release));
        }
    }
    let known: BTreeSet<&str> = table.iter().map(|symbol| symbol.name).collect();
    let lacking = found.values().filter(|(function, _)| !known.contains(function.name.as_str()));
    Differences {
        lacking: lacking.map(|(function, release)| ((*function).clone(), (*release).to_owned())).collect(),
        unknown: table.iter().map(|symbol| symbol.name).filter(|name| !found.contains_key(name)).collect(),
        functions: found.len(),
    }
}

/// What in a name speaks of memory or work.
const NAMES: &[(&str, &str)] = &[
    ("Launch", "its name speaks of launching work"),
    ("Alloc", "its name speaks of taking memory"),
    ("Free", "its name speaks of giving memory back"),
    ("Memcpy", "its name speaks of copying"),
    ("Memset", "its name speaks of filling memory"),
    ("Prefetch", "its name speaks of moving memory"),
    ("Import", "its name speaks of memory from elsewhere"),
    ("Load", "its name speaks of loading"),
    ("Ctx", "its name speaks of contexts"),
    ("Graph", "its name speaks of graphs, which hold work and allocations"),
    ("Capture", "its name speaks of capturing a stream"),
    ("ProcAddress", "its name speaks of finding functions"),
];

/// What in parameters speaks of memory or work.
const PARAMETERS: &[(&str, &str)] = &[
    ("CUdeviceptr", "it has device pointers"),
    ("CUmemGenericAllocationHandle *", "it hands out an allocation"),
    ("CUarray *", "it hands out an array"),
    ("CUmipmappedArray *", "it hands out an array"),
    ("CUmemoryPool *", "it hands out a pool"),
    ("CUcontext *", "it hands out a context"),
    ("CUmodule *", "it hands out code"),
    ("CUlibrary *", "it hands out code"),
    ("size_t ", "it is given or gives a size"),
    ("CUstream ", "it is given a stream"),
];

/// Why a function that the table lacks may matter.
pub(crate) fn guess(function: &Function) -> String {
    let plain = plain(&function.name);
    if let Some(does) = find(plain).filter(|_| plain != function.name) {
        return format!("it is a variant of {plain}, which is in the table as {does:?}");
    }
    let parameters = function.prototype.split_once('(').map_or("", |(_, parameters)| parameters);
    let in_name = NAMES.iter().filter(|(sign, _)| plain.contains(sign));
    let in_parameters = PARAMETERS.iter().filter(|(sign, _)| parameters.contains(sign));
    let mut reasons: Vec<&str> = in_name.chain(in_parameters).map(|(_, reason)| *reason).collect();
    reasons.dedup();
    if reasons.is_empty() {
        return "nothing in its name or parameters speaks of memory or work".to_owned();
    }
    reasons.join("; ")
}

#[cfg(test)]
mod tests {
    use super::super::header::{Function, Header, read};
    use super::{compare, guess};
    use carve_cuda_symbols::{Does, Symbol};

    fn release(name: &str, text: &str) -> (String, Header) {
        (name.to_owned(), read(text))
    }

    #[test]
    fn what_either_side_lacks_is_named() {
        let table = [
            Symbol { name: "cuOld", does: Does::Nothing },
            Symbol { name: "cuSpelt", does: Does::Nothing },
            Symbol { name: "cuStart", does: Does::Nothing },
        ];
        let releases = [
            release("12.0", "CUresult CUDAAPI cuOld(void);"),
            release("13.0", "CUresult CUDAAPI cuOld(void); CUresult CUDAAPI cuTake(size_t bytes);"),
            release(
                "13.1",
                "CUresult CUDAAPI cuTake(size_t bytes); typedef CUresult (CUDAAPI *PFN_cuStart_v4000)(void);",
            ),
        ];
        let differences = compare(&table, &releases);
        let lacking: Vec<_> =
            differences.lacking.iter().map(|(function, release)| (&*function.name, &**release)).collect();
        assert_eq!(lacking, [("cuTake", "13.0")]);
        assert_eq!(differences.unknown, ["cuSpelt"]);
        assert_eq!(differences.functions, 3);
    }

    #[test]
    fn a_pointer_type_without_declaration_is_a_function_and_one_with_is_not() {
        let text = "#define cuTake cuTake_v2\nCUresult CUDAAPI cuTake(void);\n\
            typedef CUresult (CUDAAPI *PFN_cuTake_v3020)(void); typedef CUresult (CUDAAPI *PFN_cuStop_v4000)(void);";
        let differences = compare(&[], &[release("13.0", text)]);
        let names: Vec<_> = differences.lacking.iter().map(|(function, _)| &*function.name).collect();
        assert_eq!(names, ["cuStop", "cuTake_v2"]);
    }

    #[test]
    fn a_guess_says_what_it_saw() {
        let of = |text: &str| guess(&read(text).functions[0]);
        assert_eq!(
            of("CUresult CUDAAPI cuBufferAlloc(CUdeviceptr* out, size_t bytes);"),
            "its name speaks of taking memory; it has device pointers; it is given or gives a size"
        );
        assert!(of("CUresult CUDAAPI cuWaveLaunch(void);").contains("launching"));
        assert!(of("CUresult CUDAAPI cuColour(int c);").starts_with("nothing"));
        let variant = Function { name: "cuMemAlloc_v9".to_owned(), prototype: String::new() };
        assert_eq!(guess(&variant), "it is a variant of cuMemAlloc, which is in the table as Allocates");
    }
}
