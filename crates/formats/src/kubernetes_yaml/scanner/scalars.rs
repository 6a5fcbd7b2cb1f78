//! The three ways to write a scalar: block (`|`, `>`), quoted (`'`, `"`) and plain.

use super::cursor::{Mark, is_blank, is_blank_or_end, is_break, is_break_or_end};
use super::token::{LiteralBlock, ScalarToken};
use super::{Problem, Scanner, TokenKind};

/// White space that was read but whose meaning the next character decides.
#[derive(Default)]
struct Pending {
    /// Blanks within a line.
    blanks: String,
    /// The first line break.
    first_break: String,
    /// The line breaks after it.
    more_breaks: String,
    /// Whether a line break was met.
    broken: bool,
}

impl Pending {
    /// One line break folds to a space, more of them to one less; an escaped one (no first break) joins.
    fn fold_into(&mut self, text: &mut String) {
        if self.broken {
            if self.first_break.starts_with('\n') {
                if self.more_breaks.is_empty() {
                    text.push(' ');
                }
            } else {
                text.push_str(&self.first_break);
            }
            text.push_str(&self.more_breaks);
            self.first_break.clear();
            self.more_breaks.clear();
            self.broken = false;
        } else {
            text.push_str(&self.blanks);
            self.blanks.clear();
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Chomping {
    Strip,
    Clip,
    Keep,
}

impl Scanner {
    fn push_scalar(&mut self, scalar: ScalarToken, start: Mark) {
        self.push(TokenKind::Scalar(scalar), start);
    }

    pub(super) fn fetch_block_scalar(&mut self, literal: bool) -> Result<(), Problem> {
        self.remove_simple_key()?;
        self.simple_key_allowed = true;
        let start = self.cursor.mark;
        self.cursor.skip();
        let (chomping, increment) = self.scan_block_header(start)?;
        let first_line = self.cursor.mark.line + 1;
        let mut indent = match increment {
            0 => 0,
            increment => self.indent.max(0) as usize + increment,
        };
        let mut text = String::new();
        let mut first_break = String::new();
        let mut breaks = String::new();
        let mut was_blank = false;
        self.scan_block_breaks(&mut indent, &mut breaks, start)?;
        while self.cursor.mark.column == indent && self.cursor.peek() != '\0' {
            let blank = is_blank(self.cursor.peek());
            if !literal && first_break.starts_with('\n') && !was_blank && !blank {
                if breaks.is_empty() {
                    text.push(' ');
                }
            } else {
                text.push_str(&first_break);
            }
            text.push_str(&breaks);
            first_break.clear();
            breaks.clear();
            was_blank = blank;
            while !is_break_or_end(self.cursor.peek()) {
                self.cursor.read(&mut text);
            }
            self.cursor.read_line(&mut first_break);
            self.scan_block_breaks(&mut indent, &mut breaks, start)?;
        }
        if chomping != Chomping::Strip {
            text.push_str(&first_break);
        }
        if chomping == Chomping::Keep {
            text.push_str(&breaks);
        }
        let literal = literal.then_some(LiteralBlock { first_line, indent });
        self.push_scalar(ScalarToken { text, plain: false, literal }, start);
        Ok(())
    }

    fn scan_block_header(&mut self, start: Mark) -> Result<(Chomping, usize), Problem> {
        let mut chomping = self.scan_chomping();
        let increment = match self.cursor.peek().to_digit(10) {
            Some(0) => return Err(self.problem("found an indentation indicator equal to 0", start)),
            Some(digit) => {
                self.cursor.skip();
                digit as usize
            }
            None => 0,
        };
        if increment > 0 && chomping.is_none() {
            chomping = self.scan_chomping();
        }
        self.skip_blanks();
        if self.cursor.peek() == '#' {
            self.skip_comment();
        }
        if !is_break_or_end(self.cursor.peek()) {
            return Err(self.problem("did not find expected comment or line break", start));
        }
        self.cursor.skip_line();
        Ok((chomping.unwrap_or(Chomping::Clip), increment))
    }

    fn scan_chomping(&mut self) -> Option<Chomping> {
        let chomping = match self.cursor.peek() {
            '+' => Chomping::Keep,
            '-' => Chomping::Strip,
            _ => return None,
        };
        self.cursor.skip();
        Some(chomping)
    }

    /// Indentation and empty lines. The first line with text decides the indentation where none was given.
    fn scan_block_breaks(
        &mut self,
        indent: &mut usize,
        breaks: &mut String,
        start: Mark,
    ) -> Result<(), Problem> {
        let mut deepest = 0;
        loop {
            while (*indent == 0 || self.cursor.mark.column < *indent) && self.cursor.peek() == ' ' {
                self.cursor.skip();
            }
            deepest = deepest.max(self.cursor.mark.column);
            if (*indent == 0 || self.cursor.mark.column < *indent) && self.cursor.peek() == '\t' {
                let text = "found a tab character where an indentation space is expected";
                return Err(self.problem(text, start));
            }
            if !is_break(self.cursor.peek()) {
                break;
            }
            self.cursor.read_line(breaks);
        }
        if *indent == 0 {
            *indent = deepest.max((self.indent + 1).max(1) as usize);
        }
        Ok(())
    }

    pub(super) fn fetch_quoted_scalar(&mut self, single: bool) -> Result<(), Problem> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.cursor.mark;
        let quote = if single { '\'' } else { '"' };
        self.cursor.skip();
        let mut text = String::new();
        let mut pending = Pending::default();
        loop {
            if self.cursor.at_document_indicator() {
                return Err(self.problem("found unexpected document indicator", start));
            }
            if self.cursor.peek() == '\0' {
                return Err(self.problem("found unexpected end of stream", start));
            }
            pending.broken = false;
            while !is_blank_or_end(self.cursor.peek()) {
                match (self.cursor.peek(), self.cursor.look(1)) {
                    ('\'', '\'') if single => {
                        text.push('\'');
                        self.cursor.skip();
                        self.cursor.skip();
                    }
                    (c, _) if c == quote => break,
                    ('\\', next) if !single && is_break(next) => {
                        self.cursor.skip();
                        self.cursor.skip_line();
                        pending.broken = true;
                        break;
                    }
                    ('\\', next) if !single => self.scan_escape(next, &mut text, start)?,
                    _ => self.cursor.read(&mut text),
                }
            }
            if self.cursor.peek() == quote {
                break;
            }
            self.scan_white_space(&mut pending, None)?;
            pending.fold_into(&mut text);
        }
        self.cursor.skip();
        self.push_scalar(ScalarToken { text, plain: false, literal: None }, start);
        Ok(())
    }

    fn scan_escape(&mut self, escape: char, text: &mut String, start: Mark) -> Result<(), Problem> {
        let digits = match escape {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => 0,
        };
        if digits == 0 {
            text.push(match escape {
                '0' => '\0',
                'a' => '\u{7}',
                'b' => '\u{8}',
                't' | '\t' => '\t',
                'n' => '\n',
                'v' => '\u{b}',
                'f' => '\u{c}',
                'r' => '\r',
                'e' => '\u{1b}',
                ' ' | '"' | '\'' | '\\' => escape,
                'N' => '\u{85}',
                '_' => '\u{a0}',
                'L' => '\u{2028}',
                'P' => '\u{2029}',
                _ => return Err(self.problem("found unknown escape character", start)),
            });
        }
        self.cursor.skip();
        self.cursor.skip();
        if digits > 0 {
            let mut value = 0_u64;
            for ahead in 0..digits {
                let Some(digit) = self.cursor.look(ahead).to_digit(16) else {
                    return Err(self.problem("did not find expected hexdecimal number", start));
                };
                value = value * 16 + u64::from(digit);
            }
            match u32::try_from(value).ok().and_then(char::from_u32) {
                Some(c) => text.push(c),
                None => return Err(self.problem("found invalid Unicode character escape code", start)),
            }
            for _ in 0..digits {
                self.cursor.skip();
            }
        }
        Ok(())
    }

    /// Reads blanks and line breaks. `plain` gives start and indentation of a plain scalar, where a tab may not indent.
    fn scan_white_space(
        &mut self,
        pending: &mut Pending,
        plain: Option<(Mark, isize)>,
    ) -> Result<(), Problem> {
        loop {
            let c = self.cursor.peek();
            if is_blank(c) {
                if let Some((start, indent)) = plain
                    && pending.broken
                    && (self.cursor.mark.column as isize) < indent
                    && c == '\t'
                {
                    return Err(self.problem("found a tab character that violates indentation", start));
                }
                if pending.broken {
                    self.cursor.skip();
                } else {
                    self.cursor.read(&mut pending.blanks);
                }
            } else if is_break(c) {
                if pending.broken {
                    self.cursor.read_line(&mut pending.more_breaks);
                } else {
                    pending.blanks.clear();
                    self.cursor.read_line(&mut pending.first_break);
                    pending.broken = true;
                }
            } else {
                return Ok(());
            }
        }
    }

    pub(super) fn fetch_plain_scalar(&mut self) -> Result<(), Problem> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.cursor.mark;
        let mut end = start;
        let indent = self.indent + 1;
        let mut text = String::new();
        let mut pending = Pending::default();
        loop {
            if self.cursor.at_document_indicator() || self.cursor.peek() == '#' {
                break;
            }
            while !is_blank_or_end(self.cursor.peek()) {
                let c = self.cursor.peek();
                if (c == ':' && is_blank_or_end(self.cursor.look(1)))
                    || (self.flow_level > 0 && ",?[]{}".contains(c))
                {
                    break;
                }
                if pending.broken || !pending.blanks.is_empty() {
                    pending.fold_into(&mut text);
                }
                self.cursor.read(&mut text);
                end = self.cursor.mark;
            }
            if !(is_blank(self.cursor.peek()) || is_break(self.cursor.peek())) {
                break;
            }
            self.scan_white_space(&mut pending, Some((start, indent)))?;
            if self.flow_level == 0 && (self.cursor.mark.column as isize) < indent {
                break;
            }
        }
        self.push_scalar(ScalarToken { text, plain: true, literal: None }, start);
        if let Some(token) = self.tokens.back_mut() {
            token.end = end;
        }
        if pending.broken {
            self.simple_key_allowed = true;
        }
        Ok(())
    }
}
