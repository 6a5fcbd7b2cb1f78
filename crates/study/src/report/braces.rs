//! Names of many cells in few words, as a shell expands them: `light/{mps,limiter}/{2,4}`.

use crate::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// A cell's name in its three parts: before the strategy, the strategy, after it. What stands beside a tenant comes
/// first in the name, and counts as the third part here.
fn parts(cell: &Cell) -> Option<(String, &'static str, Kind)> {
    match cell {
        Cell::Overhead => None,
        Cell::Share { workload, strategy, tenants } => {
            Some((workload.to_string(), strategy.word(), Kind::Tenants(*tenants)))
        }
        Cell::Beside { victim, aggressor, strategy } => {
            Some((victim.to_string(), strategy.word(), Kind::Beside(aggressor.word())))
        }
        Cell::Mishap { mishap, strategy } => Some((mishap.word().to_owned(), strategy.word(), Kind::Mishap)),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Tenants(u8),
    Beside(&'static str),
    Mishap,
}

/// Few words that expand to the names of exactly these cells, each once.
pub(super) fn names(cells: &[Cell]) -> Vec<String> {
    let mut last: BTreeMap<(usize, String, &str), BTreeSet<Kind>> = BTreeMap::new();
    // Strategies and workloads stay in the order in which they come.
    let mut strategies: Vec<&str> = Vec::new();
    let mut firsts: Vec<String> = Vec::new();
    let mut words = Vec::new();
    for cell in cells {
        let Some((first, strategy, kind)) = parts(cell) else {
            if !words.contains(&cell.to_string()) {
                words.push(cell.to_string());
            }
            continue;
        };
        if !strategies.contains(&strategy) {
            strategies.push(strategy);
        }
        if !firsts.contains(&first) {
            firsts.push(first.clone());
        }
        let shape = match kind {
            Kind::Tenants(_) => 0,
            Kind::Beside(_) => 1,
            Kind::Mishap => 2,
        };
        last.entry((shape, first, strategy)).or_default().insert(kind);
    }
    // Strategies with the same third parts go together, then first parts with the same of both.
    let mut middle: BTreeMap<(usize, String, BTreeSet<Kind>), Vec<&str>> = BTreeMap::new();
    for ((shape, first, strategy), kinds) in last {
        middle.entry((shape, first, kinds)).or_default().push(strategy);
    }
    let mut outer: BTreeMap<(usize, Vec<&str>, BTreeSet<Kind>), Vec<String>> = BTreeMap::new();
    for ((shape, first, kinds), mut group) in middle {
        group.sort_by_key(|strategy| strategies.iter().position(|known| known == strategy));
        outer.entry((shape, group, kinds)).or_default().push(first);
    }
    let mut groups: Vec<_> = outer.into_iter().collect();
    let place = |first: &String| firsts.iter().position(|known| known == first);
    for (_, group) in &mut groups {
        group.sort_by_key(place);
    }
    groups.sort_by_key(|((shape, ..), group)| (*shape, group.first().and_then(place)));
    words.extend(groups.into_iter().map(|((_, group, kinds), first)| {
        let (first, strategy) = (braces(&first), braces(&group));
        let tenants: Vec<String> = kinds
            .iter()
            .filter_map(|kind| match kind {
                Kind::Tenants(count) => Some(count.to_string()),
                _ => None,
            })
            .collect();
        let beside: Vec<&str> = kinds
            .iter()
            .filter_map(|kind| match kind {
                Kind::Beside(word) => Some(*word),
                _ => None,
            })
            .collect();
        match (tenants.is_empty(), beside.is_empty()) {
            (false, _) => format!("{first}/{strategy}/{}", braces(&tenants)),
            (true, false) => format!("{first}+{}/{strategy}", braces(&beside)),
            (true, true) => format!("{first}/{strategy}"),
        }
    }));
    words
}

fn braces<T: AsRef<str>>(words: &[T]) -> String {
    match words {
        [one] => one.as_ref().to_owned(),
        many => {
            let all: Vec<&str> = many.iter().map(AsRef::as_ref).collect();
            format!("{{{}}}", all.join(","))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::names;
    use crate::{Cell, Scope};
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
    use proptest::sample::subsequence;

    /// What a shell makes of it.
    fn expanded(word: &str) -> Vec<String> {
        let Some((before, rest)) = word.split_once('{') else { return vec![word.to_owned()] };
        let (inside, after) = rest.split_once('}').unwrap();
        let one = |part: &str| expanded(&format!("{before}{part}{after}"));
        inside.split(',').flat_map(one).collect()
    }

    #[test]
    fn a_whole_scope_is_a_few_words() {
        let words = names(&Scope::Quick.cells());
        let expected = [
            "overhead",
            "{light,heavy,batch}/dedicated/1",
            "{light,heavy,batch}/{time-slicing,mps,mps-limits,limiter}/2",
            "fault/{time-slicing,mps}",
        ];
        assert_eq!(words, expected);
    }

    proptest! {
        #[test]
        fn words_expand_to_the_cells(cells in subsequence(Scope::Full.cells(), 0..=120)) {
            let words = names(&cells);
            let found: Vec<String> = words.iter().flat_map(|word| expanded(word)).collect();
            prop_assert!(found.iter().all(|name| name.parse::<Cell>().is_ok()), "{:?}", words);
            let sorted = |mut names: Vec<String>| { names.sort(); names };
            prop_assert_eq!(sorted(found), sorted(cells.iter().map(Cell::to_string).collect()));
        }
    }
}
