//! Reads from a C header of the CUDA driver interface which functions libcuda.so.1 exports.
//!
//! A header declares `cuMemcpyHtoD`, and a macro before it makes that `cuMemcpyHtoD_v2`, or `cuMemcpyHtoD_v2_ptds` in
//! programs built for a default stream of each thread. Near its end it takes the macros back and declares earlier
//! versions under their plain names. So a header is read from top to bottom with the macros that hold at each line.
//! Every branch of a condition is read, because what one program does not see, another links to; only what is for
//! Windows alone is passed over.

use std::collections::BTreeMap;

/// A function that a header tells of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    /// Its exported name; of a pointer type, the name without version.
    pub(crate) name: String,
    /// How it is declared, on one line.
    pub(crate) prototype: String,
}

/// What a header tells of.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    /// Functions as they are exported, each variant by itself.
    pub(crate) functions: Vec<Function>,
    /// Functions that there is a pointer type for. These name some whose declarations are in other packages.
    pub(crate) pointers: Vec<Function>,
}

/// What a macro makes of a function's name.
struct Rename {
    name: String,
    /// Appended where the default stream is the thread's own.
    per_thread: Option<&'static str>,
}

/// Reads a header.
pub(crate) fn read(text: &str) -> Header {
    let text = without_comments(text).replace("\\\r\n", " ").replace("\\\n", " ");
    let mut header = Header::default();
    let mut renames: BTreeMap<String, Rename> = BTreeMap::new();
    let mut conditions: Vec<bool> = Vec::new();
    let mut statement = String::new();
    for line in text.lines() {
        if let Some(directive) = line.trim_start().strip_prefix('#') {
            read_directive(directive, &mut renames, &mut conditions);
        } else if !conditions.contains(&true) {
            for piece in line.split_inclusive([';', '{', '}']) {
                statement.push_str(piece);
                statement.push(' ');
                if piece.ends_with(';') {
                    read_statement(&statement, &renames, &mut header);
                }
                if piece.ends_with([';', '{', '}']) {
                    statement.clear();
                }
            }
        }
    }
    header
}

/// The name without version and stream variant.
pub(crate) fn plain(name: &str) -> &str {
    name.split_once('_').map_or(name, |(plain, _)| plain)
}

/// Comments become blanks and keep their line ends.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('/') {
        kept.push_str(before);
        if let Some(comment) = after.strip_prefix('*') {
            let (comment, after) = comment.split_once("*/").unwrap_or((comment, ""));
            kept.push(' ');
            kept.extend(comment.chars().filter(|letter| *letter == '\n'));
            rest = after;
        } else if after.starts_with('/') {
            rest = after.find('\n').map_or("", |end| &after[end..]);
        } else {
            kept.push('/');
            rest = after;
        }
    }
    kept.push_str(rest);
    kept
}

