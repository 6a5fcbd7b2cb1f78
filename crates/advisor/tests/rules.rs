//! The rules, one by one, on small fleets.

mod fleets;

use carve_advisor::{Advice, Basis, Class, Dtype, Evidence, Settings, Situation, advise, score};
use carve_gpu_model::{Isolation, Mechanism, Mechanisms};
use carve_study::{Card, Cell, Figures, Outcome, Scope, Strategy, Study, Workload, simulate};
use fleets::{node, quarters, replica, workload};

fn advice(situation: &Situation) -> Advice {
    advise(situation, &Settings::default(), &Default::default())
}

fn rules(advice: &Advice, workload: usize) -> Vec<&str> {
    advice.workloads[workload].reasons.iter().map(|reason| reason.rule.as_str()).collect()
}

fn with(mechanisms: &[Mechanism]) -> Settings {
    let mechanisms =
        mechanisms.iter().fold(Mechanisms::NONE.with(Mechanism::Exclusive), |all, one| all.with(*one));
    Settings { mechanisms, ..Settings::default() }
}

#[test]
fn four_machines_at_a_quarter_become_one() {
    let advice = advice(&quarters());
    let money = &advice.fleet.money;
    assert_eq!((money.now_cents, money.then_cents, money.saved_cents), (216_576, 54_144, 162_432));
    assert_eq!(
        money.arithmetic,
        [
            "now: 4 × g4dn.2xlarge × $0.752 × 720 h = $2,165.76",
            "then: 1 × g4dn.2xlarge × $0.752 × 720 h = $541.44",
            "saved: $2,165.76 - $541.44 = $1,624.32",
        ]
    );
    assert_eq!(advice.fleet.freed, ["gpu-2", "gpu-3", "gpu-4"]);
    assert_eq!(advice.fleet.kept[0].gpus[0].parts.len(), 4);
    assert!(advice.workloads.iter().all(|one| one.advised.words == "MPS 25%, 3410 MiB"), "{advice:#?}");
    assert!(advice.fleet.cheaper.iter().any(|one| one.to == "g4dn.xlarge"), "four cores and 8 GiB fit on it");
}

#[test]
fn at_thirty_percent_three_fit_and_the_fourth_keeps_its_gpu() {
    let mut situation = quarters();
    for (workload, node) in situation.workloads.iter_mut().zip(&situation.nodes) {
        workload.replicas = vec![replica(&workload.name, &node.name, 24, &[30], 3100)];
    }
    let advice = advice(&situation);
    assert_eq!(advice.fleet.freed.len(), 2);
    let changed: Vec<bool> = advice.workloads.iter().map(|one| one.advised.change).collect();
    assert_eq!(changed.iter().filter(|one| **one).count(), 3, "{advice:#?}");
    assert_eq!(rules(&advice, changed.iter().position(|one| !one).unwrap()), ["no-gain"]);
}

#[test]
fn strangers_do_not_share_and_by_mig_they_do() {
    let mut situation = quarters();
    for (index, workload) in situation.workloads.iter_mut().enumerate() {
        workload.domain = format!("tenant-{index}");
    }
    let apart = advice(&situation);
    assert_eq!((apart.fleet.money.saved_cents, apart.fleet.freed.len()), (0, 0));
    assert!(apart.diffs.is_empty());
    // The same on machines whose GPUs have MIG.
    let nodes: Vec<_> = (1..=4).map(|number| node(&format!("gpu-{number}"), "p5.4xlarge")).collect();
    situation.nodes = nodes;
    let cut = advice(&situation);
    // A quarter of an H100 are two of its seven slices, so that three fit on one and the fourth keeps its own.
    assert_eq!(cut.fleet.freed.len(), 2);
    let mut words: Vec<&str> = cut.workloads.iter().map(|one| one.advised.words.as_str()).collect();
    words.sort_unstable();
    assert_eq!(words, ["MIG 2g.20gb", "MIG 2g.20gb", "MIG 2g.20gb", "a whole GPU"]);
    assert!(cut.diffs.iter().any(|diff| diff.file == "nodes/mig-parted.yaml"));
}

