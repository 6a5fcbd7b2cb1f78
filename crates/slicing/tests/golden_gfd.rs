//! Every recorded label set of NVIDIA's GPU Feature Discovery against ours.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

mod recorded;

use carve_formats::DevicePluginConfig;
use carve_gpu_model::Mebibytes;
use carve_slicing::{LabelFacts, LabelOptions, MigStrategy, NodeGpus, Settings, feature_file, labels, offer};
use carve_test_support::{fixture_text, fixtures};
use std::collections::BTreeMap;

/// How a recording is meant to differ from ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Difference {
    /// Theirs is an error, ours what they publish for time-slicing, with the other mechanism in it.
    MpsOnMig,
    /// Theirs is an error, and so there is nothing for ours to be made of.
    NoDriver,
    /// Theirs is about one model or the other, by chance.
    SeveralModels,
}

/// Where carve means to differ: the recording, how, and why. Everything else must agree to the byte.
const INTENDED: &[(&str, Difference, &str)] = &[
    ("h100-t4-hetero__mig-none__none", Difference::SeveralModels, BY_CHANCE),
    ("h100-t4-hetero__mig-none__ts4", Difference::SeveralModels, BY_CHANCE),
    ("h200x1-initfail__mig-none__none", Difference::NoDriver, "what then is a matter of the agent's tests"),
    ("h200x1-mig7__mig-mixed__mps4-rename", Difference::MpsOnMig, SHARES_MIG),
    ("h200x1-mig7__mig-none__mps4", Difference::MpsOnMig, SHARES_MIG),
    ("h200x1-mig7__mig-none__mps4-rename", Difference::MpsOnMig, SHARES_MIG),
    ("h200x1-mig7__mig-single__mps4", Difference::MpsOnMig, SHARES_MIG),
    ("h200x1-migmix__mig-mixed__mps4", Difference::MpsOnMig, SHARES_MIG),
    ("h200x1-migmix__mig-mixed__mps4-rename", Difference::MpsOnMig, SHARES_MIG),
    ("h200x1-migmix__mig-none__mps4", Difference::MpsOnMig, SHARES_MIG),
    ("h200x1-migmix__mig-none__mps4-rename", Difference::MpsOnMig, SHARES_MIG),
    ("h200x1-migmix__mig-single__mps4", Difference::MpsOnMig, SHARES_MIG),
    ("h200x1-migmix__mig-single__mps4-rename", Difference::MpsOnMig, SHARES_MIG),
    ("h200x2-mig7-full__mig-mixed__mps4-rename", Difference::MpsOnMig, SHARES_MIG),
    ("h200x2-mig7-full__mig-none__mps4-rename", Difference::MpsOnMig, SHARES_MIG),
    ("h200x2-mig7-full__mig-single__mps4-rename", Difference::MpsOnMig, SHARES_MIG),
];
const SHARES_MIG: &str = "carve shares MIG devices by MPS, so labels do not end where MIG begins";
const BY_CHANCE: &str = "a node with several models has one set of labels, and every model is in it";

/// Memory of MIG devices on the recorded machines, in MiB, where it is not what these GPUs have elsewhere. It is a fact
/// about the machine, like the number of GPUs: labels only repeat it.
const MEMORY_THERE: [(&str, u64); 4] =
    [("2g.10gb", 9856), ("3g.20gb", 19_968), ("7g.40gb", 40_192), ("3g.71gb", 71_168)];

/// What a recording says about itself, and the labels in it.
struct Recording {
    title: BTreeMap<String, String>,
    error: Option<String>,
    labels: String,
}

impl Recording {
    fn read(text: &str) -> Self {
        let title = text.lines().next().and_then(|line| line.strip_prefix("# ")).expect("a title");
        let words = title.split_whitespace().map(|word| word.split_once('=').expect("a word of a title"));
        Recording {
            title: words.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            error: text.lines().find_map(|line| line.strip_prefix("# error: ")).map(str::to_owned),
            labels: lines(text.lines().filter(|line| !line.starts_with('#'))),
        }
    }

    fn word(&self, name: &str) -> &str {
        self.title.get(name).map_or("", String::as_str)
    }

