//! Built-in configs: what they are on every product, and where they differ from the list NVIDIA ships.

mod machine;

use carve_formats::MigPartedConfig;
use carve_formats::mig_parted::ConfigEntry;
use carve_gpu_host::{GpuHost, SimulatedHost};
use carve_gpu_model::products::CATALOGUE;
use carve_gpu_model::{GpuIndex, PciId, Product};
use carve_mig_manager::{
    ApplyOptions, GpuState, GpuTarget, HookRunner, Silent, StateDir, apply, builtin_config, builtin_configs,
    builtin_names, inventory, plan, resolve,
};
use carve_test_support::fixture_text;
use std::collections::{BTreeMap, BTreeSet};

fn states(machine: &str) -> Vec<GpuState> {
    inventory(&machine::host(machine)).unwrap()
}

fn products() -> impl Iterator<Item = &'static Product> {
    CATALOGUE.iter().filter(|product| product.profile_table().is_some())
}

fn devices(entries: &[ConfigEntry]) -> Vec<BTreeMap<String, u64>> {
    let of = |entry: &ConfigEntry| {
        entry.mig_devices.iter().map(|wanted| (wanted.written.clone(), wanted.count)).collect()
    };
    entries.iter().map(of).collect()
}

fn named(states: &[GpuState], name: &str) -> Vec<ConfigEntry> {
    builtin_config(states, name).unwrap_or_else(|error| panic!("{error}")).configs.remove(name).unwrap()
}

fn run(host: &mut SimulatedHost, dir: &StateDir, name: &str) {
    let entries = named(&inventory(host).unwrap(), name);
    let options = ApplyOptions::default();
    apply(host, dir, (name, &entries), options, &HookRunner::default(), &mut Silent)
        .unwrap_or_else(|error| panic!("{name}: {error}"));
}

#[test]
fn on_every_product_every_name_can_be_applied_and_holds_afterwards() {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let dir = StateDir::new(folder.path());
    let mut tried = 0;
    for product in products() {
        let mut host = machine::host(product.key);
        let names = builtin_names(&inventory(&host).unwrap());
        let profiles = product.profile_table().unwrap().profiles().len();
        assert_eq!(names.len(), profiles + 3, "{}: {names:?}", product.key);
        for name in &names {
            run(&mut host, &dir, name);
            let gpus = inventory(&host).unwrap();
            let target = resolve(name, &named(&gpus, name), &gpus).unwrap();
            assert_eq!(target.differing(&gpus).count(), 0, "{}: {name}", product.key);
            assert!(plan(&target, &gpus, false).unwrap().is_empty(), "{}: {name}", product.key);
            tried += 1;
        }
    }
    assert!(tried > 100, "{tried} configs");
}

#[test]
fn a_config_of_one_profile_has_as_many_as_fit_and_no_more() {
    for product in products() {
        let states = states(product.key);
        for name in builtin_names(&states) {
            let mut entries = named(&states, &name);
            let [entry] = entries.as_mut_slice() else { panic!("{name}: {entries:?}") };
            let [wanted] = entry.mig_devices.as_mut_slice() else { continue };
            assert!(wanted.count > 0);
            wanted.count += 1;
            assert!(
                resolve(&name, &entries, &states).is_err(),
                "{}: {name} could hold one more",
                product.key
            );
        }
    }
}

/// What NVIDIA's own generator makes of the same hardware.
#[test]
fn they_are_those_that_mig_parted_generates() {
    let Some(text) = fixture_text("mig/golden/generate-config-per-model.json") else { return };
    let golden: serde_json::Value = serde_json::from_str(&text).unwrap();
    let golden = golden.as_object().unwrap();
    let mut compared = 0;
    for (key, expected) in golden {
        let states = states(key);
        let (expected, _) = MigPartedConfig::parse(&expected.to_string()).into_result().unwrap();
        let ours = builtin_configs(&states);
        let names = |config: &MigPartedConfig| config.configs.keys().cloned().collect::<BTreeSet<_>>();
        assert_eq!(names(&ours), names(&expected), "{key}");
        assert_eq!(ours.to_yaml(), expected.to_yaml(), "{key}");
        compared += 1;
    }
    assert_eq!(compared, products().count(), "every product with a table has a recorded config");
}

