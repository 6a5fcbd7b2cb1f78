//! No text makes the readers of fleets panic, what they accept can be simulated, and what they refuse is refused with words.

use carve_local_cluster::Fleet;
use proptest::prelude::{Strategy, any, prop, prop_assert, proptest};

const WRITTEN: [&str; 2] = [
    "p4d.24xlarge=1,g5.2xlarge=4,h200-141gb:8=2",
    "machines:\n- type: p4d.24xlarge\n  name: big\n  labels: {pool: train}\n- type: g5.2xlarge\n  count: 4\n",
];

/// What is put in somewhere: what the languages mean something by, and what they do not expect.
const WORDS: [&str; 16] = [
    "",
    "=",
    ",",
    "-1",
    "99999999999",
    ":",
    "\n- ",
    "{",
    "[",
    "&a ",
    "*a",
    "null",
    "count: ",
    "\u{0}",
    "ü",
    "p4d.24xlarge=1,",
];

/// A fleet as people write it, with some of it changed.
fn almost_right() -> impl Strategy<Value = String> {
    let edit = (any::<prop::sample::Index>(), 0..6_usize, prop::sample::select(&WORDS[..]));
    (prop::sample::select(&WRITTEN[..]), prop::collection::vec(edit, 0..5)).prop_map(|(written, edits)| {
        let mut letters: Vec<char> = written.chars().collect();
        for (place, less, more) in edits {
            let at = place.index(letters.len() + 1);
            let end = (at + less).min(letters.len());
            letters.splice(at..end, more.chars());
        }
        letters.into_iter().collect()
    })
}

fn tried(text: &str) -> Result<(), proptest::test_runner::TestCaseError> {
    for read in [Fleet::parse(text), Fleet::from_yaml(text)] {
        match read {
            Ok(fleet) => {
                prop_assert!((1..=2_000).contains(&fleet.machines.len()));
                prop_assert!(fleet.machines.iter().take(3).all(|machine| machine.machine().is_ok()));
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn fleets_that_are_almost_right(text in almost_right()) {
        tried(&text)?;
    }

    #[test]
    fn any_text(text in ".{0,80}") {
        tried(&text)?;
    }
}
