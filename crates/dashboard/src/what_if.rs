//! As it could be: the workloads that are there, planned on other machines or with other mechanisms.

use crate::api::Door;
use crate::asked::Sent;
use crate::failure::Failure;
use axum::Json;
use axum::extract::State;
use carve_economics::Hours;
use carve_fleet_picture::{GpuPicture, Instance, Mechanism as Shown, NodePicture, Picture, Slice, Waiting};
use carve_fleet_plan::{Plan, PlannedNode, Pool, Settings, plan, pools};
use carve_formats::workloads::{Source, Workload, read as read_workloads};
use carve_gpu_model::{Geometry, Mechanism, Mechanisms, ProfileTable, Sharing};
use carve_object_verbs::{find, list};
use carve_planner::Way;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Hours of a month of 30 days.
const MONTH: u32 = 720;

/// What could be otherwise.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    /// Machines: `p4d.24xlarge=1,g5.2xlarge=4`; those that are there, where it is left away.
    #[serde(default)]
    fleet: Option<String>,
    /// Mechanisms beside whole GPUs: `mig`, `mps`, `limiter`, `time-slicing`.
    #[serde(default)]
    mechanisms: Option<Vec<String>>,
    /// Shares of a GPU where a request names no size.
    #[serde(default)]
    #[schemars(range(min = 2, max = 48))]
    shares: Option<u32>,
}

fn mechanisms(written: Option<&[String]>) -> Result<Mechanisms, Failure> {
    let Some(written) = written else { return Ok(Settings::default().mechanisms) };
    let mut all = Mechanisms::NONE.with(Mechanism::Exclusive);
    for word in written {
        all = all.with(match word.as_str() {
            "mig" => Mechanism::Mig,
            "mps" => Mechanism::Mps,
            "limiter" => Mechanism::Limiter,
            "time-slicing" => Mechanism::TimeSlicing,
            "exclusive" => Mechanism::Exclusive,
            other => {
                return Err(Failure::wrong(
                    "mechanisms",
                    format!("'{other}' is no mechanism"),
                    "write mig, mps, limiter or time-slicing",
                ));
            }
        });
    }
    Ok(all)
}

/// The machines that are there, as they would be written.
fn fleet_of(picture: &Picture) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for node in picture.nodes.values() {
        *counts.entry(&node.kind).or_default() += 1;
    }
    counts.iter().map(|(kind, count)| format!("{kind}={count}")).collect::<Vec<_>>().join(",")
}

/// Everything that makes pods, as manifests.
async fn manifests(door: &Door) -> Result<String, Failure> {
    let client = door.backend.client();
    let mut items = Vec::new();
    for (version, kind) in
        [("apps/v1", "Deployment"), ("apps/v1", "StatefulSet"), ("batch/v1", "Job"), ("v1", "Pod")]
    {
        let found = find(&client, version, kind).await?;
        for mut object in list(&client, &found, None, None).await? {
            let owned =
                object["metadata"]["ownerReferences"].as_array().is_some_and(|owners| !owners.is_empty());
            let over = matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
                || object["status"]["completionTime"].is_string();
            if owned || over {
                continue;
            }
            // What was decided for a pod is no wish of its author.
            if kind == "Pod" {
                object["spec"].as_object_mut().map(|spec| spec.remove("nodeName"));
            }
            object.as_object_mut().map(|fields| fields.remove("status"));
            items.push(object);
        }
    }
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string())
}

pub(crate) async fn answer(State(door): State<Door>, sent: Sent) -> Result<Json<Value>, Failure> {
    let asked: Asked = sent.read()?;
    let picture = door.live.picture();
    let fleet = asked.fleet.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let fleet = fleet.map_or_else(|| fleet_of(&picture), str::to_owned);
    let hint = "as in p4d.24xlarge=1,g5.2xlarge=4; types are those of AWS, Azure and GCP, or PRODUCT:COUNT";
    let pools = pools(&fleet).map_err(|error| Failure::wrong("fleet", error.to_string(), hint))?;
    let settings = Settings {
        hours: Hours(MONTH),
        shares: asked.shares.unwrap_or(4),
        mechanisms: mechanisms(asked.mechanisms.as_deref())?,
    };
    let text = manifests(&door).await?;
    let then = tokio::task::spawn_blocking(move || planned(&text, &pools, settings)).await;
    let then =
        then.map_err(|error| Failure::ours(http::StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))??;
    let now = json!({
        "picture": *picture, "dollarsPerHour": per_hour(&picture),
        "dollarsPerMonth": per_hour(&picture) * f64::from(MONTH), "waiting": picture.waiting.len(),
    });
    Ok(Json(json!({"now": now, "then": then.0, "words": then.1})))
}

fn per_hour(picture: &Picture) -> f64 {
    picture.nodes.values().filter_map(|node| node.dollars_per_hour).sum()
}

