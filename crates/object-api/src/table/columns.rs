//! Which columns each kind has.

use crate::resources::Kind;
use serde_json::Value;

type Cell = Box<dyn Fn(&Value) -> String + Send + Sync>;

pub(super) struct Column {
    pub(super) name: String,
    /// Only where somebody wants to see more.
    pub(super) wide: bool,
    pub(super) cell: Cell,
}

fn column(name: &str, cell: impl Fn(&Value) -> String + Send + Sync + 'static) -> Column {
    Column { name: name.to_owned(), wide: false, cell: Box::new(cell) }
}

fn wide(name: &str, cell: impl Fn(&Value) -> String + Send + Sync + 'static) -> Column {
    Column { wide: true, ..column(name, cell) }
}

/// A field as text.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "<none>".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn field(name: &str, path: &'static str) -> Column {
    column(name, move |object| text(object.pointer(path).unwrap_or(&Value::Null)))
}

fn number(object: &Value, path: &str) -> i64 {
    object.pointer(path).and_then(Value::as_i64).unwrap_or(0)
}

/// How long ago, as kubectl says it.
fn since(object: &Value, path: &str) -> String {
    let at =
        object.pointer(path).and_then(Value::as_str).and_then(|text| text.parse::<jiff::Timestamp>().ok());
    at.map_or_else(|| "<unknown>".to_owned(), |at| ago(jiff::Timestamp::now().as_second() - at.as_second()))
}

/// A number of seconds in two units at most.
pub(crate) fn ago(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 if seconds % 60 > 0 => format!("{minutes}m{}s", seconds % 60),
        120..10_800 => format!("{minutes}m"),
        10_800..28_800 if minutes % 60 > 0 => format!("{hours}h{}m", minutes % 60),
        10_800..172_800 => format!("{hours}h"),
        172_800..691_200 if hours % 24 > 0 => format!("{days}d{}h", hours % 24),
        _ => format!("{days}d"),
    }
}

fn age() -> Column {
    column("Age", |object| since(object, "/metadata/creationTimestamp"))
}

fn name() -> Column {
    field("Name", "/metadata/name")
}

fn statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    pod["status"]["containerStatuses"].as_array().into_iter().flatten()
}

fn pod_state(pod: &Value) -> String {
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return "Terminating".to_owned();
    }
    let waiting = statuses(pod).find_map(|one| one["state"]["waiting"]["reason"].as_str());
    let reason = pod["status"]["reason"].as_str().or(waiting);
    match pod["status"]["phase"].as_str() {
        Some("Succeeded") => "Completed".to_owned(),
        Some("Failed") => reason.unwrap_or("Error").to_owned(),
        phase => reason.or(phase).unwrap_or("Unknown").to_owned(),
    }
}

fn pods() -> Vec<Column> {
    let ready = |pod: &Value| {
        let all = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
        let ready = statuses(pod).filter(|one| one["ready"] == true).count();
        format!("{ready}/{all}")
    };
    let restarts =
        |pod: &Value| statuses(pod).map(|one| number(one, "/restartCount")).sum::<i64>().to_string();
    vec![
        name(),
        column("Ready", ready),
        column("Status", pod_state),
        column("Restarts", restarts),
        age(),
        Column { wide: true, ..field("IP", "/status/podIP") },
        Column { wide: true, ..field("Node", "/spec/nodeName") },
        wide("Nominated Node", |_| "<none>".to_owned()),
        wide("Readiness Gates", |_| "<none>".to_owned()),
    ]
}

fn nodes() -> Vec<Column> {
    let status = |node: &Value| {
        let conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        let ready = conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
        let cordoned = if node["spec"]["unschedulable"] == true { ",SchedulingDisabled" } else { "" };
        format!("{}{cordoned}", if ready { "Ready" } else { "NotReady" })
    };
    let address = |node: &Value| {
        let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
        let inner = addresses.into_iter().find(|one| one["type"] == "InternalIP");
        inner.map_or_else(|| "<none>".to_owned(), |one| text(&one["address"]))
    };
    let info = |name: &str, path| Column { wide: true, ..field(name, path) };
    vec![
        name(),
        column("Status", status),
        column("Roles", |_| "<none>".to_owned()),
        age(),
        field("Version", "/status/nodeInfo/kubeletVersion"),
        wide("Internal-IP", address),
        info("OS-Image", "/status/nodeInfo/osImage"),
        info("Kernel-Version", "/status/nodeInfo/kernelVersion"),
        info("Container-Runtime", "/status/nodeInfo/containerRuntimeVersion"),
    ]
}

/// Names and images of the containers of a template.
fn images() -> [Column; 2] {
    let all = |object: &Value, what: &str| {
        let containers = object.pointer("/spec/template/spec/containers").and_then(Value::as_array);
        let words: Vec<String> = containers.into_iter().flatten().map(|one| text(&one[what])).collect();
        words.join(",")
    };
    [
        wide("Containers", move |object| all(object, "name")),
        wide("Images", move |object| all(object, "image")),
    ]
}

fn selector() -> Column {
    wide("Selector", |object| {
        let labels = object.pointer("/spec/selector/matchLabels").and_then(Value::as_object);
        let words: Vec<String> =
            labels.into_iter().flatten().map(|(key, value)| format!("{key}={}", text(value))).collect();
        words.join(",")
    })
}

fn count(name: &str, path: &'static str) -> Column {
    column(name, move |object| number(object, path).to_string())
}

fn deployments() -> Vec<Column> {
    let ready = |object: &Value| {
        format!("{}/{}", number(object, "/status/readyReplicas"), number(object, "/spec/replicas"))
    };
    let mut columns = vec![
        name(),
        column("Ready", ready),
        count("Up-to-date", "/status/updatedReplicas"),
        count("Available", "/status/availableReplicas"),
        age(),
    ];
    columns.extend(images());
    columns.push(selector());
    columns
}

