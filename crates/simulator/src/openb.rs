//! The published traces of a production cluster with shared GPUs ("openb"): nodes, pods, arrival sequences.

use crate::csv::{MOST, Table, wrong};
use crate::trace::{TraceError, TraceNode, TracePod};
use carve_gpu_model::Mebibytes;
use carve_placement::{Claim, CpuMilli, GpuMilli, MOST_GPUS, WHOLE};
use std::collections::BTreeMap;

/// Columns of a node list.
pub(crate) const NODES: [&str; 5] = ["sn", "cpu_milli", "memory_mib", "gpu", "model"];
/// Columns that a pod list needs.
pub(crate) const PODS: [&str; 5] = ["name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"];
/// Columns that a pod list may have.
const FURTHER: [&str; 6] =
    ["gpu_spec", "qos", "pod_phase", "creation_time", "deletion_time", "scheduled_time"];

/// The nodes of a node list, sorted by name.
pub fn nodes(text: &str) -> Result<Vec<TraceNode>, TraceError> {
    let mut table = Table::new(text, &NODES, &NODES)?;
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
    let mut table = Table::new(text, &PODS, &[&PODS[..], &FURTHER].concat())?;
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
            mig: Default::default(),
            models: models.to_owned(),
            created: table.optional(&row, "creation_time")?,
            deleted: table.optional(&row, "deletion_time")?,
            node: None,
        });
    }
    Ok(pods)
}
