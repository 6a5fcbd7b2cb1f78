//! Text to tokens by the rules of YAML 1.1 as Go's library (a descendant of libyaml) applies them.
//!
//! The delicate part is the *simple key*: only a `:` shows that what came before was a key, so a token that may begin
//! one is held back until that is known, and a `Key` token is put in front of it afterwards.

mod cursor;
mod node_properties;
mod scalars;
mod token;

pub(super) use cursor::Mark;
pub use token::LiteralBlock;
pub(super) use token::{ScalarToken, Token, TokenKind};

use super::problem::{Problem, Stage};
use cursor::{Cursor, is_blank, is_blank_or_end, is_break, is_break_or_end};
use std::collections::{BTreeMap, VecDeque};

/// Nesting that is followed. Go's library allows 10000; below this nobody writes by hand, and recursion stays small.
pub(super) const MAX_DEPTH: usize = 128;

/// A key may span this many characters and must end on its line.
const SIMPLE_KEY_REACH: usize = 1024;

#[derive(Debug, Clone, Copy, Default)]
struct SimpleKey {
    possible: bool,
    /// In block context at the current indentation nothing but a key can stand here.
    required: bool,
    token_number: usize,
    mark: Mark,
}

#[derive(Debug)]
pub(super) struct Scanner {
    cursor: Cursor,
    tokens: VecDeque<Token>,
    /// Tokens that were taken out of the queue so far: token numbers count from the start of the stream.
    taken: usize,
    started: bool,
    indent: isize,
    indents: Vec<isize>,
    flow_level: usize,
    simple_key_allowed: bool,
    simple_keys: Vec<SimpleKey>,
    /// Which simple key begins at which token. Kept as Go's library keeps it, with its forgetting of the key that is
    /// an empty flow collection.
    simple_key_by_token: BTreeMap<usize, usize>,
}

impl Scanner {
    pub(super) fn new(text: &str) -> Self {
        Scanner {
            cursor: Cursor::new(text),
            tokens: VecDeque::new(),
            taken: 0,
            started: false,
            indent: -1,
            indents: Vec::new(),
            flow_level: 0,
            simple_key_allowed: true,
            simple_keys: vec![SimpleKey::default()],
            simple_key_by_token: BTreeMap::new(),
        }
    }

    /// The next token, left in the queue.
    pub(super) fn peek(&mut self) -> Result<&Token, Problem> {
        self.fetch_more()?;
        match self.tokens.front() {
            Some(token) => Ok(token),
            None => Err(self.problem("unexpected end of tokens", self.cursor.mark)),
        }
    }

    /// Takes the token that `peek` showed.
    pub(super) fn take(&mut self) -> Option<Token> {
        self.taken += 1;
        self.tokens.pop_front()
    }

    fn fetch_more(&mut self) -> Result<(), Problem> {
        loop {
            if !self.tokens.is_empty() {
                let Some(&key) = self.simple_key_by_token.get(&self.taken) else { return Ok(()) };
                if !self.simple_key_is_valid(key)? {
                    return Ok(());
                }
            }
            self.fetch_next()?;
        }
    }

    fn fetch_next(&mut self) -> Result<(), Problem> {
        if !self.started {
            self.started = true;
            let mark = self.cursor.mark;
            self.push(TokenKind::StreamStart, mark);
            return Ok(());
        }
        self.check_readable(1)?;
        self.skip_to_next_token();
        self.unroll_indent(self.cursor.mark.column as isize);
        self.check_readable(4)?;
        let next = self.cursor.look(1);
        let in_flow = self.flow_level > 0;
        let ends = is_blank_or_end(next);
        match self.cursor.peek() {
            '\0' => self.fetch_stream_end(),
            '%' if self.cursor.mark.column == 0 => self.fetch_directive(),
            '-' if self.cursor.at_document_indicator() => self.fetch_indicator(TokenKind::DocumentStart),
            '.' if self.cursor.at_document_indicator() => self.fetch_indicator(TokenKind::DocumentEnd),
            '[' => self.fetch_flow_start(TokenKind::FlowSequenceStart),
            '{' => self.fetch_flow_start(TokenKind::FlowMappingStart),
            ']' => self.fetch_flow_end(TokenKind::FlowSequenceEnd),
            '}' => self.fetch_flow_end(TokenKind::FlowMappingEnd),
            ',' => self.fetch_flow_entry(),
            '-' if ends => self.fetch_block_entry(),
            '?' if in_flow || ends => self.fetch_key(),
            ':' if in_flow || ends => self.fetch_value(),
            '*' => self.fetch_anchor(true),
            '&' => self.fetch_anchor(false),
            '!' => self.fetch_tag(),
            '|' if !in_flow => self.fetch_block_scalar(true),
            '>' if !in_flow => self.fetch_block_scalar(false),
            '\'' => self.fetch_quoted_scalar(true),
            '"' => self.fetch_quoted_scalar(false),
            '-' if !is_blank(next) => self.fetch_plain_scalar(),
            '?' | ':' if !in_flow && !ends => self.fetch_plain_scalar(),
            c if is_blank_or_end(c) || "-?:,[]{}#&*!|>'\"%@`".contains(c) => {
                Err(self.problem("found character that cannot start any token", self.cursor.mark))
            }
            _ => self.fetch_plain_scalar(),
        }?;
        self.check_readable(1)
    }

