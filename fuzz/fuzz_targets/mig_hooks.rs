//! No text makes the hooks reader panic, and what it reads it prints back the same.
#![no_main]

use carve_formats::mig_hooks::MigHooks;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Some(hooks) = MigHooks::parse(text).value {
        assert_eq!(MigHooks::parse(&hooks.to_yaml()).value.as_ref(), Some(&hooks));
    }
});
