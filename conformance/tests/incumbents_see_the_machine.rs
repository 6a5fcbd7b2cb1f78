//! NVIDIA's programs on the simulated machine: they must see what it says, and change it as they change real ones.

use carve_conformance::{Cage, Incumbents, Program};
use carve_gpu_host::machine::preset_names;
use carve_gpu_host::{GpuEvent, GpuHost, Machine, ModeOutcome};
use carve_gpu_model::{ComputeProfileIndex, GpuIndex, ProfileName};
use carve_sim_store::SharedMachine;
use carve_test_support::{PATIENCE, fixture_text};
use std::collections::BTreeMap;
use std::time::Duration;

const CONFIG: &str = "/tmp/c.yaml";

/// The layouts that the golden session names.
const LAYOUTS: &str = "\
version: v1
mig-configs:
  bal:
  - devices: all
    mig-enabled: true
    mig-devices: {1g.18gb: 2, 2g.35gb: 1, 3g.71gb: 1}
  ci:
  - devices: all
    mig-enabled: true
    mig-devices: {1c.3g.71gb: 3, 2c.4g.71gb: 2}
  ampere:
  - devices: [0, 1]
    mig-enabled: true
    mig-devices: {1g.5gb: 3, 4g.20gb: 1}
  - devices: [2, 3, 4, 5, 6, 7]
    mig-enabled: false
  disabled:
  - devices: all
    mig-enabled: false
";

fn cage() -> Option<Cage> {
    let cage = Cage::new(&Incumbents::locate()?).unwrap()?;
    cage.write(CONFIG, LAYOUTS).unwrap();
    Some(cage)
}

fn switch_on(cage: &Cage, machine: &str) -> SharedMachine {
    cage.switch_on(Machine::named(machine).unwrap()).unwrap()
}

/// What exists on a GPU: profile names and first slots, in the order of slots.
fn cuts(machine: &SharedMachine, gpu: u32) -> Vec<(String, u8)> {
    let table = machine.profile_table(GpuIndex(gpu)).unwrap();
    let mut cuts: Vec<(String, u8)> = machine
        .gpu_instances(GpuIndex(gpu))
        .unwrap()
        .iter()
        .map(|instance| (table.by_id(instance.profile).unwrap().1.name.to_string(), instance.placement.start))
        .collect();
    cuts.sort_by_key(|(_, start)| *start);
    cuts
}

fn cut(machine: &mut SharedMachine, gpu: u32, profile: &str) {
    let gpu = GpuIndex(gpu);
    let name: ProfileName = profile.parse().unwrap();
    let table = machine.profile_table(gpu).unwrap();
    let (_, profile) = table.by_name(&name).unwrap();
    let instance = machine.create_gpu_instance(gpu, profile.id, None).unwrap();
    let whole = ComputeProfileIndex::of_slices(profile.slices).unwrap();
    machine.create_compute_instance(gpu, instance.id, whole).unwrap();
}

/// One command of the golden session.
#[derive(Debug, Default)]
struct Step {
    section: u32,
    arguments: Vec<String>,
    stdout: String,
    /// `(gpu, profile, start)` of every instance that was created.
    created: Vec<(u32, String, u8)>,
    code: i32,
    checkpoint: Option<String>,
}