#[test]
fn who_says_tenant_gets_mig_or_a_whole_gpu() {
    let mut situation = quarters();
    for workload in &mut situation.workloads {
        workload.isolation = Isolation::Tenant;
    }
    let advice = advice(&situation);
    assert_eq!(advice.fleet.money.saved_cents, 0);
    assert_eq!(rules(&advice, 0), ["whole"]);
    assert!(advice.workloads[0].refused.iter().any(|one| one.rule == "tenants"));
}

#[test]
fn turns_only_at_light_load_where_somebody_waits() {
    let settings = with(&[Mechanism::TimeSlicing]);
    let situation = quarters();
    let waits = advise(&situation, &settings, &Default::default());
    assert_eq!(waits.fleet.freed.len(), 2, "two at a quarter are half a GPU: {waits:#?}");
    let mut tolerant = situation;
    for workload in &mut tolerant.workloads {
        workload.latency_sensitive = Some(false);
    }
    let turns = advise(&tolerant, &settings, &Default::default());
    assert_eq!(turns.fleet.freed.len(), 3);
    assert_eq!(turns.workloads[0].advised.words, "time-slicing, 1 of 4");
    assert_eq!(rules(&turns, 0), ["size", "mechanism", "sum-of-peaks"]);
    // Peaks that do not fit together: 3 × 4,400 MiB with margin, and not 4.
    for workload in &mut tolerant.workloads {
        for sample in &mut workload.replicas[0].memory {
            sample.value.0 = 4000 << 20;
        }
    }
    let peaks = advise(&tolerant, &settings, &Default::default());
    assert_eq!(peaks.fleet.freed.len(), 2);
}

#[test]
fn what_draws_is_told_that_nothing_limits_it() {
    let mut situation = quarters();
    for workload in &mut situation.workloads {
        workload.class = Some(Class::Rendering);
    }
    let advice = advice(&situation);
    assert!(advice.workloads.iter().all(|one| one.advised.mechanism == "time-slicing"), "{advice:#?}");
    let refused: Vec<&str> = advice.workloads[0].refused.iter().map(|one| one.rule.as_str()).collect();
    assert_eq!(refused, ["graphics", "graphics", "graphics"]);
}

#[test]
fn too_short_a_window_is_no_advice() {
    let mut situation = quarters();
    for workload in &mut situation.workloads {
        for replica in &mut workload.replicas {
            replica.busy.truncate(22);
        }
    }
    let advice = advice(&situation);
    assert_eq!(advice.fleet.money.saved_cents, 0);
    assert_eq!(rules(&advice, 0), ["watched-too-short"]);
    assert_eq!(
        advice.workloads[0].reasons[0].words,
        "it was watched for 21 hours, and at least 1 day are needed"
    );
}

#[test]
fn classes_are_for_what_nobody_saw_and_save_nothing() {
    let mut situation = quarters();
    for (workload, class) in
        situation.workloads.iter_mut().zip([Some(Class::Notebook), Some(Class::Ci), Some(Class::Hpc), None])
    {
        workload.class = class;
        workload.replicas[0].busy.clear();
    }
    let advice = advice(&situation);
    let bases: Vec<Basis> = advice.workloads.iter().map(|one| one.basis).collect();
    assert_eq!(bases, [Basis::ClassDefault, Basis::ClassDefault, Basis::ClassDefault, Basis::Nothing]);
    assert_eq!(advice.fleet.money.saved_cents, 0);
    assert!(advice.workloads[0].reasons[0].words.contains("time-slicing usually suits"));
}

#[test]
fn parts_are_sized_by_our_own_series_only() {
    let mut situation = quarters();
    for workload in &mut situation.workloads {
        workload.whole_gpus = None;
        workload.today = "1 × GPU (a share)".to_owned();
    }
    let device = advice(&situation);
    assert_eq!((rules(&device, 0), device.fleet.freed.len()), (vec!["has-a-part"], 0));
    for workload in &mut situation.workloads {
        workload.replicas[0].evidence = Some(Evidence::Own("limiter".to_owned()));
    }
    assert_eq!(advice(&situation).fleet.freed.len(), 3);
}

