//! No text makes the reader of manifests panic, what it accepts says what it is, and what it refuses is refused with words and a hint.
#![no_main]

use carve_object_verbs::documents;

libfuzzer_sys::fuzz_target!(|text: &str| {
    match documents(text) {
        Ok(found) => {
            assert!(!found.is_empty());
            for document in found {
                assert!(document.object["apiVersion"].is_string() && document.object["kind"].is_string());
                assert!(!document.title().is_empty());
            }
        }
        Err(error) => assert!(error.code == 400 && !error.message.is_empty() && error.hint.is_some()),
    }
});
