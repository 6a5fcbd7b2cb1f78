//! No text makes the linter panic, whatever it takes it for.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = carve_formats::lint(text);
});
