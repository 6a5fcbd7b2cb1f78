//! The record of the last layout: it survives, damage is noticed, and a lost layout is told from a changed one.

mod machine;

use carve_gpu_host::GpuHost;
use carve_gpu_model::GpuIndex;
use carve_mig_manager::{
    ApplyOptions, BootId, ConfigHash, HookRunner, Record, RecordError, RecordRead, Silent, StateDir,
    inventory, lost_since, reapply_needed, restore,
};
use machine::{cut, entries, layouts, run};
use std::collections::BTreeSet;
use std::path::PathBuf;

fn folder() -> (tempfile::TempDir, StateDir) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let dir = StateDir::new(folder.path());
    (folder, dir)
}

fn boot(name: &str) -> BootId {
    BootId(name.to_owned())
}

fn record(host: &dyn GpuHost, config: &str) -> Record {
    Record::new(config, &entries(config), boot("one"), &inventory(host).unwrap())
}

fn file(dir: &StateDir) -> PathBuf {
    dir.path().join("mig-record.json")
}

#[test]
fn what_was_written_is_read() {
    let (_folder, dir) = folder();
    assert_eq!(dir.read_record().unwrap(), RecordRead::Absent);
    assert!(!dir.path().join("mig-record.json.corrupt").exists());
    let mut host = cut("h200-141gb:2", &dir, "balanced");
    let first = record(&host, "balanced");
    assert_eq!(first.layouts.len(), 2);
    dir.write_record(&first).unwrap();
    assert_eq!(dir.read_record().unwrap().record(), Some(&first));
    run(&mut host, &dir, "seven").unwrap();
    let second = record(&host, "seven");
    dir.write_record(&second).unwrap();
    assert_eq!(dir.read_record().unwrap(), RecordRead::Found(second));
}

#[test]
fn no_damage_to_any_bit_or_length_is_taken_for_a_record() {
    let (_folder, dir) = folder();
    let good = record(&cut("h200", &dir, "balanced"), "balanced");
    dir.write_record(&good).unwrap();
    let bytes = std::fs::read(file(&dir)).unwrap();
    let aside = dir.path().join("mig-record.json.corrupt");
    let mut damaged: Vec<Vec<u8>> = (0..bytes.len()).map(|length| bytes[..length].to_vec()).collect();
    for position in 0..bytes.len() {
        for bit in 0..8 {
            let mut one = bytes.clone();
            one[position] ^= 1 << bit;
            damaged.push(one);
        }
    }
    damaged.push([bytes.clone(), bytes.clone()].concat());
    damaged.push(vec![0; 4096]);
    for damage in &damaged {
        std::fs::write(file(&dir), damage).unwrap();
        match dir.read_record().unwrap() {
            // Some letters may be written in two ways; a record that reads must be the one that was written.
            RecordRead::Found(found) => assert_eq!(found, good, "{}", String::from_utf8_lossy(damage)),
            RecordRead::SetAside { at, reason } => {
                assert!(at == aside && !reason.is_empty());
                assert_eq!(std::fs::read(&aside).unwrap(), *damage, "kept for somebody to look at");
                assert_eq!(dir.read_record().unwrap(), RecordRead::Absent);
            }
            RecordRead::Absent => panic!("damage is reported"),
        }
    }
    dir.write_record(&good).unwrap();
    assert_eq!(
        dir.read_record().unwrap(),
        RecordRead::Found(good),
        "a damaged record is no obstacle to a new one"
    );
}

#[test]
fn another_version_is_set_aside_and_says_so() {
    let (_folder, dir) = folder();
    dir.write_record(&record(&cut("h200", &dir, "balanced"), "balanced")).unwrap();
    let text = std::fs::read_to_string(file(&dir)).unwrap();
    std::fs::write(file(&dir), text.replacen("\"version\":1", "\"version\":2", 1)).unwrap();
    let RecordRead::SetAside { reason, .. } = dir.read_record().unwrap() else { panic!() };
    assert_eq!(reason, "it has version 2, this carve knows 1");
}

#[test]
fn a_write_that_was_cut_short_leaves_the_old_record() {
    let (_folder, dir) = folder();
    let good = record(&cut("h200", &dir, "balanced"), "balanced");
    dir.write_record(&good).unwrap();
    // What a crash before the rename leaves behind.
    std::fs::write(dir.path().join("mig-record.json.new"), "{\"version\":1,\"fing").unwrap();
    assert_eq!(dir.read_record().unwrap(), RecordRead::Found(good.clone()));
    dir.write_record(&good).unwrap();
    assert_eq!(dir.read_record().unwrap(), RecordRead::Found(good));
}

#[test]
fn a_record_that_can_not_be_read_at_all_is_an_error() {
    let (_folder, dir) = folder();
    std::fs::create_dir_all(file(&dir)).unwrap();
    let error = dir.read_record().unwrap_err();
    assert!(matches!(error, RecordError::Io { .. }), "{error}");
    assert!(error.to_string().contains("mig-record.json: can not read the record"), "{error}");
}

