//! YAML as Kubernetes reads it: what `sigs.k8s.io/yaml` (Go yaml v2, then JSON) makes of a text, with positions.
//!
//! NVIDIA's programs read their files through that library, so a file means what it says it means and nothing else
//! does: `no` is false, `010` is eight, a key `on:` is `"true"`, of two equal keys the last one wins, and only the
//! first document of a stream is read. [`parse`] gives the same value for the same text and refuses the same texts;
//! [`SyntaxError::upstream`] is the sentence the library itself gives.
//!
//! Every rule here was checked against the library by running it (see `tests/oracle.rs` and `conformance/oracle`).
//! What is left different, on purpose or for lack of use:
//!
//! - nesting is followed 128 levels deep instead of 10000, so that recursion is bounded;
//! - keys that are equal only after they became texts (`1` and `"1"`, two `.nan`) are in random order there; here the
//!   last wins;
//! - a byte order mark anywhere but at the very start makes Go's reader skip unrelated characters at line starts,
//!   depending on its buffer; here it is an ordinary character;
//! - a forbidden control character behind the first document is noticed there in chunks of its buffer, which is
//!   followed closely but not to the byte;
//! - `.inf` and `.nan` are refused everywhere; there they become texts where a struct wants one (hook arguments);
//! - the texts of errors about keys that are lists, maps or null print Go values there and are shortened here.

mod compose;
mod construct;
mod json;
mod number;
mod problem;
mod resolve;
mod scanner;
mod timestamp;

pub(crate) use json::write_json_string;
pub use number::Number;
pub(crate) use resolve::resolves_to_text;
pub use scanner::LiteralBlock;

use compose::Composer;
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// A place in a text, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A text is not YAML as Kubernetes reads it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{problem}")]
pub struct SyntaxError {
    /// Where it was noticed.
    pub at: Position,
    /// What is wrong.
    pub problem: String,
    /// The sentence of the Go library, absent where only this crate has the limit.
    pub upstream: Option<String>,
}

/// A value with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// What it is.
    pub value: Value,
    /// Where it begins.
    pub at: Position,
    /// Where its lines stand, if it was written as a literal block (`|`).
    pub literal: Option<LiteralBlock>,
}

/// A value after YAML 1.1 resolution.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `null`, `~` or nothing.
    Null,
    /// `true`, `yes`, `on`, `y` and their opposites.
    Bool(bool),
    /// Any number.
    Number(Number),
    /// A text.
    String(String),
    /// A list.
    Sequence(Vec<Node>),
    /// A map.
    Mapping(Mapping),
}

/// A key with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The key as a text, which it always becomes.
    pub text: String,
    /// Where it stands.
    pub at: Position,
}

/// Keys and values in the order in which the keys were first written.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Mapping {
    entries: Vec<(Key, Node)>,
    by_text: BTreeMap<String, usize>,
    repeated: Vec<Key>,
    /// A key that can not become a text, by the name of its Go type. It is an error only if the map is not replaced.
    unsupported: Option<&'static str>,
}

impl Mapping {
    /// The value of a key, spelled exactly so.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|(_, value)| value)
    }

    /// Key and value, spelled exactly so.
    pub fn entry(&self, key: &str) -> Option<(&Key, &Node)> {
        self.by_text.get(key).and_then(|place| self.entries.get(*place)).map(|(key, value)| (key, value))
    }

    /// In the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Node)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    /// In the order in which Go writes them to JSON, and so reads them back.
    pub fn sorted(&self) -> impl Iterator<Item = (&Key, &Node)> {
        self.by_text.values().filter_map(|place| self.entries.get(*place)).map(|(key, value)| (key, value))
    }

    /// Keys that were written a second time, at the place where that happened.
    pub fn repeated(&self) -> &[Key] {
        &self.repeated
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many keys it has.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The last value for a key wins. A key that replaces one from a merge is no mistake.
    fn set(&mut self, key: Key, value: Node, merged: bool) {
        match self.by_text.get(&key.text).and_then(|place| self.entries.get_mut(*place)) {
            Some(entry) => {
                if !merged {
                    self.repeated.push(key.clone());
                }
                *entry = (key, value);
            }
            None => {
                self.by_text.insert(key.text.clone(), self.entries.len());
                self.entries.push((key, value));
            }
        }
    }
}

/// Reads the first document of a text. A text without one is null.
pub fn parse(text: &str) -> Result<Node, SyntaxError> {
    let document = Composer::new(text).document().map_err(|problem| problem.into_error())?;
    match document {
        Some(tree) => construct::construct(&tree).map_err(|problem| problem.into_error()),
        None => Ok(Node { value: Value::Null, at: Position { line: 1, column: 1 }, literal: None }),
    }
}

/// Reads every document of a text, up to the first that is broken.
///
/// The Go programs read only the first one; `kubectl` and people write several.
pub fn parse_stream(text: &str) -> (Vec<Node>, Option<SyntaxError>) {
    let mut composer = Composer::new(text);
    let mut nodes = Vec::new();
    loop {
        let node = match composer.document() {
            Ok(Some(tree)) => construct::construct(&tree),
            Ok(None) => return (nodes, None),
            Err(problem) => Err(problem),
        };
        match node {
            Ok(node) => nodes.push(node),
            Err(problem) => return (nodes, Some(problem.into_error())),
        }
    }
}