/// The shipped list against every PCI id of every board: where it says something for a board it must be what we make
/// for it, and what it does not serve is listed here with the reason.
#[test]
fn the_shipped_list_is_met_where_it_is_right_and_its_gaps_are_known() {
    let Some(text) = fixture_text("mig/upstream/config-default.yaml") else { return };
    let (shipped, _) = MigPartedConfig::parse(&text).into_result().unwrap();
    let mut unserved: BTreeSet<String> = BTreeSet::new();
    let mut met = 0;
    for product in products() {
        for device in product.boards.iter().flat_map(|board| board.pci_devices) {
            let mut states = states(product.key);
            states[0].gpu.pci_id = PciId::nvidia(*device);
            for name in builtin_names(&states) {
                let ours = resolve(&name, &named(&states, &name), &states).unwrap();
                match shipped.configs.get(&name).map(|entries| resolve(&name, entries, &states)) {
                    Some(Ok(theirs)) => {
                        assert_eq!(ours, theirs, "{} {device:04X} {name}", product.key);
                        met += 1;
                    }
                    Some(Err(_)) => _ = unserved.insert(format!("{} {device:04X} {name}", product.key)),
                    None => _ = unserved.insert(format!("{} {device:04X} {name} is missing", product.key)),
                }
            }
        }
    }
    // PCI ids that its filters leave out; we ask the driver, so every board has the name.
    let expected = [
        "a100-40gb 20BD all-1g.10gb",
        "a100-40gb 20BD all-balanced",
        "gb300-278gb 31A1 all-1g.35gb",
        "gb300-278gb 31A1 all-balanced",
        "gb300-278gb 31C3 all-1g.35gb",
        "gb300-278gb 31C3 all-balanced",
        "gh200-96gb 2338 all-balanced",
        "h100-nvl-94gb 2339 all-balanced",
        "h200-141gb 233B all-1g.35gb",
        "rtx-pro-6000-96gb 2BB1 all-balanced",
        "rtx-pro-6000-96gb 2BB4 all-balanced",
    ];
    assert_eq!(unserved.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    assert!(met > 150, "{met} configs of the shipped list were met");

    // The other way round: its names of GB200 boards from before production, which no driver reports.
    let ours: BTreeSet<String> = products().flat_map(|product| builtin_names(&states(product.key))).collect();
    let stale: Vec<&String> = shipped.configs.keys().filter(|name| !ours.contains(*name)).collect();
    assert_eq!(stale, ["all-3g.95gb", "all-4g.95gb", "all-7g.189gb"]);
}

#[test]
fn on_a_mixed_machine_a_name_is_for_the_gpus_that_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let dir = StateDir::new(folder.path());
    let mut host = machine::host("mixed");
    let gpus = inventory(&host).unwrap();
    let names = builtin_names(&gpus);
    assert_eq!(names[..3], ["all-disabled", "all-enabled", "all-balanced"]);
    assert!(
        names.contains(&"all-1g.5gb".to_owned()) && names.contains(&"all-7g.80gb".to_owned()),
        "{names:?}"
    );
    // Both kinds have a 1g.10gb, and not the same number of them.
    let entries = named(&gpus, "all-1g.10gb");
    let counts: BTreeSet<u64> = devices(&entries).iter().map(|devices| devices["1g.10gb"]).collect();
    assert_eq!(counts, [4, 7].into());
    assert!(entries.iter().all(|entry| entry.filter.len() == 1));

    run(&mut host, &dir, "all-7g.80gb");
    let h100 = host.mig_devices(GpuIndex(2)).unwrap();
    assert_eq!(h100.len(), 1);
    run(&mut host, &dir, "all-1g.5gb");
    let count = |gpu| host.mig_devices(GpuIndex(gpu)).unwrap().len();
    assert_eq!([count(0), count(1), count(3)], [7, 7, 0]);
    assert_eq!(host.mig_devices(GpuIndex(2)).unwrap(), h100, "the other kind of GPU stays as it is");
    run(&mut host, &dir, "all-balanced");
    let count = |gpu| host.mig_devices(GpuIndex(gpu)).unwrap().len();
    assert_eq!([count(0), count(1), count(2)], [4, 4, 4]);
    run(&mut host, &dir, "all-disabled");
    assert!(inventory(&host).unwrap().iter().all(|state| !state.mig_enabled()));
}

