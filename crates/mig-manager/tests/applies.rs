//! What apply does, what it keeps, and what it refuses before it touches anything.

mod machine;

use carve_gpu_host::{GpuHost, HostFailure, MigMode};
use carve_gpu_model::{Bytes, GpuIndex};
use carve_mig_manager::{
    ApplyError, ApplyOptions, HookRunner, Layout, ModeChange, PlanError, Recovered, Refusal, Silent,
    StateDir, checkpoint, export, inventory, plan, resolve, restore,
};
use machine::{cut, entries, host, layouts, occupy, run, run_with};

fn dir() -> (tempfile::TempDir, StateDir) {
    let folder = tempfile::tempdir().unwrap();
    let dir = StateDir::new(folder.path().join("state"));
    (folder, dir)
}

fn exported(host: &dyn GpuHost) -> String {
    export("current", &inventory(host).unwrap()).to_yaml()
}

#[test]
fn a_fresh_machine_becomes_what_the_config_says() {
    let (_folder, dir) = dir();
    for machine in ["h200-141gb:2", "p5en.48xlarge"] {
        let host = cut(machine, &dir, "balanced");
        let expected = "version: v1\nmig-configs:\n  current:\n  - devices: all\n    mig-enabled: true\n    mig-devices:\n      1g.18gb: 2\n      2g.35gb: 1\n      3g.71gb: 1\n";
        assert_eq!(exported(&host), expected);
    }
}

#[test]
fn ampere_is_reset_only_where_its_mode_changes() {
    let (_folder, dir) = dir();
    let mut host = host("a100-40gb:2");
    host.start_process(GpuIndex(1), None, 99, Bytes(1), 1).unwrap();
    let config =
        "version: v1\nmig-configs: {c: [{devices: [0], mig-enabled: true, mig-devices: {1g.5gb: 7}}]}";
    let (config, _) = carve_formats::MigPartedConfig::parse(config).into_result().unwrap();
    let (_, list) = config.select(None).unwrap();
    let applied = carve_mig_manager::apply(
        &mut host,
        &dir,
        ("c", list),
        ApplyOptions::default(),
        &HookRunner::default(),
        &mut Silent,
    );
    assert_eq!(applied.unwrap().plan.gpus[0].mode, Some(ModeChange::Enable));
    assert_eq!(host.mig_devices(GpuIndex(0)).unwrap().len(), 7);
    assert_eq!(host.processes(GpuIndex(1)).unwrap().len(), 1, "the other GPU was left alone");
    assert_eq!(host.mig_mode(GpuIndex(1)).unwrap(), Some(MigMode { current: false, pending: false }));
}

#[test]
fn instances_that_the_target_also_wants_stay_even_in_use() {
    let (_folder, dir) = dir();
    let mut host = cut("h200", &dir, "balanced");
    let three =
        host.mig_devices(GpuIndex(0)).unwrap().iter().position(|device| device.gpu_slices == 3).unwrap();
    occupy(&mut host, three, 4711);
    let uuid = host.mig_devices(GpuIndex(0)).unwrap()[three].uuid.clone();
    let applied = run(&mut host, &dir, "halves").unwrap();
    assert_eq!(applied.plan.gpus[0].recut.keep.len(), 1);
    let after = host.mig_devices(GpuIndex(0)).unwrap();
    assert_eq!(after.len(), 2);
    assert!(after.iter().any(|device| device.uuid == uuid));
    assert_eq!(host.processes(GpuIndex(0)).unwrap().len(), 1);
}

#[test]
fn what_is_in_use_and_not_wanted_is_refused_with_the_process() {
    let (_folder, dir) = dir();
    let mut host = cut("h200", &dir, "balanced");
    occupy(&mut host, 0, 4711);
    let before = host.state().clone();
    let error = run(&mut host, &dir, "whole").unwrap_err();
    assert!(matches!(error, ApplyError::NoWay(_)), "{error}");
    assert!(error.to_string().contains("stop process 4711 first"), "{error}");
    assert_eq!(*host.state(), before);
    let error = run(&mut host, &dir, "disabled").unwrap_err().to_string();
    assert!(error.contains("in use"), "{error}");
    assert_eq!(*host.state(), before);
}

