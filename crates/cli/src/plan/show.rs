//! A plan for people: who lands where, what each node becomes, what waits, what it costs.

use crate::table::Table;
use carve_economics::Money;
use carve_fleet_plan::{Cost, Plan, PlannedNode};
use carve_formats::workloads::Workload;
use carve_planner::Way;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Nodes that are listed one by one; of more only the first ones are.
const MOST_NODES: usize = 40;

/// The whole plan as text.
pub(crate) fn table(plan: &Plan, workloads: &[Workload]) -> String {
    let mut text = landings(plan, workloads);
    text.push('\n');
    text.push_str(&nodes(plan));
    text.push_str(&mig(plan));
    text.push_str(&pending(plan, workloads));
    text.push_str(&reasons(plan, workloads));
    text.push('\n');
    match &plan.cost {
        Ok(cost) => text.push_str(&money(cost)),
        Err(none) => {
            let _ = writeln!(text, "Cost: {none}.");
        }
    }
    text
}

/// What a workload is called: with kind and namespace, and the template where it has several.
pub(crate) fn title(workload: &Workload) -> String {
    let name = format!("{}/{}", workload.kind, workload.name);
    let name = if workload.namespace == "default" { name } else { format!("{}:{name}", workload.namespace) };
    match workload.template.as_str() {
        "" => name,
        template => format!("{name} ({template})"),
    }
}

