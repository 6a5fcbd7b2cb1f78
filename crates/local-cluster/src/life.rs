//! How pods on machines begin, live and end, and what is told of it: by the clock where programs are simulated, by their processes where they are
//! real.

use crate::happening::Teller;
use crate::machine::Machine;
use crate::objects::{moment, text, uid_of};
use crate::programs::{PROGRAMS, Tended};
use crate::tenant::{Stage, Tenant};
use crate::workloads::kind;
use carve_fleet_picture::Tone;
use carve_object_api::{ObjectApi, set_condition};
use serde_json::{Value, json};

/// How long a simulated container has to end, in milliseconds; nobody waits for it.
const ENDS: i64 = 400;
/// The same of a real one whose pod does not say, in seconds.
const GRACE: i64 = 30;

/// A pod is asked to end.
pub(crate) fn end(machine: &mut Machine, pod: &Value, now: i64) {
    let Some(tenant) = machine.tenants.get_mut(uid_of(pod)) else { return };
    if matches!(tenant.stage, Stage::Ending { .. }) {
        return;
    }
    let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(GRACE);
    tenant.stage = match &mut machine.programs {
        None => Stage::Ending { until: now + ENDS },
        Some(programs) => {
            programs.stop(uid_of(pod), now + grace * 1000);
            Stage::Ending { until: now }
        }
    };
}

/// What is due on a machine. Returns the pods that have no place on it any more.
pub(crate) fn pass_time(
    api: &ObjectApi,
    teller: &Teller,
    machine: &mut Machine,
    node: &str,
    now: i64,
) -> Vec<String> {
    match machine.programs.is_some() {
        true => by_processes(api, teller, machine, node, now),
        false => by_the_clock(api, teller, machine, node, now),
    }
}

fn by_the_clock(
    api: &ObjectApi,
    teller: &Teller,
    machine: &mut Machine,
    node: &str,
    now: i64,
) -> Vec<String> {
    let mut gone = Vec::new();
    for tenant in machine.tenants.values_mut() {
        match tenant.stage {
            // Where that can not be written down it begins later.
            Stage::Starting { until } if now >= until && began(api, teller, tenant, node, now) => {
                tenant.stage = Stage::Running { since: now };
            }
            Stage::Ending { until } if now >= until => {
                let _ = api.delete(kind("pods"), &tenant.namespace, &tenant.name, Some(0));
                gone.push(tenant.uid.clone());
            }
            Stage::Running { since } => {
                let lasts = tenant.behaviour.lasts.map(|seconds| (seconds * 1000.0) as i64);
                if lasts.is_some_and(|lasts| now >= since.saturating_add(lasts)) {
                    if ended(api, teller, tenant, now) {
                        gone.push(tenant.uid.clone());
                    } else {
                        tenant.stage = Stage::Running { since: now };
                    }
                }
            }
            _ => {}
        }
    }
    gone
}

fn by_processes(
    api: &ObjectApi,
    teller: &Teller,
    machine: &mut Machine,
    node: &str,
    now: i64,
) -> Vec<String> {
    let mut gone = Vec::new();
    let Some(programs) = &mut machine.programs else { return gone };
    for tenant in machine.tenants.values_mut() {
        let tended = programs.tend(&tenant.uid, now);
        let (ends, runs) = (matches!(tenant.stage, Stage::Ending { .. }), programs.all_run(&tenant.uid));
        if tended == Tended::Same && (ends || runs == matches!(tenant.stage, Stage::Running { .. })) {
            continue;
        }
        let first = runs && matches!(tenant.stage, Stage::Starting { .. });
        if !ends {
            tenant.stage = if runs { Stage::Running { since: now } } else { Stage::Starting { until: now } };
        }
        let over = match tended {
            Tended::Over { failed } => Some(failed),
            Tended::Same | Tended::Changed => None,
        };
        tell_processes(api, tenant, programs, (first, over), now);
        let Some(pod) = api.get(kind("pods"), &tenant.namespace, &tenant.name) else { continue };
        if first {
            teller.tell(api, &pod, Tone::Normal, "Started", &format!("{} runs on {node}", tenant.pod()));
        }
        for why in waits(&pod) {
            teller.tell(api, &pod, Tone::Warning, "BackOff", &why);
        }
        if let Some(failed) = over {
            let outside = programs.is_outside(&tenant.uid);
            if ends || outside {
                // Whoever ran it has seen how it ended.
                let _ = api.delete(kind("pods"), &tenant.namespace, &tenant.name, Some(0));
            }
            if !ends {
                let (tone, reason) =
                    if failed && !outside { (Tone::Warning, "Failed") } else { (Tone::Normal, "Completed") };
                teller.tell(api, &pod, tone, reason, &format!("{} has ended", tenant.pod()));
            }
            gone.push(tenant.uid.clone());
        }
    }
    gone
}

