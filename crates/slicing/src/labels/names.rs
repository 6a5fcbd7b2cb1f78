//! Keys and values that Kubernetes accepts as labels, whatever a driver or a firmware calls its things.

use std::collections::BTreeMap;
use std::fmt::Display;

/// Kubernetes' limit for a value, and for a key without its prefix.
pub(super) const MOST: usize = 63;

/// Stands for a name of which nothing can be written in a label.
pub(super) const NAMELESS: &str = "unknown";

/// Labels under construction: nothing gets in that Kubernetes would refuse.
#[derive(Debug, Default)]
pub(super) struct LabelSet(BTreeMap<String, String>);

impl LabelSet {
    /// A label that NVIDIA has, too.
    pub(super) fn nvidia(&mut self, name: impl Display, value: impl Display) {
        self.put("nvidia.com", &name.to_string(), &value.to_string());
    }

    /// A label of ours.
    pub(super) fn carve(&mut self, name: impl Display, value: impl Display) {
        self.put("carve.dev", &name.to_string(), &value.to_string());
    }

    fn put(&mut self, prefix: &str, name: &str, value: &str) {
        let name = fitting(name);
        // An empty value is a value, an empty key is none.
        if !name.is_empty() {
            self.0.insert(format!("{prefix}/{name}"), fitting(value));
        }
    }

    pub(super) fn into_map(self) -> BTreeMap<String, String> {
        self.0
    }
}

/// A text as NVIDIA writes it in labels: foreign characters left out, blanks turned into single dashes.
pub(super) fn sanitise(text: &str) -> String {
    let kept: String = text.chars().filter(|letter| is_plain(*letter) || *letter == ' ').collect();
    kept.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

/// The name of a product and what is to be said behind it. Where both are too long, the name is cut: what stands behind
/// it tells MIG devices and shared GPUs from others.
pub(super) fn product(model: &str, behind: &str) -> String {
    let mut model = sanitise(model);
    if fitting(&model).is_empty() {
        NAMELESS.clone_into(&mut model);
    }
    if model.len() + behind.len() > MOST {
        model = cut(&fitting(&model), MOST.saturating_sub(behind.len()));
    }
    fitting(&(model + behind))
}

/// A text cut to a length, and so that it ends well.
pub(super) fn cut(text: &str, most: usize) -> String {
    let cut: String = text.chars().take(most).collect();
    cut.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric()).to_owned()
}

/// What of a text Kubernetes accepts.
pub(super) fn fitting(text: &str) -> String {
    let kept: String = text.chars().filter(|letter| is_plain(*letter)).collect();
    cut(kept.trim_start_matches(|letter: char| !letter.is_ascii_alphanumeric()), MOST)
}

fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.')
}

#[cfg(test)]
mod tests {
    use super::{fitting, product, sanitise};

    #[test]
    fn blanks_become_dashes_and_foreign_characters_go() {
        assert_eq!(sanitise("  NVIDIA  A100-SXM4 (80GB)™ "), "NVIDIA-A100-SXM4-80GB");
        // A tab is foreign, not blank.
        assert_eq!(sanitise("a\tb c\n"), "ab-c");
        assert_eq!(sanitise("漢字"), "");
    }

    #[test]
    fn what_stands_behind_a_product_is_never_cut() {
        assert_eq!(product("NVIDIA H200", "-MIG-1g.18gb-SHARED"), "NVIDIA-H200-MIG-1g.18gb-SHARED");
        let long = product("A very long name of a board that nobody would have thought of as one", "-SHARED");
        assert_eq!(long, "A-very-long-name-of-a-board-that-nobody-would-have-thoug-SHARED");
        assert_eq!(long.len(), 63);
        assert_eq!(product("™", "-SHARED"), "unknown-SHARED");
        assert_eq!(product("-._", ""), "unknown");
    }

    #[test]
    fn texts_begin_and_end_with_letters_or_digits() {
        assert_eq!(fitting("-_a.b_-"), "a.b");
        assert_eq!(fitting(&format!("{}--b", "a".repeat(62))), "a".repeat(62));
        assert_eq!(fitting("..."), "");
    }
}
