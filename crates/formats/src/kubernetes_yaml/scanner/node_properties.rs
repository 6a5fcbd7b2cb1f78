//! Anchors, aliases, tags and directives: the tokens that stand before or beside a node.

use super::cursor::{Mark, is_blank, is_blank_or_end, is_break, is_break_or_end, is_word};
use super::{Problem, Scanner, TokenKind};

impl Scanner {
    pub(super) fn fetch_anchor(&mut self, alias: bool) -> Result<(), Problem> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.cursor.mark;
        self.cursor.skip();
        let name = self.scan_word();
        let next = self.cursor.peek();
        if name.is_empty() || !(is_blank_or_end(next) || "?:,]}%@`".contains(next)) {
            return Err(self.problem("did not find expected alphabetic or numeric character", start));
        }
        self.push(if alias { TokenKind::Alias(name) } else { TokenKind::Anchor(name) }, start);
        Ok(())
    }

    pub(super) fn fetch_tag(&mut self) -> Result<(), Problem> {
        self.save_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.cursor.mark;
        let kind = self.scan_tag(start)?;
        self.push(kind, start);
        Ok(())
    }

    fn scan_tag(&mut self, start: Mark) -> Result<TokenKind, Problem> {
        let (handle, suffix);
        if self.cursor.look(1) == '<' {
            self.cursor.skip();
            self.cursor.skip();
            handle = String::new();
            suffix = self.scan_uri(None, start)?;
            if self.cursor.peek() != '>' {
                return Err(self.problem("did not find the expected '>'", start));
            }
            self.cursor.skip();
        } else {
            let written = self.scan_tag_handle(false, start)?;
            if written.len() > 1 && written.ends_with('!') {
                suffix = self.scan_uri(None, start)?;
                handle = written;
            } else {
                let rest = self.scan_uri(Some(&written), start)?;
                // `!` alone is a tag of its own: it has no handle.
                (handle, suffix) =
                    if rest.is_empty() { (String::new(), "!".to_owned()) } else { ("!".to_owned(), rest) };
            }
        }
        if !is_blank_or_end(self.cursor.peek()) {
            return Err(self.problem("did not find expected whitespace or line break", start));
        }
        Ok(TokenKind::Tag { handle, suffix })
    }

    fn scan_tag_handle(&mut self, directive: bool, start: Mark) -> Result<String, Problem> {
        if self.cursor.peek() != '!' {
            return Err(self.problem("did not find expected '!'", start));
        }
        let mut handle = String::new();
        self.cursor.read(&mut handle);
        handle.push_str(&self.scan_word());
        if self.cursor.peek() == '!' {
            self.cursor.read(&mut handle);
        } else if directive && handle != "!" {
            return Err(self.problem("did not find expected '!'", start));
        }
        Ok(handle)
    }

    /// `head` is what was read as a handle and turned out to be the beginning of the tag itself.
    fn scan_uri(&mut self, head: Option<&str>, start: Mark) -> Result<String, Problem> {
        let mut bytes: Vec<u8> = head.unwrap_or("").bytes().skip(1).collect();
        let mut any = head.is_some();
        loop {
            let next = self.cursor.peek();
            if next == '%' {
                self.scan_uri_escape(&mut bytes, start)?;
            } else if is_word(next) || (next != '\0' && ";/?:@&=+$,.!~*'()[]".contains(next)) {
                bytes.extend(next.encode_utf8(&mut [0; 4]).bytes());
                self.cursor.skip();
            } else {
                break;
            }
            any = true;
        }
        if !any {
            return Err(self.problem("did not find expected tag URI", start));
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn scan_uri_escape(&mut self, bytes: &mut Vec<u8>, start: Mark) -> Result<(), Problem> {
        let mut expected = None;
        loop {
            let digits = (self.cursor.look(1).to_digit(16), self.cursor.look(2).to_digit(16));
            let ('%', (Some(high), Some(low))) = (self.cursor.peek(), digits) else {
                return Err(self.problem("did not find URI escaped octet", start));
            };
            let octet = (high * 16 + low) as u8;
            let left = match expected {
                None => match octet {
                    0..=0x7f => 1,
                    0xc0..=0xdf => 2,
                    0xe0..=0xef => 3,
                    0xf0..=0xf7 => 4,
                    _ => return Err(self.problem("found an incorrect leading UTF-8 octet", start)),
                },
                Some(_) if octet & 0xc0 != 0x80 => {
                    return Err(self.problem("found an incorrect trailing UTF-8 octet", start));
                }
                Some(left) => left,
            };
            bytes.push(octet);
            for _ in 0..3 {
                self.cursor.skip();
            }
            if left == 1 {
                return Ok(());
            }
            expected = Some(left - 1);
        }
    }

    pub(super) fn scan_directive(&mut self) -> Result<TokenKind, Problem> {
        let start = self.cursor.mark;
        self.cursor.skip();
        let name = self.scan_word();
        if name.is_empty() {
            return Err(self.problem("could not find expected directive name", start));
        }
        if !is_blank_or_end(self.cursor.peek()) {
            return Err(self.problem("found unexpected non-alphabetical character", start));
        }
        let kind = match name.as_str() {
            "YAML" => self.scan_version(start)?,
            "TAG" => self.scan_tag_directive(start)?,
            _ => return Err(self.problem("found unknown directive name", start)),
        };
        self.skip_blanks();
        if self.cursor.peek() == '#' {
            self.skip_comment();
        }
        if !is_break_or_end(self.cursor.peek()) {
            return Err(self.problem("did not find expected comment or line break", start));
        }
        if is_break(self.cursor.peek()) {
            self.cursor.skip_line();
        }
        Ok(kind)
    }

    fn scan_version(&mut self, start: Mark) -> Result<TokenKind, Problem> {
        self.skip_blanks();
        let major = self.scan_version_number(start)?;
        if self.cursor.peek() != '.' {
            return Err(self.problem("did not find expected digit or '.' character", start));
        }
        self.cursor.skip();
        let minor = self.scan_version_number(start)?;
        Ok(TokenKind::VersionDirective { major, minor })
    }

    fn scan_version_number(&mut self, start: Mark) -> Result<u8, Problem> {
        let mut value = 0_u8;
        let mut length = 0;
        while let Some(digit) = self.cursor.peek().to_digit(10) {
            length += 1;
            if length > 2 {
                return Err(self.problem("found extremely long version number", start));
            }
            // Two digits at most: no overflow.
            value = value * 10 + digit as u8;
            self.cursor.skip();
        }
        if length == 0 {
            return Err(self.problem("did not find expected version number", start));
        }
        Ok(value)
    }

    fn scan_tag_directive(&mut self, start: Mark) -> Result<TokenKind, Problem> {
        self.skip_blanks();
        let handle = self.scan_tag_handle(true, start)?;
        if !is_blank(self.cursor.peek()) {
            return Err(self.problem("did not find expected whitespace", start));
        }
        self.skip_blanks();
        let prefix = self.scan_uri(None, start)?;
        if !is_blank_or_end(self.cursor.peek()) {
            return Err(self.problem("did not find expected whitespace or line break", start));
        }
        Ok(TokenKind::TagDirective { handle, prefix })
    }

    fn scan_word(&mut self) -> String {
        let mut word = String::new();
        while is_word(self.cursor.peek()) {
            self.cursor.read(&mut word);
        }
        word
    }

    pub(super) fn skip_blanks(&mut self) {
        while is_blank(self.cursor.peek()) {
            self.cursor.skip();
        }
    }
}
