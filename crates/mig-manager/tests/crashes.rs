//! Kills and failures at every step: the machine ends in the old or the new layout, and nothing in use is destroyed.

mod machine;

use carve_gpu_host::{
    FaultInjectingHost, FaultPlan, FaultReaction, FaultWhen, GpuHost, HostFailure, InjectedFault,
    SimulatedHost, Verb,
};
use carve_gpu_model::{Bytes, MigUuid};
use carve_mig_manager::{ApplyError, Layout, Recovered, Silent, StateDir, recover};
use machine::{cut, layouts, run};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The death of the process, as far as this thread is concerned.
fn die(verb: Verb) -> HostFailure {
    std::panic::panic_any(format!("killed at {verb}"))
}

/// Planned deaths say nothing; real failures of the test do.
fn silence() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.payload().downcast_ref::<String>().is_some_and(|text| text.starts_with("killed at")) {
            usual(panic);
        }
    }));
}

fn fault(nth: u64, when: FaultWhen, reaction: FaultReaction) -> FaultPlan {
    FaultPlan::new(vec![InjectedFault { verb: None, nth, when, reaction }])
}

fn folder() -> (tempfile::TempDir, StateDir) {
    // In memory where there is such a place: these tests write thousands of journals, and flush each.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let dir = StateDir::new(folder.path());
    (folder, dir)
}

/// How many verbs change the machine on the way from one config to another, and the layout it ends in.
fn whole_way(machine: &str, from: &str, to: &str) -> (u64, Vec<Layout>, Vec<Layout>) {
    let (_folder, dir) = folder();
    let host = cut(machine, &dir, from);
    let old = layouts(&host);
    let mut host = FaultInjectingHost::new(host, FaultPlan::default(), die);
    run(&mut host, &dir, to).unwrap_or_else(|error| panic!("{error}"));
    (host.changes(), old, layouts(host.inner()))
}

const WAYS: &[(&str, &str, &str)] = &[
    ("h200-141gb:2", "disabled", "balanced"),
    ("h200-141gb:2", "balanced", "seven"),
    ("h200-141gb:2", "seven", "mixed"),
    ("h200-141gb:2", "balanced", "disabled"),
    ("h200-141gb:2", "divided", "balanced"),
    ("h200", "whole", "divided"),
    ("a100-40gb:2", "disabled", "enabled"),
    ("a100-40gb:2", "enabled", "disabled"),
];

#[test]
fn killed_at_any_verb_the_next_run_ends_in_the_old_or_the_new_layout() {
    silence();
    let mut kills = 0;
    for (machine, from, to) in WAYS {
        let (changes, old, new) = whole_way(machine, from, to);
        assert!(changes > 0, "{from} to {to} changes nothing");
        for nth in 1..=changes {
            for when in [FaultWhen::Before, FaultWhen::After] {
                let (_folder, dir) = folder();
                let plan = fault(nth, when, FaultReaction::Die);
                let mut host = FaultInjectingHost::new(cut(machine, &dir, from), plan, die);
                let killed = catch_unwind(AssertUnwindSafe(|| run(&mut host, &dir, to)));
                assert!(killed.is_err(), "{from} to {to}: change {nth} was not reached");
                assert!(dir.has_journal(), "{from} to {to}: killed at change {nth} without a journal");
                let mut host = host.into_inner();
                let recovered =
                    recover(&mut host, &dir, &mut Silent).unwrap_or_else(|error| panic!("{error}"));
                assert_ne!(recovered, Recovered::Nothing);
                let after = layouts(&host);
                assert!(
                    after == old || after == new,
                    "{from} to {to}, change {nth}: a third layout {after:?}"
                );
                assert!(!dir.has_journal());
                run(&mut host, &dir, to).unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(layouts(&host), new);
                kills += 1;
            }
        }
    }
    println!("{kills} kills over {} ways", WAYS.len());
}

