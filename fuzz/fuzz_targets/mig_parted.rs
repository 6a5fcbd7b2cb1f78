//! No text makes the mig-parted reader panic, and what it reads it prints back the same.
#![no_main]

use carve_formats::MigPartedConfig;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Some(config) = MigPartedConfig::parse(text).value {
        assert_eq!(MigPartedConfig::parse(&config.to_yaml()).value.as_ref(), Some(&config));
        assert_eq!(MigPartedConfig::parse(&config.to_json()).value.as_ref(), Some(&config));
    }
});
