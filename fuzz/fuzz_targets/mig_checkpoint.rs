//! No text makes the checkpoint reader panic, and what it reads it prints back the same.
#![no_main]

use carve_formats::mig_checkpoint::MigCheckpoint;

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Some(checkpoint) = MigCheckpoint::parse(text).value {
        assert_eq!(MigCheckpoint::parse(&checkpoint.to_json()).value.as_ref(), Some(&checkpoint));
    }
});