#[test]
fn failing_at_any_verb_the_old_layout_comes_back() {
    for (machine, from, to) in WAYS {
        let (changes, old, _) = whole_way(machine, from, to);
        for nth in 1..=changes {
            for when in [FaultWhen::Before, FaultWhen::After] {
                let (_folder, dir) = folder();
                let plan = fault(nth, when, FaultReaction::Fail(HostFailure::Other(999)));
                let mut host = FaultInjectingHost::new(cut(machine, &dir, from), plan, die);
                let error = run(&mut host, &dir, to).unwrap_err();
                assert!(
                    matches!(error, ApplyError::RolledBack { .. }),
                    "{from} to {to}, change {nth}: {error}"
                );
                assert_eq!(layouts(host.inner()), old, "{from} to {to}, change {nth} {when:?}");
                assert!(!dir.has_journal());
            }
        }
    }
}

#[test]
fn a_failure_of_any_verb_at_any_call_ends_in_the_old_or_the_new_layout() {
    let (_, old, new) = whole_way("h200-141gb:2", "balanced", "seven");
    for (verb, name) in Verb::ALL {
        for nth in 1..30 {
            let (_folder, dir) = folder();
            let reaction = FaultReaction::Fail(HostFailure::Timeout);
            let plan = FaultPlan::new(vec![InjectedFault {
                verb: Some(verb),
                nth,
                when: FaultWhen::Before,
                reaction,
            }]);
            let mut host = FaultInjectingHost::new(cut("h200-141gb:2", &dir, "balanced"), plan, die);
            let result = run(&mut host, &dir, "seven");
            let after = layouts(host.inner());
            match result {
                Ok(_) => assert_eq!(after, new, "{name} {nth}"),
                // Verification itself may fail: the change is undone, or, if that fails too, remembered.
                Err(ApplyError::Stuck { .. }) => assert!(dir.has_journal(), "{name} {nth}"),
                Err(_) => assert_eq!(after, old, "{name} {nth}"),
            }
            let mut host = host.into_inner();
            run(&mut host, &dir, "seven").unwrap_or_else(|error| panic!("{name} {nth}: {error}"));
            assert_eq!(layouts(&host), new, "{name} {nth}");
        }
    }
}

#[test]
fn a_host_that_fails_for_good_keeps_the_journal_until_it_works_again() {
    let (_folder, dir) = folder();
    let (changes, old, new) = whole_way("h200", "balanced", "seven");
    for nth in 1..=changes {
        let mut faults = vec![];
        for later in nth..nth + 100 {
            let reaction = FaultReaction::Fail(HostFailure::Timeout);
            faults.push(InjectedFault { verb: None, nth: later, when: FaultWhen::Before, reaction });
        }
        let mut host = FaultInjectingHost::new(cut("h200", &dir, "balanced"), FaultPlan::new(faults), die);
        let error = run(&mut host, &dir, "seven").unwrap_err();
        let untouched = matches!(error, ApplyError::RolledBack { .. }) && layouts(host.inner()) == old;
        assert!(
            untouched || (matches!(error, ApplyError::Stuck { .. }) && dir.has_journal()),
            "{nth}: {error}"
        );
        let mut host = host.into_inner();
        run(&mut host, &dir, "seven").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(layouts(&host), new);
    }
}

/// Puts a process into every MIG device that exists now, as a tenant would who came right after the crash.
fn occupy_all(host: &mut SimulatedHost) {
    for gpu in host.gpus().unwrap() {
        for device in host.mig_devices(gpu.index).unwrap() {
            let at = Some((device.gpu_instance, device.compute_instance));
            let pid = 1000 * (gpu.index.0 + 1) + device.position;
            host.start_process(gpu.index, at, pid, Bytes(1 << 20), 10).unwrap();
        }
    }
}

/// Every process with the device it runs in; panics if the device is gone.
fn tenants(host: &SimulatedHost) -> Vec<(u32, MigUuid)> {
    let mut tenants = Vec::new();
    for gpu in host.gpus().unwrap() {
        let devices = host.mig_devices(gpu.index).unwrap();
        for process in host.processes(gpu.index).unwrap() {
            let device = devices.iter().find(|device| {
                Some(device.gpu_instance) == process.gpu_instance
                    && Some(device.compute_instance) == process.compute_instance
            });
            tenants.push((process.pid, device.expect("an instance in use was destroyed").uuid.clone()));
        }
    }
    tenants
}