#[test]
fn like_boards_with_unlike_tables_are_named_by_index() {
    let mut gpus = states("a100-40gb:3");
    gpus[1].table = Product::by_key("a100-80gb").unwrap().profile_table();
    let entries = named(&gpus, "all-1g.5gb");
    let target = resolve("all-1g.5gb", &entries, &gpus).unwrap();
    assert_eq!(target.gpus.keys().copied().collect::<Vec<_>>(), [GpuIndex(0), GpuIndex(2)]);
    let target = resolve("all-1g.10gb", &named(&gpus, "all-1g.10gb"), &gpus).unwrap();
    let counts: Vec<String> = target.gpus.values().map(|wanted| wanted.geometry().to_string()).collect();
    assert_eq!(counts, ["4× 1g.10gb", "7× 1g.10gb", "4× 1g.10gb"]);
}

#[test]
fn a_name_that_fits_nothing_is_refused_with_the_nearest() {
    for (machine, name, near) in [
        ("p4d.24xlarge", "all-1g.6gb", vec!["all-1g.5gb"]),
        ("p4d.24xlarge", "1g.5gb", vec!["all-1g.5gb"]),
        ("p4d.24xlarge", "all-1g.5gb+me", vec!["all-1g.5gb.me"]),
        ("p4d.24xlarge", "all-1g.6gb.me", vec!["all-1g.5gb.me"]),
        ("p4d.24xlarge", "all-3g.71gb", vec!["all-3g.20gb"]),
        ("mixed", "all-3g.71gb", vec!["all-3g.20gb", "all-3g.40gb"]),
        ("p4d.24xlarge", "all-balance", vec!["all-balanced"]),
        ("p4d.24xlarge", "Disabled", vec!["all-disabled"]),
        ("p4d.24xlarge", "", vec![]),
        ("p4d.24xlarge", "custom", vec![]),
        ("g4dn.2xlarge", "all-1g.5gb", vec![]),
        ("none", "all-disabled", vec![]),
    ] {
        let states = states(machine);
        let error = builtin_config(&states, name).unwrap_err();
        assert_eq!(error.near, near, "{machine} {name}");
        assert_eq!(error.known, builtin_names(&states));
    }
    let error = builtin_config(&states("a30"), "all-1g.5gb").unwrap_err().to_string();
    assert_eq!(
        error,
        "no GPU of this machine (NVIDIA A30) fits the MIG config 'all-1g.5gb'; the nearest is all-1g.6gb; there are \
         all-disabled, all-enabled, all-balanced, all-1g.6gb, all-1g.6gb.me, all-2g.12gb, all-2g.12gb.me, \
         all-4g.24gb"
    );
    assert_eq!(builtin_names(&states("g4dn.2xlarge")), ["all-disabled"]);
    assert!(builtin_names(&states("none")).is_empty());
}

#[test]
fn seven_to_a_gpu_and_then_balanced_on_eight_a100() {
    let folder = tempfile::tempdir().unwrap();
    let dir = StateDir::new(folder.path());
    let mut host = machine::host("p4d.24xlarge");
    let count = |host: &SimulatedHost| {
        let mut sizes = BTreeMap::new();
        for gpu in host.gpus().unwrap() {
            for device in host.mig_devices(gpu.index).unwrap() {
                *sizes.entry(device.gpu_slices).or_insert(0) += 1;
            }
        }
        sizes
    };
    run(&mut host, &dir, "all-1g.5gb");
    assert_eq!(count(&host), BTreeMap::from([(1, 56)]));
    run(&mut host, &dir, "all-balanced");
    assert_eq!(count(&host), BTreeMap::from([(1, 16), (2, 8), (3, 8)]));
}

#[test]
fn a_lost_gpu_gives_no_names_and_takes_none_away() {
    let mut host = machine::host("a100-40gb:2");
    let all = builtin_names(&inventory(&host).unwrap());
    host.lose(GpuIndex(0));
    let gpus = inventory(&host).unwrap();
    assert_eq!(builtin_names(&gpus), all);
    assert!(matches!(
        resolve("all-balanced", &named(&gpus, "all-balanced"), &gpus[1..]).unwrap().gpus[&GpuIndex(1)],
        GpuTarget::Enabled { .. }
    ));
    host.lose(GpuIndex(1));
    assert_eq!(builtin_names(&inventory(&host).unwrap()), ["all-disabled"]);
}
