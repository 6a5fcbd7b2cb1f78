//! Instances made and destroyed one by one, as claims come and go, and killed at every step of it.

mod machine;

use carve_gpu_host::{
    FaultInjectingHost, FaultPlan, FaultReaction, FaultWhen, GpuHost, HostFailure, InjectedFault, Verb,
};
use carve_gpu_model::{GpuUuid, ProfileId};
use carve_mig_manager::{
    InstanceError, Silent, StateDir, instances_on, make_instance, recover, remove_instance, uncut,
};
use machine::{host, layouts, occupy};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn folder() -> (tempfile::TempDir, StateDir) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let dir = StateDir::new(folder.path());
    (folder, dir)
}

fn first(host: &dyn GpuHost) -> GpuUuid {
    host.gpus().unwrap()[0].uuid.clone()
}

#[test]
fn claims_come_and_go_beside_each_other() {
    for machine in ["h200-141gb:2", "a100-40gb:2"] {
        let (_folder, dir) = folder();
        let mut host = host(machine);
        let gpu = first(&host);
        let untouched = layouts(&host)[1].clone();
        let three = make_instance(&mut host, &dir, &gpu, ProfileId(9), 0).unwrap();
        let one = make_instance(&mut host, &dir, &gpu, ProfileId(19), 6).unwrap();
        assert_ne!(three.uuid, one.uuid);
        // Asked again, nothing changes.
        assert_eq!(make_instance(&mut host, &dir, &gpu, ProfileId(9), 0).unwrap().uuid, three.uuid);
        assert_eq!(instances_on(&host, &gpu).unwrap().len(), 2);
        // One in use stays, and so does its neighbour when the other goes.
        occupy(&mut host, 0, 77);
        let refused = remove_instance(&mut host, &dir, &gpu, ProfileId(9), 0).unwrap_err().to_string();
        assert!(refused.contains("77"), "{refused}");
        remove_instance(&mut host, &dir, &gpu, ProfileId(19), 6).unwrap();
        remove_instance(&mut host, &dir, &gpu, ProfileId(19), 6).unwrap();
        assert_eq!(instances_on(&host, &gpu).unwrap(), [(ProfileId(9), 0)]);
        let cut = uncut(&mut host, &dir, &gpu).unwrap_err();
        assert!(matches!(cut, InstanceError::StillCut { count: 1, .. }), "{cut}");
        host.end_process(77);
        remove_instance(&mut host, &dir, &gpu, ProfileId(9), 0).unwrap();
        assert!(uncut(&mut host, &dir, &gpu).unwrap(), "MIG was on");
        assert!(!uncut(&mut host, &dir, &gpu).unwrap(), "and is off");
        assert!(!layouts(&host)[0].mig_enabled);
        assert_eq!(layouts(&host)[1], untouched);
        assert!(!dir.has_journal());
    }
}

#[test]
fn what_can_not_be_is_refused_and_changes_nothing() {
    let (_folder, dir) = folder();
    let mut host = host("h200-141gb:1");
    let gpu = first(&host);
    make_instance(&mut host, &dir, &gpu, ProfileId(19), 3).unwrap();
    let before = layouts(&host);
    let refuse = |host: &mut carve_gpu_host::SimulatedHost, gpu: &GpuUuid, profile: u32, start| {
        make_instance(host, &dir, gpu, ProfileId(profile), start).unwrap_err().to_string()
    };
    assert!(refuse(&mut host, &gpu, 9, 0).contains("in the way"), "3g over 1g");
    assert!(refuse(&mut host, &gpu, 20, 3).contains("in the way"), "another profile at the same place");
    assert!(refuse(&mut host, &gpu, 9, 1).contains("no profile 9 at slot 1"));
    assert!(refuse(&mut host, &gpu, 99, 0).contains("no profile 99"));
    assert!(refuse(&mut host, &GpuUuid("GPU-none".to_owned()), 9, 4).contains("GPU-none is not here"));
    assert_eq!(layouts(&host), before);
}

/// The death of the process, as far as this thread is concerned.
fn die(verb: Verb) -> HostFailure {
    std::panic::panic_any(format!("killed at {verb}"))
}

#[test]
fn killed_at_any_verb_it_is_made_or_not_and_can_be_made_again() {
    std::panic::set_hook(Box::new(|_| {}));
    for machine in ["h200-141gb:1", "a100-40gb:1"] {
        for when in [FaultWhen::Before, FaultWhen::After] {
            let mut nth = 1;
            loop {
                let (_folder, dir) = folder();
                let fault = InjectedFault { verb: None, nth, when, reaction: FaultReaction::Die };
                let mut host = FaultInjectingHost::new(host(machine), FaultPlan::new(vec![fault]), die);
                let gpu = first(host.inner());
                let run = catch_unwind(AssertUnwindSafe(|| {
                    make_instance(&mut host, &dir, &gpu, ProfileId(14), 2).unwrap();
                    remove_instance(&mut host, &dir, &gpu, ProfileId(14), 2).unwrap();
                    uncut(&mut host, &dir, &gpu).unwrap()
                }));
                let mut host = host.into_inner();
                if run.is_ok() {
                    assert!(nth > 5, "only {nth} changes were seen");
                    break;
                }
                recover(&mut host, &dir, &mut Silent).unwrap_or_else(|error| panic!("{error}"));
                let there = instances_on(&host, &gpu).unwrap();
                assert!(there.is_empty() || there == [(ProfileId(14), 2)], "{there:?}");
                make_instance(&mut host, &dir, &gpu, ProfileId(14), 2).unwrap();
                remove_instance(&mut host, &dir, &gpu, ProfileId(14), 2).unwrap();
                uncut(&mut host, &dir, &gpu).unwrap();
                assert!(!layouts(&host)[0].mig_enabled && !dir.has_journal());
                nth += 1;
            }
        }
    }
}
