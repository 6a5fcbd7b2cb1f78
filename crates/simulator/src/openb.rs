//! The published traces of a production cluster with shared GPUs ("openb"): nodes, pods, arrival sequences.

use crate::trace::{TraceError, TraceNode, TracePod};
use carve_gpu_model::Mebibytes;
use carve_placement::{Claim, CpuMilli, GpuMilli, MOST_GPUS, WHOLE};
use std::collections::BTreeMap;

/// A longer line is no line of a trace.
const LONGEST: usize = 4096;

struct Table<'a> {
    columns: BTreeMap<&'a str, usize>,
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
}

struct Row<'a> {
    line: usize,
    cells: Vec<&'a str>,
}

fn wrong<T>(line: usize, what: impl Into<String>) -> Result<T, TraceError> {
    Err(TraceError::Line { line, what: what.into() })
}

impl<'a> Table<'a> {
    fn new(text: &'a str, needed: &[&str], known: &[&str]) -> Result<Self, TraceError> {
        let mut lines = text.lines().enumerate();
        let Some((_, header)) = lines.next() else {
            return wrong(1, format!("the file is empty; it should begin with '{}'", needed.join(",")));
        };
        let mut columns = BTreeMap::new();
        for (index, name) in header.trim_start_matches('\u{feff}').split(',').map(str::trim).enumerate() {
            if !known.contains(&name) {
                return wrong(1, format!("column '{name}' is not known; known are {}", known.join(", ")));
            }
            if columns.insert(name, index).is_some() {
                return wrong(1, format!("column '{name}' is there twice"));
            }
        }
        if let Some(missing) = needed.iter().find(|name| !columns.contains_key(*name)) {
            return wrong(1, format!("column '{missing}' is missing; needed are {}", needed.join(", ")));
        }
        Ok(Table { columns, lines })
    }

    fn next(&mut self) -> Option<Result<Row<'a>, TraceError>> {
        let (index, text) = self.lines.find(|(_, text)| !text.trim().is_empty())?;
        let line = index + 1;
        if text.len() > LONGEST {
            return Some(wrong(line, format!("the line has {} bytes; this is no trace", text.len())));
        }
        let cells: Vec<&str> = text.split(',').map(str::trim).collect();
        if cells.len() != self.columns.len() {
            let (has, should) = (cells.len(), self.columns.len());
            return Some(wrong(line, format!("{has} values where the first line names {should} columns")));
        }
        Some(Ok(Row { line, cells }))
    }

    fn text(&self, row: &Row<'a>, column: &str) -> &'a str {
        self.columns.get(column).and_then(|index| row.cells.get(*index)).copied().unwrap_or("")
    }

    fn number(&self, row: &Row<'a>, column: &str, most: u64) -> Result<u64, TraceError> {
        let text = self.text(row, column);
        // Some tools write whole numbers as 8.0.
        let digits = text.strip_suffix(".0").unwrap_or(text);
        match digits.parse::<u64>() {
            Ok(number) if number <= most => Ok(number),
            Ok(number) => wrong(row.line, format!("{column} is {number}; more than {most} can not be meant")),
            Err(_) => wrong(
                row.line,
                format!("{column} is '{text}'; it must be a whole number that is not negative"),
            ),
        }
    }

    fn optional(&self, row: &Row<'a>, column: &str) -> Result<Option<u64>, TraceError> {
        match self.text(row, column) {
            "" | "nan" => Ok(None),
            _ => self.number(row, column, u64::MAX).map(Some),
        }
    }

    fn name(
        &self,
        row: &Row<'a>,
        column: &str,
        seen: &mut BTreeMap<&'a str, usize>,
    ) -> Result<String, TraceError> {
        let name = self.text(row, column);
        if name.is_empty() {
            return wrong(row.line, format!("{column} is empty; every line needs a name"));
        }
        if let Some(before) = seen.insert(name, row.line) {
            return wrong(row.line, format!("'{name}' is already the name of line {before}"));
        }
        Ok(name.to_owned())
    }
}

/// More of anything than one machine has.
const MOST: u64 = 1 << 40;

/// The nodes of a node list, sorted by name.
pub fn nodes(text: &str) -> Result<Vec<TraceNode>, TraceError> {
    let needed = ["sn", "cpu_milli", "memory_mib", "gpu", "model"];
    let mut table = Table::new(text, &needed, &needed)?;
    let mut seen = BTreeMap::new();
    let mut nodes = Vec::new();
    while let Some(row) = table.next() {
        let row = row?;
        let gpus = table.number(&row, "gpu", MOST_GPUS as u64)?;
        nodes.push(TraceNode {
            name: table.name(&row, "sn", &mut seen)?,
            cpu: CpuMilli(table.number(&row, "cpu_milli", MOST)?),
            memory: Mebibytes(table.number(&row, "memory_mib", MOST)?),
            gpus: gpus as u8,
            gpu_memory: Mebibytes(0),
            model: if gpus == 0 { String::new() } else { table.text(&row, "model").to_owned() },
        });
    }
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(nodes)
}

/// The pods of a pod list, in the order of the file.
pub fn pods(text: &str) -> Result<Vec<TracePod>, TraceError> {
    let needed = ["name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"];
    let further = ["gpu_spec", "qos", "pod_phase", "creation_time", "deletion_time", "scheduled_time"];
    let mut table = Table::new(text, &needed, &[&needed[..], &further].concat())?;
    let mut seen = BTreeMap::new();
    let mut pods = Vec::new();
    while let Some(row) = table.next() {
        let row = row?;
        let gpus = table.number(&row, "num_gpu", MOST_GPUS as u64)?;
        let milli = table.number(&row, "gpu_milli", u64::from(WHOLE.0))?;
        if gpus > 1 && milli < u64::from(WHOLE.0) {
            return wrong(
                row.line,
                format!("{gpus} GPUs with {milli} thousandths each; only one GPU can be shared"),
            );
        }
        if gpus == 1 && milli == 0 {
            return wrong(row.line, "num_gpu is 1 and gpu_milli is 0; ask for a part, or for no GPU");
        }
        let cpu = CpuMilli(table.number(&row, "cpu_milli", MOST)?);
        let memory = Mebibytes(table.number(&row, "memory_mib", MOST)?);
        let claim = match gpus {
            0 => Claim::cpu_only(cpu, memory),
            1 => Claim::part(GpuMilli(milli as u16), cpu, memory),
            more => Claim::whole(more as u8, cpu, memory),
        };
        let models = match table.text(&row, "gpu_spec") {
            "nan" => "",
            models => models,
        };
        pods.push(TracePod {
            name: table.name(&row, "name", &mut seen)?,
            claim,
            models: models.to_owned(),
            created: table.optional(&row, "creation_time")?,
            deleted: table.optional(&row, "deletion_time")?,
        });
    }
    Ok(pods)
}
