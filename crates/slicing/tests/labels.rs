//! What labels say beyond NVIDIA's, and that Kubernetes accepts them whatever things are called.

mod recorded;

use carve_formats::DevicePluginConfig;
use carve_gpu_host::{CliqueId, Fabric};
use carve_gpu_model::GpuIndex;
use carve_slicing::{
    LabelFacts, LabelOptions, NodeGpus, PciClass, Settings, Vgpu, VgpuHost, feature_file, labels, offer,
};
use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, proptest};
use std::collections::BTreeMap;

fn settings(yaml: &str, honour_choices: bool) -> Settings {
    let config = DevicePluginConfig::parse(yaml).value.unwrap();
    Settings::new(&config, honour_choices).unwrap()
}

fn plain() -> Settings {
    settings("version: v1", false)
}

/// All labels, with what the node offers under the settings.
fn labelled(node: &NodeGpus, settings: &Settings, facts: &LabelFacts) -> BTreeMap<String, String> {
    let offer = offer(node, settings).ok();
    labels(node, settings, offer.as_ref(), facts, &LabelOptions::default())
}

/// Labels whose key has this start, as a file without the start.
fn under(labels: &BTreeMap<String, String>, start: &str) -> String {
    let rest = labels.iter().filter_map(|(key, value)| Some((key.strip_prefix(start)?, value)));
    feature_file(&rest.map(|(key, value)| (key.to_owned(), value.clone())).collect())
}

const TIME_SLICING: &str = "version: v1
sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}";

#[test]
fn labels_are_about_the_model_with_the_most_gpus_and_name_them_all() {
    let node = recorded::machine("T4*1,H100*2,L40S*2", "2=");
    let all = labelled(&node, &settings(TIME_SLICING, false), &LabelFacts::default());
    assert_eq!(all["nvidia.com/gpu.product"], "NVIDIA-H100-80GB-HBM3-SHARED");
    assert_eq!(all["nvidia.com/gpu.count"], "2");
    assert_eq!(all["nvidia.com/mig.capable"], "true");
    assert_eq!(
        under(&all, "carve.dev/"),
        "model.NVIDIA-H100-80GB-HBM3.compute=9.0
model.NVIDIA-H100-80GB-HBM3.count=2
model.NVIDIA-H100-80GB-HBM3.family=hopper
model.NVIDIA-H100-80GB-HBM3.memory=81559
model.NVIDIA-H100-80GB-HBM3.sharing=time-slicing-4
model.NVIDIA-L40S.compute=8.9
model.NVIDIA-L40S.count=2
model.NVIDIA-L40S.family=ada-lovelace
model.NVIDIA-L40S.memory=46068
model.NVIDIA-L40S.sharing=time-slicing-4
model.Tesla-T4.compute=7.5
model.Tesla-T4.count=1
model.Tesla-T4.family=turing
model.Tesla-T4.memory=15360
model.Tesla-T4.sharing=time-slicing-4
"
    );
    // A model of which every GPU has MIG on.
    let cut = recorded::machine("H100*1,T4*1", "0=1g.10gb");
    let all = labelled(&cut, &plain(), &LabelFacts::default());
    assert_eq!(all["carve.dev/model.NVIDIA-H100-80GB-HBM3.sharing"], "mig");
    assert_eq!(all["nvidia.com/gpu.replicas"], "0");
}

#[test]
fn gpus_shared_in_different_ways_are_counted() {
    let yaml = "version: v1
sharing:
  timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4, devices: [0, 2]}]}
  mps: {resources: [{name: nvidia.com/gpu, replicas: 2, devices: [1], rename: gpu.mps}]}";
    let node = recorded::machine("H200*4", "");
    let all = labelled(&node, &settings(yaml, true), &LabelFacts::default());
    assert_eq!(
        under(&all, "carve.dev/"),
        "sharing.gpu.mps-2=1\nsharing.gpu.none=1\nsharing.gpu.time-slicing-4=2\n"
    );
    assert_eq!(all["nvidia.com/gpu.product"], "NVIDIA-H200-SHARED");
    assert_eq!(all["nvidia.com/gpu.replicas"], "4");
    assert_eq!(all["nvidia.com/gpu.sharing-strategy"], "time-slicing");
    assert_eq!(all["nvidia.com/mps.capable"], "true");

    // As many of each: the first GPU decides. Its shares have a name of their own, so the product keeps its name.
    let node = recorded::machine("H200*2", "");
    let yaml = "version: v1
sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4, devices: [0], rename: gpu.fast}]}}";
    let all = labelled(&node, &settings(yaml, true), &LabelFacts::default());
    assert_eq!(all["nvidia.com/gpu.product"], "NVIDIA-H200");
    assert_eq!(all["nvidia.com/gpu.replicas"], "4");
    // Where choices do not count, all GPUs are alike and nothing of ours is added.
    let all = labelled(&node, &settings(yaml, false), &LabelFacts::default());
    assert_eq!(
        (all["nvidia.com/gpu.product"].as_str(), under(&all, "carve.dev/").as_str()),
        ("NVIDIA-H200-SHARED", "")
    );
}

#[test]
fn mig_devices_shared_in_different_ways_are_counted() {
    let yaml = "version: v1
flags: {migStrategy: mixed}
sharing: {timeSlicing: {resources: [{name: nvidia.com/mig-1g.18gb, replicas: 3, devices: ['0:1']}]}}";
    let node = recorded::machine("H200*1", "0=1g.18gb,1g.18gb,1g.18gb");
    let all = labelled(&node, &settings(yaml, true), &LabelFacts::default());
    assert_eq!(
        under(&all, "carve.dev/"),
        "sharing.mig-1g.18gb.none=2\nsharing.mig-1g.18gb.time-slicing-3=1\n"
    );
    assert_eq!(all["nvidia.com/mig-1g.18gb.replicas"], "1");
    let yaml = yaml.replace("mixed", "single").replace("mig-1g.18gb", "gpu");
    let all = labelled(&node, &settings(&yaml, true), &LabelFacts::default());
    assert_eq!(under(&all, "carve.dev/"), "sharing.gpu.none=2\nsharing.gpu.time-slicing-3=1\n");
    assert_eq!((all["nvidia.com/gpu.replicas"].as_str(), all["nvidia.com/gpu.count"].as_str()), ("1", "3"));
}

#[test]
fn mig_devices_shared_by_mps_say_so() {
    let yaml = "version: v1
flags: {migStrategy: mixed}
sharing: {mps: {resources: [{name: nvidia.com/mig-1g.18gb, replicas: 3}]}}";
    let node = recorded::machine("H200*2", "0=1g.18gb,2g.35gb");
    let all = labelled(&node, &settings(yaml, false), &LabelFacts::default());
    let sharing: Vec<(&str, &str)> = all
        .iter()
        .filter(|(key, _)| {
            [".product", ".replicas", ".sharing-strategy"].iter().any(|end| key.ends_with(end))
        })
        .map(|(key, value)| (key.trim_start_matches("nvidia.com/"), value.as_str()))
        .collect();
    assert_eq!(
        sharing,
        [
            ("gpu.product", "NVIDIA-H200"),
            ("gpu.replicas", "1"),
            ("gpu.sharing-strategy", "none"),
            ("mig-1g.18gb.product", "NVIDIA-H200-MIG-1g.18gb-SHARED"),
            ("mig-1g.18gb.replicas", "3"),
            ("mig-1g.18gb.sharing-strategy", "mps"),
            ("mig-2g.35gb.product", "NVIDIA-H200-MIG-2g.35gb"),
            ("mig-2g.35gb.replicas", "1"),
            ("mig-2g.35gb.sharing-strategy", "none"),
        ]
    );
    assert_eq!(all["nvidia.com/mps.capable"], "true");
}

#[test]
fn names_given_by_the_operator_change_no_key() {
    let yaml = "version: v1
resources: {gpus: [{pattern: '*H200*', name: h200}]}
sharing: {mps: {resources: [{name: nvidia.com/h200, replicas: 3}]}}";
    let all = labelled(&recorded::machine("H200*1", ""), &settings(yaml, true), &LabelFacts::default());
    assert_eq!(all["nvidia.com/gpu.product"], "NVIDIA-H200-SHARED");
    assert_eq!(
        (all["nvidia.com/gpu.replicas"].as_str(), all["nvidia.com/gpu.sharing-strategy"].as_str()),
        ("3", "mps")
    );
}