#[test]
fn whole_gpus_are_gathered_on_fewer_machines() {
    let nodes = vec![node("a", "p4d.24xlarge"), node("b", "p4d.24xlarge")];
    let mut workloads = Vec::new();
    for (index, at) in ["a", "b", "a", "b"].into_iter().enumerate() {
        let mut one = workload("hpc", &format!("job-{index}"), vec![replica("pod", at, 24, &[99], 38_000)]);
        one.whole_gpus = Some(2);
        workloads.push(one);
    }
    let situation = Situation { nodes, workloads, ..Situation::default() };
    let advice = advice(&situation);
    assert_eq!(advice.fleet.freed.len(), 1);
    assert!(advice.workloads.iter().all(|one| !one.advised.change));
}

#[test]
fn processors_count_as_well() {
    let mut situation = quarters();
    for workload in &mut situation.workloads {
        workload.cpu_milli = 3000;
    }
    assert_eq!(advice(&situation).fleet.freed.len(), 2, "eight cores hold two of three each");
}

#[test]
fn remedies_reckon_with_what_is_declared_and_name_what_is_not() {
    let mut situation = quarters();
    for workload in &mut situation.workloads {
        for sample in &mut workload.replicas[0].memory {
            sample.value.0 = 10_000 << 20;
        }
    }
    let unknown = advice(&situation);
    let half = &unknown.workloads[0].remedies[0];
    assert_eq!((half.name.as_str(), half.enough), ("half precision", None));
    assert!(half.words.contains("carve.dev/model-parameters, carve.dev/model-dtype"), "{}", half.words);
    // 11,000 MiB with margin have to become 7,168; 2.4 billion parameters in two bytes less are 4,577 MiB.
    situation.workloads[0].model.parameters = Some(2_400_000_000);
    situation.workloads[0].model.dtype = Some(Dtype::Fp32);
    let known = advice(&situation);
    let half = &known.workloads[0].remedies[0];
    assert_eq!(half.enough, Some(true));
    assert!(half.words.contains("2400000000 parameters × (32 - 16) bits = 4577 MiB less"), "{}", half.words);
}

#[test]
fn patches_say_what_to_change() {
    let advice = advice(&quarters());
    let files: Vec<&str> = advice.diffs.iter().map(|diff| diff.file.as_str()).collect();
    assert_eq!(
        files,
        [
            "nodes/device-plugin-t4-mps-serving.yaml",
            "nodes/labels.txt",
            "workloads/serving-deployment-server-0.yaml",
            "workloads/serving-deployment-server-1.yaml",
            "workloads/serving-deployment-server-2.yaml",
            "workloads/serving-deployment-server-3.yaml",
            "karpenter/t4-mps-serving.json",
            "machines-to-free.txt",
        ]
    );
    assert_eq!(
        advice.diffs[2].text,
        "spec:\n  template:\n    spec:\n      nodeSelector:\n        carve.dev/advice: t4-mps-serving\n      containers:\n      - name: main\n        \
         resources:\n          limits:\n            nvidia.com/gpu: null\n            nvidia.com/gpu.shared: \"1\"\n          requests:\n            \
         nvidia.com/gpu: null\n"
    );
    let pool: serde_json::Value = serde_json::from_str(&advice.diffs[6].text).unwrap();
    let kinds: Vec<&str> =
        pool["items"].as_array().unwrap().iter().filter_map(|one| one["kind"].as_str()).collect();
    assert_eq!(kinds, ["NodeOverlay", "NodePool"]);
    assert_eq!(pool["items"][0]["spec"]["capacity"]["nvidia.com/gpu.shared"], "4");
    for file in ["nodes/device-plugin-t4-mps-serving.yaml", "nodes/mig-parted.yaml"] {
        for diff in advice.diffs.iter().filter(|diff| diff.file == file) {
            assert!(!carve_formats::lint(&diff.text).has_errors(), "{}", diff.text);
        }
    }
}

#[test]
fn shares_of_several_sizes_are_asked_for_one_by_one() {
    let mut situation = quarters();
    for (workload, percent) in situation.workloads.iter_mut().zip([10, 50, 20, 15]) {
        let node = workload.replicas[0].node.clone();
        workload.replicas = vec![replica(&workload.name, &node, 24, &[percent], 3000)];
    }
    let advice = advice(&situation);
    assert_eq!(advice.fleet.freed.len(), 3);
    let patch = advice.diffs.iter().find(|diff| diff.file.ends_with("server-1.yaml")).unwrap();
    assert!(patch.text.contains("carve.dev/mechanism: mps"), "{}", patch.text);
    assert!(patch.text.contains("carve.dev/gpu-compute: \"50\""), "{}", patch.text);
    assert!(
        !advice.diffs.iter().any(|diff| diff.file.starts_with("karpenter/")),
        "claims are no resource of a node"
    );
}

