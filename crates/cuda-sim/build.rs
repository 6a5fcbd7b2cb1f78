//! Gives the library the name that programs look for.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    // Contexts and allocations live in the library; one that is unloaded and loaded again must still know them.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // `cuGetProcAddress` must give out this library's functions even where a preloaded library has the same names.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
}