#[test]
fn a_lost_gpu_changes_no_label() {
    let mig = "0=1g.18gb,1g.18gb;1=1g.18gb,1g.18gb";
    for (gpus, mig, strategy) in
        [("H200*3", "", "none"), ("H200*2", mig, "single"), ("H200*3", mig, "mixed"), ("T4*1", "", "none")]
    {
        let settings = settings(&format!("{TIME_SLICING}\nflags: {{migStrategy: {strategy}}}"), false);
        let whole = recorded::machine(gpus, mig);
        let index = |number| GpuIndex(number as u32);
        let facts = LabelFacts {
            pci_classes: (0..whole.gpus.len())
                .map(|number| (index(number), PciClass::CONTROLLER_3D))
                .collect(),
            ..LabelFacts::default()
        };
        let before = labelled(&whole, &settings, &facts);
        for lost in 0..whole.gpus.len() {
            let mut node = whole.clone();
            node.gpus[lost].lost = true;
            assert_eq!(labelled(&node, &settings, &facts), before, "{gpus} {strategy}, GPU {lost}");
            let mut facts = facts.clone();
            facts.pci_classes.remove(&index(lost));
            let mode = labelled(&node, &settings, &facts)["nvidia.com/gpu.mode"].clone();
            let expected = if whole.gpus.len() > 1 { "compute" } else { "unknown" };
            assert_eq!(mode, expected, "{gpus} {strategy}, GPU {lost} gone from the bus");
        }
    }
    // Lost from the start: whether it was cut is not known, and no reason to call the others invalid.
    let mut node = recorded::machine("H200*2", "0=1g.18gb,1g.18gb");
    node.gpus[1].lost = true;
    let settings = settings("version: v1\nflags: {migStrategy: single}", false);
    let product = labelled(&node, &settings, &LabelFacts::default())["nvidia.com/gpu.product"].clone();
    assert_eq!(product, "NVIDIA-H200-MIG-1g.18gb");
}

#[test]
fn the_mode_is_told_where_all_gpus_agree() {
    let node = recorded::machine("T4*2", "");
    let mode = |classes: &[u32]| {
        let classes = classes.iter().enumerate();
        let facts = LabelFacts {
            pci_classes: classes.map(|(number, class)| (GpuIndex(number as u32), PciClass(*class))).collect(),
            ..LabelFacts::default()
        };
        labelled(&node, &plain(), &facts)["nvidia.com/gpu.mode"].clone()
    };
    assert_eq!(mode(&[0x03_0000, 0x03_0000]), "graphics");
    assert_eq!(mode(&[0x03_0200, 0x03_0200]), "compute");
    assert_eq!(mode(&[0x03_0200, 0x03_0000]), "unknown");
    assert_eq!(mode(&[0x03_0200]), "unknown");
    assert_eq!(mode(&[0x03_8000, 0x03_8000]), "unknown");
}

#[test]
fn the_clique_is_told_where_all_gpus_of_a_fabric_agree() {
    let node = recorded::machine("H200*3", "");
    let clique = |members: &[(u32, &str, u32)]| {
        let fabric = |(gpu, cluster, clique): &(u32, &str, u32)| {
            (GpuIndex(*gpu), Fabric { cluster: cluster.parse().unwrap(), clique: CliqueId(*clique) })
        };
        let facts = LabelFacts { fabric: members.iter().map(fabric).collect(), ..LabelFacts::default() };
        labelled(&node, &plain(), &facts).remove("nvidia.com/gpu.clique")
    };
    let (one, other) = ("1f9c1b3e-0000-4000-8000-00000000000a", "2f9c1b3e-0000-4000-8000-00000000000a");
    assert_eq!(clique(&[]), None);
    assert_eq!(clique(&[(0, one, 32_766), (2, one, 32_766)]), Some(format!("{one}.32766")));
    assert_eq!(clique(&[(0, one, 1), (1, one, 2)]), None);
    assert_eq!(clique(&[(0, one, 1), (1, other, 1)]), None);
}

#[test]
fn virtual_gpus_tell_their_host() {
    let node = recorded::machine("T4*1", "");
    let told = |vgpus| {
        let facts = LabelFacts { vgpus, ..LabelFacts::default() };
        under(&labelled(&node, &plain(), &facts), "nvidia.com/vgpu.")
    };
    assert_eq!(told(None), "", "nothing is said where nothing could be read");
    assert_eq!(told(Some(Vec::new())), "present=false\n");
    assert_eq!(told(Some(vec![Vgpu { host: None }])), "present=true\n");
    let (driver_version, driver_branch) = ("550.54".to_owned(), "r550_00".to_owned());
    let known = Vgpu { host: Some(VgpuHost { driver_version, driver_branch }) };
    assert_eq!(
        told(Some(vec![known, Vgpu { host: None }])),
        "host-driver-branch=r550_00\nhost-driver-version=550.54\npresent=true\n"
    );
}

