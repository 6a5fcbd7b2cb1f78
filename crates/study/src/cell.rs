//! One thing that is measured.

use crate::{Strategy, Workload};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// What goes wrong with a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mishap {
    /// A kernel of it touches memory that is nobody's.
    Fault,
    /// It takes all memory, and wants more.
    OutOfMemory,
    /// It is killed while a kernel of it runs.
    Kill,
}

impl Mishap {
    /// All of them.
    pub const ALL: [Mishap; 3] = [Mishap::Fault, Mishap::OutOfMemory, Mishap::Kill];

    /// In the names of cells.
    pub const fn word(self) -> &'static str {
        match self {
            Mishap::Fault => "fault",
            Mishap::OutOfMemory => "out-of-memory",
            Mishap::Kill => "kill",
        }
    }

    /// For people.
    pub const fn title(self) -> &'static str {
        match self {
            Mishap::Fault => "memory fault",
            Mishap::OutOfMemory => "out of memory",
            Mishap::Kill => "kill -9",
        }
    }
}

/// One thing that is measured. Its name says all of it: `light/mps/4`, `light+burn/mps`, `fault/mps`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cell {
    /// What the harness costs: loops that do nothing, and launches of a kernel that does nothing.
    Overhead,
    /// So many tenants that do the same.
    Share {
        /// What they do.
        workload: Workload,
        /// How they share.
        strategy: Strategy,
        /// How many they are.
        tenants: u8,
    },
    /// What one tenant has of a neighbour that does something else.
    Beside {
        /// Who is looked at.
        victim: Workload,
        /// What the other does.
        aggressor: Workload,
        /// How they share.
        strategy: Strategy,
    },
    /// What light inference has of a neighbour with whom something goes wrong.
    Mishap {
        /// What goes wrong.
        mishap: Mishap,
        /// How they share.
        strategy: Strategy,
    },
}

impl Cell {
    /// How the GPU is shared; none for what the harness costs.
    pub const fn strategy(&self) -> Option<Strategy> {
        match self {
            Cell::Overhead => None,
            Cell::Share { strategy, .. } | Cell::Beside { strategy, .. } | Cell::Mishap { strategy, .. } => {
                Some(*strategy)
            }
        }
    }

    /// What is done in it.
    pub fn workloads(&self) -> Vec<Workload> {
        match self {
            Cell::Overhead => vec![Workload::Empty],
            Cell::Share { workload, .. } => vec![*workload],
            Cell::Beside { victim, aggressor, .. } => vec![*victim, *aggressor],
            Cell::Mishap { .. } => vec![Workload::Light],
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Cell::Overhead => "overhead".to_owned(),
            Cell::Share { workload, strategy, tenants } => format!("{workload}/{strategy}/{tenants}"),
            Cell::Beside { victim, aggressor, strategy } => format!("{victim}+{aggressor}/{strategy}"),
            Cell::Mishap { mishap, strategy } => format!("{}/{strategy}", mishap.word()),
        };
        f.pad(&text)
    }
}

/// It is no name of a cell.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{text}' names no cell ({why}); names are like light/mps/4, light+burn/mps, fault/mps or overhead")]
pub struct ParseCellError {
    text: String,
    why: String,
}

impl FromStr for Cell {
    type Err = ParseCellError;

    fn from_str(text: &str) -> Result<Self, ParseCellError> {
        let wrong = |why: String| ParseCellError { text: text.to_owned(), why };
        if text == "overhead" {
            return Ok(Cell::Overhead);
        }
        let parts: Vec<&str> = text.split('/').collect();
        let strategy = |word: &str| word.parse::<Strategy>().map_err(wrong);
        let workload = |word: &str| word.parse::<Workload>().map_err(wrong);
        match parts[..] {
            [what, how, count] => {
                let tenants = count.parse().ok().filter(|count| (1..=64).contains(count));
                let tenants = tenants.ok_or_else(|| wrong("tenants are 1 to 64".to_owned()))?;
                Ok(Cell::Share { workload: workload(what)?, strategy: strategy(how)?, tenants })
            }
            [what, how] => match (what.split_once('+'), Mishap::ALL.iter().find(|one| one.word() == what)) {
                (Some((victim, aggressor)), _) => Ok(Cell::Beside {
                    victim: workload(victim)?,
                    aggressor: workload(aggressor)?,
                    strategy: strategy(how)?,
                }),
                (None, Some(mishap)) => Ok(Cell::Mishap { mishap: *mishap, strategy: strategy(how)? }),
                (None, None) => Err(wrong("neither a mishap nor two workloads".to_owned())),
            },
            _ => Err(wrong("it has not two or three parts".to_owned())),
        }
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::Cell;
    use crate::Scope;

    #[test]
    fn names_lead_back() {
        for cell in Scope::Full.cells() {
            assert_eq!(cell.to_string().parse::<Cell>(), Ok(cell));
        }
        for wrong in
            ["", "light", "light/mps", "light/mps/0", "light/mps/many", "light/fair/2", "a/b/c/d", "x+y/mps"]
        {
            assert!(wrong.parse::<Cell>().is_err(), "{wrong}");
        }
    }
}
