//! The same config on the same machine through nvidia-mig-parted and `carve mig`, outcome beside outcome.
//!
//! Where mig-parted's outcome is a known defect the case says so and holds ours to what is right.

use carve_conformance::{Cage, Carve, Incumbents, Program};
use carve_formats::MigPartedConfig;
use carve_gpu_host::{GpuHost, Machine};
use carve_gpu_model::products::CATALOGUE;
use carve_gpu_model::{Bytes, GpuIndex, Product};
use carve_mig_manager::{Layout, export, inventory, plan, resolve};
use carve_sim_store::SharedMachine;
use carve_test_support::fixture_text;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

const CONFIG: &str = "/tmp/config.yaml";

struct Pair {
    cage: Cage,
    carve: Carve,
}

fn pair() -> Option<Pair> {
    let cage = Cage::new(&Incumbents::locate()?).unwrap()?;
    cage.name_devices().unwrap();
    Some(Pair { cage, carve: Carve::new() })
}

/// What a machine looks like: layouts by slot, and what `export` says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    layouts: Vec<Layout>,
    exported: String,
}

fn look(machine: &SharedMachine) -> Seen {
    let gpus = inventory(machine).unwrap();
    Seen { layouts: gpus.iter().map(Layout::of).collect(), exported: export("current", &gpus).to_yaml() }
}

impl Pair {
    fn switch_on(&self, machine: &str) -> SharedMachine {
        self.cage.switch_on(Machine::named(machine).unwrap()).unwrap()
    }

    fn theirs(&self, verb: &str, config: &str) -> i32 {
        let outcome = self.cage.run(Program::MigParted, &[verb, "-f", CONFIG, "-c", config]).unwrap();
        outcome.code().unwrap_or(-1)
    }

    fn ours(&self, verb: &str, config: &str) -> (i32, String) {
        let file = self.cage.outside(CONFIG.as_ref());
        let outcome = self.carve.run(&self.cage, &["mig", verb, "-f", file.to_str().unwrap(), "-c", config]);
        (outcome.code().unwrap_or(-1), outcome.stderr)
    }
}

