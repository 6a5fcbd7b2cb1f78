//! The name somebody probably meant, by edit distance.

/// The known name nearest to a written one, if it is near enough to be what was meant.
pub(crate) fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |name: &str| {
        name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect::<Vec<_>>()
    };
    let wanted = plain(written);
    known
        .into_iter()
        .map(|name| (distance(&wanted, &plain(name)), name))
        .filter(|(distance, name)| *distance <= (name.chars().count().max(3) / 3).min(4))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// `did you mean 'x'?`
pub(crate) fn did_you_mean<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(written, known).map(|name| format!("did you mean '{name}'?"))
}

/// Levenshtein distance, where two neighbours exchanged count as one step. Long inputs are as far as can be.
fn distance(left: &[char], right: &[char]) -> usize {
    if left.len() > 64 || right.len() > 64 {
        return usize::MAX;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.iter().enumerate() {
        let mut current = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let at = |row: &[usize], place: usize| row.get(place).copied().unwrap_or(usize::MAX / 2);
            let mut best =
                (at(&last, j) + usize::from(a != b)).min(at(&last, j + 1) + 1).min(at(&current, j) + 1);
            let exchanged =
                j > 0 && i > 0 && left.get(i - 1) == Some(b) && right.get(j - 1) == Some(a) && a != b;
            if exchanged {
                best = best.min(at(&before, j - 1) + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut last, current);
    }
    last.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_typo_finds_its_name_and_a_stranger_does_not() {
        let known = ["renameByDefault", "failRequestsGreaterThanOne", "resources", "devices", "mig-devices"];
        for (written, expected) in [
            ("renamebydefault", Some("renameByDefault")),
            ("rename-by-default", Some("renameByDefault")),
            ("resuorces", Some("resources")),
            ("device", Some("devices")),
            ("migDevices", Some("mig-devices")),
            ("banana", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, known), expected, "{written}");
        }
    }
}