#[test]
fn the_hash_follows_the_meaning_and_not_the_place() {
    let of = |config: &str| ConfigHash::of(&entries(config));
    assert_eq!(of("balanced"), of("balanced"));
    let names = ["disabled", "enabled", "seven", "balanced", "halves", "only0", "filtered", "zero"];
    let different: BTreeSet<String> = names.iter().map(|name| of(name).to_string()).collect();
    assert_eq!(different.len(), names.len());
    let parse = |text: &str| {
        let (config, _) = carve_formats::MigPartedConfig::parse(text).into_result().unwrap();
        ConfigHash::of(config.select(None).unwrap().1)
    };
    let moved = "version: v1\n\n\nmig-configs:\n  other:\n  - mig-enabled: true\n    devices: all\n    \
                 mig-devices:\n      3g.71gb: 1\n      2g.35gb: 1\n      1g.18gb: 2\n";
    assert_eq!(parse(moved), of("balanced"));
    assert_ne!(parse(&moved.replace("18gb: 2", "18gb: 1")), of("balanced"));
}

#[test]
fn a_reboot_loses_the_layout_and_the_record_brings_back_every_slot_and_name() {
    let (_folder, dir) = folder();
    for (machine, config) in
        [("h200-141gb:2", "balanced"), ("h200-141gb:2", "divided"), ("a100-40gb:2", "enabled")]
    {
        let mut host = cut(machine, &dir, config);
        let (before, kept) = (layouts(&host), record(&host, config));
        let uuids = |host: &dyn GpuHost| -> Vec<_> {
            let of = |gpu| host.mig_devices(GpuIndex(gpu)).unwrap().into_iter().map(|device| device.uuid);
            (0..2).flat_map(of).collect()
        };
        let names = uuids(&host);
        assert!(!reapply_needed(&inventory(&host).unwrap(), &kept, &boot("one")), "nothing happened yet");
        host.reboot();
        let gpus = inventory(&host).unwrap();
        // Ampere keeps the mode on the board, so MIG that was merely on is still on.
        assert_eq!(reapply_needed(&gpus, &kept, &boot("two")), config != "enabled", "{machine}");
        let layouts_here = kept.layouts_here(&gpus);
        let (options, hooks) = (ApplyOptions::default(), HookRunner::default());
        restore(&mut host, &dir, &layouts_here, options, &hooks, &mut Silent).unwrap();
        assert_eq!(layouts(&host), before);
        assert_eq!(uuids(&host), names, "pods that wait for their devices find them under the same names");
        assert!(
            !reapply_needed(&inventory(&host).unwrap(), &kept, &boot("two")),
            "made again by anybody is enough"
        );
    }
}

#[test]
fn a_driver_reload_is_a_loss_and_a_change_by_hand_is_not() {
    let (_folder, dir) = folder();
    let mut host = cut("h200-141gb:2", &dir, "balanced");
    let kept = record(&host, "balanced");
    let lost = |host: &dyn GpuHost, boot_now: &str| {
        lost_since(&inventory(host).unwrap(), &kept, &boot(boot_now))
            .iter()
            .map(|gpu| gpu.0)
            .collect::<Vec<_>>()
    };
    run(&mut host, &dir, "only0").unwrap();
    assert!(lost(&host, "one").is_empty(), "GPU 0 was recut by somebody, in the same run of the machine");
    assert_eq!(lost(&host, "two"), [0], "after a reboot the record is what counts");
    host.reboot();
    assert_eq!(lost(&host, "one"), [0, 1], "same run of the machine, but the driver was reloaded: all empty");
    host.lose(GpuIndex(0));
    assert_eq!(lost(&host, "one"), [1], "a GPU that does not answer can not be judged");
    assert_eq!(kept.layouts_here(&inventory(&host).unwrap()).len(), 1);
}

#[test]
fn a_gpu_that_was_off_stays_off_and_other_gpus_are_nobodys_business() {
    let (_folder, dir) = folder();
    let mut host = cut("h200-141gb:2", &dir, "only0");
    let kept = record(&host, "only0");
    host.reboot();
    let lost = lost_since(&inventory(&host).unwrap(), &kept, &boot("two"));
    assert_eq!(lost, [GpuIndex(0)].into());
    let other = cut("h100-sxm-80gb:2", &dir, "disabled");
    assert!(!reapply_needed(&inventory(&other).unwrap(), &kept, &boot("two")));
}

#[test]
fn the_running_machine_has_a_boot_id() {
    let id = BootId::current().unwrap();
    assert_eq!(id, BootId::current().unwrap());
    assert!(id.0.len() >= 32 && !id.0.contains(char::is_whitespace), "{id:?}");
}
