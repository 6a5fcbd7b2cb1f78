//! Reads traces in whichever format they are; the content says which.

mod amounts;
mod bounded;
mod fields;
pub mod kubernetes;
pub mod plain;

use crate::csv::{LONGEST, wrong};
use crate::openb;
use crate::trace::{Trace, TraceError, TraceNode};

/// What a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Nodes of the published traces.
    OpenbNodes,
    /// Pods of the published traces.
    OpenbPods,
    /// A table of our own; nodes and pods may have the same columns, so what is expected decides.
    Csv,
    /// A document of our own.
    Json,
    /// A list of objects of Kubernetes.
    Kubernetes,
}

/// Recognises a format.
pub fn format(text: &str) -> Result<Format, TraceError> {
    let text = text.trim_start_matches('\u{feff}');
    let known = || {
        format!(
            "a trace is CSV whose first line is '{}' or '{}', JSON with \"nodes\" and \"pods\", or what 'kubectl get nodes,pods -A -o json' prints",
            plain::PODS.join(","),
            openb::PODS.join(",")
        )
    };
    if text.trim().is_empty() {
        return wrong(1, format!("the file is empty; {}", known()));
    }
    if text.trim_start().starts_with('{') {
        // A look at the names on top, without keeping what they hold.
        let names: fields::OnTop = serde_json::from_str(text).map_err(|error| syntax(&error))?;
        return match names {
            fields::OnTop { items: true, .. } => Ok(Format::Kubernetes),
            fields::OnTop { nodes: true, .. } | fields::OnTop { pods: true, .. } => Ok(Format::Json),
            _ => wrong(1, format!("JSON, but no trace; {}", known())),
        };
    }
    let header = text.lines().next().unwrap_or("");
    if header.len() > LONGEST {
        return wrong(1, format!("the line has {} bytes; this is no trace; {}", header.len(), known()));
    }
    let has = |name: &str| header.split(',').any(|column| column.trim() == name);
    match () {
        () if has("cpu_milli") && has("sn") => Ok(Format::OpenbNodes),
        () if has("cpu_milli") => Ok(Format::OpenbPods),
        () if has("name") => Ok(Format::Csv),
        () => {
            let begins: String = header.chars().take(60).collect();
            wrong(1, format!("no trace: it begins with {begins:?}; {}", known()))
        }
    }
}

/// A list of pods, or a whole trace, where the text holds the nodes too; without them there are none in what is returned.
pub fn trace(text: &str) -> Result<Trace, TraceError> {
    let text = text.trim_start_matches('\u{feff}');
    let (nodes, pods) = match format(text)? {
        Format::OpenbPods => (Vec::new(), openb::pods(text)?),
        Format::Csv if first_line_has(text, "model") => return nodes_instead(),
        Format::Csv => (Vec::new(), plain::pods_csv(text)?),
        Format::Json => plain::json(text)?,
        Format::Kubernetes => kubernetes::read(text)?,
        Format::OpenbNodes => return nodes_instead(),
    };
    Ok(Trace { nodes, pods })
}

fn nodes_instead() -> Result<Trace, TraceError> {
    wrong(1, "a list of nodes where pods are expected; give the pods as the trace, and this by --nodes")
}

/// A list of nodes.
pub fn nodes(text: &str) -> Result<Vec<TraceNode>, TraceError> {
    let text = text.trim_start_matches('\u{feff}');
    let pods_instead = || wrong(1, "a list of pods where nodes are expected; give this as the trace");
    match format(text)? {
        Format::OpenbNodes => openb::nodes(text),
        Format::OpenbPods => pods_instead(),
        Format::Csv
            if ["gpu", "mig", "models", "arrive", "duration"]
                .iter()
                .any(|name| first_line_has(text, name)) =>
        {
            pods_instead()
        }
        Format::Csv => plain::nodes_csv(text),
        Format::Json => plain::json(text).map(|(nodes, _)| nodes),
        Format::Kubernetes => kubernetes::read(text).map(|(nodes, _)| nodes),
    }
}

fn first_line_has(text: &str, name: &str) -> bool {
    text.lines().next().is_some_and(|line| line.split(',').any(|column| column.trim() == name))
}

/// Seconds as people write them: 90, 90s, 15m, 2h, 1d.
pub fn seconds(name: &str, text: &str) -> Result<u64, String> {
    amounts::seconds(name, text)
}

/// What is wrong with the JSON itself, where.
fn syntax(error: &serde_json::Error) -> TraceError {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let what = error.to_string().replace(&place, "");
    TraceError::Line { line: error.line().max(1), what: format!("column {}: {what}", error.column()) }
}
