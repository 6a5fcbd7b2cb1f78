//! Versions, as programs print them.

use std::fmt;

/// Numbers with dots between them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(Vec<u64>);

impl Version {
    /// From its numbers.
    pub fn new(numbers: &[u64]) -> Self {
        Version(numbers.to_vec())
    }

    /// The first thing in a text that looks like one: `containerd github.com/… v1.7.24 abc` has 1.7.24.
    pub fn find(text: &str) -> Option<Self> {
        text.split(|letter: char| letter.is_whitespace() || ",()\"=".contains(letter)).find_map(Self::read)
    }

    fn read(word: &str) -> Option<Self> {
        let word = word.strip_prefix('v').unwrap_or(word);
        // What stands behind a dash or plus is about how it was packaged.
        let plain = word.split(['-', '+', '~']).next()?;
        let numbers: Option<Vec<u64>> = plain.split('.').map(|part| part.parse().ok()).collect();
        numbers.filter(|numbers| numbers.len() >= 2).map(Version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(u64::to_string).collect();
        f.write_str(&words.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn versions_are_found_in_what_programs_print() {
        for (text, version) in [
            ("NVIDIA Container Toolkit CLI version 1.17.8\ncommit: 5fbc", "1.17.8"),
            ("containerd github.com/containerd/containerd v1.7.24 88bf19b", "1.7.24"),
            ("containerd containerd.io 2.1.0~rc.1 x", "2.1.0"),
            ("crio version 1.31.2", "1.31.2"),
            ("Kubernetes v1.36.4-1", "1.36.4"),
            ("Docker version 27.3.1, build ce12230", "27.3.1"),
        ] {
            assert_eq!(
                Version::find(text).map(|found| found.to_string()).as_deref(),
                Some(version),
                "{text}"
            );
        }
        assert_eq!(Version::find("no version here 7"), None);
        assert!(Version::new(&[1, 17, 10]) > Version::new(&[1, 17, 8]));
    }
}