#[test]
fn applying_again_changes_nothing() {
    let (_folder, dir) = dir();
    let mut host = cut("h200-141gb:2", &dir, "balanced");
    let before = host.state().clone();
    assert!(run(&mut host, &dir, "balanced").unwrap().plan.is_empty());
    assert_eq!(*host.state(), before);
    for config in ["zero", "explicit"] {
        run(&mut host, &dir, config).unwrap();
        let target = resolve(config, &entries(config), &inventory(&host).unwrap()).unwrap();
        assert_eq!(target.differing(&inventory(&host).unwrap()).count(), 0, "{config} asserts after apply");
    }
}

#[test]
fn gpus_that_are_not_named_are_left_alone_and_do_not_fail_the_assertion() {
    let (_folder, dir) = dir();
    let host = cut("h200-141gb:2", &dir, "only0");
    assert_eq!(host.mig_devices(GpuIndex(0)).unwrap().len(), 7);
    assert!(!host.mig_mode(GpuIndex(1)).unwrap().unwrap().current);
    let gpus = inventory(&host).unwrap();
    assert_eq!(resolve("only0", &entries("only0"), &gpus).unwrap().differing(&gpus).count(), 0);
}

#[test]
fn what_mig_parted_does_silently_is_refused_before_anything_changes() {
    let (_folder, dir) = dir();
    for (config, expected) in [
        (
            "typo",
            "typo[0] (line 13): GPU 0, 1 (NVIDIA H200): there is no MIG profile '3g.70gb' on this GPU; the nearest it has is 3g.71gb",
        ),
        ("toomany", "the largest part that fits is 2× 3g.71gb"),
        ("nogpu", "there is no GPU 7; this machine has GPUs 0 to 1"),
        ("filtered", "no entry applies to any GPU of this machine"),
        ("contradiction", "both name GPU 0 and want different things"),
    ] {
        let mut host = cut("h200-141gb:2", &dir, "balanced");
        let before = host.state().clone();
        let error = run(&mut host, &dir, config).unwrap_err();
        assert!(matches!(error, ApplyError::Refused(_)), "{config}: {error}");
        assert!(error.to_string().contains(expected), "{config}: {error}");
        assert_eq!(*host.state(), before, "{config}");
    }
}

#[test]
fn all_errors_are_told_at_once() {
    let (_folder, dir) = dir();
    let mut host = host("h200-141gb:2");
    let ApplyError::Refused(refusals) = run(&mut host, &dir, "typo").unwrap_err() else { panic!() };
    assert_eq!(refusals.len(), 1, "like GPUs are told together: {refusals:?}");
    assert!(matches!(&refusals[0], Refusal::Profile { gpus, .. } if gpus.0 == [GpuIndex(0), GpuIndex(1)]));
    let mut mixed = machine::host("mixed");
    let ApplyError::Refused(refusals) = run(&mut mixed, &dir, "seven").unwrap_err() else { panic!() };
    assert_eq!(refusals.len(), 2, "two kinds of GPU lack the profile: {refusals:?}");
}

#[test]
fn a_machine_without_mig_refuses_mig_and_accepts_its_absence() {
    let (_folder, dir) = dir();
    let mut host = host("g4dn.2xlarge");
    assert!(run(&mut host, &dir, "disabled").unwrap().plan.is_empty());
    let error = run(&mut host, &dir, "seven").unwrap_err().to_string();
    assert!(error.contains("none of the GPUs it names has MIG (Tesla T4)"), "{error}");
    let error = run(&mut host, &dir, "only0").unwrap_err().to_string();
    assert!(error.contains("GPU 0 (Tesla T4) has no MIG"), "{error}");
}

#[test]
fn a_lost_gpu_is_named_and_nothing_is_touched() {
    let (_folder, dir) = dir();
    let mut host = cut("h200-141gb:2", &dir, "balanced");
    host.lose(GpuIndex(1));
    let before = host.state().clone();
    let error = run(&mut host, &dir, "halves").unwrap_err().to_string();
    assert!(error.contains("GPU 1 does not answer"), "{error}");
    assert_eq!(*host.state(), before);
}

#[test]
fn compute_instances_are_made_and_counted_as_mig_parted_does() {
    let (_folder, dir) = dir();
    let host = cut("h200", &dir, "divided");
    assert!(exported(&host).contains("      1c.3g.71gb: 3\n      2c.4g.71gb: 2\n"));
}

