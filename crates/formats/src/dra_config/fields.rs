//! The fields of one object, taken one by one; what is left at the end was known to nobody.

use super::ConfigError;
use crate::suggestion::did_you_mean;
use crate::workloads::{Quantity, QuantityError};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// An object that is being read.
pub(super) struct Fields<'a> {
    object: &'a Map<String, Value>,
    path: String,
    asked: BTreeSet<String>,
}

impl<'a> Fields<'a> {
    /// The config itself.
    pub(super) fn top(value: &'a Value) -> Result<Self, ConfigError> {
        Self::of(value, String::new())
    }

    fn of(value: &'a Value, path: String) -> Result<Self, ConfigError> {
        match value {
            Value::Object(object) => Ok(Fields { object, path, asked: BTreeSet::new() }),
            other => Err(ConfigError {
                field: path,
                what: format!("it is {}", kind(other)),
                fix: "write an object with fields".to_owned(),
            }),
        }
    }

    fn at(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// What is wrong with a field.
    pub(super) fn error(&self, name: &str, what: impl Into<String>, fix: &str) -> ConfigError {
        ConfigError { field: self.at(name), what: what.into(), fix: fix.to_owned() }
    }

    /// A field; one that is null is not there, as in all of Kubernetes.
    fn get(&mut self, name: &str) -> Option<&'a Value> {
        self.asked.insert(name.to_owned());
        self.object.get(name).filter(|value| !value.is_null())
    }

    fn wrong(&self, name: &str, value: &Value, wanted: &str) -> ConfigError {
        self.error(name, format!("it is {}", kind(value)), &format!("write {wanted}"))
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.object.keys().cloned().collect()
    }

    pub(super) fn object(&mut self, name: &str) -> Result<Option<Fields<'a>>, ConfigError> {
        let path = self.at(name);
        self.get(name).map(|value| Fields::of(value, path)).transpose()
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Option<String>, ConfigError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(self.wrong(name, other, "text")),
        }
    }

    pub(super) fn number(&mut self, name: &str) -> Result<Option<i64>, ConfigError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        value.as_i64().map(Some).ok_or_else(|| self.wrong(name, value, "a whole number"))
    }

    pub(super) fn switch(&mut self, name: &str) -> Result<Option<bool>, ConfigError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wrong(name, value, "true or false"))
    }

    pub(super) fn quantity(&mut self, name: &str) -> Result<Option<Quantity>, ConfigError> {
        let text = match self.get(name) {
            None => return Ok(None),
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            Some(other) => return Err(self.wrong(name, other, "an amount of memory such as 4Gi")),
        };
        let parsed: Result<Quantity, QuantityError> = text.parse();
        parsed.map(Some).map_err(|error| {
            let what = match error {
                QuantityError::Malformed => "is no amount",
                QuantityError::Negative => "is below zero",
                QuantityError::TooLarge => "is larger than any machine",
            };
            self.error(name, format!("{text:?} {what}"), "write an amount of memory such as 4Gi")
        })
    }

    pub(super) fn one_of<T: Copy>(
        &mut self,
        name: &str,
        known: &[(&str, T)],
    ) -> Result<Option<T>, ConfigError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        if let Some((_, value)) = known.iter().find(|(known, _)| *known == text) {
            return Ok(Some(*value));
        }
        let all: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        Err(self.error(name, format!("nobody knows {text:?}"), &format!("write one of {}", all.join(", "))))
    }

    /// Everything has been asked for: what is left is refused.
    pub(super) fn end(self) -> Result<(), ConfigError> {
        let Some(stranger) = self.object.keys().find(|name| !self.asked.contains(*name)) else {
            return Ok(());
        };
        let known: Vec<&str> = self.asked.iter().map(String::as_str).collect();
        let fix = match did_you_mean(stranger, known.iter().copied()) {
            Some(hint) => hint,
            None => format!("take it out; known here: {}", known.join(", ")),
        };
        Err(self.error(stranger, "nobody knows this field", &fix))
    }
}

fn kind(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => {
            let mut shown: String = text.chars().take(40).collect();
            if shown.len() < text.len() {
                shown.push('…');
            }
            format!("{shown:?}")
        }
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}
