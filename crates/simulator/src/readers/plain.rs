//! Our own simple lists of nodes and pods, as CSV or JSON.

use super::amounts::{self, Round};
use crate::csv::{MOST_ENTRIES, Row, Table, wrong};
use crate::trace::{TraceError, TraceNode, TracePod};
use carve_gpu_model::Geometry;
use carve_placement::{Claim, MOST_GPUS, WHOLE};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Columns of a list of nodes.
pub(crate) const NODES: [&str; 7] = ["name", "cpu", "memory", "gpus", "gpu_memory", "model", "count"];
/// Columns of a list of pods.
pub(crate) const PODS: [&str; 11] =
    ["name", "cpu", "memory", "gpus", "gpu", "gpu_memory", "mig", "models", "arrive", "duration", "count"];

/// One entry, whatever it was written in: a value for each column, empty where there is none.
type Entry<'a> = dyn Fn(&str) -> &'a str + 'a;

/// The nodes of a CSV file, by name.
pub fn nodes_csv(text: &str) -> Result<Vec<TraceNode>, TraceError> {
    let mut nodes = Vec::new();
    rows(text, &NODES, &["name", "cpu", "memory", "gpus"], |value, names| {
        node(value).and_then(|node| {
            let named = |name| TraceNode { name, ..node.clone() };
            counted(value, names, |name| nodes.push(named(name)))
        })
    })?;
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(nodes)
}

/// The pods of a CSV file, in its order.
pub fn pods_csv(text: &str) -> Result<Vec<TracePod>, TraceError> {
    let mut pods = Vec::new();
    rows(text, &PODS, &["name"], |value, names| {
        pod(value).and_then(|pod| {
            let named = |name| TracePod { name, ..pod.clone() };
            counted(value, names, |name| pods.push(named(name)))
        })
    })?;
    Ok(pods)
}

/// Which names are taken, and by which line or entry.
struct Names {
    seen: BTreeMap<String, usize>,
    /// The line or entry that is read.
    at: usize,
    /// How a line or entry is called.
    place: fn(usize) -> String,
}

impl Names {
    fn new(place: fn(usize) -> String) -> Self {
        Names { seen: BTreeMap::new(), at: 0, place }
    }
}

fn rows(
    text: &str,
    columns: &[&str],
    needed: &[&str],
    mut each: impl FnMut(&Entry<'_>, &mut Names) -> Result<(), String>,
) -> Result<(), TraceError> {
    let mut table = Table::new(text, needed, columns)?;
    let mut names = Names::new(|line| format!("line {line}"));
    while let Some(row) = table.next() {
        let row: Row<'_> = row?;
        names.at = row.line;
        let value = |column: &str| table.text(&row, column);
        if let Err(what) = each(&value, &mut names) {
            return wrong(row.line, what);
        }
    }
    Ok(())
}

/// Calls for each of `count` names: the name itself, or NAME-0, NAME-1 and so on.
fn counted(value: &Entry<'_>, names: &mut Names, mut each: impl FnMut(String)) -> Result<(), String> {
    let count = match value("count") {
        "" => None,
        text => Some(amounts::count("count", text, MOST_ENTRIES as u64)?),
    };
    let name = value("name");
    if name.is_empty() {
        return Err("name is empty; every entry needs one".to_owned());
    }
    for number in 0..count.unwrap_or(1) {
        if names.seen.len() >= MOST_ENTRIES {
            return Err(format!("more than {MOST_ENTRIES} entries; simulate them in parts"));
        }
        let name = if count.is_some() { format!("{name}-{number}") } else { name.to_owned() };
        if let Some(before) = names.seen.insert(name.clone(), names.at) {
            let before = (names.place)(before);
            return Err(format!(
                "'{name}' is already the name of {before}; give every entry a name of its own"
            ));
        }
        each(name);
    }
    Ok(())
}

fn gpus(value: &Entry<'_>) -> Result<Option<u8>, String> {
    match value("gpus") {
        "" => Ok(None),
        text => amounts::count("gpus", text, MOST_GPUS as u64).map(|gpus| Some(gpus as u8)),
    }
}

fn node(value: &Entry<'_>) -> Result<TraceNode, String> {
    let gpus = gpus(value)?.unwrap_or(0);
    Ok(TraceNode {
        name: String::new(),
        cpu: amounts::cpu(value("cpu"), Round::Down)?,
        memory: amounts::memory("memory", value("memory"), false, Round::Down)?,
        gpus,
        gpu_memory: amounts::memory("gpu_memory", value("gpu_memory"), false, Round::Down)?,
        model: if gpus == 0 { String::new() } else { value("model").to_owned() },
    })
}

fn pod(value: &Entry<'_>) -> Result<TracePod, String> {
    let cpu = amounts::cpu(value("cpu"), Round::Up)?;
    let memory = amounts::memory("memory", value("memory"), false, Round::Up)?;
    let part = match value("gpu") {
        "" => None,
        text => Some(amounts::part(text)?),
    };
    let claim = match (gpus(value)?, part) {
        (Some(0), Some(_)) => {
            return Err("gpus is 0, but a part of a GPU is asked for; leave one of them empty".to_owned());
        }
        (None | Some(0), None) => Claim::cpu_only(cpu, memory),
        (None | Some(1), Some(part)) => Claim::part(part, cpu, memory),
        (Some(more), Some(part)) if part < WHOLE => {
            return Err(format!("gpus is {more} and gpu is a part; only one GPU can be divided"));
        }
        (Some(gpus), _) => Claim::whole(gpus, cpu, memory),
    };
    let mig = match value("mig") {
        "" => Geometry::default(),
        _ if claim.gpus > 0 => {
            return Err(
                "MIG devices and other GPUs are asked for at once; leave gpus and gpu, or mig, empty"
                    .to_owned(),
            );
        }
        text => amounts::mig(text)?,
    };
    let gpu_memory = amounts::memory("gpu_memory", value("gpu_memory"), false, Round::Up)?;
    if claim.gpus == 0 && gpu_memory.0 > 0 {
        return Err("gpu_memory is asked for, but no GPU; say gpus or gpu".to_owned());
    }
    let time = |name: &str| match value(name) {
        "" => Ok(None),
        text => amounts::seconds(name, text).map(Some),
    };
    let (arrive, duration) = (time("arrive")?, time("duration")?);
    Ok(TracePod {
        name: String::new(),
        claim: Claim { gpu_memory, ..claim },
        mig,
        models: value("models").to_owned(),
        created: arrive.or(duration.map(|_| 0)),
        deleted: duration.map(|duration| arrive.unwrap_or(0) + duration),
        node: None,
    })
}

/// A document is in memory as a whole, many times as large as its text.
const LARGEST: usize = 64 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default, deserialize_with = "super::bounded::list::<_, _, MOST_ENTRIES>")]
    nodes: Vec<Map<String, Value>>,
    #[serde(default, deserialize_with = "super::bounded::list::<_, _, MOST_ENTRIES>")]
    pods: Vec<Map<String, Value>>,
}