#[test]
fn the_compute_instance_with_the_most_multiprocessors_is_taken() {
    let (_folder, dir) = dir();
    let mut host = host("h200");
    let text =
        "version: v1\nmig-configs: {c: [{devices: all, mig-enabled: true, mig-devices: {1g.35gb: 4}}]}";
    let (config, _) = carve_formats::MigPartedConfig::parse(text).into_result().unwrap();
    let selected = config.select(None).unwrap();
    carve_mig_manager::apply(
        &mut host,
        &dir,
        selected,
        ApplyOptions::default(),
        &HookRunner::default(),
        &mut Silent,
    )
    .unwrap();
    let devices = host.mig_devices(GpuIndex(0)).unwrap();
    assert_eq!(devices.iter().map(|device| device.multiprocessors).collect::<Vec<_>>(), [26, 26, 26, 26]);
}

#[test]
fn mode_only_changes_modes_only() {
    let (_folder, dir) = dir();
    let options = ApplyOptions { mode_only: true, ..ApplyOptions::default() };
    let mut fresh = host("h200");
    run_with(&mut fresh, &dir, "balanced", options).unwrap();
    assert!(fresh.mig_mode(GpuIndex(0)).unwrap().unwrap().current);
    assert!(fresh.mig_devices(GpuIndex(0)).unwrap().is_empty());
    let mut balanced = cut("h200", &dir, "balanced");
    let before = balanced.state().clone();
    run_with(&mut balanced, &dir, "seven", options).unwrap();
    assert_eq!(*balanced.state(), before, "the mode was right, so nothing happens");
}

#[test]
fn a_forbidden_reset_leaves_the_mode_waiting_or_is_refused() {
    let (_folder, dir) = dir();
    let mut host = host("a100-40gb");
    let skip = ApplyOptions { skip_reset: true, mode_only: true };
    run_with(&mut host, &dir, "enabled", skip).unwrap();
    assert_eq!(host.mig_mode(GpuIndex(0)).unwrap(), Some(MigMode { current: false, pending: true }));
    let mut host = machine::host("a100-40gb");
    let error = run_with(&mut host, &dir, "enabled", ApplyOptions { skip_reset: true, mode_only: false })
        .unwrap_err();
    assert!(error.to_string().contains("--skip-reset forbids"), "{error}");
    assert_eq!(host.mig_mode(GpuIndex(0)).unwrap(), Some(MigMode { current: false, pending: false }));
}

#[test]
fn a_checkpoint_brings_every_slot_back() {
    let (_folder, dir) = dir();
    let mut host = cut("h200-141gb:2", &dir, "mixed");
    let text = checkpoint(&inventory(&host).unwrap()).unwrap();
    let saved = Layout::from_checkpoint(&text).unwrap();
    let before = layouts(&host);
    run(&mut host, &dir, "seven").unwrap();
    run(&mut host, &dir, "disabled").unwrap();
    restore(&mut host, &dir, &saved, ApplyOptions::default(), &HookRunner::default(), &mut Silent).unwrap();
    assert_eq!(layouts(&host), before);
    assert_eq!(checkpoint(&inventory(&host).unwrap()).unwrap(), text);
}

#[test]
fn a_checkpoint_that_can_not_be_is_refused() {
    let (_folder, dir) = dir();
    let mut host = cut("h200", &dir, "balanced");
    let text = checkpoint(&inventory(&host).unwrap()).unwrap();
    let before = host.state().clone();
    for (from, to, expected) in [
        ("\"Start\":4", "\"Start\":3", "can not sit at slots"),
        ("\"Start\":0,\"Size\":2", "\"Start\":4,\"Size\":2", "overlap"),
        ("\"ProfileID\":2,\"Placement\"", "\"ProfileID\":6,\"Placement\"", "no profile with NVML index 6"),
        ("GPU-", "GPU-0", "is not on this machine"),
    ] {
        let forged = text.replacen(from, to, 1);
        assert_ne!(forged, text, "{from}");
        let saved = Layout::from_checkpoint(&forged).unwrap();
        let result =
            restore(&mut host, &dir, &saved, ApplyOptions::default(), &HookRunner::default(), &mut Silent);
        let error = result.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(*host.state(), before);
    }
    assert!(Layout::from_checkpoint("{").is_err());
}

