//! Apply GPU by GPU: who is busy, lost or refuses stands back, and the others get what the config says.

mod machine;

use carve_gpu_host::{
    FaultInjectingHost, FaultPlan, FaultReaction, FaultWhen, GpuHost, HostFailure, InjectedFault,
    SimulatedHost, Verb,
};
use carve_gpu_model::{Bytes, GpuIndex};
use carve_mig_manager::{
    ApplyError, ApplyOptions, HookRunner, Outcome, PartlyApplied, PlanError, Recovered, Silent, StateDir,
    apply_partial, checkpoint, inventory, recover,
};
use machine::{cut, entries, host, layouts, occupy, run};

fn folder() -> (tempfile::TempDir, StateDir) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let dir = StateDir::new(folder.path());
    (folder, dir)
}

fn partly(host: &mut dyn GpuHost, dir: &StateDir, config: &str) -> Result<PartlyApplied, ApplyError> {
    let (options, hooks) = (ApplyOptions::default(), HookRunner::default());
    apply_partial(host, dir, (config, &entries(config)), options, &hooks, &mut Silent)
}

fn count(host: &SimulatedHost, gpu: u32) -> usize {
    host.mig_devices(GpuIndex(gpu)).unwrap().len()
}

#[test]
fn one_busy_gpu_does_not_keep_the_others() {
    let (_folder, dir) = folder();
    let mut host = cut("h200-141gb:3", &dir, "balanced");
    occupy(&mut host, 3, 4711);
    let busy = host.mig_devices(GpuIndex(0)).unwrap();
    assert!(
        matches!(run(&mut host, &dir, "whole"), Err(ApplyError::NoWay(_))),
        "all or nothing stays the default"
    );
    assert_eq!(count(&host, 1), 4);

    let result = partly(&mut host, &dir, "whole").unwrap();
    assert!(!result.is_complete());
    let Outcome::Blocked(PlanError::Blocked { users, .. }) = &result.gpus[&GpuIndex(0)] else { panic!() };
    assert_eq!(*users, [4711]);
    assert!(result.gpus[&GpuIndex(0)].to_string().contains("stop process 4711 first"));
    assert!(matches!(result.gpus[&GpuIndex(1)], Outcome::Done));
    assert!(matches!(result.gpus[&GpuIndex(2)], Outcome::Done));
    assert_eq!(host.mig_devices(GpuIndex(0)).unwrap(), busy, "not even its idle devices were touched");
    assert_eq!([count(&host, 1), count(&host, 2)], [1, 1]);
    assert!(!dir.has_journal());

    host.end_process(4711);
    let result = partly(&mut host, &dir, "whole").unwrap();
    assert!(result.is_complete());
    assert!(matches!(result.gpus[&GpuIndex(0)], Outcome::Done));
    assert!(matches!(result.gpus[&GpuIndex(1)], Outcome::Unchanged));
    assert_eq!(count(&host, 0), 1);
}

#[test]
fn a_busy_gpu_keeps_its_mode_and_the_others_are_reset_without_it() {
    let (_folder, dir) = folder();
    let mut host = host("p4d.24xlarge");
    host.start_process(GpuIndex(3), None, 9, Bytes(1), 1).unwrap();
    let result = partly(&mut host, &dir, "enabled").unwrap();
    for (gpu, outcome) in &result.gpus {
        let state = host.mig_mode(*gpu).unwrap().unwrap();
        assert_eq!(state.current, gpu.0 != 3);
        match gpu.0 {
            3 => assert!(matches!(outcome, Outcome::Blocked(PlanError::ModeInUse { .. })), "{outcome}"),
            _ => assert!(matches!(outcome, Outcome::Done), "{outcome}"),
        }
    }
    assert_eq!(host.processes(GpuIndex(3)).unwrap().len(), 1);
}

#[test]
fn a_lost_gpu_is_reported_and_passed_over() {
    let (_folder, dir) = folder();
    let mut host = cut("h200-141gb:2", &dir, "balanced");
    host.lose(GpuIndex(0));
    let result = partly(&mut host, &dir, "seven").unwrap();
    let outcome = &result.gpus[&GpuIndex(0)];
    assert!(matches!(outcome, Outcome::Unreachable(_)), "{outcome}");
    assert!(outcome.to_string().contains("GPU 0 does not answer"), "{outcome}");
    assert!(matches!(result.gpus[&GpuIndex(1)], Outcome::Done));
    assert_eq!(count(&host, 1), 7);
}

#[test]
fn a_config_that_makes_no_sense_is_refused_as_a_whole() {
    let (_folder, dir) = folder();
    for config in ["typo", "toomany", "nogpu", "filtered", "contradiction"] {
        let mut host = cut("h200-141gb:2", &dir, "balanced");
        let before = host.state().clone();
        assert!(matches!(partly(&mut host, &dir, config), Err(ApplyError::Refused(_))), "{config}");
        assert_eq!(*host.state(), before, "{config}");
    }
}

fn die(verb: Verb) -> HostFailure {
    std::panic::panic_any(format!("killed at {verb}"))
}

fn failing(verb: Verb, calls: std::ops::RangeInclusive<u64>) -> FaultPlan {
    let reaction = FaultReaction::Fail(HostFailure::Other(999));
    let fault = |nth| InjectedFault { verb: Some(verb), nth, when: FaultWhen::Before, reaction };
    FaultPlan::new(calls.map(fault).collect())
}

