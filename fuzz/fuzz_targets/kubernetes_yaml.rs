//! No text makes the YAML reader panic.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = carve_formats::kubernetes_yaml::parse(text);
});
