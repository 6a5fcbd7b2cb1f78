//! Looks into objects of any shape: a field that is not there, or not of the expected kind, is simply not found.

use super::quantity::Quantity;
use crate::diagnostic::{Finding, Place, Report};
use crate::kubernetes_yaml::{Number, Value};

/// The value under a key, if this is a map and has it, and it is not null.
pub(super) fn field<'a>(place: &Place<'a>, key: &str) -> Option<Place<'a>> {
    match &place.node.value {
        Value::Mapping(mapping) => {
            mapping.get(key).filter(|node| node.value != Value::Null).map(|node| place.key(key, node))
        }
        _ => None,
    }
}

/// The value at the end of several keys.
pub(super) fn at<'a>(place: &Place<'a>, keys: &[&str]) -> Option<Place<'a>> {
    keys.iter().try_fold(place.clone(), |place, key| field(&place, key))
}

/// Keys and values of a map, in the order of the text.
pub(super) fn entries<'a>(place: &Place<'a>) -> Vec<(&'a str, Place<'a>)> {
    match &place.node.value {
        Value::Mapping(mapping) => {
            mapping.iter().map(|(key, node)| (key.text.as_str(), place.key(&key.text, node))).collect()
        }
        _ => Vec::new(),
    }
}

/// The items of a list.
pub(super) fn items<'a>(place: &Place<'a>) -> Vec<Place<'a>> {
    match &place.node.value {
        Value::Sequence(items) => {
            items.iter().enumerate().map(|(index, item)| place.item(index, item)).collect()
        }
        _ => Vec::new(),
    }
}

/// A text.
pub(super) fn text<'a>(place: &Place<'a>) -> Option<&'a str> {
    match &place.node.value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// A text, number or truth value, as a text.
pub(super) fn scalar(place: &Place<'_>) -> Option<String> {
    match &place.node.value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(Number::Float(value)) => Some(value.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}

/// The text under a key.
pub(super) fn text_at<'a>(place: &Place<'a>, key: &str) -> Option<&'a str> {
    field(place, key).and_then(|place| text(&place))
}

/// A quantity; what is none is reported.
pub(super) fn quantity(place: &Place<'_>, report: &mut Report) -> Option<Quantity> {
    let Some(written) = scalar(place) else {
        Finding::error(place, "expected a quantity, found a list or a map")
            .hint("write a number, or an amount such as 4Gi")
            .report(report);
        return None;
    };
    match written.parse() {
        Ok(quantity) => Some(quantity),
        Err(error) => {
            let shown: String = written.chars().take(40).collect();
            Finding::error(place, format!("'{shown}' {error}")).report(report);
            None
        }
    }
}