fn golden_steps(session: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut section = 0;
    let mut inside = false;
    for line in session.lines() {
        if let Some(title) = line.strip_prefix("### ") {
            section = title.split('.').next().unwrap().parse().unwrap();
        } else if let Some(command) = line.strip_prefix("$ nvidia-mig-parted ") {
            let arguments = command.replace("/conf/c.yaml", CONFIG).split(' ').map(str::to_owned).collect();
            steps.push(Step { section, arguments, ..Step::default() });
            inside = true;
        } else if let Some(code) = line.strip_prefix("[rc] ") {
            steps.last_mut().unwrap().code = code.parse().unwrap();
            inside = false;
        } else if let Some(said) = line.strip_prefix("[stderr] ") {
            if let Some(made) = said.strip_prefix("NVML CreateGpuInstance gpu") {
                let words: Vec<&str> = made.split(' ').collect();
                if let [gpu, profile, "->", "start", start] = words[..] {
                    let created = (gpu.parse().unwrap(), profile.to_owned(), start.parse().unwrap());
                    steps.last_mut().unwrap().created.push(created);
                }
            }
        } else if line.starts_with("{\"Version\"") {
            steps.last_mut().unwrap().checkpoint = Some(line.to_owned());
        } else if inside {
            let step = steps.last_mut().unwrap();
            step.stdout.push_str(line);
            step.stdout.push('\n');
        }
    }
    steps
}

/// The checkpoint without its UUIDs, which no two machines share.
fn without_uuids(checkpoint: &str) -> serde_json::Value {
    let mut value: serde_json::Value = serde_json::from_str(checkpoint).unwrap();
    for device in value["MigState"]["Devices"].as_array_mut().unwrap() {
        device["UUID"] = "any".into();
    }
    value
}

#[test]
fn the_golden_session_replays() {
    let Some(session) = fixture_text("mig/golden/cli-session-h200x2.txt") else { return };
    let Some(cage) = cage() else { return };
    let machine = switch_on(&cage, "h200-141gb:2");
    let steps = golden_steps(&session);
    let replayed = steps.iter().filter(|step| matches!(step.section, 1 | 2 | 3 | 10));
    let mut count = 0;
    for step in replayed {
        let arguments: Vec<&str> = step.arguments.iter().map(String::as_str).collect();
        let outcome = cage.run(Program::MigParted, &arguments).unwrap();
        assert_eq!(outcome.code(), Some(step.code), "{arguments:?}: {}", outcome.stderr);
        // The session was recorded line by line; JSON comes without a last newline.
        assert_eq!(outcome.stdout.trim_end(), step.stdout.trim_end(), "{arguments:?}");
        for gpu in 0..2 {
            let mut expected: Vec<(String, u8)> = step
                .created
                .iter()
                .filter(|(index, ..)| *index == gpu)
                .map(|(_, profile, start)| (profile.clone(), *start))
                .collect();
            expected.sort_by_key(|(_, start)| *start);
            if !expected.is_empty() {
                assert_eq!(cuts(&machine, gpu), expected, "{arguments:?}");
            }
        }
        if let Some(golden) = &step.checkpoint {
            let written = cage.read("/tmp/cp.json").unwrap();
            assert_eq!(without_uuids(&written), without_uuids(golden));
        }
        count += 1;
    }
    assert!(count >= 10, "{count} steps");
    let parts: Vec<usize> = machine
        .gpu_instances(GpuIndex(1))
        .unwrap()
        .iter()
        .map(|instance| machine.compute_instances(GpuIndex(1), instance.id).unwrap().len())
        .collect();
    assert_eq!(parts.iter().sum::<usize>(), 5);
}

#[test]
fn mig_parted_reads_what_carve_cut() {
    let Some(cage) = cage() else { return };
    let mut machine = switch_on(&cage, "mixed");
    // GPU 2 is the H100; the A100 need a reset, the T4 has no MIG.
    machine.set_mig_mode(GpuIndex(2), true).unwrap();
    cut(&mut machine, 2, "3g.40gb");
    cut(&mut machine, 2, "1g.10gb+me");
    let outcome = cage.run(Program::MigParted, &["export", "-o", "json"]).unwrap();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let export: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let entries = export["mig-configs"]["current"].as_array().unwrap();
    let cut = entries.iter().find(|entry| entry["mig-enabled"] == true).unwrap();
    // On a machine with several products mig-parted names GPUs by their PCI id.
    assert_eq!(cut["device-filter"], "0x233110DE");
    assert_eq!(cut["mig-devices"], serde_json::json!({"3g.40gb": 1, "1g.10gb+me": 1}));
}

