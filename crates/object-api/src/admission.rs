//! Whoever is asked before an object is written, as webhooks are asked.

use crate::asked::Asked;
use crate::failure::Failure;
use crate::patch::{Style, patched};
use base64::Engine;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

/// What a webhook decides.
pub trait Admission: Send + Sync + 'static {
    /// The answer to an AdmissionReview: its `response`.
    fn review(&self, request: Value) -> BoxFuture<'_, Value>;
}

/// Asks, and returns the object as it was changed, with what its author is to know.
pub(crate) async fn admitted(
    by: Option<&dyn Admission>,
    asked: &Asked,
    operation: &str,
    object: Value,
    before: Option<&Value>,
) -> Result<(Value, Vec<String>), Failure> {
    let Some(by) = by else { return Ok((object, Vec::new())) };
    let kind = asked.kind;
    let request = json!({
        "uid": uuid::Uuid::new_v4().to_string(),
        "kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "resource": {"group": kind.group, "version": kind.version, "resource": kind.plural},
        "subResource": asked.part,
        "operation": operation,
        "namespace": asked.namespace,
        "name": object["metadata"]["name"],
        "object": object,
        "oldObject": before,
        "dryRun": asked.is_rehearsal()?,
        "userInfo": {"username": "carve"},
    });
    let response = by.review(request).await;
    if response["allowed"] != true {
        let status = &response["status"];
        let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(403);
        return Err(Failure::refused(
            "carve",
            code,
            status["message"].as_str().unwrap_or("no reason was given"),
        ));
    }
    let warnings = response["warnings"].as_array().into_iter().flatten();
    let warnings = warnings.filter_map(|warning| Some(warning.as_str()?.to_owned())).collect();
    let Some(patch) = response["patch"].as_str() else { return Ok((object, warnings)) };
    let unread = |error: &dyn std::fmt::Display| {
        Failure::refused("carve", 500, &format!("its patch does not read: {error}"))
    };
    let patch = base64::engine::general_purpose::STANDARD.decode(patch).map_err(|error| unread(&error))?;
    let patch: Value = serde_json::from_slice(&patch).map_err(|error| unread(&error))?;
    Ok((patched(&object, &patch, Style::Json)?, warnings))
}