/// Nodes, by name, and pods, in their order, of a document `{"nodes": […], "pods": […]}`.
pub fn json(text: &str) -> Result<(Vec<TraceNode>, Vec<TracePod>), TraceError> {
    if text.len() > LARGEST {
        return wrong(1, format!("JSON of more than {} MiB; write it as CSV", LARGEST >> 20));
    }
    let document: Document = serde_json::from_str(text).map_err(|error| super::syntax(&error))?;
    let (mut nodes, mut pods) = (Vec::new(), Vec::new());
    entries(
        |entry| format!("nodes[{entry}]"),
        &document.nodes,
        &NODES,
        |value, names| {
            let node = node(value)?;
            counted(value, names, |name| nodes.push(TraceNode { name, ..node.clone() }))
        },
    )?;
    entries(
        |entry| format!("pods[{entry}]"),
        &document.pods,
        &PODS,
        |value, names| {
            let pod = pod(value)?;
            counted(value, names, |name| pods.push(TracePod { name, ..pod.clone() }))
        },
    )?;
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok((nodes, pods))
}

fn entries(
    place: fn(usize) -> String,
    entries: &[Map<String, Value>],
    columns: &[&str],
    mut each: impl FnMut(&Entry<'_>, &mut Names) -> Result<(), String>,
) -> Result<(), TraceError> {
    let mut names = Names::new(place);
    for (index, entry) in entries.iter().enumerate() {
        let path = place(index);
        let texts = texts(entry, columns)
            .map_err(|(key, what)| TraceError::Entry { path: format!("{path}.{key}"), what })?;
        names.at = index;
        let value = |column: &str| texts.get(column).map_or("", String::as_str);
        each(&value, &mut names).map_err(|what| TraceError::Entry { path, what })?;
    }
    Ok(())
}

/// The values of an entry as they would stand in a table.
fn texts(entry: &Map<String, Value>, columns: &[&str]) -> Result<BTreeMap<String, String>, (String, String)> {
    let text = |(key, value): (&String, &Value)| {
        if !columns.contains(&key.as_str()) {
            return Err((key.clone(), format!("not known; known are {}", columns.join(", "))));
        }
        let text = match value {
            Value::Null => String::new(),
            Value::String(text) => text.trim().to_owned(),
            Value::Number(number) => number.to_string(),
            Value::Array(models) if key == "models" && models.iter().all(Value::is_string) => {
                models.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("|")
            }
            _ => return Err((key.clone(), "neither text nor a number".to_owned())),
        };
        Ok((key.clone(), text))
    };
    entry.iter().map(text).collect()
}