fn planned(text: &str, pools: &[Pool], settings: Settings) -> Result<(Value, Vec<String>), Failure> {
    let manifests = read_workloads(&[Source { name: "the cluster", text }]);
    let plan = plan(&manifests.workloads, pools, settings)
        .map_err(|error| Failure::wrong("shares", error.to_string(), "a number from 2 to 48"))?;
    let picture = drawn(&plan, &manifests.workloads);
    let waiting: usize =
        plan.workloads.iter().flat_map(|one| &one.pending).map(|pending| pending.pods as usize).sum();
    let mut words = Vec::new();
    let empty = plan.nodes.iter().filter(|node| node.pods == 0).count();
    if empty > 0 {
        words.push(format!("{empty} of {} machines stay empty", plan.nodes.len()));
    }
    for one in &plan.workloads {
        let name = manifests.workloads.get(one.workload).map_or("", |workload| workload.name.as_str());
        for pending in &one.pending {
            words.push(format!("{} pod(s) of {name} wait: {}", pending.pods, pending.because));
        }
    }
    let dollars = per_hour(&picture);
    let then = json!({
        "picture": picture, "dollarsPerHour": dollars, "dollarsPerMonth": dollars * f64::from(MONTH), "waiting": waiting,
    });
    Ok((then, words))
}

/// A plan as people see it.
fn drawn(plan: &Plan, workloads: &[Workload]) -> Picture {
    let mut picture = Picture::default();
    // Pods of each workload that want a MIG device on a node, by profile.
    let mut want: BTreeMap<(usize, String), Vec<String>> = BTreeMap::new();
    for one in &plan.workloads {
        let title = workloads.get(one.workload).map_or_else(String::new, title);
        for landing in &one.landings {
            if let Some(Way::Mig(profile) | Way::Layered(profile, _)) = &landing.way {
                let list = want.entry((landing.node, profile.to_string())).or_default();
                list.extend((0..landing.pods).map(|_| title.clone()));
            }
        }
        for (number, pending) in one.pending.iter().enumerate() {
            let waiting = Waiting {
                workload: title.clone(),
                why: pending.because.clone(),
                asks: format!("{} pod(s)", pending.pods),
                since: 0,
            };
            picture.waiting.insert(format!("{title} #{number}"), waiting);
        }
    }
    for (number, node) in plan.nodes.iter().enumerate() {
        let Some(pool) = plan.pools.get(node.pool) else { continue };
        let price = pool.machine.price().map(|rate| rate.micros() as f64 / 1e6);
        let gpus =
            (0..node.mig.len()).map(|gpu| drawn_gpu(plan, workloads, number, node, gpu, &mut want)).collect();
        let shown = NodePicture {
            kind: pool.machine.name.clone(),
            ready: true,
            why: String::new(),
            dollars_per_hour: price,
            gpus,
        };
        picture.nodes.insert(node.name.clone(), shown);
    }
    picture
}

fn title(workload: &Workload) -> String {
    format!("{}/{}", workload.kind, workload.name)
}

fn drawn_gpu(
    plan: &Plan,
    workloads: &[Workload],
    number: usize,
    node: &PlannedNode,
    gpu: usize,
    want: &mut BTreeMap<(usize, String), Vec<String>>,
) -> GpuPicture {
    let machine = &plan.pools[node.pool].machine;
    let memory = machine.gpu_memory.0;
    let mut shown = GpuPicture {
        uuid: format!("{}/{gpu}", node.name),
        index: u32::try_from(gpu).unwrap_or(0),
        product: machine.product.key.to_owned(),
        memory,
        ..GpuPicture::default()
    };
    if let (Some(Some(geometry)), Some(table)) = (node.mig.get(gpu), &machine.table) {
        shown.slots = Some(table.slots());
        shown.instances = arranged(table, geometry, &shown.uuid);
        for instance in &shown.instances {
            let waiting = want.get_mut(&(number, instance.profile.clone()));
            let Some(workload) = waiting.and_then(Vec::pop) else { continue };
            shown.slices.push(Slice {
                pod: workload.clone(),
                workload,
                mechanism: Shown::Mig,
                instance: Some(instance.uuid.clone()),
                compute: Some(f64::from(instance.size) / f64::from(table.slots().max(1))),
                memory: Some(instance.memory),
                ..Slice::default()
            });
        }
        return shown;
    }
    for part in node.parts.get(gpu).into_iter().flatten() {
        let workload = workloads.get(part.workload).map_or_else(String::new, title);
        let mechanism = match &part.way {
            Way::Exclusive => Shown::Exclusive,
            Way::Mig(_) => Shown::Mig,
            Way::Shared(sharing) | Way::Layered(_, sharing) => match sharing {
                Sharing::Mps => Shown::Mps,
                Sharing::Limiter => Shown::Limiter,
                Sharing::TimeSlicing => Shown::TimeSlicing,
            },
        };
        shown.slices.push(Slice {
            pod: workload.clone(),
            workload,
            mechanism,
            compute: Some(f64::from(part.compute) / 1000.0),
            memory: (part.memory.0 > 0).then_some(part.memory.0.min(memory)),
            ..Slice::default()
        });
    }
    shown
}

/// A geometry at places where it fits.
fn arranged(table: &ProfileTable, geometry: &Geometry, gpu: &str) -> Vec<Instance> {
    let mut found = Vec::new();
    if let Ok(counts) = geometry.counts(table) {
        table.visit_arrangements(&[], &counts, |placed| {
            found = placed.to_vec();
            false
        });
    }
    let instance = |placed: &carve_gpu_model::Placed| {
        let (profile, at) = (table.get(placed.profile)?, table.placement(*placed)?);
        Some(Instance {
            uuid: format!("{gpu}/{}", at.start),
            profile: profile.name.to_string(),
            start: at.start,
            size: at.size,
            memory: profile.memory.map_or(0, |memory| memory.value.0),
        })
    };
    let mut instances: Vec<Instance> = found.iter().filter_map(instance).collect();
    instances.sort_by_key(|one| one.start);
    instances
}
