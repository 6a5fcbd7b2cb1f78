//! Jobs: so many pods that come to an end, some at a time.

use super::{is_active, kind, pod_of};
use crate::objects::{moment, name_of, namespace_of, now, text, uid_of};
use carve_object_api::{ObjectApi, set_condition};
use serde_json::{Value, json};
use std::sync::Arc;

fn is_done(job: &Value) -> bool {
    let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .into_iter()
        .any(|one| matches!(text(&one["type"]), "Complete" | "Failed") && one["status"] == "True")
}

pub(super) async fn keep(api: &ObjectApi, job: &Value, pods: &[Arc<Value>]) -> Result<(), String> {
    let (namespace, name) = (namespace_of(job), name_of(job));
    if is_done(job) {
        return forget_in_time(api, job);
    }
    let number = |field: &str, usual: i64| job["spec"][field].as_i64().unwrap_or(usual);
    let phase = |word: &str| pods.iter().filter(|pod| pod["status"]["phase"] == word).count() as i64;
    let (succeeded, failed) = (phase("Succeeded"), phase("Failed"));
    let active: Vec<&Arc<Value>> = pods.iter().filter(|pod| is_active(pod)).collect();
    let (completions, parallelism, limit) =
        (number("completions", 1), number("parallelism", 1), number("backoffLimit", 6));
    let complete = succeeded >= completions;
    let given_up = failed > limit;
    let mut made = Ok(());
    if !complete && !given_up && job["spec"]["suspend"] != true {
        let missing = parallelism.min(completions - succeeded) - active.len() as i64;
        let labels = json!({"batch.kubernetes.io/job-name": name, "job-name": name, "batch.kubernetes.io/controller-uid": uid_of(job)});
        for _ in 0..missing.max(0) {
            let mut pod = pod_of(job, kind("jobs.batch"), &job["spec"]["template"], &labels);
            pod["metadata"]["generateName"] = format!("{name}-").into();
            if let Err(failure) = api.create(kind("pods"), namespace, pod).await {
                made = Err(failure.message);
                break;
            }
        }
    } else {
        for pod in &active {
            let _ = api.delete(kind("pods"), namespace, name_of(pod), None);
        }
    }
    let at = moment(now());
    let _ = api.update(kind("jobs.batch"), namespace, name, |job| {
        for (field, value) in [("active", active.len() as i64), ("succeeded", succeeded), ("failed", failed)]
        {
            job["status"][field] = value.into();
        }
        if job["status"]["startTime"].is_null() {
            job["status"]["startTime"] = at.clone().into();
        }
        if complete {
            job["status"]["completionTime"] = at.clone().into();
            set_condition(job, "Complete", "True", "CompletionsReached", "");
        } else if given_up {
            set_condition(
                job,
                "Failed",
                "True",
                "BackoffLimitExceeded",
                "more pods failed than backoffLimit allows",
            );
        }
    });
    made
}

/// A Job that is done goes when it was said to.
fn forget_in_time(api: &ObjectApi, job: &Value) -> Result<(), String> {
    let after = job["spec"]["ttlSecondsAfterFinished"].as_i64();
    let ended = text(&job["status"]["completionTime"]).parse::<jiff::Timestamp>().ok();
    if let (Some(after), Some(ended)) = (after, ended)
        && now() >= ended.as_millisecond() + after * 1000
    {
        api.delete(kind("jobs.batch"), namespace_of(job), name_of(job), None)
            .map_err(|failure| failure.message)?;
    }
    Ok(())
}