    fn check_readable(&self, count: usize) -> Result<(), Problem> {
        if self.cursor.meets_forbidden(count) {
            let at = self.cursor.mark;
            return Err(Problem {
                stage: Stage::Reader,
                text: "control characters are not allowed".into(),
                at,
                context: at,
                ours_only: false,
            });
        }
        Ok(())
    }

    fn problem(&self, text: &'static str, context: Mark) -> Problem {
        Problem { stage: Stage::Scanner, text: text.into(), at: self.cursor.mark, context, ours_only: false }
    }

    fn too_deep(&self) -> Problem {
        Problem {
            stage: Stage::Scanner,
            text: format!("nested deeper than {MAX_DEPTH} levels").into(),
            at: self.cursor.mark,
            context: self.cursor.mark,
            ours_only: true,
        }
    }

    fn push(&mut self, kind: TokenKind, start: Mark) {
        self.tokens.push_back(Token { kind, start, end: self.cursor.mark });
    }

    /// Puts a token that spans nothing at its number, or at the end where that number was taken already.
    fn insert(&mut self, number: usize, kind: TokenKind, mark: Mark) {
        let place = match number.checked_sub(self.taken) {
            Some(place) => place.min(self.tokens.len()),
            None => self.tokens.len(),
        };
        self.tokens.insert(place, Token { kind, start: mark, end: mark });
    }

    fn next_number(&self) -> usize {
        self.taken + self.tokens.len()
    }

    // Simple keys.

    fn simple_key_is_valid(&mut self, key: usize) -> Result<bool, Problem> {
        let here = self.cursor.mark;
        let Some(simple_key) = self.simple_keys.get_mut(key) else { return Ok(false) };
        if !simple_key.possible {
            return Ok(false);
        }
        if simple_key.mark.line < here.line || simple_key.mark.index + SIMPLE_KEY_REACH < here.index {
            if simple_key.required {
                let context = simple_key.mark;
                return Err(self.problem("could not find expected ':'", context));
            }
            simple_key.possible = false;
            return Ok(false);
        }
        Ok(true)
    }

    fn save_simple_key(&mut self) -> Result<(), Problem> {
        if !self.simple_key_allowed {
            return Ok(());
        }
        let required = self.flow_level == 0 && self.indent == self.cursor.mark.column as isize;
        let key =
            SimpleKey { possible: true, required, token_number: self.next_number(), mark: self.cursor.mark };
        self.remove_simple_key()?;
        let level = self.simple_keys.len().saturating_sub(1);
        if let Some(slot) = self.simple_keys.last_mut() {
            *slot = key;
        }
        self.simple_key_by_token.insert(key.token_number, level);
        Ok(())
    }

    fn remove_simple_key(&mut self) -> Result<(), Problem> {
        let Some(key) = self.simple_keys.last_mut() else { return Ok(()) };
        if key.possible {
            let SimpleKey { required, token_number, mark, .. } = *key;
            if required {
                return Err(self.problem("could not find expected ':'", mark));
            }
            key.possible = false;
            self.simple_key_by_token.remove(&token_number);
        }
        Ok(())
    }

    // Indentation.

