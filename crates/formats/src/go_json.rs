//! The typing rules of Go's `encoding/json`, applied to a YAML value: what may be read as what, and how it refuses.
//!
//! Null is accepted everywhere and leaves the zero value. A number is an integer if its JSON text is one (`4.0` is).
//! Keys of structs match without regard to case and, where two spellings of one key are given, the later in byte order
//! wins; keys of maps match exactly.

use crate::diagnostic::{Finding, Place, Report};
use crate::kubernetes_yaml::{Key, Mapping, Node, Value};

/// What Go calls the kind of a JSON value.
pub(crate) fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Sequence(_) => "array",
        Value::Mapping(_) => "object",
    }
}

/// What a person calls it, with the value where it is short.
pub(crate) fn found(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(value) => format!("the truth value {value}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) if text.chars().count() <= 40 => format!("the text '{text}'"),
        Value::String(_) => "a long text".to_owned(),
        Value::Sequence(items) if items.is_empty() => "an empty list".to_owned(),
        Value::Sequence(_) => "a list".to_owned(),
        Value::Mapping(_) => "a map".to_owned(),
    }
}

/// Go's sentence for a value of the wrong kind.
pub(crate) fn cannot_unmarshal(value: &Value, into: &str) -> String {
    match value {
        Value::Number(number) if into.ends_with(" int") => {
            format!("json: cannot unmarshal number {number} into {into}")
        }
        other => format!("json: cannot unmarshal {} into {into}", go_kind(other)),
    }
}

fn mismatch(place: &Place<'_>, expected: &str, into: &str) -> Finding {
    Finding::error(place, format!("expected {expected}, found {}", found(&place.node.value)))
        .upstream(cannot_unmarshal(&place.node.value, into))
}

/// A truth value. A text is none, whatever it says.
pub(crate) fn boolean(place: &Place<'_>, into: &str, report: &mut Report) -> Option<bool> {
    match &place.node.value {
        Value::Null => Some(false),
        Value::Bool(value) => Some(*value),
        other => {
            let quoted = matches!(other, Value::String(text) if matches!(text.as_str(), "true" | "false" | "yes" | "no"));
            mismatch(place, "true or false", into)
                .maybe_hint(quoted.then(|| "take the quotes away".to_owned()))
                .report(report);
            None
        }
    }
}

/// An integer.
pub(crate) fn integer(place: &Place<'_>, into: &str, report: &mut Report) -> Option<i64> {
    let number = match &place.node.value {
        Value::Null => Some(0),
        Value::Number(number) => number.as_i64(),
        _ => None,
    };
    if number.is_none() {
        let quoted = matches!(&place.node.value, Value::String(text) if text.parse::<i64>().is_ok());
        mismatch(place, "a whole number", into)
            .maybe_hint(quoted.then(|| "take the quotes away".to_owned()))
            .report(report);
    }
    number
}

/// A text. Numbers and truth values are none.
pub(crate) fn text(place: &Place<'_>, into: &str, report: &mut Report) -> Option<String> {
    match &place.node.value {
        Value::Null => Some(String::new()),
        Value::String(text) => Some(text.clone()),
        other => {
            let scalar = matches!(other, Value::Bool(_) | Value::Number(_));
            mismatch(place, "a text", into)
                .maybe_hint(scalar.then(|| "put it in quotes".to_owned()))
                .report(report);
            None
        }
    }
}

/// A text where the library knows that one is wanted: it turns numbers and truth values into texts.
pub(crate) fn coerced_text(place: &Place<'_>, into: &str, report: &mut Report) -> Option<String> {
    match &place.node.value {
        Value::Bool(value) => Some(value.to_string()),
        Value::Number(number) => Some(number.coerced_text()),
        _ => text(place, into, report),
    }
}

/// The items of a list; null is an empty one.
pub(crate) fn items<'a>(place: &Place<'a>, into: &str, report: &mut Report) -> Option<Vec<Place<'a>>> {
    match &place.node.value {
        Value::Null => Some(Vec::new()),
        Value::Sequence(items) => {
            Some(items.iter().enumerate().map(|(index, item)| place.item(index, item)).collect())
        }
        _ => {
            mismatch(place, "a list", into).report(report);
            None
        }
    }
}

/// The map at a place; null is an empty one. Keys that were written twice are reported.
pub(crate) fn object<'a>(place: &Place<'a>, into: &str, report: &mut Report) -> Option<Object<'a>> {
    let mapping = match &place.node.value {
        Value::Null => None,
        Value::Mapping(mapping) => Some(mapping),
        _ => {
            mismatch(place, "a map", into).report(report);
            return None;
        }
    };
    for key in mapping.map(Mapping::repeated).unwrap_or_default() {
        Finding::warning(place, format!("'{}' is written twice; only the last one counts", key.text))
            .at(key.at)
            .hint("remove one of them")
            .report(report);
    }
    Some(Object { place: place.clone(), mapping })
}

/// A map whose fields are read one by one.
#[derive(Debug, Clone)]
pub(crate) struct Object<'a> {
    pub(crate) place: Place<'a>,
    mapping: Option<&'a Mapping>,
}

impl<'a> Object<'a> {
    pub(crate) fn new(place: Place<'a>, mapping: &'a Mapping) -> Self {
        Object { place, mapping: Some(mapping) }
    }

    /// A map's key, spelled exactly so.
    pub(crate) fn get(&self, key: &str) -> Option<Place<'a>> {
        self.mapping.and_then(|mapping| mapping.get(key)).map(|node| self.place.key(key, node))
    }

    /// All entries in the order of the text.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'a Key, Place<'a>)> + '_ {
        self.mapping
            .into_iter()
            .flat_map(Mapping::iter)
            .map(|(key, node): (&'a Key, &'a Node)| (key, self.place.key(&key.text, node)))
    }

    /// A struct's entries in the order in which Go assigns them, each with the field it goes to, if any.
    pub(crate) fn struct_entries(
        &self,
        fields: &'static [&'static str],
    ) -> impl Iterator<Item = (Option<&'static str>, &'a Key, Place<'a>)> + '_ {
        self.mapping.into_iter().flat_map(Mapping::sorted).map(move |(key, node): (&'a Key, &'a Node)| {
            (field_for(&key.text, fields), key, self.place.key(&key.text, node))
        })
    }
}

/// The struct field a key goes to: its own name first, then any that differs only in case.
pub(crate) fn field_for(key: &str, fields: &'static [&'static str]) -> Option<&'static str> {
    let fold = |text: &str| {
        text.chars()
            .map(|c| match c {
                // The two letters outside ASCII that Go folds into it.
                '\u{212a}' => 'k',
                '\u{17f}' => 's',
                c => c.to_ascii_lowercase(),
            })
            .collect::<String>()
    };
    let exact = fields.iter().find(|field| **field == key);
    exact.or_else(|| fields.iter().find(|field| fold(field) == fold(key))).copied()
}
