//! Gives the library the name that NVIDIA's programs look for.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnvidia-ml.so.1");
    // NVIDIA's Go programs unload the library after every few calls; staying in memory keeps a private machine and
    // the count of planned faults alive.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
