//! A strategic merge patch for the manifest of a workload.

use super::Group;
use crate::advice::{Diff, WorkloadAdvice};
use crate::input::Workload;
use std::fmt::Write as _;

/// The patch, and how it is applied.
pub(super) fn patch(workload: &Workload, advice: &WorkloadAdvice, group: Option<&Group<'_>>) -> Diff {
    let kind = workload.kind.to_lowercase();
    let file = format!("workloads/{}-{kind}-{}.yaml", workload.namespace, workload.name);
    let apply = match workload.kind.as_str() {
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" => format!(
            "kubectl -n {} patch {kind} {} --type strategic --patch-file {file}",
            workload.namespace, workload.name
        ),
        other => format!("a {other} can not be changed while it runs; make it anew with what the patch says"),
    };
    Diff { file, apply, text: text(workload, advice, group) }
}

fn text(workload: &Workload, advice: &WorkloadAdvice, group: Option<&Group<'_>>) -> String {
    let advised = &advice.advised;
    let mut text = String::new();
    // A pod is its own template.
    let indent = if workload.kind == "Pod" { "" } else { "    " };
    if workload.kind != "Pod" {
        text.push_str("spec:\n  template:\n");
    }
    let mechanism = advised.mechanism.to_lowercase();
    let shares = group.and_then(|group| group.replicas);
    if matches!(mechanism.as_str(), "mps" | "limiter") && shares.is_none() {
        let _ = write!(
            text,
            "{indent}metadata:\n{indent}  annotations:\n{indent}    carve.dev/mechanism: {mechanism}\n"
        );
    }
    let _ = writeln!(text, "{indent}spec:");
    if let Some(group) = group {
        let _ = write!(text, "{indent}  nodeSelector:\n{indent}    {}: {}\n", super::GROUP, group.name);
    }
    let _ = write!(
        text,
        "{indent}  containers:\n{indent}  - name: {}\n{indent}    resources:\n",
        workload.container
    );
    let asks: Vec<(String, String)> = match (&advised.profile, shares) {
        (Some(profile), _) => {
            // A plus is no character of a resource's name.
            vec![(format!("nvidia.com/mig-{}", profile.replace('+', ".")), "1".to_owned())]
        }
        (None, Some(_)) => vec![("nvidia.com/gpu.shared".to_owned(), "1".to_owned())],
        (None, None) => [
            ("carve.dev/gpu-memory", advised.memory_mib.map(|memory| memory.to_string())),
            ("carve.dev/gpu-compute", advised.compute_percent.map(|percent| percent.to_string())),
        ]
        .into_iter()
        .filter_map(|(name, amount)| Some((name.to_owned(), amount?)))
        .collect(),
    };
    for list in ["limits", "requests"] {
        let _ = writeln!(text, "{indent}      {list}:");
        for gone in workload.resources.iter().filter(|gone| asks.iter().all(|(name, _)| name != *gone)) {
            let _ = writeln!(text, "{indent}        {gone}: null");
        }
        // Requests of such resources follow from limits.
        for (name, amount) in asks.iter().filter(|_| list == "limits") {
            let _ = writeln!(text, "{indent}        {name}: \"{amount}\"");
        }
        if list == "requests" && workload.resources.iter().all(|one| asks.iter().any(|(name, _)| name == one))
        {
            let end = text.trim_end().rfind('\n').map_or(0, |end| end + 1);
            text.truncate(end);
        }
    }
    text
}
