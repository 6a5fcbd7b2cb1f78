//! The ways in which a change of an object is written.

mod apply;
mod strategic;

use crate::failure::Failure;
use serde_json::Value;

pub(crate) use apply::{Applied, apply};

/// How a patch is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl Style {
    pub(crate) fn of(content_type: &str) -> Result<Self, Failure> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Ok(Style::Json),
            "application/merge-patch+json" => Ok(Style::Merge),
            "application/strategic-merge-patch+json" => Ok(Style::Strategic),
            "application/apply-patch+yaml" | "application/apply-patch+json" => Ok(Style::Apply),
            other => Err(Failure::media_type(other)),
        }
    }
}

/// An object with a patch that does not depend on who wrote what.
pub(crate) fn patched(object: &Value, patch: &Value, style: Style) -> Result<Value, Failure> {
    let mut changed = object.clone();
    match style {
        Style::Json => {
            let wrong = |error: &dyn std::fmt::Display| {
                Failure::bad_request(format!("the JSON patch can not be applied: {error}"))
            };
            let patch: json_patch::Patch =
                serde_json::from_value(patch.clone()).map_err(|error| wrong(&error))?;
            json_patch::patch(&mut changed, &patch).map_err(|error| wrong(&error))?;
        }
        Style::Merge => json_patch::merge(&mut changed, patch),
        Style::Strategic | Style::Apply => strategic::merge(&mut changed, patch),
    }
    match changed.is_object() {
        true => Ok(changed),
        false => {
            Err(Failure::bad_request("the patch would make something of it that is no object".to_owned()))
        }
    }
}
