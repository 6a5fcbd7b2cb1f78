//! CDI: a program in a root that holds nothing of the driver but what the CDI file lists can compute on the GPU.

use crate::bare::Bare;
use crate::clients::{look, run, vector_add};
use crate::node::{Listed, Node};
use crate::report::{Report, Stopped};

const PART: &str = "CDI";

/// A whole GPU in a bare container.
pub(crate) async fn whole_gpu(
    node: &Node,
    report: &mut Report,
    offered: &Listed,
    bare: &dyn Fn(&str) -> Result<Bare, String>,
) -> Result<(), Stopped> {
    let stop = |report: &mut Report, why: String| {
        report.row(PART, "a container is made as the answer says", Err(why)).and(Err(Stopped))
    };
    let (empty, second) = match (bare("empty"), bare("cdi")) {
        (Ok(empty), Ok(second)) => (empty, second),
        (Err(why), _) | (_, Err(why)) => return stop(report, why),
    };
    let without = match vector_add(&empty) {
        Err(why) if why.contains("library-not-found") => {
            Ok(why.split(" (tried").next().unwrap_or_default().to_owned())
        }
        other => Err(format!("{other:?}")),
    };
    report.row(PART, "without the file's edits there is no CUDA", without)?;

    let Some(gpu) = offered.ids.first() else { return stop(report, "no GPU is offered".to_owned()) };
    let answer = match node.allocate(gpu).await {
        Ok(answer) => answer,
        Err(why) => return stop(report, why),
    };
    let named: Vec<&str> = answer.cdi_devices.iter().map(|device| device.name.as_str()).collect();
    let right = named.len() == 1 && answer.mounts.is_empty() && answer.devices.is_empty();
    let seen = named.join(", ");
    report.row(
        PART,
        "the answer to Allocate names one CDI device and nothing else",
        if right { Ok(seen) } else { Err(format!("{answer:?}")) },
    )?;
    let container = match node.cdi().and_then(|file| second.admit(&answer, &file)) {
        Ok(container) => container,
        Err(why) => return stop(report, why),
    };
    report.row(PART, "the file lists what the driver needs", Ok(container.contents()))?;
    let view = look(&container).map(|view| format!("{view}, {} MiB in all", view.total_mib));
    report.row(PART, "a program in the bare root sees the GPU", view)?;
    report.row(PART, "and adds two vectors on it", vector_add(&container))?;
    let listed = run(&container, &["/usr/bin/nvidia-smi", "-L"]).and_then(|text| {
        let gpus = text.lines().filter(|line| line.contains("UUID: GPU-")).count();
        if gpus == 1 && text.contains(gpu.as_str()) { Ok(text) } else { Err(text) }
    });
    report.row(PART, "nvidia-smi -L in the bare root lists that GPU alone", listed)
}
