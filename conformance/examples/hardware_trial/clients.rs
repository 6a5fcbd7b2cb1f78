//! Real CUDA programs in bare containers, and what they see.

use crate::bare::Bare;
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// What a CUDA program is told about its device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) name: String,
    pub(crate) free_mib: u64,
    pub(crate) total_mib: u64,
    pub(crate) multiprocessors: u64,
}

impl std::fmt::Display for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let View { name, free_mib, multiprocessors, .. } = self;
        write!(f, "{name}: {free_mib} MiB free, {multiprocessors} multiprocessors")
    }
}

/// Has a program in the container look at its device.
pub(crate) fn look(container: &Bare) -> Result<View, String> {
    let answer = probe(container, "look")?;
    let number = |name: &str| {
        answer[name].as_u64().ok_or_else(|| format!("the client's answer has no {name}: {answer}"))
    };
    Ok(View {
        name: answer["name"].as_str().unwrap_or_default().to_owned(),
        free_mib: number("free")? / MIB,
        total_mib: number("total")? / MIB,
        multiprocessors: number("multiprocessors")?,
    })
}

/// Has a program in the container add two vectors on its device and check every sum.
pub(crate) fn vector_add(container: &Bare) -> Result<String, String> {
    let answer = probe(container, "vector-add")?;
    let elements = answer["elements"].as_u64().unwrap_or(0);
    if elements == 0 {
        return Err(format!("nothing was added: {answer}"));
    }
    Ok(format!("{elements} right sums on {}", answer["uuid"].as_str().unwrap_or("?")))
}

fn probe(container: &Bare, verb: &str) -> Result<Value, String> {
    let text = run(container, &["/carve", "cuda-probe", verb])?;
    let line: Value = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
    Ok(line["answer"][verb].clone())
}

/// Runs a command that must succeed; its output.
pub(crate) fn run(container: &Bare, command: &[&str]) -> Result<String, String> {
    let output = container.run(command).map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let (said, talk) = (text(&output.stdout), text(&output.stderr));
    Err(format!("{} ended with {}: {talk} {said}", command.join(" "), output.status))
}
