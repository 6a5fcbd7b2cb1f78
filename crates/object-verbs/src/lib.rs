//! What people do with objects: apply, get, scale, label and delete, at an API server or at `carve up`.
//!
//! The command line and the dashboard do these alike. Several documents are applied as one: they are rehearsed first, and where one would be refused none
//! is written.

mod documents;
mod found;
mod table;
mod verbs;

pub use documents::{Document, documents};
pub use found::{Found, find, find_named};
pub use table::{Column, Row, Table, Wanted, list_path, table, watch_table};
pub use verbs::{Applied, Outcome, apply, delete, get, label, list, scale};

use thiserror::Error;

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct VerbError {
    /// What the API server said, or would have.
    pub code: u16,
    /// What is wrong.
    pub message: String,
    /// Where.
    pub field: Option<String>,
    /// What to do.
    pub hint: Option<String>,
}

impl VerbError {
    pub(crate) fn new(code: u16, message: impl Into<String>) -> Self {
        VerbError { code, message: message.into(), field: None, hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        VerbError { hint: Some(hint.into()), ..self }
    }
}

/// What to do about a field, by what an API server says of it.
fn remedy(field: &str, why: &str) -> String {
    let (word, rest) = why.split_once(": ").unwrap_or((why, ""));
    // What was written stands before the rule.
    let rule = || rest.rsplit_once(": ").map_or(rest, |(_, rule)| rule);
    match word {
        "Required value" if rest.is_empty() => format!("write {field}"),
        "Required value" => format!("write {field}: {rest}"),
        "Invalid value" | "Unsupported value" | "Forbidden" if !rest.is_empty() => {
            format!("change {field}: {}", rule())
        }
        "Duplicate value" => format!("give each entry a {field} of its own"),
        word if word.starts_with("unknown field") => {
            format!("take {field} out, or look whether it is misspelt or stands in the wrong place")
        }
        _ => format!("change {field}: {why}"),
    }
}

impl From<kube::Error> for VerbError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                let causes =
                    status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
                let field = causes.first().map(|cause| cause.field.clone()).filter(|field| !field.is_empty());
                let hint = field.as_deref().map(|field| remedy(field, &causes[0].message));
                VerbError { field, hint, ..VerbError::new(status.code, status.message.clone()) }
            }
            // A path can not be made of every name.
            kube::Error::BuildRequest(error) => {
                VerbError::new(400, format!("this can not be asked: {error}"))
                    .hint("names are lower case letters, digits, '-' and '.'")
            }
            other => VerbError::new(503, format!("nobody answers: {other}"))
                .hint("is the cluster, or carve up, there?"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::remedy;

    #[test]
    fn what_to_do_follows_from_what_is_wrong() {
        for (why, words) in [
            ("Required value", "write spec.a"),
            (
                "Required value: name or generateName is required",
                "write spec.a: name or generateName is required",
            ),
            ("Invalid value: \"A: b\": must be lower case", "change spec.a: must be lower case"),
            ("Duplicate value: \"a\"", "give each entry a spec.a of its own"),
            (
                "unknown field \"spec.a\"",
                "take spec.a out, or look whether it is misspelt or stands in the wrong place",
            ),
            (
                "invalid type: string \"x\", expected i32",
                "change spec.a: invalid type: string \"x\", expected i32",
            ),
        ] {
            assert_eq!(remedy("spec.a", why), words, "{why}");
        }
    }
}
