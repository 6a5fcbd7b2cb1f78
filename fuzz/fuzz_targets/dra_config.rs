//! No opaque config makes the reader panic, and every refusal says what to write instead.
#![no_main]

use carve_formats::dra_config::OpaqueConfig;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(parameters) = serde_json::from_str(text) else { return };
    if let Err(error) = OpaqueConfig::decode(&parameters) {
        assert!(!error.what.is_empty() && !error.fix.is_empty(), "{error:?}");
    }
});