#[test]
fn whatever_starts_after_a_crash_is_never_destroyed() {
    silence();
    let (changes, old, new) = whole_way("h200-141gb:2", "balanced", "seven");
    let (mut waited, mut ended) = (0, 0);
    for nth in 1..=changes {
        let (_folder, dir) = folder();
        let plan = fault(nth, FaultWhen::After, FaultReaction::Die);
        let mut host = FaultInjectingHost::new(cut("h200-141gb:2", &dir, "balanced"), plan, die);
        assert!(catch_unwind(AssertUnwindSafe(|| run(&mut host, &dir, "seven"))).is_err());
        let mut host = host.into_inner();
        occupy_all(&mut host);
        let before = tenants(&host);
        match recover(&mut host, &dir, &mut Silent) {
            Ok(_) => {
                let after = layouts(&host);
                assert!(after == old || after == new);
                ended += 1;
            }
            // One GPU is new and taken, the other old and taken: neither way is open, so nothing is forced.
            Err(error) => {
                assert!(matches!(error, ApplyError::Unrecoverable { .. }), "{error}");
                assert!(dir.has_journal(), "what could not be finished is not forgotten");
                waited += 1;
            }
        }
        assert_eq!(tenants(&host), before);
        for (pid, _) in before {
            host.end_process(pid);
        }
        recover(&mut host, &dir, &mut Silent).unwrap_or_else(|error| panic!("{error}"));
        let after = layouts(&host);
        assert!(after == old || after == new);
    }
    assert!(waited > 0 && ended > 0, "both ends were seen: {waited} waited, {ended} ended");
}

#[test]
fn a_reboot_in_the_middle_is_recovered_from() {
    silence();
    for machine in ["h200", "a100-40gb"] {
        let (from, to) = if machine == "h200" { ("balanced", "seven") } else { ("disabled", "enabled") };
        let (changes, _, new) = whole_way(machine, from, to);
        for nth in 1..=changes {
            let (_folder, dir) = folder();
            let plan = fault(nth, FaultWhen::After, FaultReaction::Die);
            let mut host = FaultInjectingHost::new(cut(machine, &dir, from), plan, die);
            assert!(catch_unwind(AssertUnwindSafe(|| run(&mut host, &dir, to))).is_err());
            let mut host = host.into_inner();
            host.reboot();
            assert_eq!(recover(&mut host, &dir, &mut Silent).unwrap(), Recovered::Finished);
            assert_eq!(layouts(&host), new);
        }
    }
}

#[test]
fn a_broken_journal_stops_everything_and_says_what_to_do() {
    let (folder, dir) = folder();
    let mut host = cut("h200", &dir, "balanced");
    std::fs::write(folder.path().join("mig-journal.json"), "{\"version\":1,").unwrap();
    let before = host.state().clone();
    let error = run(&mut host, &dir, "seven").unwrap_err();
    assert!(error.to_string().contains("then remove the file"), "{error}");
    assert_eq!(*host.state(), before);
    std::fs::write(folder.path().join("mig-journal.json"), "{\"version\":9,\"label\":\"x\",\"gpus\":{}}")
        .unwrap();
    assert!(run(&mut host, &dir, "seven").unwrap_err().to_string().contains("version 9"));
    assert_eq!(*host.state(), before);
}

#[test]
fn two_runs_at_once_do_not_meet() {
    let (_folder, dir) = folder();
    let (one, two) = std::thread::scope(|scope| {
        let start = || {
            let dir = dir.clone();
            scope.spawn(move || {
                let mut host = machine::host("p5en.48xlarge");
                (0..20)
                    .filter(|_| matches!(run(&mut host, &dir, "seven"), Err(ApplyError::Journal(_))))
                    .count()
            })
        };
        let (one, two) = (start(), start());
        (one.join().unwrap(), two.join().unwrap())
    });
    assert!(one < 20 && two < 20, "each got its turn: {one} and {two} of 20 were turned away");
}
