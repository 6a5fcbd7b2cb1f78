//! No text makes the reader of manifests panic, what it accepts says what it is, and what it refuses is refused with words and a hint.

use carve_object_verbs::documents;
use proptest::prelude::{Strategy, any, prop, prop_assert, proptest};
use proptest::test_runner::TestCaseError;

const WRITTEN: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - {name: main, image: i}\n---\n\
                       {\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"b\"}}]}\n";

/// What is put in somewhere: what YAML means something by, and what it does not expect.
const WORDS: [&str; 16] = [
    "",
    ":",
    "---\n",
    "- ",
    "{",
    "}",
    "[",
    "&a ",
    "*a",
    "!!binary ",
    "null",
    "\"",
    "kind: List\n",
    "\u{0}",
    "ü",
    "items: 3\n",
];

/// Manifests as people write them, with some of it changed.
fn almost_right() -> impl Strategy<Value = String> {
    let edit = (any::<prop::sample::Index>(), 0..8_usize, prop::sample::select(&WORDS[..]));
    prop::collection::vec(edit, 0..5).prop_map(|edits| {
        let mut letters: Vec<char> = WRITTEN.chars().collect();
        for (place, less, more) in edits {
            let at = place.index(letters.len() + 1);
            let end = (at + less).min(letters.len());
            letters.splice(at..end, more.chars());
        }
        letters.into_iter().collect()
    })
}

fn tried(text: &str) -> Result<(), TestCaseError> {
    match documents(text) {
        Ok(found) => {
            prop_assert!(!found.is_empty());
            for document in found {
                let says = |field: &str| document.object[field].is_string();
                prop_assert!(says("apiVersion") && says("kind") && !document.title().is_empty());
            }
        }
        Err(error) => {
            prop_assert!(error.code == 400 && !error.message.is_empty() && error.hint.is_some(), "{error:?}");
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn manifests_that_are_almost_right(text in almost_right()) {
        tried(&text)?;
    }

    #[test]
    fn any_text(text in ".{0,80}") {
        tried(&text)?;
    }
}