/// Why containers of a pod do not run.
fn waits(pod: &Value) -> Vec<String> {
    let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    let why = statuses.map(|status| text(&status["state"]["waiting"]["message"]));
    why.filter(|why| !why.is_empty()).map(str::to_owned).collect()
}

/// Writes how a pod's processes are.
fn tell_processes(
    api: &ObjectApi,
    tenant: &Tenant,
    programs: &crate::programs::Programs,
    (first, over): (bool, Option<bool>),
    now: i64,
) {
    let _ = api.update(kind("pods"), &tenant.namespace, &tenant.name, |pod| {
        let (processes, statuses) = programs.told(&tenant.uid, pod);
        if !processes.is_empty() {
            pod["metadata"]["annotations"][PROGRAMS] = Value::Object(processes).to_string().into();
        }
        let running = matches!(tenant.stage, Stage::Running { .. });
        let status = &mut pod["status"];
        status["containerStatuses"] = statuses;
        if first {
            status["startTime"] = moment(now).into();
            status["podIP"] = "127.0.0.1".into();
            status["phase"] = "Running".into();
        }
        if let Some(failed) = over {
            status["phase"] = if failed { "Failed" } else { "Succeeded" }.into();
        }
        let word = if running && over.is_none() { "True" } else { "False" };
        set_condition(pod, "Initialized", "True", "", "");
        for condition in ["ContainersReady", "Ready"] {
            set_condition(pod, condition, word, if over.is_some() { "PodCompleted" } else { "" }, "");
        }
    });
}

fn statuses(pod: &Value, state: &Value, ready: bool, restarts: i64) -> Value {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    containers
        .map(|container| {
            json!({
                "name": container["name"], "image": container["image"], "imageID": "", "ready": ready, "started": ready,
                "restartCount": restarts, "state": state,
            })
        })
        .collect()
}

/// The program of a pod runs. Returns whether that is written down.
fn began(api: &ObjectApi, teller: &Teller, tenant: &Tenant, node: &str, now: i64) -> bool {
    let at = moment(now);
    let written = api.update(kind("pods"), &tenant.namespace, &tenant.name, |pod| {
        let ip = format!("10.64.{}.{}", now / 250 % 250, 1 + now % 250);
        pod["status"]["phase"] = "Running".into();
        pod["status"]["startTime"] = at.clone().into();
        pod["status"]["podIP"] = ip.into();
        pod["status"]["containerStatuses"] = statuses(pod, &json!({"running": {"startedAt": at}}), true, 0);
        for condition in ["Initialized", "ContainersReady", "Ready"] {
            set_condition(pod, condition, "True", "", "");
        }
    });
    if let Err(failure) = written {
        teller.complain("pods can not be said to run", &tenant.name, &failure.message);
        return false;
    }
    let Some(pod) = api.get(kind("pods"), &tenant.namespace, &tenant.name) else { return true };
    teller.tell(api, &pod, Tone::Normal, "Started", &format!("{} runs on {node}", tenant.pod()));
    if !tenant.wrong.is_empty() {
        let words = format!(
            "of its annotation carve.dev/simulate this does not read and counts for nothing: {}",
            tenant.wrong.join(" ")
        );
        teller.tell(api, &pod, Tone::Warning, "NotUnderstood", &words);
    }
    true
}

/// The program of a pod has come to its end. Returns whether the pod has, too.
fn ended(api: &ObjectApi, teller: &Teller, tenant: &Tenant, now: i64) -> bool {
    let (at, fails) = (moment(now), tenant.behaviour.fails);
    let mut over = true;
    let _ = api.update(kind("pods"), &tenant.namespace, &tenant.name, |pod| {
        let policy = text(&pod["spec"]["restartPolicy"]).to_owned();
        let restarts = pod["status"]["containerStatuses"][0]["restartCount"].as_i64().unwrap_or(0);
        if policy == "Always" || (policy == "OnFailure" && fails) {
            over = false;
            pod["status"]["startTime"] = at.clone().into();
            pod["status"]["containerStatuses"] = statuses(pod, &json!({"running": {"startedAt": at}}), true, restarts + 1);
            return;
        }
        let code = i32::from(fails);
        let state = json!({"terminated": {"exitCode": code, "finishedAt": at, "reason": if fails { "Error" } else { "Completed" }}});
        pod["status"]["phase"] = if fails { "Failed" } else { "Succeeded" }.into();
        pod["status"]["containerStatuses"] = statuses(pod, &state, false, restarts);
        for condition in ["ContainersReady", "Ready"] {
            set_condition(pod, condition, "False", "PodCompleted", "");
        }
    });
    if let (true, Some(pod)) = (over, api.get(kind("pods"), &tenant.namespace, &tenant.name)) {
        let (tone, reason) = if fails { (Tone::Warning, "Failed") } else { (Tone::Normal, "Completed") };
        teller.tell(api, &pod, tone, reason, &format!("{} has ended", tenant.pod()));
    }
    over
}