/// Cuts every profile into a GPU that still fits, small ones first, and says how many of each there are.
fn cut_in_all_ways(machine: &mut SharedMachine, gpu: GpuIndex) -> BTreeMap<String, u32> {
    let table = machine.profile_table(gpu).unwrap();
    let mut made = BTreeMap::new();
    for profile in table.profiles() {
        let Ok(instance) = machine.create_gpu_instance(gpu, profile.id, None) else { continue };
        let whole = ComputeProfileIndex::of_slices(profile.slices).unwrap();
        machine.create_compute_instance(gpu, instance.id, whole).unwrap();
        *made.entry(profile.name.to_string()).or_default() += 1;
    }
    made
}

#[test]
fn mig_parted_exports_every_preset() {
    let Some(cage) = cage() else { return };
    for preset in preset_names() {
        let mut machine = switch_on(&cage, preset);
        let gpus: Vec<GpuIndex> = machine.gpus().unwrap().iter().map(|gpu| gpu.index).collect();
        if gpus.is_empty() || !machine.gpus().unwrap().iter().all(|gpu| gpu.mig_capable) {
            continue;
        }
        let mut made = BTreeMap::new();
        for gpu in &gpus {
            if machine.set_mig_mode(*gpu, true).unwrap() == ModeOutcome::NeedsReset {
                machine.reset(&[*gpu]).unwrap();
            }
            made = cut_in_all_ways(&mut machine, *gpu);
        }
        assert!(made.len() > 1, "{preset}");
        let outcome = cage.run(Program::MigParted, &["export", "-o", "json"]).unwrap();
        assert_eq!(outcome.code(), Some(0), "{preset}: {}", outcome.stderr);
        let export: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        let expected = serde_json::json!([{ "devices": "all", "mig-enabled": true, "mig-devices": made }]);
        assert_eq!(export["mig-configs"]["current"], expected, "{preset}");
        let discovered = labels(&cage, &["--mig-strategy=mixed"]);
        for (name, count) in made {
            let key = format!("nvidia.com/mig-{}.count", name.replace('+', "."));
            let expected = (count as usize * gpus.len()).to_string();
            assert_eq!(discovered.get(&key), Some(&expected), "{preset}: {key}");
        }
    }
}

#[test]
fn an_ampere_mode_change_goes_through_a_reset() {
    let Some(cage) = cage() else { return };
    let machine = switch_on(&cage, "p4d.24xlarge");
    let outcome = cage.run(Program::MigParted, &["apply", "-f", CONFIG, "-c", "ampere"]).unwrap();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    for gpu in 0..8 {
        let on = machine.mig_mode(GpuIndex(gpu)).unwrap().unwrap().current;
        assert_eq!(on, gpu < 2, "GPU {gpu}");
    }
    let mut names: BTreeMap<String, u32> = BTreeMap::new();
    for (name, _) in cuts(&machine, 1) {
        *names.entry(name).or_default() += 1;
    }
    assert_eq!(names, BTreeMap::from([("1g.5gb".to_owned(), 3), ("4g.20gb".to_owned(), 1)]));
    let off = cage.run(Program::MigParted, &["apply", "-f", CONFIG, "-c", "disabled"]).unwrap();
    assert_eq!(off.code(), Some(0), "{}", off.stderr);
    assert!(!machine.mig_mode(GpuIndex(0)).unwrap().unwrap().current);
}

#[test]
fn a_planned_fault_reaches_mig_parted() {
    let Some(cage) = cage() else { return };
    let machine = switch_on(&cage, "h200-141gb:2");
    let apply = ["apply", "-f", CONFIG, "-c", "bal"];
    let died =
        cage.run_with(Program::MigParted, &apply, &[("CARVE_SIM_FAULT", "create-gpu-instance:3:after:die")]);
    assert_eq!(died.unwrap().code(), None, "ended by a signal");
    assert_eq!(cuts(&machine, 0).len(), 3);
}

