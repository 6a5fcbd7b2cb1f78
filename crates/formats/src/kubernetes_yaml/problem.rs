//! Why a text is not YAML, in the words of the Go library, and how it numbers the lines.

use super::scanner::Mark;
use super::{Position, SyntaxError};
use std::borrow::Cow;

/// Which part of the library refuses: the line number in its message depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Reader,
    Scanner,
    Parser,
    /// After the grammar: aliases, tags, merge keys. No line number.
    Composer,
    /// On the way from YAML to JSON, in the words of that step alone.
    Convert,
}

#[derive(Debug, Clone)]
pub(super) struct Problem {
    pub(super) stage: Stage,
    pub(super) text: Cow<'static, str>,
    pub(super) at: Mark,
    /// Where the thing begins in which the problem was met.
    pub(super) context: Mark,
    /// Said only by us: the Go library has no such limit or says something else.
    pub(super) ours_only: bool,
}

impl Problem {
    pub(super) fn composer(text: impl Into<Cow<'static, str>>, at: Mark) -> Self {
        Problem { stage: Stage::Composer, text: text.into(), at, context: at, ours_only: false }
    }

    /// The error as users of this crate see it.
    pub(super) fn into_error(self) -> SyntaxError {
        let upstream = (!self.ours_only).then(|| {
            let line = match self.stage {
                Stage::Reader | Stage::Composer | Stage::Convert => 0,
                Stage::Scanner if self.at.line != 0 => self.at.line + 1,
                _ if self.at.line != 0 => self.at.line,
                _ => self.context.line,
            };
            match line {
                _ if self.stage == Stage::Convert => self.text.to_string(),
                0 => format!("yaml: {}", self.text),
                line => format!("yaml: line {line}: {}", self.text),
            }
        });
        SyntaxError { at: position(self.at), problem: self.text.into_owned(), upstream }
    }
}

pub(super) fn position(mark: Mark) -> Position {
    Position { line: mark.line + 1, column: mark.column + 1 }
}