fn replica_sets() -> Vec<Column> {
    let mut columns = vec![
        name(),
        count("Desired", "/spec/replicas"),
        count("Current", "/status/replicas"),
        count("Ready", "/status/readyReplicas"),
        age(),
    ];
    columns.extend(images());
    columns.push(selector());
    columns
}

fn stateful_sets() -> Vec<Column> {
    let ready = |object: &Value| {
        format!("{}/{}", number(object, "/status/readyReplicas"), number(object, "/spec/replicas"))
    };
    let mut columns = vec![name(), column("Ready", ready), age()];
    columns.extend(images());
    columns
}

fn jobs() -> Vec<Column> {
    let state = |job: &Value| {
        let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
        let is = |word: &str| conditions.clone().any(|one| one["type"] == word && one["status"] == "True");
        if is("Complete") {
            "Complete"
        } else if is("Failed") {
            "Failed"
        } else {
            "Running"
        }
        .to_owned()
    };
    let completions =
        |job: &Value| format!("{}/{}", number(job, "/status/succeeded"), number(job, "/spec/completions"));
    let duration = |job: &Value| {
        let at = |path: &str| job.pointer(path).and_then(Value::as_str)?.parse::<jiff::Timestamp>().ok();
        let Some(start) = at("/status/startTime") else { return String::new() };
        let end = at("/status/completionTime").unwrap_or_else(jiff::Timestamp::now);
        ago(end.as_second() - start.as_second())
    };
    let mut columns = vec![
        name(),
        column("Status", state),
        column("Completions", completions),
        column("Duration", duration),
        age(),
    ];
    columns.extend(images());
    columns
}

fn events() -> Vec<Column> {
    let about = |event: &Value| {
        let object = &event["involvedObject"];
        format!("{}/{}", text(&object["kind"]).to_lowercase(), text(&object["name"]))
    };
    let last = |event: &Value| {
        let series = event.pointer("/series/lastObservedTime").is_some_and(Value::is_string);
        let path = [
            ("/series/lastObservedTime", series),
            ("/lastTimestamp", event["lastTimestamp"].is_string()),
            ("/eventTime", event["eventTime"].is_string()),
        ];
        let path =
            path.iter().find(|(_, there)| *there).map_or("/metadata/creationTimestamp", |(path, _)| path);
        since(event, path)
    };
    vec![
        column("Last Seen", last),
        field("Type", "/type"),
        field("Reason", "/reason"),
        column("Object", about),
        column("Message", |event| text(&event["message"]).trim().to_owned()),
    ]
}

/// Columns as a definition of ours has them.
fn defined(kind: &Kind) -> Vec<Column> {
    let definitions = carve_slice_policy::definitions();
    let found = definitions.iter().find(|(_, definition)| definition.spec.names.plural == kind.plural);
    let version = found.and_then(|(_, definition)| definition.spec.versions.first());
    let own = version.and_then(|version| version.additional_printer_columns.as_ref());
    let mut columns = vec![name()];
    for printed in own.into_iter().flatten() {
        let pointer = printed.json_path.replace('.', "/");
        let date = printed.type_ == "date";
        columns.push(Column {
            name: printed.name.clone(),
            wide: printed.priority.unwrap_or(0) > 0,
            cell: Box::new(move |object| {
                if date {
                    return since(object, &pointer);
                }
                object.pointer(&pointer).map_or_else(String::new, text)
            }),
        });
    }
    if !columns.iter().any(|column| column.name == "Age") {
        columns.push(age());
    }
    columns
}

pub(super) fn columns(kind: &Kind) -> Vec<Column> {
    match (kind.group, kind.kind) {
        ("", "Pod") => pods(),
        ("", "Node") => nodes(),
        ("", "Namespace") => vec![name(), field("Status", "/status/phase"), age()],
        (_, "Event") => events(),
        ("", "ConfigMap") => vec![
            name(),
            column("Data", |object| object["data"].as_object().map_or(0, serde_json::Map::len).to_string()),
            age(),
        ],
        ("apps", "Deployment") => deployments(),
        ("apps", "ReplicaSet") => replica_sets(),
        ("apps", "StatefulSet") => stateful_sets(),
        ("batch", "Job") => jobs(),
        ("carve.dev", _) => defined(kind),
        _ => vec![name(), age()],
    }
}

#[cfg(test)]
mod tests {
    use super::{ago, columns};
    use crate::resources::kind_named;
    use serde_json::json;

    #[test]
    fn ages_are_short() {
        for (seconds, words) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (190, "3m10s"),
            (700, "11m"),
            (10_860, "3h1m"),
            (90_000, "25h"),
            (180_000, "2d2h"),
            (864_000, "10d"),
            (-5, "0s"),
        ] {
            assert_eq!(ago(seconds), words);
        }
    }

    #[test]
    fn a_pod_is_told_as_kubectl_tells_it() {
        let pod = json!({
            "metadata": {"name": "p", "creationTimestamp": "2020-01-01T00:00:00Z"},
            "spec": {"containers": [{}, {}], "nodeName": "n"},
            "status": {"phase": "Running", "containerStatuses": [{"ready": true, "restartCount": 2}, {"ready": false}]},
        });
        let cells: Vec<String> = columns(kind_named("pods").expect("a kind"))
            .iter()
            .take(4)
            .map(|column| (column.cell)(&pod))
            .collect();
        assert_eq!(cells, ["p", "1/2", "Running", "2"]);
        let names: Vec<String> = columns(kind_named("slicepolicies").expect("a kind"))
            .into_iter()
            .map(|column| column.name)
            .collect();
        assert!(names.len() > 2, "{names:?}");
    }
}