    fn node(&self) -> NodeGpus {
        let mut node = recorded::machine(self.word("gpus"), self.word("mig"));
        if let Some(version) = self.title.get("MOCK_DRIVER") {
            node.driver.version.clone_from(version);
        }
        for mig in node.gpus.iter_mut().flat_map(|gpu| &mut gpu.migs) {
            let profile = mig.profile.to_string();
            if let Some((_, memory)) = MEMORY_THERE.iter().find(|(known, _)| *known == profile) {
                mig.device.memory = Mebibytes(*memory);
            }
        }
        node
    }

    fn config(&self) -> DevicePluginConfig {
        let mut config = recorded::config(self.word("config")).expect("a recorded configuration");
        config.flags.mig_strategy = Some(self.word("strategy").to_owned());
        config
    }
}

fn lines<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines.map(|line| format!("{line}\n")).collect()
}

/// The file we would write. The recorded machines had no PCI devices in the kernel's list.
fn ours(node: &NodeGpus, config: &DevicePluginConfig) -> String {
    let settings = Settings::new(config, false).expect("recorded settings are usable");
    let facts = LabelFacts {
        machine: Some("DGX MOCK™ Server  (rev 1)\n".to_owned()),
        vgpus: Some(Vec::new()),
        ..LabelFacts::default()
    };
    let offer = offer(node, &settings).ok();
    let file = |offer| feature_file(&labels(node, &settings, offer, &facts, &LabelOptions::default()));
    // Where choices of devices do not count, what is configured is what is offered.
    assert_eq!(file(None), file(offer.as_ref()));
    file(offer.as_ref())
}

/// The labels as they are for time-slicing, turned into those for MPS.
fn turned_to_mps(time_slicing: &str) -> String {
    time_slicing
        .replace("sharing-strategy=time-slicing", "sharing-strategy=mps")
        .replace("mps.capable=false", "mps.capable=true")
}

/// Holds one recording against ours.
fn check(name: &str, recording: &Recording, intended: Option<Difference>) -> Result<(), String> {
    let same = |ours: String, theirs: String| {
        let only = |some: &str, other: &str| {
            lines(some.lines().filter(|line| !other.lines().any(|one| one == *line)))
        };
        match (only(&ours, &theirs), only(&theirs, &ours)) {
            _ if ours == theirs => Ok(()),
            (more, less) => Err(format!("only in ours:\n{more}only in theirs:\n{less}")),
        }
    };
    let (node, config) = (recording.node(), recording.config());
    match (&recording.error, intended) {
        (None, None) => same(ours(&node, &config), recording.labels.clone()),
        (Some(_), Some(Difference::NoDriver)) => Ok(()),
        (Some(error), Some(Difference::MpsOnMig)) => {
            if !error.ends_with("MPS sharing is not supported for mig devices") {
                return Err(format!("another error: {error}"));
            }
            let mut turned = config.clone();
            turned.sharing.time_slicing = turned.sharing.mps.take();
            same(ours(&node, &config), turned_to_mps(&ours(&node, &turned)))?;
            // Where the same was recorded with time-slicing, NVIDIA's own labels say so, too.
            let twin = name.replace("__mps4", "__ts4");
            let twin = fixtures("device-plugin/golden-gfd").map(|folder| folder.join(format!("{twin}.txt")));
            match twin.and_then(|path| std::fs::read_to_string(path).ok()) {
                None => Ok(()),
                Some(text) => same(ours(&node, &config), turned_to_mps(&Recording::read(&text).labels)),
            }
        }
        (None, Some(Difference::SeveralModels)) => several_models(recording, &ours(&node, &config)),
        (error, intended) => Err(format!("recorded: {error:?}, intended: {intended:?}")),
    }
}

