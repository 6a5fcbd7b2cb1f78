//! Which objects of a kind are meant: by their labels, and by a few fields.

use crate::failure::Failure;
use serde_json::Value;

/// One thing that must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Term {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Present(String),
    Absent(String),
}

/// What must hold of labels, all of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Labels(Vec<Term>);

impl Labels {
    pub(crate) fn read(text: &str) -> Result<Self, Failure> {
        let wrong = |term: &str| {
            let hint = "write for example app=web,tier!=test,size in (a,b)";
            Failure::bad_request(format!("labelSelector: '{term}' does not read; {hint}"))
        };
        let terms = split(text).into_iter().map(|term| read_term(term).ok_or_else(|| wrong(term)));
        Ok(Labels(terms.collect::<Result<_, _>>()?))
    }

    pub(crate) fn fit(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        let has = |key: &str, values: &[String]| {
            labels[key].as_str().is_some_and(|value| values.iter().any(|one| one == value))
        };
        self.0.iter().all(|term| match term {
            Term::In(key, values) => has(key, values),
            Term::NotIn(key, values) => !has(key, values),
            Term::Present(key) => labels[key].is_string(),
            Term::Absent(key) => !labels[key].is_string(),
        })
    }
}

/// At commas that are not within brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut terms, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                terms.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(text[start..].trim());
    terms.retain(|term| !term.is_empty());
    terms
}

fn read_term(term: &str) -> Option<Term> {
    let is_key = |key: &str| !key.is_empty() && !key.contains([' ', '(', ')', '=', '!']);
    let key = |text: &str| is_key(text.trim()).then(|| text.trim().to_owned());
    let one = |text: &str| vec![text.trim().to_owned()];
    if let Some((name, value)) = term.split_once("!=") {
        return Some(Term::NotIn(key(name)?, one(value)));
    }
    if let Some((name, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Some(Term::In(key(name)?, one(value)));
    }
    if let Some(name) = term.strip_prefix('!') {
        return Some(Term::Absent(key(name)?));
    }
    let (name, rest) = term.split_once(char::is_whitespace).unwrap_or((term, ""));
    let set = |list: &str| -> Option<Vec<String>> {
        let inside = list.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some(inside.split(',').map(|value| value.trim().to_owned()).collect())
    };
    match rest.trim() {
        "" => Some(Term::Present(key(name)?)),
        rest => match (rest.strip_prefix("notin"), rest.strip_prefix("in")) {
            (Some(list), _) => Some(Term::NotIn(key(name)?, set(list)?)),
            (None, Some(list)) => Some(Term::In(key(name)?, set(list)?)),
            (None, None) => None,
        },
    }
}

/// What must hold of fields: path, value, and whether it must be that or must not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Fields(Vec<(String, String, bool)>);

impl Fields {
    pub(crate) fn read(text: &str) -> Result<Self, Failure> {
        let mut terms = Vec::new();
        for term in text.split(',').map(str::trim).filter(|term| !term.is_empty()) {
            let unlike = term.split_once("!=").map(|pair| (pair, false));
            let like = || term.split_once("==").or_else(|| term.split_once('=')).map(|pair| (pair, true));
            let ((path, value), is) = unlike.or_else(like).ok_or_else(|| {
                let hint = "write for example spec.nodeName=node0";
                Failure::bad_request(format!("fieldSelector: '{term}' does not read; {hint}"))
            })?;
            terms.push((path.trim().to_owned(), value.trim().to_owned(), is));
        }
        Ok(Fields(terms))
    }

    pub(crate) fn fit(&self, object: &Value) -> bool {
        self.0.iter().all(|(path, value, is)| (self::value(object, path) == *value) == *is)
    }
}

/// A field as text; nothing and false are what an absent one is taken for.
fn value(object: &Value, path: &str) -> String {
    // Events are kept under their old names.
    let path = path.replace("regarding.", "involvedObject.");
    let found = path.split('.').fold(object, |value, field| &value[field]);
    match found {
        Value::String(text) => text.clone(),
        Value::Null if path == "spec.unschedulable" => "false".to_owned(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Fields, Labels};
    use serde_json::json;

    #[test]
    fn labels_choose() {
        let object = json!({"metadata": {"labels": {"app": "web", "size": "a"}}});
        for (text, fits) in [
            ("", true),
            ("app=web", true),
            ("app==web,size in (a, b)", true),
            ("app!=web", false),
            ("missing!=x", true),
            ("size notin (b)", true),
            ("app", true),
            ("!app", false),
            ("!missing,app", true),
            ("size in (b,c)", false),
        ] {
            assert_eq!(Labels::read(text).expect(text).fit(&object), fits, "{text}");
        }
        for text in ["a b", "=x", "size in a", "(a)"] {
            let failure = Labels::read(text).expect_err(text);
            assert_eq!(failure.code, 400);
            assert!(failure.message.contains("write for example"), "{}", failure.message);
        }
    }

    #[test]
    fn fields_choose() {
        let object = json!({"spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        for (text, fits) in [
            ("spec.nodeName=n,status.phase!=Failed", true),
            ("spec.nodeName=", false),
            ("spec.unschedulable=false", true),
            ("metadata.name==x", false),
        ] {
            assert_eq!(Fields::read(text).expect(text).fit(&object), fits, "{text}");
        }
        assert!(Fields::read("nonsense").is_err());
    }
}
