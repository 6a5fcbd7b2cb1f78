//! A value as the JSON text that Go's `encoding/json` writes for it, byte for byte.

use super::{Node, Value};
use std::fmt::Write as _;

impl Node {
    /// The JSON that Kubernetes makes of this document: keys sorted, no spaces.
    pub fn to_json(&self) -> String {
        let mut text = String::new();
        write_json(self, &mut text);
        text
    }
}

fn write_json(node: &Node, into: &mut String) {
    match &node.value {
        Value::Null => into.push_str("null"),
        Value::Bool(value) => into.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => into.push_str(&number.to_string()),
        Value::String(text) => write_json_string(text, into),
        Value::Sequence(items) => {
            into.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    into.push(',');
                }
                write_json(item, into);
            }
            into.push(']');
        }
        Value::Mapping(mapping) => {
            into.push('{');
            for (index, (key, value)) in mapping.sorted().enumerate() {
                if index > 0 {
                    into.push(',');
                }
                write_json_string(&key.text, into);
                into.push(':');
                write_json(value, into);
            }
            into.push('}');
        }
    }
}

/// A JSON string with Go's escapes, which also hide `<`, `>` and `&` from HTML.
pub(crate) fn write_json_string(text: &str, into: &mut String) {
    into.push('"');
    for c in text.chars() {
        match c {
            '"' => into.push_str("\\\""),
            '\\' => into.push_str("\\\\"),
            '\n' => into.push_str("\\n"),
            '\r' => into.push_str("\\r"),
            '\t' => into.push_str("\\t"),
            '\u{8}' => into.push_str("\\b"),
            '\u{c}' => into.push_str("\\f"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // Writing to a String can not fail.
                let _ = write!(into, "\\u{:04x}", u32::from(c));
            }
            c => into.push(c),
        }
    }
    into.push('"');
}