/// Notes what a macro renames, and whether what follows is for Windows alone (one entry for each open condition).
fn read_directive(text: &str, renames: &mut BTreeMap<String, Rename>, conditions: &mut Vec<bool>) {
    let (verb, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
    match verb {
        "ifdef" | "ifndef" | "if" => {
            let windows = matches!((verb, rest.trim()), ("ifdef", "_WIN32") | ("if", "defined(_WIN32)"));
            conditions.push(windows);
        }
        "else" | "elif" => {
            if let Some(windows) = conditions.last_mut() {
                *windows = false;
            }
        }
        "endif" => {
            conditions.pop();
        }
        "define" => {
            let (name, value) = rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
            if let Some(rename) = rename(value.trim()).filter(|_| is_function(name)) {
                renames.insert(name.to_owned(), rename);
            }
        }
        "undef" => {
            renames.remove(rest.trim());
        }
        _ => {}
    }
}

/// `name`, `__CUDA_API_PTDS(name)` or `__CUDA_API_PTSZ(name)`.
fn rename(value: &str) -> Option<Rename> {
    let (name, per_thread) = match value.split_once('(') {
        Some(("__CUDA_API_PTDS", name)) => (name.strip_suffix(')')?.trim(), Some("_ptds")),
        Some(("__CUDA_API_PTSZ", name)) => (name.strip_suffix(')')?.trim(), Some("_ptsz")),
        Some(_) => return None,
        None => (value, None),
    };
    is_function(name).then(|| Rename { name: name.to_owned(), per_thread })
}

/// `CUresult CUDAAPI cuName(…);` or `typedef CUresult (CUDAAPI *PFN_cuName_v1234)(…);`.
fn read_statement(statement: &str, renames: &BTreeMap<String, Rename>, header: &mut Header) {
    let Some((_, declared)) = statement.split_once("CUDAAPI") else { return };
    let (declared, pointer) = match declared.trim_start().strip_prefix('*') {
        Some(pointer) => (pointer.trim_start(), true),
        None => (declared.trim_start(), false),
    };
    let end = declared.find(|letter: char| !is_letter(letter)).unwrap_or(declared.len());
    let (name, arguments) = declared.split_at(end);
    let arguments = arguments.trim_start().trim_start_matches(')').trim_start();
    if !arguments.starts_with('(') {
        return;
    }
    let name = if pointer { plain(name.strip_prefix("PFN_").unwrap_or_default()) } else { name };
    if !is_function(name) {
        return;
    }
    let arguments = spaced(arguments.trim_end().trim_end_matches(';'));
    let function = |name: String| Function { prototype: format!("CUresult {name}{arguments}"), name };
    match renames.get(name) {
        _ if pointer => header.pointers.push(function(name.to_owned())),
        None => header.functions.push(function(name.to_owned())),
        Some(rename) => {
            let variant = rename.per_thread.map(|suffix| format!("{}{suffix}", rename.name));
            header.functions.extend([Some(rename.name.clone()), variant].into_iter().flatten().map(function));
        }
    }
}

/// With one blank where there are several, and `type *name` however it was written.
fn spaced(text: &str) -> String {
    let words = text.replace('*', " * ");
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    words.replace("* ", "*").replace("( ", "(").replace(" )", ")")
}

fn is_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

fn is_function(name: &str) -> bool {
    name.len() > 2 && name.starts_with("cu") && name.chars().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::{Header, read};
    use proptest::prelude::{any, prop, proptest};

    fn names(header: &Header) -> Vec<&str> {
        header.functions.iter().map(|function| function.name.as_str()).collect()
    }

    #[test]
    fn a_declaration_over_several_lines_is_one_function() {
        let header =
            read("__OLD CUresult CUDAAPI\n  cuTake(CUdeviceptr* out, /* how\n much */ size_t  bytes ) ;\n");
        assert_eq!(names(&header), ["cuTake"]);
        assert_eq!(header.functions[0].prototype, "CUresult cuTake(CUdeviceptr *out, size_t bytes)");
    }

    #[test]
    fn a_macro_renames_until_it_is_taken_back() {
        let text = "#define cuTake   cuTake_v2 // newer\n\
            CUresult CUDAAPI cuTake(size_t bytes);\n\
            #if defined(INTERNAL)\n    #undef cuTake\n    CUresult CUDAAPI cuTake(unsigned bytes);\n#endif\n";
        assert_eq!(names(&read(text)), ["cuTake_v2", "cuTake"]);
    }

    #[test]
    fn a_default_stream_of_each_thread_makes_a_second_name() {
        let text = "#define __CUDA_API_PTSZ(api) api ## _ptsz\n\
            #define cuPut __CUDA_API_PTDS(cuPut_v2)\n\
            #if defined(PER_THREAD)\n    #define cuRun \\\n  __CUDA_API_PTSZ(cuRun)\n#endif\n\
            CUresult CUDAAPI cuPut(void); CUresult CUDAAPI cuRun(CUstream s);";
        assert_eq!(names(&read(text)), ["cuPut_v2", "cuPut_v2_ptds", "cuRun", "cuRun_ptsz"]);
    }

    #[test]
    fn what_is_for_windows_alone_is_passed_over() {
        let text = "#ifdef _WIN32\n#if defined(X)\nCUresult CUDAAPI cuWindow(void);\n#endif\n#else\n\
            CUresult CUDAAPI cuDoor(void);\n#endif\n#if defined(_WIN64) || defined(__LP64__)\n\
            CUresult CUDAAPI cuWide(void);\n#endif\n";
        assert_eq!(names(&read(text)), ["cuDoor", "cuWide"]);
    }

    #[test]
    fn pointer_types_and_bodies_are_no_functions() {
        let text = "typedef CUresult (CUDAAPI *PFN_cuStart_v4000_ptsz)(void);\n\
            typedef void (CUDAAPI *CUcallback)(int status);\n\
            static inline CUresult cuRun_ptsz(CUstream s) { return cuRun(s); }\n\
            struct S { int (CUDAAPI *cuField)(void); };\n";
        let header = read(text);
        assert!(names(&header).is_empty());
        assert_eq!(header.pointers.iter().map(|found| found.name.as_str()).collect::<Vec<_>>(), ["cuStart"]);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in any::<String>()) {
            read(&text);
        }

        #[test]
        fn any_order_of_what_headers_are_made_of_is_read(
            pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40)
        ) {
            read(&pieces.concat());
        }
    }

    const PIECES: &[&str] = &[
        "#define ",
        "#undef ",
        "#ifdef _WIN32\n",
        "#else\n",
        "#endif\n",
        "#",
        "cuA",
        "cuÄ",
        "__CUDA_API_PTSZ",
        "(",
        ")",
        "*",
        "PFN_cu",
        "CUDAAPI",
        "CUDAAPI ",
        " ",
        "\n",
        "\\\n",
        ";",
        "{",
        "}",
        "/*",
        "*/",
        "//",
        "/",
        "_",
        "é",
        "\u{2028}",
    ];
}