fn labels(cage: &Cage, arguments: &[&str]) -> BTreeMap<String, String> {
    let fixed = ["--oneshot", "--no-timestamp", "--use-node-feature-api=false", "-o", "/tmp/labels"];
    let arguments: Vec<&str> = fixed.iter().chain(arguments).copied().collect();
    let outcome = cage.run(Program::FeatureDiscovery, &arguments).unwrap();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let text = cage.read("/tmp/labels").unwrap();
    let label = |line: &str| line.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    text.lines().filter_map(label).collect()
}

#[test]
fn feature_discovery_labels_eight_a100() {
    let Some(cage) = cage() else { return };
    switch_on(&cage, "p4d.24xlarge");
    let labels = labels(&cage, &[]);
    for (key, value) in [
        ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB"),
        ("nvidia.com/gpu.count", "8"),
        ("nvidia.com/gpu.memory", "40960"),
        ("nvidia.com/gpu.family", "ampere"),
        ("nvidia.com/gpu.compute.major", "8"),
        ("nvidia.com/gpu.machine", "p4d.24xlarge"),
        ("nvidia.com/gpu.mode", "compute"),
        ("nvidia.com/mig.capable", "true"),
        ("nvidia.com/vgpu.present", "false"),
        ("nvidia.com/cuda.runtime-version.full", "13.0"),
    ] {
        assert_eq!(labels.get(key).map(String::as_str), Some(value), "{key}");
    }
}

#[test]
fn feature_discovery_labels_an_h200_in_seven() {
    let Some(golden) = fixture_text("device-plugin/golden-gfd/h200x1-mig7__mig-mixed__none.txt") else {
        return;
    };
    let Some(cage) = cage() else { return };
    let mut machine = switch_on(&cage, "h200");
    machine.set_mig_mode(GpuIndex(0), true).unwrap();
    (0..7).for_each(|_| cut(&mut machine, 0, "1g.18gb"));
    let labels = labels(&cage, &["--mig-strategy=mixed"]);
    // Driver version and machine name belong to the machine on which the golden file was written.
    let theirs = ["cuda.driver", "gpu.machine", "gpu.mode"];
    let mut compared = 0;
    for (key, value) in golden.lines().filter_map(|line| line.split_once('=')) {
        if key.starts_with("nvidia.com/") && !theirs.iter().any(|part| key.contains(part)) {
            assert_eq!(labels.get(key).map(String::as_str), Some(value), "{key}");
            compared += 1;
        }
    }
    assert!(compared > 25, "{compared}");
}

#[test]
fn the_device_plugin_serves_what_is_there() {
    let Some(cage) = cage() else { return };
    let mut machine = switch_on(&cage, "h200-141gb:2");
    machine.set_mig_mode(GpuIndex(1), true).unwrap();
    cut(&mut machine, 1, "3g.71gb");
    // Without a kubelet: the plugin serves its sockets and registers nowhere.
    let arguments = ["--mig-strategy=mixed", "--kubelet-socket="];
    let mut plugin = cage.start(Program::DevicePlugin, &arguments).unwrap();
    for resource in ["nvidia.com/gpu", "nvidia.com/mig-3g.71gb"] {
        let line = plugin.wait_for(&format!("Starting to serve '{resource}'"), PATIENCE);
        assert!(line.is_some(), "{resource}: {}", plugin.heard());
    }
    // An XID reaches its health check. It is raised again and again, because what happens before the plugin has
    // registered for events is not told.
    let event = GpuEvent { gpu: GpuIndex(0), xid: 79, gpu_instance: None, compute_instance: None };
    let heard = (0..20).find_map(|_| {
        machine.change_world(|host| host.raise(event)).unwrap();
        plugin.wait_for("XidCriticalError: Xid=79", Duration::from_millis(500))
    });
    let uuid = &machine.gpus().unwrap()[0].uuid.0;
    assert!(heard.is_some_and(|line| line.contains(uuid)), "{}", plugin.heard());
}
