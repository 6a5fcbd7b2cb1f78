//! What should be changed, by what was seen: the same advice as `carve advise` gives.

use crate::api::{Door, now};
use crate::failure::Failure;
use axum::Json;
use axum::extract::State;
use carve_advisor::{Advice, Domains, Prices, Settings, WorkloadAdvice, advise, observe, read_cluster};
use carve_gpu_model::Mechanisms;
use carve_object_verbs::{find, list};
use serde_json::{Value, json};

/// The least time that must have been watched, in seconds. A page that is open is looked at now; `carve advise` asks for a day.
const WINDOW: i64 = 120;

pub(crate) async fn answer(State(door): State<Door>) -> Result<Json<Value>, Failure> {
    let client = door.backend.client();
    let mut texts = Vec::new();
    for kind in ["Node", "Pod", "Namespace"] {
        let found = find(&client, "v1", kind).await?;
        let items = list(&client, &found, None, None).await?;
        texts.push((kind, json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()));
    }
    let series = door.record.series();
    let made = tokio::task::spawn_blocking(move || {
        let prices = Prices::default();
        let texts: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let mut situation =
            read_cluster(&texts, &prices, Domains::Namespaces).map_err(|error| error.to_string())?;
        observe(&mut situation, &series);
        let settings = Settings { window: WINDOW, mechanisms: Mechanisms::ANY, ..Settings::default() };
        Ok::<_, String>(advise(&situation, &settings, &prices))
    });
    let made = made
        .await
        .map_err(|error| Failure::ours(http::StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(Json(match made {
        Ok(advice) => shown(&advice),
        // A cluster without GPUs is nothing wrong; there is just nothing to say.
        Err(why) => json!({"at": now(), "items": [], "note": why}),
    }))
}

fn dollars(cents: i64) -> f64 {
    cents as f64 / 100.0
}

/// In the words of the page.
fn shown(advice: &Advice) -> Value {
    let money = &advice.fleet.money;
    let mut items: Vec<Value> = Vec::new();
    let files: Vec<Value> = advice
        .diffs
        .iter()
        .map(|diff| json!({"name": diff.file, "text": diff.text, "apply": diff.apply}))
        .collect();
    if money.saved_cents > 0 {
        let freed = advice.fleet.freed.len();
        items.push(json!({
            "workload": "", "title": format!("{freed} machine(s) are not needed: {}", advice.fleet.freed.join(", ")),
            "saves": dollars(money.saved_cents), "evidence": money.arithmetic,
            "risk": "pods move once; each workload below says what else", "files": files, "diff": "",
        }));
    }
    let changed = advice.workloads.iter().filter(|one| one.advised.change);
    items.extend(changed.map(|one| workload(one, advice)));
    let note = match (items.is_empty(), advice.workloads.is_empty()) {
        (true, true) => "no workload has a GPU yet",
        (true, false) => {
            "no change that was seen to be safe would free a machine; watching longer may show more"
        }
        (false, _) => "",
    };
    json!({"at": now(), "items": items, "note": note, "notes": advice.notes, "savesPerMonth": dollars(money.saved_cents)})
}

fn workload(one: &WorkloadAdvice, advice: &Advice) -> Value {
    let mut evidence: Vec<String> = one.reasons.iter().map(|reason| reason.words.clone()).collect();
    evidence.extend(one.refused.iter().map(|reason| reason.words.clone()));
    evidence.extend(one.remedies.iter().map(|remedy| format!("{}: {}", remedy.name, remedy.words)));
    let mine = advice.diffs.iter().filter(|diff| diff.file.contains(&one.name));
    let files: Vec<Value> =
        mine.map(|diff| json!({"name": diff.file, "text": diff.text, "apply": diff.apply})).collect();
    json!({
        "workload": format!("{}/{}/{}", one.namespace, one.kind, one.name),
        "title": format!("{}/{} needs less: {} instead of {}", one.kind, one.name, one.advised.words, one.today),
        "saves": null, "evidence": evidence, "risk": one.risks.join("; "), "files": files, "diff": "",
    })
}