/// What does not depend on the model is the same, and both models are told.
fn several_models(recording: &Recording, ours: &str) -> Result<(), String> {
    let by_model = ["compute.major", "compute.minor", "family", "memory", "product"];
    let shared_part = |labels: &str| {
        let of_model = |line: &&str| {
            by_model.iter().any(|name| line.starts_with(&format!("nvidia.com/gpu.{name}=")))
                || line.starts_with("carve.dev/")
        };
        lines(labels.lines().filter(|line| !of_model(line)))
    };
    let (shared, theirs) = (shared_part(ours), shared_part(&recording.labels));
    if shared != theirs {
        return Err(format!("ours:\n{shared}recorded:\n{theirs}"));
    }
    let (behind, way) =
        if recording.word("config") == "ts4" { ("-SHARED", "time-slicing-4") } else { ("", "none") };
    let expected = [
        "carve.dev/model.NVIDIA-H100-80GB-HBM3.compute=9.0".to_owned(),
        "carve.dev/model.NVIDIA-H100-80GB-HBM3.count=1".to_owned(),
        "carve.dev/model.NVIDIA-H100-80GB-HBM3.family=hopper".to_owned(),
        "carve.dev/model.NVIDIA-H100-80GB-HBM3.memory=81559".to_owned(),
        format!("carve.dev/model.NVIDIA-H100-80GB-HBM3.sharing={way}"),
        "carve.dev/model.Tesla-T4.compute=7.5".to_owned(),
        "carve.dev/model.Tesla-T4.count=1".to_owned(),
        "carve.dev/model.Tesla-T4.family=turing".to_owned(),
        "carve.dev/model.Tesla-T4.memory=15360".to_owned(),
        format!("carve.dev/model.Tesla-T4.sharing={way}"),
        // Of as many of each, the first.
        "nvidia.com/gpu.compute.major=9".to_owned(),
        "nvidia.com/gpu.compute.minor=0".to_owned(),
        "nvidia.com/gpu.family=hopper".to_owned(),
        "nvidia.com/gpu.memory=81559".to_owned(),
        format!("nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3{behind}"),
    ];
    let rest: Vec<&str> = ours.lines().filter(|line| !shared.contains(&format!("{line}\n"))).collect();
    if rest == expected { Ok(()) } else { Err(format!("ours:\n{rest:#?}\nexpected:\n{expected:#?}")) }
}

#[test]
fn recorded_labels_agree() {
    let Some(folder) = fixtures("device-plugin/golden-gfd") else { return };
    let mut seen = Vec::new();
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the recordings") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
        let recording = Recording::read(&std::fs::read_to_string(&path).expect("a recording"));
        let intended =
            INTENDED.iter().find(|(meant, _, _)| *meant == name).map(|(_, difference, _)| *difference);
        if let Err(difference) = check(&name, &recording, intended) {
            wrong.push(format!("{name}: {difference}"));
        }
        seen.push(name);
    }
    assert!(seen.len() >= 73, "only {} recordings", seen.len());
    for (name, _, _) in INTENDED {
        assert!(seen.iter().any(|seen| seen == name), "{name} was not recorded");
    }
    let twins = INTENDED.iter().filter(|(name, difference, _)| {
        *difference == Difference::MpsOnMig && seen.contains(&name.replace("__mps4", "__ts4"))
    });
    assert!(twins.count() >= 10, "too few of the differences are held against recorded time-slicing");
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n\n"));
}

/// NVIDIA's own tests name the labels that must be there for each strategy.
#[test]
fn every_label_that_nvidias_tests_expect_is_there() {
    for (file, strategy, mig) in [
        ("expected-output.txt", MigStrategy::None, ""),
        ("expected-output-mig-none.txt", MigStrategy::None, ""),
        ("expected-output-mig-single.txt", MigStrategy::Single, "0=1g.18gb,1g.18gb"),
        ("expected-output-mig-mixed.txt", MigStrategy::Mixed, "0=1g.18gb,2g.35gb"),
    ] {
        let Some(text) = fixture_text(&format!("device-plugin/upstream/tests/{file}")) else { return };
        let mut settings = Settings::new(&DevicePluginConfig::default(), false).expect("settings");
        settings.mig_strategy = strategy;
        let node = recorded::machine("H200*1", mig);
        let facts = LabelFacts { timestamp: Some(1_700_000_000), ..LabelFacts::default() };
        let ours = labels(&node, &settings, None, &facts, &LabelOptions::default());
        for line in text.lines() {
            let key = line.split_once('=').expect("a key").0;
            let (mig, plain) = (key.contains("[0-9]+"), key.replace('\\', ""));
            let there = match plain.rsplit_once("gb.") {
                Some((_, suffix)) if mig => ours
                    .keys()
                    .any(|key| key.starts_with("nvidia.com/mig-") && key.ends_with(&format!("gb.{suffix}"))),
                _ => ours.contains_key(&plain),
            };
            assert!(there, "{file}: {plain}");
        }
        assert!(text.lines().count() > 20, "{file}");
    }
}