#[test]
fn a_checkpoint_is_taken_before_every_change() {
    let (_folder, dir) = dir();
    let mut host = cut("h200", &dir, "mixed");
    let before = checkpoint(&inventory(&host).unwrap()).unwrap();
    run(&mut host, &dir, "seven").unwrap();
    assert_eq!(std::fs::read_to_string(dir.last_checkpoint()).unwrap(), before);
}

#[test]
fn a_plan_passes_its_own_check_and_draws_the_old_and_new_layout() {
    let (_folder, dir) = dir();
    let host = cut("h200", &dir, "balanced");
    let gpus = inventory(&host).unwrap();
    let plan = plan(&resolve("halves", &entries("halves"), &gpus).unwrap(), &gpus, false).unwrap();
    assert_eq!(plan.gpus[0].before, Layout::of(&gpus[0]));
    assert_eq!(plan.gpus[0].after.instances.len(), 2);
    assert!(!plan.changes_a_mode() && plan.changes_an_instance());
}

#[test]
fn the_state_directory_is_needed_before_anything_changes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let dir = StateDir::new(file.join("state"));
    let mut host = host("h200");
    let before = host.state().clone();
    let error = run(&mut host, &dir, "seven").unwrap_err();
    assert!(matches!(error, ApplyError::Journal(_)), "{error}");
    assert_eq!(*host.state(), before);
}

#[test]
fn hooks_run_in_order_with_their_own_environment_and_exit_always_runs() {
    let (folder, dir) = dir();
    let log = folder.path().join("log");
    let hook = |line: &str| format!("[{{command: /bin/sh, args: [-c, '{line}']}}]");
    let say =
        |name: &str| hook(&format!("echo {name} $MIG_PARTED_SELECTED_CONFIG $HOME >> {}", log.display()));
    let hooks = |config_hook: String| {
        let text = format!(
            "version: v1\nhooks:\n  apply-start: {}\n  pre-apply-mode: {}\n  pre-apply-config: {config_hook}\n  apply-exit: {}\n",
            say("start"),
            say("mode"),
            say("exit")
        );
        let (hooks, _) = carve_formats::mig_hooks::MigHooks::parse(&text).into_result().unwrap();
        let environment = [("MIG_PARTED_SELECTED_CONFIG".to_owned(), "balanced".to_owned())].into();
        HookRunner::new(hooks, environment, false)
    };
    let run = |host: &mut dyn GpuHost, config: &str, hooks: &HookRunner| {
        carve_mig_manager::apply(
            host,
            &dir,
            (config, &entries(config)),
            ApplyOptions::default(),
            hooks,
            &mut Silent,
        )
    };
    let mut host = host("h200");
    run(&mut host, "balanced", &hooks(say("config"))).unwrap();
    let lines = std::fs::read_to_string(&log).unwrap();
    assert_eq!(lines, "start balanced\nmode balanced\nconfig balanced\nexit balanced\n");
    std::fs::write(&log, "").unwrap();
    run(&mut host, "balanced", &hooks(say("config"))).unwrap();
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "start balanced\nexit balanced\n");
    std::fs::write(&log, "").unwrap();
    let before = host.state().clone();
    let error = run(&mut host, "seven", &hooks(hook("echo no luck; exit 3"))).unwrap_err().to_string();
    assert!(error.contains("pre-apply-config hook '/bin/sh' failed") && error.contains("no luck"), "{error}");
    assert_eq!(*host.state(), before);
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "start balanced\nexit balanced\n");
    let error = run(&mut host, "typo", &hooks(say("config"))).unwrap_err();
    assert!(matches!(error, ApplyError::Refused(_)), "a refused config runs no hook");
}

#[test]
fn nothing_is_recovered_where_nothing_was_interrupted() {
    let (_folder, dir) = dir();
    let mut host = host("h200");
    assert_eq!(carve_mig_manager::recover(&mut host, &dir, &mut Silent).unwrap(), Recovered::Nothing);
}

#[test]
fn blocked_plans_name_what_is_in_the_way() {
    let (_folder, dir) = dir();
    let mut host = cut("h200", &dir, "seven");
    occupy(&mut host, 6, 5);
    let gpus = inventory(&host).unwrap();
    let errors = plan(&resolve("whole", &entries("whole"), &gpus).unwrap(), &gpus, false).unwrap_err();
    assert!(matches!(&errors[..], [PlanError::Blocked { users, .. }] if *users == [5]), "{errors:?}");
    assert_eq!(HostFailure::InUse.code(), 19);
}
