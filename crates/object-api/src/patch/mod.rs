//! The ways in which a change of an object is written.

mod apply;
mod strategic;

use crate::failure::Failure;
use serde_json::Value;

pub(crate) use apply::{Applied, apply};

/// The steps that a JSON patch may have, and the bytes that they may copy.
const MOST_STEPS: usize = 10_000;
const MOST_COPIED: usize = 3 << 20;

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
            if patch.len() > MOST_STEPS {
                return Err(wrong(&format!("it has {} steps; {MOST_STEPS} are the most", patch.len())));
            }
            let mut copied = 0;
            for step in patch.0 {
                // A few copies of copies would otherwise fill the memory.
                if let json_patch::PatchOperation::Copy(copy) = &step {
                    copied += changed.pointer(copy.from.as_str()).map_or(0, |value| value.to_string().len());
                    if copied > MOST_COPIED {
                        return Err(wrong(&format!("it copies more than {} MiB", MOST_COPIED >> 20)));
                    }
                }
                json_patch::patch(&mut changed, &[step]).map_err(|error| wrong(&error))?;
            }
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
