//! Where the scanner stands in the text, and what it sees from there.

/// A place in the text: characters, lines and columns counted from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::kubernetes_yaml) struct Mark {
    pub(in crate::kubernetes_yaml) index: usize,
    pub(in crate::kubernetes_yaml) line: usize,
    pub(in crate::kubernetes_yaml) column: usize,
}

/// The text as characters, with the mark of the next one.
///
/// The end of the text reads as `'\0'`, which is safe because the reader refuses that character inside the text.
#[derive(Debug)]
pub(super) struct Cursor {
    characters: Vec<char>,
    pub(super) mark: Mark,
    /// The first character that can not be looked at, because its chunk holds a forbidden character.
    readable: usize,
}

/// Bytes that Go's reader takes in at once: a forbidden character is noticed when its chunk is read.
const CHUNK: usize = 512;

impl Cursor {
    pub(super) fn new(text: &str) -> Self {
        // A byte order mark is taken for the encoding and is no part of the text.
        let (text, before) = match text.strip_prefix('\u{feff}') {
            Some(rest) => (rest, '\u{feff}'.len_utf8()),
            None => (text, 0),
        };
        let characters: Vec<char> = text.chars().collect();
        let readable = match text.char_indices().find(|(_, c)| !is_allowed(*c)) {
            None => usize::MAX,
            Some((byte, _)) => {
                let chunk_start = ((byte + before) / CHUNK * CHUNK).saturating_sub(before);
                text.char_indices().take_while(|(at, _)| *at < chunk_start).count()
            }
        };
        Cursor { characters, mark: Mark::default(), readable }
    }

    /// Whether a look at `count` characters from here meets a chunk with a forbidden character.
    pub(super) fn meets_forbidden(&self, count: usize) -> bool {
        self.mark.index.saturating_add(count) > self.readable
    }

    pub(super) fn peek(&self) -> char {
        self.look(0)
    }

    pub(super) fn look(&self, ahead: usize) -> char {
        self.characters.get(self.mark.index + ahead).copied().unwrap_or('\0')
    }

    /// Steps over one character within the line.
    pub(super) fn skip(&mut self) {
        if self.mark.index < self.characters.len() {
            self.mark.index += 1;
        }
        self.mark.column += 1;
    }

    /// Steps over one character and appends it.
    pub(super) fn read(&mut self, into: &mut String) {
        into.push(self.peek());
        self.skip();
    }

    /// Steps over a line break, where there is one.
    pub(super) fn skip_line(&mut self) {
        if self.peek() == '\r' && self.look(1) == '\n' {
            self.mark.index += 2;
        } else if is_break(self.peek()) {
            self.mark.index += 1;
        } else {
            return;
        }
        self.mark.column = 0;
        self.mark.line += 1;
    }

    /// Steps over a line break and appends what it means.
    pub(super) fn read_line(&mut self, into: &mut String) {
        match self.peek() {
            '\r' | '\n' | '\u{85}' => into.push('\n'),
            separator @ ('\u{2028}' | '\u{2029}') => into.push(separator),
            _ => return,
        }
        self.skip_line();
    }

    /// Whether `---` or `...` stands here, alone.
    pub(super) fn at_document_indicator(&self) -> bool {
        let first = self.peek();
        self.mark.column == 0
            && (first == '-' || first == '.')
            && self.look(1) == first
            && self.look(2) == first
            && is_blank_or_end(self.look(3))
    }
}

fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..)
}

pub(super) fn is_blank(c: char) -> bool {
    c == ' ' || c == '\t'
}

pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

pub(super) fn is_break_or_end(c: char) -> bool {
    is_break(c) || c == '\0'
}

pub(super) fn is_blank_or_end(c: char) -> bool {
    is_blank(c) || is_break_or_end(c)
}

/// The characters of anchors, tag handles and directive names.
pub(super) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}
