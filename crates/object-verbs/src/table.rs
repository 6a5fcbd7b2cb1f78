//! Objects as tables, made by whoever keeps them.

use crate::VerbError;
use crate::found::Found;
use futures_util::{AsyncBufReadExt, Stream, StreamExt};
use http::Request;
use kube::Client;
use serde_json::Value;

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its head.
    pub name: String,
    /// Whether it is only for those who want to see more.
    pub wide: bool,
}

/// A row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The object's namespace; empty where it is in none.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// By column.
    pub cells: Vec<String>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Vec<Row>,
    /// Up to which version it is true.
    pub version: String,
}

/// Which objects.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Where; everywhere without one.
    pub namespace: Option<String>,
    /// One of them.
    pub name: Option<String>,
    /// By their labels.
    pub labels: Option<String>,
    /// By their fields.
    pub fields: Option<String>,
}

const AS_TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// What may stand in a query.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let encoded = |byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(encoded).collect()
}

/// Where such objects are listed.
pub fn list_path(found: &Found, wanted: &Wanted, more: &[(&str, &str)]) -> String {
    let mut path = found.root();
    if let (true, Some(namespace)) = (found.namespaced, &wanted.namespace) {
        path.push_str(&format!("/namespaces/{}", encoded(namespace)));
    }
    path.push_str(&format!("/{}", found.resource.plural));
    let mut query: Vec<String> = Vec::new();
    let by_name = wanted.name.as_ref().map(|name| format!("metadata.name={name}"));
    let fields: Vec<&str> = wanted.fields.iter().chain(&by_name).map(String::as_str).collect();
    if !fields.is_empty() {
        query.push(format!("fieldSelector={}", encoded(&fields.join(","))));
    }
    if let Some(labels) = &wanted.labels {
        query.push(format!("labelSelector={}", encoded(labels)));
    }
    query.extend(more.iter().map(|(name, value)| format!("{name}={}", encoded(value))));
    if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
}

fn read(table: &Value) -> Table {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let columns = table["columnDefinitions"].as_array().into_iter().flatten();
    let columns = columns
        .map(|one| Column { name: text(&one["name"]), wide: one["priority"].as_i64().unwrap_or(0) > 0 });
    let rows = table["rows"].as_array().into_iter().flatten().map(|row| {
        let metadata = &row["object"]["metadata"];
        let cells = row["cells"].as_array().into_iter().flatten().map(text).collect();
        Row { namespace: text(&metadata["namespace"]), name: text(&metadata["name"]), cells }
    });
    Table {
        columns: columns.collect(),
        rows: rows.collect(),
        version: text(&table["metadata"]["resourceVersion"]),
    }
}

/// The table of such objects.
pub async fn table(client: &Client, found: &Found, wanted: &Wanted) -> Result<Table, VerbError> {
    let request = Request::get(list_path(found, wanted, &[])).header("accept", AS_TABLE).body(Vec::new());
    let request = request.map_err(|error| VerbError::new(400, error.to_string()))?;
    let table = read(&client.request(request).await?);
    match (&wanted.name, table.rows.is_empty()) {
        (Some(name), true) => Err(VerbError::new(404, format!("{} \"{name}\" not found", found.title()))),
        _ => Ok(table),
    }
}

/// Rows as they change after a version: what happened, and the row with its columns where they are told again.
pub async fn watch_table(
    client: &Client,
    found: &Found,
    wanted: &Wanted,
    version: &str,
) -> Result<impl Stream<Item = Result<(String, Table), VerbError>> + use<>, VerbError> {
    let path = list_path(found, wanted, &[("watch", "true"), ("resourceVersion", version)]);
    let request = Request::get(path).header("accept", AS_TABLE).body(Vec::new());
    let request = request.map_err(|error| VerbError::new(400, error.to_string()))?;
    let lines = client.request_stream(request).await?.lines();
    Ok(lines.map(|line| {
        let line = line.map_err(|error| VerbError::new(503, format!("the watch has ended: {error}")))?;
        let event: Value =
            serde_json::from_str(&line).map_err(|error| VerbError::new(502, error.to_string()))?;
        let word = event["type"].as_str().unwrap_or_default().to_owned();
        if word == "ERROR" {
            let message = event["object"]["message"].as_str().unwrap_or("the watch has ended");
            return Err(VerbError::new(410, message));
        }
        Ok((word, read(&event["object"])))
    }))
}

#[cfg(test)]
mod tests {
    use super::{Wanted, list_path};
    use crate::Found;
    use kube::core::ApiResource;

    #[test]
    fn paths_say_which_objects() {
        let resource = ApiResource {
            group: "apps".to_owned(),
            version: "v1".to_owned(),
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            plural: "deployments".to_owned(),
        };
        let found = Found { resource, namespaced: true };
        assert_eq!(list_path(&found, &Wanted::default(), &[]), "/apis/apps/v1/deployments");
        let wanted = Wanted {
            namespace: Some("a".to_owned()),
            name: Some("web".to_owned()),
            labels: Some("app=web,tier in (a)".to_owned()),
            fields: None,
        };
        assert_eq!(
            list_path(&found, &wanted, &[("watch", "true")]),
            "/apis/apps/v1/namespaces/a/deployments?fieldSelector=metadata.name%3Dweb&labelSelector=app%3Dweb%2Ctier%20in%20%28a%29&watch=true"
        );
    }
}
