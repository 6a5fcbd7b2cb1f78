//! Names of many cells in few words, as a shell expands them: `light/{mps,limiter}/{2,4}`.

use crate::Cell;

/// What kind of cell a name is of: where its parts stand in the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Overhead,
    Share,
    Beside,
    Mishap,
}

/// Cells of one shape: all that are made by one of each of the three parts.
struct Words {
    shape: Shape,
    /// What is done or goes wrong; how it is shared; how many there are, or beside whom.
    parts: [Vec<String>; 3],
}

impl Words {
    fn of(cell: &Cell) -> Self {
        let (shape, parts) = match cell {
            Cell::Overhead => (Shape::Overhead, ["overhead".to_owned(), String::new(), String::new()]),
            Cell::Share { workload, strategy, tenants } => {
                (Shape::Share, [workload.to_string(), strategy.to_string(), tenants.to_string()])
            }
            Cell::Beside { victim, aggressor, strategy } => {
                (Shape::Beside, [victim.to_string(), strategy.to_string(), aggressor.to_string()])
            }
            Cell::Mishap { mishap, strategy } => {
                (Shape::Mishap, [mishap.word().to_owned(), strategy.to_string(), String::new()])
            }
        };
        Words { shape, parts: parts.map(|part| vec![part]) }
    }

    fn text(&self) -> String {
        let [what, strategies, last] = [0, 1, 2].map(|at| braces(&self.parts[at]));
        match self.shape {
            Shape::Overhead => what,
            Shape::Share => format!("{what}/{strategies}/{last}"),
            Shape::Beside => format!("{what}+{last}/{strategies}"),
            Shape::Mishap => format!("{what}/{strategies}"),
        }
    }
}

/// Few words that expand to the names of exactly these cells, each once.
pub(crate) fn names(cells: &[Cell]) -> Vec<String> {
    let mut words: Vec<Words> = cells.iter().map(Words::of).collect();
    for at in [2, 1, 0] {
        words = merged(words, at);
    }
    words.iter().map(Words::text).collect()
}

/// Puts words together that differ in one part alone; the order is that of the first of them.
fn merged(words: Vec<Words>, at: usize) -> Vec<Words> {
    let mut merged: Vec<Words> = Vec::new();
    for word in words {
        let alike = |other: &&mut Words| {
            other.shape == word.shape
                && (0..3).filter(|part| *part != at).all(|part| other.parts[part] == word.parts[part])
        };
        match merged.iter_mut().find(alike) {
            Some(known) => {
                for part in &word.parts[at] {
                    if !known.parts[at].contains(part) {
                        known.parts[at].push(part.clone());
                    }
                }
            }
            None => merged.push(word),
        }
    }
    merged
}

fn braces(words: &[String]) -> String {
    match words {
        [one] => one.clone(),
        many => format!("{{{}}}", many.join(",")),
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

    #[test]
    fn a_cell_is_named_once() {
        let cell: Cell = "light/mps/2".parse().unwrap();
        assert_eq!(names(&[Cell::Overhead, cell, cell, Cell::Overhead]), ["overhead", "light/mps/2"]);
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