#[test]
fn a_gpu_that_refuses_is_put_back_and_the_others_go_on() {
    let (_folder, dir) = folder();
    let host = cut("h200-141gb:3", &dir, "balanced");
    let old = layouts(&host);
    let before = checkpoint(&inventory(&host).unwrap()).unwrap();
    // balanced to seven makes five or more instances on each GPU: the second creation is on GPU 0.
    let mut host = FaultInjectingHost::new(host, failing(Verb::CreateGpuInstance, 2..=2), die);
    let result = partly(&mut host, &dir, "seven").unwrap();
    let host = host.into_inner();
    let outcome = &result.gpus[&GpuIndex(0)];
    assert!(matches!(outcome, Outcome::Failed(ApplyError::RolledBack { .. })), "{outcome}");
    assert!(outcome.to_string().contains("the old layout is back in place"), "{outcome}");
    assert_eq!(layouts(&host)[0], old[0]);
    assert_eq!([count(&host, 1), count(&host, 2)], [7, 7]);
    assert!(!dir.has_journal());
    assert_eq!(
        std::fs::read_to_string(dir.last_checkpoint()).unwrap(),
        before,
        "taken once, before all of it"
    );
}

#[test]
fn gpus_that_can_not_be_reset_together_are_reset_one_by_one() {
    let (_folder, dir) = folder();
    let mut host = FaultInjectingHost::new(machine::host("a100-40gb:3"), failing(Verb::Reset, 1..=1), die);
    let result = partly(&mut host, &dir, "enabled").unwrap();
    assert!(result.is_complete(), "{:?}", result.gpus);
    let host = host.into_inner();
    assert!((0..3).all(|gpu| host.mig_mode(GpuIndex(gpu)).unwrap().unwrap().current));
}

#[test]
fn a_gpu_that_can_not_be_put_back_stops_the_rest_and_keeps_its_journal() {
    let (_folder, dir) = folder();
    let host = cut("h200-141gb:3", &dir, "balanced");
    let old = layouts(&host);
    let mut host = FaultInjectingHost::new(host, failing(Verb::CreateGpuInstance, 2..=40), die);
    let result = partly(&mut host, &dir, "seven").unwrap();
    assert!(
        matches!(result.gpus[&GpuIndex(0)], Outcome::Failed(ApplyError::Stuck { .. })),
        "{:?}",
        result.gpus
    );
    for gpu in [1, 2] {
        let outcome = &result.gpus[&GpuIndex(gpu)];
        assert!(matches!(outcome, Outcome::NotTried { behind: GpuIndex(0) }), "{outcome}");
        assert_eq!(layouts(host.inner())[gpu as usize], old[gpu as usize]);
    }
    assert!(dir.has_journal());
    let mut host = host.into_inner();
    let result = partly(&mut host, &dir, "seven").unwrap();
    assert_eq!(result.recovered, Recovered::Finished);
    assert!(result.is_complete());
    assert!((0..3).all(|gpu| count(&host, gpu) == 7));
}

#[test]
fn killed_at_any_change_every_gpu_ends_in_its_old_or_its_new_layout() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.payload().downcast_ref::<String>().is_some_and(|text| text.starts_with("killed at")) {
            usual(panic);
        }
    }));
    for (machine, from, to) in [("h200-141gb:2", "balanced", "seven"), ("a100-40gb:2", "disabled", "enabled")]
    {
        let (_folder, dir) = folder();
        let mut whole = FaultInjectingHost::new(cut(machine, &dir, from), FaultPlan::default(), die);
        let old = layouts(whole.inner());
        partly(&mut whole, &dir, to).unwrap();
        let new = layouts(whole.inner());
        for nth in 1..=whole.changes() {
            let (_folder, dir) = folder();
            let fault =
                InjectedFault { verb: None, nth, when: FaultWhen::After, reaction: FaultReaction::Die };
            let mut host =
                FaultInjectingHost::new(cut(machine, &dir, from), FaultPlan::new(vec![fault]), die);
            let killed =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| partly(&mut host, &dir, to)));
            assert!(killed.is_err(), "change {nth} was not reached");
            let mut host = host.into_inner();
            recover(&mut host, &dir, &mut Silent).unwrap();
            for (gpu, layout) in layouts(&host).iter().enumerate() {
                assert!(*layout == old[gpu] || *layout == new[gpu], "change {nth}: GPU {gpu} has {layout:?}");
            }
            assert!(partly(&mut host, &dir, to).unwrap().is_complete());
            assert_eq!(layouts(&host), new);
        }
    }
}

#[test]
fn hooks_run_once_around_all_gpus() {
    let (folder, dir) = folder();
    let log = folder.path().join("log");
    let say =
        |name: &str| format!("[{{command: /bin/sh, args: ['-c', 'echo {name} >> {}']}}]", log.display());
    let text = format!(
        "version: v1\nhooks:\n  apply-start: {}\n  pre-apply-mode: {}\n  pre-apply-config: {}\n  apply-exit: {}\n",
        say("start"),
        say("mode"),
        say("config"),
        say("exit")
    );
    let (hooks, _) = carve_formats::mig_hooks::MigHooks::parse(&text).into_result().unwrap();
    let hooks = HookRunner::new(hooks, Default::default(), false);
    let mut host = host("h200-141gb:3");
    let mut go = |config: &str| {
        let options = ApplyOptions::default();
        apply_partial(&mut host, &dir, (config, &entries(config)), options, &hooks, &mut Silent).unwrap();
        let lines = std::fs::read_to_string(&log).unwrap();
        std::fs::write(&log, "").unwrap();
        lines
    };
    assert_eq!(go("balanced"), "start\nmode\nconfig\nexit\n");
    assert_eq!(go("seven"), "start\nconfig\nexit\n");
    assert_eq!(go("seven"), "start\nexit\n");
}