/// All 81 shipped configs on every MIG product: same verdict and geometry where mig-parted's is right.
#[test]
fn the_default_config_on_every_mig_product() {
    let (Some(text), Some(golden)) = (
        fixture_text("mig/upstream/config-default.yaml"),
        fixture_text("mig/golden/default-config-x-model.json"),
    ) else {
        return;
    };
    if pair().is_none() {
        return;
    }
    let (config, _) = MigPartedConfig::parse(&text).into_result().unwrap();
    assert_eq!(config.configs.len(), 81);
    let golden: Value = serde_json::from_str(&golden).unwrap();
    let products: Vec<&Product> =
        CATALOGUE.iter().filter(|product| product.profile_table().is_some()).collect();
    assert_eq!(golden.as_array().unwrap().len(), products.len());
    let next = AtomicUsize::new(0);
    let (worked, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let pair = pair().unwrap();
                pair.cage.write(CONFIG, &text).unwrap();
                while let Some(product) = products.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let recorded =
                        golden.as_array().unwrap().iter().find(|model| model["model"] == product.key);
                    let recorded = recorded.unwrap_or_else(|| panic!("no golden for {}", product.key));
                    let valid: BTreeSet<&str> = recorded["valid"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|name| name.as_str().unwrap())
                        .collect();
                    let gpus = inventory(&pair.switch_on(product.key)).unwrap();
                    for (name, entries) in &config.configs {
                        let right = valid.contains(name.as_str());
                        let ours = resolve(name, entries, &gpus);
                        let ours = ours.map(|target| plan(&target, &gpus, false).is_ok()).unwrap_or(false);
                        assert_eq!(ours, right, "{} × {name}: our plan", product.key);
                        default_config_case(&pair, product, name, right);
                        if right { &worked } else { &refused }.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    println!(
        "{} pairs applied by both, {} refused by carve alone",
        worked.into_inner(),
        refused.into_inner()
    );
}

fn default_config_case(pair: &Pair, product: &Product, name: &str, right: bool) {
    let case = format!("{} × {name}", product.key);
    let machine = pair.switch_on(product.key);
    let fresh = look(&machine);
    let (code, said) = pair.ours("apply", name);
    let ours = look(&machine);
    if right {
        assert_eq!(code, 0, "{case}: {said}");
        assert_eq!(pair.ours("assert", name).0, 0, "{case}: our assert");
        assert_eq!(pair.theirs("assert", name), 0, "{case}: mig-parted's assert on what carve applied");
        let exported = pair.cage.run(Program::MigParted, &["export"]).unwrap();
        assert_eq!(exported.stdout, ours.exported, "{case}: mig-parted reads what carve applied");
        let machine = pair.switch_on(product.key);
        assert_eq!(pair.theirs("apply", name), 0, "{case}: mig-parted applies it");
        assert_eq!(look(&machine).exported, ours.exported, "{case}: the same geometry");
        assert_eq!(pair.ours("assert", name).0, 0, "{case}: our assert on what mig-parted applied");
    } else {
        assert_eq!(code, 1, "{case}: carve refuses");
        assert_eq!(ours, fresh, "{case}: and changes nothing");
        // The known defect: mig-parted reports success and leaves the GPU without the devices asked for.
        assert_eq!(pair.theirs("apply", name), 0, "{case}: mig-parted is known to report success");
        let devices = machine.mig_devices(GpuIndex(0)).unwrap();
        assert!(devices.is_empty(), "{case}: mig-parted is known to create nothing");
    }
}

/// From one layout to another: the same geometry at the end, however much carve keeps.
#[test]
fn changes_between_layouts_end_in_the_same_geometry() {
    let Some(pair) = pair() else { return };
    for (key, ways) in [
        (
            "a100-40gb",
            &["1g.5gb: 7", "3g.20gb: 2", "1g.5gb: 2, 2g.10gb: 1, 3g.20gb: 1", "4g.20gb: 1, 1g.5gb: 3"][..],
        ),
        (
            "h200-141gb",
            &[
                "1g.35gb: 4",
                "4g.71gb: 1, 3g.71gb: 1",
                "1c.3g.71gb: 3, 2c.4g.71gb: 2",
                "1g.18gb+me: 1, 1g.18gb: 6",
            ],
        ),
        ("a30-24gb", &["1g.6gb: 4", "2g.12gb: 1, 1g.6gb: 2", "4g.24gb: 1"]),
        (
            "rtx-pro-6000-96gb",
            &["1g.24gb: 4", "1g.24gb+me.all: 1, 1g.24gb-me: 3", "2g.48gb+gfx: 2", "4g.96gb: 1"],
        ),
    ] {
        let entry = |(number, devices): (usize, &&str)| {
            format!("  c{number}:\n  - devices: all\n    mig-enabled: true\n    mig-devices: {{{devices}}}\n")
        };
        let configs: String = ways.iter().enumerate().map(entry).collect();
        pair.cage.write(CONFIG, &format!("version: v1\nmig-configs:\n{configs}")).unwrap();
        for from in 0..ways.len() {
            for to in (0..ways.len()).filter(|to| *to != from) {
                let case = format!("{key}: {} → {}", ways[from], ways[to]);
                let (from, to) = (format!("c{from}"), format!("c{to}"));
                let machine = pair.switch_on(key);
                assert_eq!(pair.theirs("apply", &from), 0, "{case}");
                let (code, said) = pair.ours("apply", &to);
                assert_eq!(code, 0, "{case}: {said}");
                assert_eq!(pair.theirs("assert", &to), 0, "{case}: mig-parted's assert");
                let ours = look(&machine).exported;
                let machine = pair.switch_on(key);
                assert_eq!(pair.ours("apply", &from).0, 0, "{case}");
                assert_eq!(pair.theirs("apply", &to), 0, "{case}");
                assert_eq!(look(&machine).exported, ours, "{case}");
            }
        }
    }
}

/// One creation for each instance, where mig-parted tries orders on the hardware.
#[test]
fn each_instance_is_created_once() {
    let Some(pair) = pair() else { return };
    let devices = "1g.18gb: 1, 1g.35gb: 3, 1g.18gb+me: 1";
    let config = format!(
        "version: v1\nmig-configs: {{c: [{{devices: all, mig-enabled: true, mig-devices: {{{devices}}}}}]}}\n"
    );
    pair.cage.write(CONFIG, &config).unwrap();
    let creations = || {
        let trace = pair.cage.read("/tmp/trace").unwrap();
        std::fs::remove_file(pair.cage.outside("/tmp/trace".as_ref())).unwrap();
        trace.lines().filter(|line| line.starts_with("nvmlDeviceCreateGpuInstance")).count()
    };
    pair.switch_on("h200");
    let file = pair.cage.outside(CONFIG.as_ref());
    let trace = pair.cage.outside("/tmp/trace".as_ref());
    let arguments = ["mig", "apply", "-f", file.to_str().unwrap(), "-c", "c"];
    let ours = pair.carve.run_with(&pair.cage, &arguments, &[("CARVE_SIM_TRACE", trace.to_str().unwrap())]);
    assert_eq!(ours.code(), Some(0), "{}", ours.stderr);
    assert_eq!(creations(), 5);
    pair.switch_on("h200");
    let arguments = ["apply", "-f", CONFIG, "-c", "c"];
    let theirs =
        pair.cage.run_with(Program::MigParted, &arguments, &[("CARVE_SIM_TRACE", "/tmp/trace")]).unwrap();
    assert_eq!(theirs.code(), Some(0), "{}", theirs.stderr);
    println!("5 instances: carve creates 5 times, nvidia-mig-parted {} times", creations());
}

/// Random layouts on random products, legal or not: the same verdict, and the same geometry where it is yes.
#[test]
fn random_layouts_have_the_same_verdict() {
    let Some(pair) = pair() else { return };
    let products: Vec<&Product> =
        CATALOGUE.iter().filter(|product| product.profile_table().is_some()).collect();
    let mut seed = 20_261_115_u64;
    let mut below = |most: usize| {
        // A fixed generator, so that a failure can be repeated.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % most
    };
    let (mut yes, mut no) = (0, 0);
    for _ in 0..40 {
        let product = products[below(products.len())];
        let table = product.profile_table().unwrap();
        let mut devices = std::collections::BTreeMap::new();
        for _ in 0..=below(4) {
            *devices.entry(table.profiles()[below(table.profiles().len())].name.to_string()).or_insert(0) +=
                1;
        }
        let list: Vec<String> = devices.iter().map(|(name, count)| format!("{name}: {count}")).collect();
        let case = format!("{}: {}", product.key, list.join(", "));
        let entry = format!("{{devices: all, mig-enabled: true, mig-devices: {{{}}}}}", list.join(", "));
        pair.cage.write(CONFIG, &format!("version: v1\nmig-configs: {{c: [{entry}]}}\n")).unwrap();
        let machine = pair.switch_on(product.key);
        let theirs = (pair.theirs("apply", "c"), look(&machine).exported);
        let machine = pair.switch_on(product.key);
        let fresh = look(&machine);
        let (code, said) = pair.ours("apply", "c");
        assert_eq!(code, theirs.0, "{case}: {said}");
        if code == 0 {
            yes += 1;
            assert_eq!(look(&machine).exported, theirs.1, "{case}");
            assert_eq!(pair.theirs("assert", "c"), 0, "{case}");
        } else {
            no += 1;
            assert_eq!(look(&machine), fresh, "{case}: carve changed something");
        }
    }
    println!("{yes} layouts applied by both, {no} refused by both");
    assert!(yes > 5 && no > 5, "{yes} and {no}");
}

const DEFECTS: &str = "
version: v1
mig-configs:
  balanced: [{devices: all, mig-enabled: true, mig-devices: {1g.18gb: 2, 2g.35gb: 1, 3g.71gb: 1}}]
  halves: [{devices: all, mig-enabled: true, mig-devices: {3g.71gb: 2}}]
  whole: [{devices: all, mig-enabled: true, mig-devices: {7g.141gb: 1}}]
  typo: [{devices: all, mig-enabled: true, mig-devices: {3g.70gb: 1}}]
  only0: [{devices: [0], mig-enabled: true, mig-devices: {1g.18gb: 7}}]
  zero: [{devices: all, mig-enabled: true, mig-devices: {1g.18gb: 7, 2g.35gb: 0}}]
  explicit: [{devices: all, mig-enabled: true, mig-devices: {1c.1g.18gb: 7}}]
  nowhere: [{devices: [5], mig-enabled: true, mig-devices: {1g.18gb: 7}}]
  other-card: [{device-filter: '0x20B010DE', devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}]
  toomany: [{devices: all, mig-enabled: true, mig-devices: {3g.71gb: 2, 1g.18gb: 1}}]
  overlap:
  - {devices: all, mig-enabled: false}
  - {devices: [0], mig-enabled: true, mig-devices: {1g.18gb: 7}}
  disabled: [{devices: all, mig-enabled: false}]
";

/// What mig-parted accepts silently and gets wrong; carve refuses it with the machine untouched.
#[test]
fn silent_defects_are_refused() {
    let Some(pair) = pair() else { return };
    pair.cage.write(CONFIG, DEFECTS).unwrap();
    for (config, theirs, said) in [
        ("typo", 0, "the nearest it has is 3g.71gb"),
        ("nowhere", 0, "there is no GPU 5"),
        ("other-card", 0, "no entry applies to any GPU"),
        ("toomany", 1, "they take 9 memory slots of 8"),
        ("overlap", 1, "want different things"),
    ] {
        let machine = pair.switch_on("h200-141gb:2");
        assert_eq!(pair.ours("apply", "balanced").0, 0);
        let before = look(&machine);
        let (code, message) = pair.ours("apply", config);
        assert_eq!(code, 1, "{config}");
        assert!(message.contains(said), "{config}: {message}");
        assert_eq!(look(&machine), before, "{config}: carve changed something");
        assert_eq!(pair.theirs("apply", config), theirs, "{config}: mig-parted's known verdict");
        let wiped = machine.mig_devices(GpuIndex(0)).unwrap().len() < 4;
        assert_eq!(wiped, !matches!(config, "nowhere" | "other-card"), "{config}: mig-parted's known damage");
    }
}

/// What mig-parted applies but can never assert; carve does both.
#[test]
fn what_was_applied_can_be_asserted() {
    let Some(pair) = pair() else { return };
    pair.cage.write(CONFIG, DEFECTS).unwrap();
    for config in ["only0", "zero", "explicit"] {
        let machine = pair.switch_on("h200-141gb:2");
        assert_eq!(pair.theirs("apply", config), 0, "{config}");
        assert_eq!(pair.theirs("assert", config), 1, "{config}: a known defect of mig-parted");
        let theirs = look(&machine).exported;
        let machine = pair.switch_on("h200-141gb:2");
        assert_eq!(pair.ours("apply", config).0, 0, "{config}");
        assert_eq!(pair.ours("assert", config).0, 0, "{config}");
        assert_eq!(look(&machine).exported, theirs, "{config}: the same geometry");
    }
}

/// A busy instance: mig-parted destroys the idle ones and fails; carve keeps it, or refuses with all untouched.
#[test]
fn an_instance_in_use_survives() {
    let Some(pair) = pair() else { return };
    pair.cage.write(CONFIG, DEFECTS).unwrap();
    let busy = || {
        let mut machine = pair.switch_on("h200-141gb:2");
        assert_eq!(pair.ours("apply", "balanced").0, 0);
        let devices = machine.mig_devices(GpuIndex(0)).unwrap();
        let device = devices.iter().find(|device| device.gpu_slices == 3).unwrap().clone();
        let at = Some((device.gpu_instance, device.compute_instance));
        machine
            .change_world(|host| host.start_process(GpuIndex(0), at, 4711, Bytes(1 << 30), 50))
            .unwrap()
            .unwrap();
        machine
    };
    let machine = busy();
    assert_eq!(pair.theirs("apply", "halves"), 1, "mig-parted fails");
    assert_eq!(machine.mig_devices(GpuIndex(0)).unwrap().len(), 1, "and has destroyed what was idle");
    let machine = busy();
    let (code, said) = pair.ours("apply", "halves");
    assert_eq!(code, 0, "{said}");
    assert_eq!(machine.mig_devices(GpuIndex(0)).unwrap().len(), 2);
    assert_eq!(machine.processes(GpuIndex(0)).unwrap().len(), 1);
    let machine = busy();
    let before = look(&machine);
    let (code, said) = pair.ours("apply", "whole");
    assert_eq!(code, 1);
    assert!(said.contains("stop process 4711 first"), "{said}");
    assert_eq!(look(&machine), before);
}

/// What `export` prints, byte by byte, on machines of one kind and of several.
#[test]
fn exports_are_equal() {
    let Some(pair) = pair() else { return };
    let partly =
        "version: v1\nmig-configs: {c: [{devices: [0], mig-enabled: true, mig-devices: {1g.5gb: 7}}]}\n";
    pair.cage.write(CONFIG, partly).unwrap();
    for name in ["p4d.24xlarge", "a100-40gb", "mixed", "g4dn.2xlarge"] {
        pair.switch_on(name);
        for cut in [false, true] {
            if cut && name != "g4dn.2xlarge" {
                assert_eq!(pair.ours("apply", "c").0, 0, "{name}");
            }
            for arguments in [&[][..], &["-o", "json"], &["-l", "mine"]] {
                let theirs = pair.cage.run(Program::MigParted, &[&["export"], arguments].concat()).unwrap();
                let ours = pair.carve.run(&pair.cage, &[&["mig", "export"], arguments].concat());
                assert_eq!(theirs.code(), Some(0), "{name}: {}", theirs.stderr);
                // Ours ends its JSON with a newline.
                assert_eq!(
                    ours.stdout.trim_end(),
                    theirs.stdout.trim_end(),
                    "{name}, cut: {cut}, {arguments:?}"
                );
            }
        }
    }
}

/// Checkpoints of one side restored by the other.
#[test]
fn checkpoints_are_exchanged() {
    let Some(pair) = pair() else { return };
    pair.cage.write(CONFIG, DEFECTS).unwrap();
    let ours_at = pair.cage.outside("/tmp/ours.json".as_ref());
    let ours_at = ours_at.to_str().unwrap();
    let machine = pair.switch_on("h200-141gb:2");
    assert_eq!(pair.ours("apply", "balanced").0, 0);
    let before = look(&machine);
    assert_eq!(pair.carve.run(&pair.cage, &["mig", "checkpoint", "-f", ours_at]).code(), Some(0));
    assert_eq!(
        pair.cage.run(Program::MigParted, &["checkpoint", "-f", "/tmp/theirs.json"]).unwrap().code(),
        Some(0)
    );
    assert_eq!(pair.cage.read("/tmp/ours.json").unwrap(), pair.cage.read("/tmp/theirs.json").unwrap());
    assert_eq!(pair.ours("apply", "halves").0, 0);
    assert_eq!(
        pair.cage.run(Program::MigParted, &["restore", "-f", "/tmp/ours.json"]).unwrap().code(),
        Some(0)
    );
    assert_eq!(look(&machine), before, "mig-parted restores our checkpoint");
    assert_eq!(pair.theirs("apply", "disabled"), 0);
    let theirs_at = pair.cage.outside("/tmp/theirs.json".as_ref());
    let restored = pair.carve.run(&pair.cage, &["mig", "restore", "-f", theirs_at.to_str().unwrap()]);
    assert_eq!(restored.code(), Some(0), "{}", restored.stderr);
    assert_eq!(look(&machine), before, "carve restores theirs");
}

/// The whole program, killed with SIGKILL inside the driver library at every change, then run again.
#[test]
fn killed_inside_the_driver_the_program_ends_in_the_old_or_the_new_layout() {
    let Some(pair) = pair() else { return };
    pair.cage.write(CONFIG, DEFECTS).unwrap();
    let file = pair.cage.outside(CONFIG.as_ref());
    let apply = |config| ["mig", "apply", "-f", file.to_str().unwrap(), "-c", config];
    let machine = pair.switch_on("h200-141gb:2");
    assert_eq!(pair.ours("apply", "balanced").0, 0);
    let old = look(&machine);
    assert_eq!(pair.ours("apply", "halves").0, 0);
    let new = look(&machine);
    let mut kills = 0;
    for nth in 1.. {
        let machine = pair.switch_on("h200-141gb:2");
        assert_eq!(pair.ours("apply", "balanced").0, 0);
        let fault = format!("change:{nth}:after:die");
        let killed = pair.carve.run_with(&pair.cage, &apply("halves"), &[("CARVE_SIM_FAULT", &fault)]);
        if killed.code().is_some() {
            assert_eq!(killed.code(), Some(0), "{}", killed.stderr);
            break;
        }
        assert!(pair.carve.state_dir().join("mig-journal.json").exists(), "killed at change {nth}");
        let again = pair.carve.run(&pair.cage, &apply("halves"));
        assert_eq!(again.code(), Some(0), "{}", again.stderr);
        assert!(again.stderr.contains("an earlier run had been interrupted"), "{}", again.stderr);
        let after = look(&machine);
        assert!(after == new || after == old, "a third layout after change {nth}: {after:?}");
        kills += 1;
    }
    assert!(kills >= 10, "only {kills} changes were interrupted");
}