fn landings(plan: &Plan, workloads: &[Workload]) -> String {
    let mut table = Table::new(["WORKLOAD", "PODS", "NODE", "MECHANISM"]).right([1]);
    for planned in &plan.workloads {
        let name = workloads.get(planned.workload).map(title).unwrap_or_default();
        // Nodes on which the same happens are one row.
        let mut rows: BTreeMap<(Option<&Way>, u32), Vec<usize>> = BTreeMap::new();
        for landing in &planned.landings {
            rows.entry((landing.way.as_ref(), landing.pods)).or_default().push(landing.node);
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.sort_by_key(|(_, nodes)| nodes.first().copied());
        for ((way, pods), nodes) in rows {
            let each = if nodes.len() > 1 { format!("{} × {pods}", nodes.len()) } else { pods.to_string() };
            let way = way.map_or_else(|| "no GPU".to_owned(), ToString::to_string);
            table.row([name.clone(), each, named(plan, &nodes), way]);
        }
        let waiting: u32 = planned.pending.iter().map(|pending| pending.pods).sum();
        if waiting > 0 {
            table.row([name, waiting.to_string(), "-".to_owned(), "pending".to_owned()]);
        }
    }
    table.render()
}

/// `g5.2xlarge-0`, or `g5.2xlarge-0 … g5.2xlarge-7` for several.
fn named(plan: &Plan, nodes: &[usize]) -> String {
    let name = |index: usize| plan.nodes.get(index).map_or("", |node| node.name.as_str());
    match nodes {
        [] => String::new(),
        [one] => name(*one).to_owned(),
        [one, two] => format!("{}, {}", name(*one), name(*two)),
        [first, .., last] => format!("{} … {} ({})", name(*first), name(*last), nodes.len()),
    }
}

fn nodes(plan: &Plan) -> String {
    let mut table = Table::new(["NODE", "GPUS", "PODS", "LAYOUT"]).right([1, 2]);
    let used: Vec<&PlannedNode> = plan.nodes.iter().filter(|node| node.pods > 0).collect();
    for node in used.iter().take(MOST_NODES) {
        let machine = plan.pools.get(node.pool).map(|pool| pool.machine.product.key).unwrap_or_default();
        let gpus = format!("{} × {machine}", node.mig.len());
        table.row([node.name.clone(), gpus, node.pods.to_string(), layout(node)]);
    }
    let mut text = table.render();
    if used.len() > MOST_NODES {
        let _ = writeln!(text, "… and {} more nodes", used.len() - MOST_NODES);
    }
    let empty = plan.nodes.len() - used.len();
    if empty > 0 {
        let _ = writeln!(text, "{empty} of {} nodes stay empty", plan.nodes.len());
    }
    text
}

/// What the GPUs of a node become, equal ones together.
pub(crate) fn layout(node: &PlannedNode) -> String {
    let mut groups: Vec<(String, u32)> = Vec::new();
    for (geometry, parts) in node.mig.iter().zip(&node.parts) {
        let is = match (geometry, parts.as_slice()) {
            (Some(geometry), _) => format!("MIG {geometry}"),
            (None, []) => "free".to_owned(),
            (None, [one]) if one.way == Way::Exclusive => "exclusive".to_owned(),
            (None, parts) => {
                let taken: u32 = parts.iter().map(|part| u32::from(part.compute)).sum();
                let way = parts.first().map(|part| part.way.to_string()).unwrap_or_default();
                let word = if parts.len() == 1 { "part" } else { "parts" };
                format!("{way}, {} {word} ({}%)", parts.len(), taken / 10)
            }
        };
        match groups.iter_mut().find(|(known, _)| *known == is) {
            Some((_, count)) => *count += 1,
            None => groups.push((is, 1)),
        }
    }
    let shown: Vec<String> = groups
        .into_iter()
        .map(|(is, count)| if count > 1 { format!("{count} × [{is}]") } else { format!("[{is}]") })
        .collect();
    shown.join(" ")
}

/// How good the cut of MIG GPUs is, and how well that is known.
fn mig(plan: &Plan) -> String {
    let cut = &plan.mig;
    let (asked, made, at_most, gpus) = (cut.asked(), cut.made(), cut.at_most(), cut.gpus_cut());
    if asked == 0 {
        return String::new();
    }
    let word = if gpus == 1 { "GPU" } else { "GPUs" };
    let of = if made == asked { format!("all {asked}") } else { format!("{made} of {asked}") };
    let known = match cut.gpus_at_least {
        _ if made < at_most => format!("no cut makes more than {at_most}"),
        _ if made < asked => "no cut makes more".to_owned(),
        Some(least) if least < gpus => format!("at least {least} are needed"),
        Some(_) => "fewer do not hold them".to_owned(),
        None => "no cut makes more".to_owned(),
    };
    format!("\nMIG: {of} devices that are asked for are made, on {gpus} {word}; {known}.\n")
}

fn pending(plan: &Plan, workloads: &[Workload]) -> String {
    let mut text = String::new();
    for planned in &plan.workloads {
        let name = workloads.get(planned.workload).map(title).unwrap_or_default();
        for pending in &planned.pending {
            let _ = writeln!(text, "\nPending: {} of {name}: {}.", pending.pods, pending.because);
        }
    }
    text
}

fn reasons(plan: &Plan, workloads: &[Workload]) -> String {
    let mut by_reason: BTreeMap<(String, &str), Vec<String>> = BTreeMap::new();
    for planned in &plan.workloads {
        let name = workloads.get(planned.workload).map(title).unwrap_or_default();
        for choice in &planned.choices {
            let names = by_reason.entry((choice.way.to_string(), choice.because.as_str())).or_default();
            names.push(name.clone());
        }
    }
    let mut text = String::new();
    for ((way, because), names) in by_reason {
        let more = names.len().saturating_sub(3);
        let mut shown = names.into_iter().take(3).collect::<Vec<_>>().join(", ");
        if more > 0 {
            let _ = write!(shown, " and {more} more");
        }
        let _ = writeln!(text, "\n{way} for {shown}: {because}.");
    }
    text
}

fn money(cost: &Cost) -> String {
    let mut table = Table::new(["MACHINE", "PRICE/HOUR", "WHOLE GPUS", "THIS PLAN"]).right([1, 2, 3]);
    for (machine, before, after) in &cost.machines {
        let price = machine.price.map(|price| price.to_string()).unwrap_or_default();
        table.row([machine.name.to_owned(), price, before.to_string(), after.to_string()]);
    }
    table.row([
        format!("{} hours", cost.hours.0),
        String::new(),
        cost.before.to_string(),
        cost.after.to_string(),
    ]);
    let mut text = table.render();
    let saved = cost.saved();
    if saved > Money::ZERO {
        let _ = writeln!(text, "Saved: {saved}, for the pods that have a place.");
    }
    let lists: Vec<String> = cost
        .lists
        .iter()
        .map(|list| format!("{} {} on demand, {}", list.provider, list.region, list.date))
        .collect();
    let _ = writeln!(text, "Prices: {}.", lists.join("; "));
    text
}
