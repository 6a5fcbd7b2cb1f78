//! Writes YAML the way Go's `yaml.v2` does: when it quotes, how it sorts keys, where it breaks a flow list.

use crate::kubernetes_yaml::resolves_to_text;
use std::cmp::Ordering;
use std::fmt::Write as _;

/// Where a scalar stands, which decides whether it may go without quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Context {
    Block,
    Key,
    Flow,
}

/// A text as a YAML scalar.
pub(crate) fn scalar(text: &str, context: Context) -> String {
    let shape = Shape::of(text);
    // The library itself leaves `<<` bare and then reads it as a merge key.
    if text == "<<" || text.contains('\n') || !resolves_to_text(text) || is_base_60(text) || shape.special {
        return double_quoted(text);
    }
    let plain = if context == Context::Flow { shape.flow_plain } else { shape.block_plain };
    if plain && !text.is_empty() {
        text.to_owned()
    } else if shape.single_quoted {
        format!("'{}'", text.replace('\'', "''"))
    } else {
        double_quoted(text)
    }
}

/// A flow list that starts in column `column` and goes on with `indent` spaces where a line is full.
pub(crate) fn flow_list(items: &[String], column: usize, indent: usize) -> String {
    const WIDTH: usize = 80;
    let mut text = "[".to_owned();
    let mut column = column + 1;
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(',');
            column += 1;
        }
        if column > WIDTH {
            text.push('\n');
            text.push_str(&" ".repeat(indent));
            column = indent;
        } else if index > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(item);
        column += item.chars().count();
    }
    text.push(']');
    text
}

/// The order in which the library writes the keys of a map: numbers inside them by value, so `1g.5gb` before `1g.10gb`.
pub(crate) fn natural_order(left: &str, right: &str) -> Ordering {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let differs = left.iter().zip(&right).position(|(a, b)| a != b);
    let (Some(at), Some(&a), Some(&b)) =
        (differs, differs.and_then(|at| left.get(at)), differs.and_then(|at| right.get(at)))
    else {
        return left.len().cmp(&right.len());
    };
    match (a.is_alphabetic(), b.is_alphabetic()) {
        (true, true) => return a.cmp(&b),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // A zero inside a number counts, a leading one does not.
    let inside = (a == '0' || b == '0')
        && left.iter().take(at).rev().take_while(|c| c.is_ascii_digit()).any(|c| *c != '0');
    let number = |characters: &[char]| {
        let digits: Vec<i64> =
            characters.iter().skip(at).map_while(|c| c.to_digit(10)).map(i64::from).collect();
        let value =
            digits.iter().fold(i64::from(inside), |value, digit| value.wrapping_mul(10).wrapping_add(*digit));
        (value, digits.len())
    };
    number(&left).cmp(&number(&right)).then(a.cmp(&b))
}

/// What may be done with a text on one line.
struct Shape {
    flow_plain: bool,
    block_plain: bool,
    single_quoted: bool,
    special: bool,
}

impl Shape {
    fn of(text: &str) -> Self {
        let characters: Vec<char> = text.chars().collect();
        let mut flow = text.starts_with("---") || text.starts_with("...");
        let mut block = flow;
        let mut special = false;
        let mut after_blank = true;
        for (index, &c) in characters.iter().enumerate() {
            let before_blank = characters.get(index + 1).is_none_or(|next| matches!(next, ' ' | '\t'));
            let first = index == 0;
            match c {
                '#' if first || after_blank => (flow, block) = (true, true),
                '[' | ']' | '{' | '}' | ',' => (flow, block) = (true, block || first),
                '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' if first => {
                    (flow, block) = (true, true);
                }
                '?' => (flow, block) = (true, block || (first && before_blank)),
                ':' => (flow, block) = (true, block || before_blank),
                '-' if first && before_blank => (flow, block) = (true, true),
                _ => {}
            }
            special |= !is_printable(c);
            after_blank = matches!(c, ' ' | '\t' | '\r' | '\n' | '\0' | '\u{85}' | '\u{2028}' | '\u{2029}');
        }
        let spaced = text.starts_with(' ') || text.ends_with(' ');
        let broken = text.contains(['\r', '\u{85}', '\u{2028}', '\u{2029}']);
        Shape {
            flow_plain: !flow && !spaced && !broken,
            block_plain: !block && !spaced && !broken,
            single_quoted: !broken,
            special,
        }
    }
}

fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{fffd}' if c != '\u{feff}')
}

/// `12:30`, which older readers take for a number.
fn is_base_60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, rest) = unsigned.split_once(':').unwrap_or((unsigned, ""));
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let parts = rest.split_once('.').map_or(rest, |(parts, _)| parts);
    whole.starts_with(|c: char| c.is_ascii_digit())
        && number(whole)
        && !parts.is_empty()
        && parts.split(':').all(|part| {
            !part.is_empty() && part.len() <= 2 && part.parse::<u8>().is_ok_and(|value| value < 60)
        })
        && rest.split_once('.').is_none_or(|(_, fraction)| number(fraction))
}

fn double_quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\0' => quoted.push_str("\\0"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\t' => quoted.push_str("\\t"),
            '\n' => quoted.push_str("\\n"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            '\r' => quoted.push_str("\\r"),
            '\u{1b}' => quoted.push_str("\\e"),
            '\u{85}' => quoted.push_str("\\N"),
            '\u{2028}' => quoted.push_str("\\L"),
            '\u{2029}' => quoted.push_str("\\P"),
            c if is_printable(c) => quoted.push(c),
            c => {
                let code = u32::from(c);
                // Writing to a String can not fail.
                let _ = match code {
                    0..=0xff => write!(quoted, "\\x{code:02X}"),
                    0x100..=0xffff => write!(quoted, "\\u{code:04X}"),
                    _ => write!(quoted, "\\U{code:08X}"),
                };
            }
        }
    }
    quoted.push('"');
    quoted
}
