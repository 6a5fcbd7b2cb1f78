//! A plan as data, with every reason in it.

use super::show::{layout, title};
use carve_fleet_plan::Plan;
use carve_formats::workloads::Workload;
use serde_json::{Value, json};

/// The whole plan.
pub(crate) fn data(plan: &Plan, workloads: &[Workload]) -> Value {
    let node_name = |index: usize| plan.nodes.get(index).map_or("", |node| node.name.as_str());
    let planned = plan.workloads.iter().map(|planned| {
        let workload = workloads.get(planned.workload);
        json!({
            "workload": workload.map(title),
            "kind": workload.map(|one| &one.kind),
            "namespace": workload.map(|one| &one.namespace),
            "name": workload.map(|one| &one.name),
            "asks": workload.map(|one| one.pod.gpus.iter().map(ToString::to_string).collect::<Vec<_>>()),
            "placed": planned.landings.iter().map(|landing| json!({
                "node": node_name(landing.node),
                "mechanism": landing.way.as_ref().map(ToString::to_string),
                "pods": landing.pods,
            })).collect::<Vec<_>>(),
            "pending": planned.pending.iter().map(|pending| json!({
                "pods": pending.pods,
                "because": pending.because,
            })).collect::<Vec<_>>(),
            "mechanisms": planned.choices.iter().map(|choice| json!({
                "mechanism": choice.way.to_string(),
                "because": choice.because,
                "refused": choice.refused.iter().map(|refused| json!({
                    "mechanism": refused.mechanism,
                    "because": refused.because,
                })).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        })
    });
    let nodes = plan.nodes.iter().map(|node| {
        json!({
            "name": node.name,
            "type": plan.pools.get(node.pool).map(|pool| &pool.machine.name),
            "pods": node.pods,
            "layout": layout(node),
            "gpus": node.mig.iter().zip(&node.parts).map(|(mig, parts)| json!({
                "mig": mig.as_ref().map(|geometry| {
                    geometry.iter().map(|(profile, count)| (profile.to_string(), json!(count))).collect::<serde_json::Map<_, _>>()
                }),
                "parts": parts.iter().map(|part| json!({
                    "workload": workloads.get(part.workload).map(title),
                    "mechanism": part.way.to_string(),
                    "computePercent": f64::from(part.compute) / 10.0,
                    "memoryMiB": part.memory.0,
                })).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        })
    });
    let cost = match &plan.cost {
        Ok(cost) => json!({
            "hours": cost.hours.0,
            "wholeGpusCents": cost.before.cents() as i64,
            "planCents": cost.after.cents() as i64,
            "savedCents": cost.saved().cents() as i64,
            "machines": cost.machines.iter().map(|(machine, before, after)| json!({
                "type": machine.name,
                "pricePerHour": machine.price.map(|price| price.to_string()),
                "wholeGpus": before,
                "plan": after,
            })).collect::<Vec<_>>(),
        }),
        Err(none) => json!({ "unknown": none.to_string() }),
    };
    let mig = &plan.mig;
    let mig = (mig.asked() > 0).then(|| {
        json!({
            "devicesAsked": mig.asked(),
            "devicesMade": mig.made(),
            "devicesAtMost": mig.at_most(),
            "optimal": mig.made() == mig.at_most(),
            "gpusCut": mig.gpus_cut(),
            "gpusAtLeast": mig.gpus_at_least,
        })
    });
    json!({
        "mig": mig,
        "workloads": planned.collect::<Vec<_>>(),
        "nodes": nodes.collect::<Vec<_>>(),
        "cost": cost,
    })
}
