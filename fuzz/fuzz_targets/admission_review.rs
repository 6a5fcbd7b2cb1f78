//! No document makes the review of the webhook panic, and every refusal names a field and stays short enough to be read.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(document) = serde_json::from_str(text) else { return };
    let answer = carve_webhook::review(&document, &["gpu.carve.dev".to_owned()]);
    let response = &answer["response"];
    if response["allowed"] == false {
        let causes = response["status"]["details"]["causes"].as_array().expect("causes");
        assert!(!causes.is_empty(), "{answer}");
        for cause in causes {
            assert!(cause["field"].as_str().is_some_and(|field| field.contains("config[")), "{answer}");
            assert!(cause["message"].as_str().is_some_and(|words| words.chars().count() < 1100), "{answer}");
        }
    }
});