#[test]
fn nobody_is_sent_to_a_machine_that_takes_no_new_pods() {
    let mut situation = quarters();
    situation.nodes[0].cordoned = true;
    let advice = advice(&situation);
    assert_eq!(advice.fleet.freed, ["gpu-1", "gpu-3", "gpu-4"]);
}

#[test]
fn advice_that_was_followed_scores_what_it_promised() {
    let before = quarters();
    let advice = advice(&before);
    let read: Advice = serde_json::from_str(&serde_json::to_string(&advice).unwrap()).unwrap();
    assert_eq!(read, advice);
    let same = score(&read, &before);
    assert_eq!((same.realised_saving_cents, same.predicted_saving_cents), (0, 162_432));
    assert_eq!(
        [same.use_before, same.use_predicted, same.use_now].map(|one| one.to_string()),
        ["24.0%", "96.0%", "24.0%"]
    );
    let mut after = before;
    after.nodes.truncate(1);
    for workload in &mut after.workloads {
        workload.today = "1 × GPU, memory 3410 MiB, compute 25%".to_owned();
        workload.replicas[0].node = "gpu-1".to_owned();
    }
    let done = score(&read, &after);
    assert_eq!((done.machines_before, done.machines_predicted, done.machines_now), (4, 1, 1));
    assert_eq!(done.realised_saving_cents, 162_432);
    assert!(done.workloads.iter().all(|one| one.changed && one.holds == Some(true)));
    for sample in &mut after.workloads[0].replicas[0].memory {
        sample.value.0 = 3500 << 20;
    }
    assert_eq!(score(&read, &after).workloads[0].holds, Some(false), "it outgrew what was advised");
}

/// A study of the T4s of `quarters`, in which light inference shared by a mechanism does so many times what one does alone.
fn study(card: &str, mechanism: Mechanism, gain: f64) -> Study {
    let card = Card {
        name: card.to_owned(),
        memory_mib: 15_360,
        multiprocessors: 40,
        driver: "580.1".to_owned(),
        cuda: "13.0".to_owned(),
        mig: None,
        processors: 8,
        simulated: false,
    };
    let mut study = simulate(card, Scope::Default, 1, "2026-11-17T10:00:00Z".to_owned(), "0.1.0");
    study.card.simulated = false;
    let dedicated = study.dedicated(Workload::Light).unwrap().clone();
    for tenants in [2, 4] {
        let mut shared = dedicated.clone();
        for figure in [&mut shared.total.median, &mut shared.total.low, &mut shared.total.high] {
            *figure *= gain;
        }
        shared.tenants = vec![shared.tenants[0].clone(); tenants];
        for strategy in Strategy::ALL.into_iter().filter(|one| one.mechanism() == Some(mechanism)) {
            let cell = Cell::Share { workload: Workload::Light, strategy, tenants: tenants as u8 };
            study.put(cell, Outcome::Measured(Figures::Shared(shared.clone())));
        }
    }
    study
}

#[test]
fn what_a_study_measured_of_the_same_card_weighs() {
    let studied = |card: &str, gain| {
        let settings = Settings {
            study: Some(study(card, Mechanism::TimeSlicing, gain)),
            ..with(&[Mechanism::TimeSlicing])
        };
        advise(&quarters(), &settings, &Default::default())
    };
    let good = studied("Tesla T4", 1.8);
    assert!(good.workloads.iter().all(|one| one.advised.change), "{good:#?}");
    let because = &good.workloads[0].reasons.iter().map(|reason| reason.words.clone()).collect::<String>();
    assert!(because.contains("measured with light inference on this card (2026-11-17)"), "{because}");

    let bad = studied("Tesla T4", 0.9);
    assert!(bad.workloads.iter().all(|one| !one.advised.change));
    let refused = &bad.workloads[0].refused;
    assert!(
        refused.iter().any(|reason| reason.rule == "study" && reason.words.contains("0.90 times")),
        "{refused:?}"
    );

    let other = studied("NVIDIA H200", 0.9);
    assert!(other.workloads.iter().all(|one| one.advised.change), "of another card it says nothing");
}