#[test]
fn versions_have_the_forms_that_node_selectors_ask_for() {
    let mut node = recorded::machine("A100*1", "");
    (node.driver.version, node.driver.cuda) = ("470.161.03".to_owned(), (11, 4));
    let facts = LabelFacts { timestamp: Some(1_724_632_719), ..LabelFacts::default() };
    let with = labels(&node, &plain(), None, &facts, &LabelOptions { aliases: true });
    assert_eq!(
        (with["nvidia.com/cuda.driver"].as_str(), with["nvidia.com/cuda.runtime"].as_str()),
        ("470.161.03", "11.4")
    );
    assert_eq!(with["nvidia.com/gfd.timestamp"], "1724632719");
    assert_eq!(with["nvidia.com/gpu.machine"], "unknown");
    let without = labels(&node, &plain(), None, &facts, &LabelOptions::default());
    assert_eq!(with.len(), without.len() + 2);
    // A version of another form is told as far as it goes, rather than not at all.
    node.driver.version = "999".to_owned();
    let odd = labels(&node, &plain(), None, &facts, &LabelOptions::default());
    assert_eq!(
        (odd["nvidia.com/cuda.driver.major"].as_str(), odd["nvidia.com/cuda.driver.minor"].as_str()),
        ("999", "")
    );
}

#[test]
fn a_node_without_gpus_says_little() {
    let mut node = recorded::machine("T4*1", "");
    node.gpus.clear();
    let facts = LabelFacts { vgpus: Some(Vec::new()), ..LabelFacts::default() };
    assert_eq!(feature_file(&labelled(&node, &plain(), &facts)), "nvidia.com/vgpu.present=false\n");
}

/// Kubernetes' rule for a value and for a key without its prefix.
fn is_accepted(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.len() <= 63 && text.bytes().all(plain) && end(text.bytes().next()) && end(text.bytes().next_back())
}

/// Names as no maker would give them, and some that one has given.
fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "-", "...", "NVIDIA H200", "Tesla T4", "™®", "a b\tc", "日本 GPU", "x/y=z"])
        .prop_flat_map(|known| {
            (any::<String>(), prop::bool::ANY, 0usize..9).prop_map(move |(random, with, times)| {
                if with { format!("{known}{}", random.repeat(times)) } else { known.repeat(times + 1) }
            })
        })
}

proptest! {
    #[test]
    fn kubernetes_accepts_every_label(
        models in prop::collection::vec(name(), 4),
        machine in prop::option::of(name()),
        version in name(),
        branch in name(),
        replicas in 2u64..,
        shared in prop::sample::subsequence(vec![0, 1, 2, 3], 1..4),
        strategy in prop::sample::select(vec!["none", "single", "mixed"]),
        with_offer in prop::bool::ANY,
    ) {
        let mut node = recorded::machine("H200*4", "2=1g.18gb+me,1g.35gb,2g.35gb;3=1g.18gb");
        for (gpu, model) in node.gpus.iter_mut().zip(&models) {
            gpu.gpu.name.clone_from(model);
        }
        node.driver.version.clone_from(&version);
        // An offer lists every share, so there must be few; a label only has the number.
        let replicas = if with_offer { 2 + replicas % 9 } else { replicas };
        let mut settings = settings(&format!("{TIME_SLICING}\nflags: {{migStrategy: {strategy}}}"), true);
        for rule in settings.sharing.time_slicing.iter_mut().flat_map(|rules| &mut rules.resources) {
            rule.replicas = replicas;
        }
        let host = VgpuHost { driver_version: version, driver_branch: branch };
        let facts = LabelFacts { machine, vgpus: Some(vec![Vgpu { host: Some(host) }]), ..LabelFacts::default() };
        let mut offer = with_offer.then(|| offer(&node, &settings).ok()).flatten();
        // Only some of the GPUs are shared.
        for device in offer.iter_mut().flat_map(|offer| offer.resources.values_mut()).flat_map(|one| &mut one.devices) {
            if !shared.contains(&device.gpu.0) {
                device.share = carve_slicing::Share::NONE;
            }
        }
        let all = labels(&node, &settings, offer.as_ref(), &facts, &LabelOptions { aliases: true });
        for (key, value) in &all {
            let name = key.split_once('/').map(|(_, name)| name).unwrap_or_default();
            prop_assert!(is_accepted(name), "key {key:?}");
            prop_assert!(value.is_empty() || is_accepted(value), "{key} = {value:?}");
        }
        // Each model has a key of its own.
        let counted = all.iter().filter(|(key, _)| key.starts_with("carve.dev/model.") && key.ends_with(".count"));
        let counted: usize = counted.map(|(_, count)| count.parse::<usize>().unwrap_or_default()).sum();
        let alike = models.iter().all(|model| *model == models[0]);
        prop_assert_eq!(counted, if alike { 0 } else { 4 });
        prop_assert!(!all["nvidia.com/gpu.product"].is_empty());
    }
}
