//! Something to look at: a small company's day on the machines that are there.

use carve_object_api::{ObjectApi, kind_named};
use carve_object_verbs::{apply, documents};
use serde_json::{Value, json};
use std::time::Duration;

/// What is put up, and how long it takes until the next makes sense: how machines are shared, what runs all the time, and what comes too late. Whoever
/// is curious finds the same in `carve get slicepolicies,deployments -A -o yaml`.
const ACTS: [(&str, Duration); 3] = [
    (include_str!("../demo/rules.yaml"), Duration::from_millis(700)),
    (include_str!("../demo/day.yaml"), Duration::from_secs(6)),
    (include_str!("../demo/late.yaml"), Duration::ZERO),
];
/// How often somebody sends work that comes to an end.
const WORK: Duration = Duration::from_secs(25);
/// Jobs that are there at once, at most.
const JOBS: usize = 4;

/// Plays for as long as this runs. What people have taken away is not put back.
pub(crate) async fn play(api: ObjectApi, is_new: bool) {
    // Admission answers once it has seen the machines.
    tokio::time::sleep(Duration::from_millis(300)).await;
    if is_new {
        let client = api.client();
        for (act, pause) in ACTS {
            let shown = match documents(act) {
                Ok(objects) => apply(&client, &objects, "default", false).await.map(drop),
                Err(error) => Err(error),
            };
            if let Err(error) = shown {
                tracing::warn!("the demo can not be shown: {error}");
            }
            tokio::time::sleep(pause).await;
        }
    }
    let mut number = api.store().version().0;
    loop {
        number += 1;
        send_work(&api, number).await;
        tokio::time::sleep(WORK).await;
    }
}

/// A Job of some size, unless there are enough or nobody wants them any more.
async fn send_work(api: &ObjectApi, number: u64) {
    let (Some(jobs), Some(namespaces)) = (kind_named("jobs.batch"), kind_named("namespaces")) else { return };
    if api.get(namespaces, "", "batch").is_none() || api.list(jobs, Some("batch")).len() >= JOBS {
        return;
    }
    let (name, limits, behaviour) = match number % 4 {
        0 => (
            "transcode",
            json!({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4096", "nvidia.com/gpucores": "20"}),
            "compute=90% lasts=50s",
        ),
        1 => ("finetune", json!({"nvidia.com/mig-3g.20gb": 1}), "compute=95% swing=5% memory=90% lasts=80s"),
        2 => ("evaluate", json!({"nvidia.com/mig-1g.5gb": 1}), "compute=70% lasts=40s"),
        _ => (
            "index",
            json!({"carve.dev/gpu-memory": "3000", "carve.dev/gpu-compute": "15"}),
            "compute=80% lasts=60s",
        ),
    };
    if let Err(failure) =
        api.create(jobs, "batch", job(&format!("{name}-{number}"), &limits, behaviour)).await
    {
        tracing::debug!("no work was sent: {}", failure.message);
    }
}

fn job(name: &str, limits: &Value, behaviour: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"carve.dev/demo": "true"}},
        "spec": {
            "ttlSecondsAfterFinished": 20, "backoffLimit": 1,
            "template": {
                "metadata": {"annotations": {"carve.dev/simulate": behaviour}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "registry.example/work:1", "resources": {"limits": limits}}],
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_act_reads() {
        let count = |act: &str| carve_object_verbs::documents(act).expect("objects").len();
        assert_eq!(super::ACTS.map(|(act, _)| count(act)), [6, 5, 1]);
    }
}
