//! What becomes of every manifest that people have for other systems: the table `docs/reference/admitted.md`.
//!
//! The test fails when admission answers otherwise than the table says; `UPDATE_TABLES=1` writes it anew. Of the manifests only names and
//! figures are in it.

mod pods;

use carve_admission::{Admission, Outcome, Policy, Road, admit};
use pods::fleet;
use pods::manifests::{asked, manifests, pods_in};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const HEAD: &str = "# Pods written for other systems

What admission makes of the manifests of HAMi, Volcano, KAI, Koordinator, gpushare, gpu-manager, vgpu-manager, elastic-gpu, nvshare and
TensorFusion: every pod and pod template in their repositories' examples that asks for GPUs of NVIDIA.
`crates/admission/tests/table.rs` admits each on both roads, under the default policy, in a cluster with A100s of 80 GB and T4s,
and writes this table; it fails when the answer is another one.

- *claims*: the classes and capacities that the stock scheduler is asked for, in the order in which they are tried. `≠` means of different
  GPUs.
- *scheduler*: how many tokens (`carve.dev/slice`) each container gets; what they stand for is the column *asks for*.
- *left alone*: whole GPUs and MIG devices in the device plugin's words, and claims that the user wrote.

| file | object | dialect | asks for | claims | scheduler |
|---|---|---|---|---|---|
";

fn table_path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/admitted.md")
}

/// What a template asks the scheduler for.
fn request(template: &Value) -> String {
    let devices = &template["spec"]["spec"]["devices"];
    let request = &devices["requests"][0];
    let body = |body: &Value| {
        let class = body["deviceClassName"].as_str().unwrap_or_default().trim_end_matches(".carve.dev");
        let mut words = class.to_owned();
        for selector in body["selectors"].as_array().into_iter().flatten() {
            let text = selector["cel"]["expression"].as_str().unwrap_or_default();
            let text = text.replace("device.attributes['gpu.carve.dev'].", "");
            let _ = write!(words, " `{}`", text.replace(".lowerAscii().replace(' ', '-')", ""));
        }
        for (name, amount) in body["capacity"]["requests"].as_object().into_iter().flatten() {
            let _ = write!(words, " {name} {}", amount.as_str().unwrap_or_default());
        }
        match body["count"].as_u64() {
            Some(count) if devices.get("constraints").is_some() => format!("{count} ≠ × {words}"),
            Some(count) => format!("{count} × {words}"),
            None => words,
        }
    };
    let several = request["firstAvailable"].as_array().cloned().unwrap_or_default();
    let mut words = match several.as_slice() {
        [] => body(&request["exactly"]),
        several => several.iter().map(body).collect::<Vec<_>>().join(", else "),
    };
    if devices.get("config").is_some() {
        words.push_str(", burst");
    }
    words
}

fn answer(outcome: &Outcome, admitted: impl Fn(&Admission) -> String) -> String {
    match outcome {
        Outcome::NotOurs => "left alone".to_owned(),
        Outcome::Admitted(admission) => admitted(admission),
        Outcome::Refused(refusals) => {
            let each: Vec<String> = refusals.iter().map(ToString::to_string).collect();
            format!("refused: {}", each.join("; "))
        }
    }
}

fn table(folder: &Path) -> String {
    let mut text = HEAD.to_owned();
    let cell = |words: &str| words.replace('|', "\\|").replace('\n', " ");
    for path in manifests(folder) {
        let file = path.strip_prefix(folder).expect("inside").display().to_string();
        for (object, pod) in pods_in(&path) {
            let Some((dialects, words)) = asked(&pod) else { continue };
            let on = |road: Road| admit(&pod, "default", &Policy::default(), road, &fleet());
            let claims = answer(&on(Road::Claims), |admission| {
                let each: Vec<String> = admission.templates.iter().map(|one| request(&one.object)).collect();
                each.join("; ")
            });
            let tokens = answer(&on(Road::Scheduler), |admission| {
                let each = admission.claims.containers().iter();
                each.map(|one| format!("{}: {}", one.name, one.devices())).collect::<Vec<_>>().join(", ")
            });
            let cells = [format!("`{file}`"), object, dialects, words, claims, tokens];
            let cells: Vec<String> = cells.iter().map(|words| cell(words)).collect();
            text.push_str(&format!("| {} |\n", cells.join(" | ")));
        }
    }
    text
}

#[test]
fn every_manifest_of_the_other_systems() {
    let Some(fixtures) = carve_test_support::fixtures("fractional") else { return };
    let now = table(&fixtures);
    assert!(now.lines().count() > 60, "the examples were not found");
    if std::env::var_os("UPDATE_TABLES").is_some() {
        std::fs::write(table_path(), &now).expect("the table");
    }
    let recorded = std::fs::read_to_string(table_path()).unwrap_or_default();
    let differs = carve_test_support::lines_that_differ(&recorded, &now);
    assert!(recorded == now, "the table is another one; UPDATE_TABLES=1 rewrites it:\n{differs}");
}