    fn roll_indent(
        &mut self,
        column: usize,
        number: usize,
        kind: TokenKind,
        mark: Mark,
    ) -> Result<(), Problem> {
        if self.flow_level > 0 || self.indent >= column as isize {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = column as isize;
        if self.indents.len() > MAX_DEPTH {
            return Err(self.too_deep());
        }
        self.insert(number, kind, mark);
        Ok(())
    }

    fn unroll_indent(&mut self, column: isize) {
        if self.flow_level > 0 {
            return;
        }
        while self.indent > column {
            let mark = self.cursor.mark;
            self.push(TokenKind::BlockEnd, mark);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    // One function per kind of token.

    fn fetch_stream_end(&mut self) -> Result<(), Problem> {
        if self.cursor.mark.column != 0 {
            self.cursor.mark.column = 0;
            self.cursor.mark.line += 1;
        }
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        let mark = self.cursor.mark;
        self.push(TokenKind::StreamEnd, mark);
        Ok(())
    }

    fn fetch_directive(&mut self) -> Result<(), Problem> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.cursor.mark;
        let kind = self.scan_directive()?;
        self.push(kind, start);
        Ok(())
    }

    fn fetch_indicator(&mut self, kind: TokenKind) -> Result<(), Problem> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.cursor.mark;
        for _ in 0..3 {
            self.cursor.skip();
        }
        self.push(kind, start);
        Ok(())
    }

    fn fetch_flow_start(&mut self, kind: TokenKind) -> Result<(), Problem> {
        self.save_simple_key()?;
        self.simple_keys.push(SimpleKey {
            possible: false,
            required: false,
            token_number: self.next_number(),
            mark: self.cursor.mark,
        });
        self.flow_level += 1;
        if self.flow_level > MAX_DEPTH {
            return Err(self.too_deep());
        }
        self.simple_key_allowed = true;
        self.push_one(kind);
        Ok(())
    }

    fn fetch_flow_end(&mut self, kind: TokenKind) -> Result<(), Problem> {
        self.remove_simple_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            if let Some(key) = self.simple_keys.pop() {
                self.simple_key_by_token.remove(&key.token_number);
            }
        }
        self.simple_key_allowed = false;
        self.push_one(kind);
        Ok(())
    }

    fn fetch_flow_entry(&mut self) -> Result<(), Problem> {
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.push_one(TokenKind::FlowEntry);
        Ok(())
    }

    fn fetch_block_entry(&mut self) -> Result<(), Problem> {
        if self.flow_level == 0 {
            let mark = self.cursor.mark;
            if !self.simple_key_allowed {
                return Err(self.problem("block sequence entries are not allowed in this context", mark));
            }
            self.roll_indent(mark.column, usize::MAX, TokenKind::BlockSequenceStart, mark)?;
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        self.push_one(TokenKind::BlockEntry);
        Ok(())
    }

    fn fetch_key(&mut self) -> Result<(), Problem> {
        if self.flow_level == 0 {
            let mark = self.cursor.mark;
            if !self.simple_key_allowed {
                return Err(self.problem("mapping keys are not allowed in this context", mark));
            }
            self.roll_indent(mark.column, usize::MAX, TokenKind::BlockMappingStart, mark)?;
        }
        self.remove_simple_key()?;
        self.simple_key_allowed = self.flow_level == 0;
        self.push_one(TokenKind::Key);
        Ok(())
    }

    fn fetch_value(&mut self) -> Result<(), Problem> {
        let level = self.simple_keys.len().saturating_sub(1);
        if self.simple_key_is_valid(level)? {
            let key = self.simple_keys.get(level).copied().unwrap_or_default();
            self.insert(key.token_number, TokenKind::Key, key.mark);
            self.roll_indent(key.mark.column, key.token_number, TokenKind::BlockMappingStart, key.mark)?;
            if let Some(slot) = self.simple_keys.get_mut(level) {
                slot.possible = false;
            }
            self.simple_key_by_token.remove(&key.token_number);
            self.simple_key_allowed = false;
        } else {
            if self.flow_level == 0 {
                let mark = self.cursor.mark;
                if !self.simple_key_allowed {
                    return Err(self.problem("mapping values are not allowed in this context", mark));
                }
                self.roll_indent(mark.column, usize::MAX, TokenKind::BlockMappingStart, mark)?;
            }
            self.simple_key_allowed = self.flow_level == 0;
        }
        self.push_one(TokenKind::Value);
        Ok(())
    }

    fn push_one(&mut self, kind: TokenKind) {
        let start = self.cursor.mark;
        self.cursor.skip();
        self.push(kind, start);
    }

    fn skip_to_next_token(&mut self) {
        loop {
            if self.cursor.mark.index == 0 && self.cursor.peek() == '\u{feff}' {
                self.cursor.skip();
            }
            while self.cursor.peek() == ' '
                || (self.cursor.peek() == '\t' && (self.flow_level > 0 || !self.simple_key_allowed))
            {
                self.cursor.skip();
            }
            if self.cursor.peek() == '#' {
                self.skip_comment();
            }
            if !is_break(self.cursor.peek()) {
                return;
            }
            self.cursor.skip_line();
            if self.flow_level == 0 {
                self.simple_key_allowed = true;
            }
        }
    }

    fn skip_comment(&mut self) {
        while !is_break_or_end(self.cursor.peek()) {
            self.cursor.skip();
        }
    }
}
