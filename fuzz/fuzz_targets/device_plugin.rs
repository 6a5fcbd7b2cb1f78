//! No text makes the device-plugin reader panic, and what it reads it prints back the same.
#![no_main]

use carve_formats::DevicePluginConfig;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Some(config) = DevicePluginConfig::parse(text).value {
        assert_eq!(DevicePluginConfig::parse(&config.to_yaml()).value.as_ref(), Some(&config));
    }
});
